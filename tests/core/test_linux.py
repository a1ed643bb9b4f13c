"""The calls that only Linux has: in one package, each with what takes its place elsewhere."""

from __future__ import annotations

import ast
import asyncio
import gc
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import DEADLINE

from millstream.core.kernels import native
from millstream.core.linux import losses
from millstream.core.linux.command_line import command_line, overwrite_command_line
from millstream.core.linux.descriptors import (
    file_in_memory,
    file_named,
    path_of,
    peer_user,
    synchronise_file_system,
)
from millstream.core.linux.memory import (
    available_memory,
    kills_for_memory,
    peak_memory,
    shared_memory,
    threads_and_memory,
    writable_memory,
)
from millstream.core.linux.processes import (
    await_end,
    kill_member,
    open_process,
    process_ids,
    status_of,
    variables_of,
)
from millstream.core.linux.threads import (
    allow_tracing_by_parent,
    cpu_seconds,
    dump_signal,
    main_thread_seconds,
    scheduler_state,
)

ROOT = Path(__file__).parents[2]
PARTS = ("core", "client", "dispatcher", "jobmanager", "resourcemanager", "taskmanager", "spark")
ONLY_LINUX = {
    "os": r"memfd_create|MFD_\w+|pidfd_open|PIDFD_\w+|P_PIDFD|waitid|WNOWAIT|sched_\w+affinity|sched_[gs]et\w+"
    r"|eventfd\w*|EFD_\w+"
    r"|timerfd_\w+|TFD_\w+|splice|SPLICE_\w+|copy_file_range|getrandom|GRND_\w+|setns|unshare|CLONE_\w+|posix_fadvise"
    r"|POSIX_FADV_\w+|posix_fallocate|RWF_\w+|\w+xattr|XATTR_\w+|O_(TMPFILE|DIRECT|PATH|NOATIME|LARGEFILE|RSYNC)"
    r"|fdatasync|[gs]etres[ug]id|pipe2",
    "signal": r"pidfd_send_signal|SIGRT\w+|SIGCLD|SIGPOLL|SIGPWR|SIGSTKFLT|sigtimedwait|sigwaitinfo",
    "select": r"epoll|EPOLL\w*",
    "socket": r"SO_(PEERCRED|PASSCRED|DOMAIN|PROTOCOL|MARK|BINDTODEVICE|PRIORITY|INCOMING_CPU|PEERSEC|PASSSEC)"
    r"|TCP_(USER_TIMEOUT|QUICKACK|DEFER_ACCEPT|CORK|CONGESTION|INFO|KEEPIDLE|LINGER2|SYNCNT|WINDOW_CLAMP)"
    r"|AF_(NETLINK|PACKET|ALG|VSOCK|CAN)|SOCK_CLOEXEC|SOCK_NONBLOCK|MSG_CMSG_CLOEXEC|MSG_ERRQUEUE",
    "fcntl": r"F_[GS]ETPIPE_SZ|F_ADD_SEALS|F_GET_SEALS|F_SEAL_\w+|F_OFD_\w+|F_NOTIFY|F_[GS]ETSIG|F_[GS]ETLEASE|DN_\w+",
    "resource": r"prlimit|RLIMIT_(SIGPENDING|MSGQUEUE|NICE|RTPRIO|RTTIME|OFILE)",
    "time": r"pthread_getcpuclockid|CLOCK_(BOOTTIME|TAI)",
    "mmap": r"MAP_(POPULATE|STACK)|MADV_\w+",
    "sys": r"platform",
}  # by module; `sys.platform` and ctypes mean that something depends on the platform
LINUX_PATH = re.compile(r"/?(proc/(self|sys|vmstat|meminfo)|sys/fs/)|/(proc|sys|dev/shm)\b")
ANY_OBJECT = re.compile(r"ru_maxrss|prctl|syncfs|mremap")
MAC = "darwin"


def linux_only(tree: ast.AST) -> Iterator[str]:
    """The names and paths in a module that mean nothing elsewhere."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=module), attr=name) if re.fullmatch(ONLY_LINUX.get(module, "$"), name):
                yield f"{module}.{name}"
            case ast.Attribute(attr=name) if ANY_OBJECT.fullmatch(name):
                yield name
            case ast.ImportFrom(module=str(module), names=names):
                found = (a.name for a in names if re.fullmatch(ONLY_LINUX.get(module, "$"), a.name))
                yield from (f"{module}.{name}" for name in found)
                if module.partition(".")[0] == "ctypes":
                    yield module
            case ast.Import(names=names):
                yield from (alias.name for alias in names if alias.name.partition(".")[0] in ("ctypes", "setproctitle"))
            case ast.Constant(value=str(text)) if LINUX_PATH.match(text):
                yield text
            case ast.Call(
                func=ast.Name(id="getattr" | "hasattr"), args=[ast.Name(id=module), ast.Constant(value=name)]
            ):
                if re.fullmatch(ONLY_LINUX.get(module, "$"), str(name)):
                    yield f"{module}.{name}"
            case _:
                pass


def modules() -> Iterator[Path]:
    for part in PARTS:
        yield from (path for path in (ROOT / part).rglob("*.py") if not path.name.endswith("_pb2.py"))


def test_calls_of_linux_are_made_in_one_package() -> None:
    """The kernels call a library of their own by ctypes, which is compiled on any platform."""
    elsewhere = {
        str(path.relative_to(ROOT)): found
        for path in modules()
        if path.parent != Path(losses.__file__).parent
        and (found := sorted(set(linux_only(ast.parse(path.read_text())))))
        and not (path.parent == Path(native.__file__).parent and found == ["ctypes"])
    }
    assert elsewhere == {}


@pytest.mark.parametrize(
    "text",
    [
        "import os\nos.pidfd_open(1)", "from signal import SIGRTMIN", "import ctypes", "open(f'/proc/{pid}/stat')",
        "hasattr(socket, 'SO_PEERCRED')", "root / 'proc/self/cgroup'", "sys.platform == 'linux'", "usage.ru_maxrss",
        "Path('/dev/shm')", "Path('/sys/fs/cgroup')", "select.epoll()",
    ],
)
def test_what_counts_as_such_a_call(text: str) -> None:
    assert list(linux_only(ast.parse(text)))


@pytest.mark.parametrize("text", ["os.kill(1, 9)", "'/process'", "socket.SO_REUSEADDR", "rest('/processes')"])
def test_what_every_unix_has(text: str) -> None:
    assert not list(linux_only(ast.parse(text)))


def test_losses_are_those_of_the_manual() -> None:
    assert losses.losses("linux") == ()
    table = (
        (ROOT / "docs/deployment.md").read_text().partition("### On a Mac without a container")[2].partition("\n## ")[0]
    )
    rows = [
        tuple(cell.strip() for cell in line.strip("|").split("|")) for line in table.splitlines() if line[:1] == "|"
    ]
    assert rows[2:] == [(loss.feature, loss.elsewhere) for loss in losses.losses(MAC)]


# Files and sockets


@pytest.mark.parametrize("platform", ["linux", MAC])
def test_a_file_without_a_path(platform: str) -> None:
    descriptor = file_in_memory("secret", platform)
    try:
        assert not os.get_inheritable(descriptor)
        os.write(descriptor, b"password")
        assert os.pread(descriptor, 100, 0) == b"password"
        assert os.fstat(descriptor).st_nlink == 0
    finally:
        os.close(descriptor)


def test_a_file_that_another_process_shows() -> None:
    descriptor = file_in_memory("shown-by-this-test")
    try:
        os.write(descriptor, b"text")
        found = file_named(os.getpid(), "shown-by-this-test")
        assert found is not None
        assert found.read_bytes() == b"text"
        assert file_named(os.getpid(), "shown-by-this-test", MAC) is None
    finally:
        os.close(descriptor)


def test_the_path_of_a_descriptor(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file:
        assert path_of(file.fileno()) == tmp_path / "file"
        assert path_of(file.fileno(), MAC) is None
    reader, writer = os.pipe()
    assert path_of(reader) is None
    os.close(reader)
    os.close(writer)


def test_the_user_at_the_other_end() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert peer_user(ours) == os.geteuid()
        assert peer_user(ours, MAC) is None


@pytest.mark.parametrize("platform", ["linux", MAC])
def test_file_systems_are_synchronised(platform: str, tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        synchronise_file_system(descriptor, platform)
    finally:
        os.close(descriptor)


def test_a_file_system_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        synchronise_file_system(2**20)


# Processes


def child(*command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", *command], start_new_session=True, stdout=subprocess.PIPE)


SLEEPING = "import time; print(flush=True); time.sleep(1000)"


@pytest.mark.process
@pytest.mark.parametrize("platform", ["linux", MAC])
def test_the_status_of_a_process(platform: str) -> None:
    with child(SLEEPING) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"\n"
            status = status_of(process.pid, platform)
            assert status is not None
            assert (status.is_alive, status.session) == (True, process.pid)
            assert status_of(process.pid, platform) == status, "a process keeps its start time"
        finally:
            process.kill()
        assert await_end(process.pid)
        ended = status_of(process.pid, platform)
        assert ended is not None
        assert not ended.is_alive, "it has not been waited for"
        assert ended.start_time == status.start_time
        process.wait(DEADLINE)
    assert status_of(process.pid, platform) is None


@pytest.mark.process
def test_without_linux_the_start_of_a_process_is_a_time() -> None:
    with child(SLEEPING) as process:
        status = status_of(process.pid, MAC)
        process.kill()
    assert status is not None
    assert abs(status.start_time - time.time()) < 60


def test_processes_are_listed_on_linux_only() -> None:
    assert os.getpid() in process_ids()
    assert process_ids(MAC) == []
    name, value = next(iter(os.environ.items()))
    assert f"{name}={value}".encode() in variables_of(os.getpid())
    assert variables_of(os.getpid(), MAC) == []
    assert variables_of(2**30) == []


@pytest.mark.process
def test_only_a_member_of_the_session_is_killed() -> None:
    with child(SLEEPING) as process:
        kill_member(process.pid, process.pid, MAC)
        kill_member(process.pid, os.getsid(0))
        assert process.poll() is None
        kill_member(process.pid, process.pid)
        assert process.wait(DEADLINE) == -signal.SIGKILL


@pytest.mark.process
async def test_a_descriptor_of_a_process_is_readable_when_it_ends() -> None:
    with child(SLEEPING) as process:
        handle = open_process(process.pid)
        assert handle is not None
        assert open_process(process.pid, MAC) is None
        ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(handle, ended.set)
        assert not await_end(process.pid, MAC), "it returns at once"
        process.kill()
        async with asyncio.timeout(DEADLINE):
            await ended.wait()
        asyncio.get_running_loop().remove_reader(handle)
        os.close(handle)


# Memory


def test_memory_of_this_process_and_host() -> None:
    gc.collect()
    threads, pages = threads_and_memory()
    assert threads >= threading.active_count()
    assert pages * resource.getpagesize() > 1 << 20
    assert threads_and_memory(MAC) == (0, 0)
    assert (writable_memory() or 0) > 1 << 20
    assert writable_memory(MAC) is None
    assert 0 < available_memory() <= available_memory(platform=MAC)
    assert kills_for_memory() >= 0
    assert kills_for_memory(platform=MAC) == 0
    assert shared_memory(MAC) is None
    usage = resource.getrusage(resource.RUSAGE_SELF)
    assert peak_memory(usage) == 1024 * peak_memory(usage, MAC)


# Threads


def test_what_is_known_of_a_thread() -> None:
    native = threading.get_native_id()
    assert (cpu_seconds(native) or 0) > 0
    assert cpu_seconds(native, MAC) is None
    assert scheduler_state(native) == "R"
    assert scheduler_state(native, MAC) is None
    assert main_thread_seconds() > 0
    assert main_thread_seconds(MAC) >= 0
    assert dump_signal() in range(signal.SIGRTMIN, signal.SIGRTMAX)
    assert dump_signal(MAC) is None
    allow_tracing_by_parent(MAC)


# What ps shows


def test_the_command_line_of_this_process() -> None:
    found = command_line()
    if found is not None:  # pytest's plugins may have written over it
        overwrite_command_line(found[1])
        assert command_line() == found
    assert command_line(MAC) is None
    overwrite_command_line(b"anything", MAC)
    overwrite_command_line(b"of another length")
    assert command_line() == found
