"""A lack of memory is blamed for the end of a process only if the kernel or the process's size indicate it."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.core.processes.memory import MemoryWatch

MB, GB = 2**20, 2**30
GROUP = "sys/fs/cgroup/system.slice/millstream.service"
EVENTS = "low 0\nhigh 0\nmax 7\noom 1\noom_kill {kills}\noom_group_kill 0\n"
VERSION_1 = "sys/fs/cgroup/memory/jobs"
CONTROL = "oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n"


def host(root: Path, **files: str) -> Path:
    content = {"proc/meminfo": "MemTotal:       24117248 kB\nMemFree: 1 kB\n", **files}
    for name, text in content.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_a_small_process_did_not_lack_memory(tmp_path: Path) -> None:
    watch = MemoryWatch.begin(host(tmp_path))
    assert watch.blamed(54 * MB) == ""


def test_without_any_file_nothing_is_known(tmp_path: Path) -> None:
    assert MemoryWatch.begin(tmp_path).blamed(54 * MB) == ""


@pytest.mark.parametrize(
    ("cgroup", "file", "text"),
    [
        ("0::/system.slice/millstream.service\n", f"{GROUP}/memory.events", EVENTS),
        ("0::/../outside\n", "sys/fs/cgroup/memory.events", EVENTS),
        ("5:devices:/\n4:memory:/jobs\n0::/\n", f"{VERSION_1}/memory.oom_control", CONTROL),
        ("0::/\n", "proc/vmstat", "nr_free_pages 1\noom_kill {kills}\n"),
    ],
    ids=["version 2", "container", "version 1", "host"],
)
def test_a_kill_counted_by_the_kernel_is_evidence(tmp_path: Path, cgroup: str, file: str, text: str) -> None:
    files = {"proc/self/cgroup": cgroup, file: text.format(kills=3)}
    watch = MemoryWatch.begin(host(tmp_path, **files))
    assert watch.blamed(54 * MB) == "", "those before it was started do not count"
    host(tmp_path, **{**files, file: text.format(kills=4)})
    assert "has killed a process for lack of memory while it ran: it held up to 54 mb of 23 gb" in watch.blamed(54 * MB)


@pytest.mark.parametrize(
    ("cgroup", "file"),
    [
        ("0::/system.slice/millstream.service\n", f"{GROUP}/memory.max"),
        ("4:memory:/jobs\n", f"{VERSION_1}/memory.limit_in_bytes"),
    ],
)
def test_a_process_near_the_limit_is_likely_to_have_run_out_of_memory(
    tmp_path: Path, cgroup: str, file: str
) -> None:
    watch = MemoryWatch.begin(host(tmp_path, **{"proc/self/cgroup": cgroup, file: f"{2 * GB}\n"}))
    assert watch.blamed(GB) == ""
    reason = watch.blamed(2 * GB - 100 * MB)
    assert reason.startswith("the system running out of memory is a likely cause: it held up to 1.902 gb of 2 gb")


def test_without_a_limit_the_hosts_memory_is_the_limit(tmp_path: Path) -> None:
    files = {"proc/self/cgroup": "0::/system.slice/millstream.service\n", f"{GROUP}/memory.max": "max\n"}
    watch = MemoryWatch.begin(host(tmp_path, **files))
    assert "it held up to 22 gb of 23 gb" in watch.blamed(22 * GB)
