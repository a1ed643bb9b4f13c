"""Programs on a real local cluster, from the command line: run, list, cancel, Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import DEADLINE, wait_until
from wheels import write_wheel

from millstream.cli.cluster.directory import ClusterDirectory
from millstream.cli.cluster.stop import stop_cluster
from millstream.core.logs.log_events import events_of
from millstream.core.settings.variables import CLUSTER_MEMBER
from millstream.resourcemanager.process_records import processes_with

pytestmark = pytest.mark.process

ENVIRONMENT = """
from millstream.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
"""
SHORT = f"{ENVIRONMENT}\nprint(sorted(env.from_collection([1, 2, 3]).map(lambda x: x * 2).execute_and_collect()))\n"
AGAIN = f"""
{ENVIRONMENT}
env.enable_checkpointing(20)
def check(x):
    if x == 7:
        raise ValueError(f"bad {{x}}")
    return x

env.from_collection(range(20)).map(check).print()
env.execute("again")
"""
ENDLESS = f"""
import time
{ENVIRONMENT}
def wait(x):
    time.sleep(600)
    return x

env.from_collection([1, 2, 3]).map(wait).print()
env.execute("endless")
"""


@pytest.fixture
def cluster(cli: Any, tmp_path: Path) -> Iterator[ClusterDirectory]:
    directory = ClusterDirectory(tmp_path / "cluster")
    cli.environment["MILLSTREAM_CLUSTER_DIR"] = str(directory.root)
    done = cli.start_cluster("--slots", "2")
    try:
        assert done.returncode == 0, done.stderr
        yield directory
    finally:
        stop_cluster(directory, timeout=10)
    assert processes_with(CLUSTER_MEMBER, str(directory.root)) == []


def jobs(cli: Any) -> list[dict[str, Any]]:
    found = json.loads(cli("list", "-a", "--json").stdout)
    assert isinstance(found, list)
    return found


def test_runs_a_file_and_a_wheel_to_their_ends(cli: Any, cluster: ClusterDirectory) -> None:
    project = cli.home / "project"
    (project / "lib").mkdir(parents=True)
    (project / "beside.py").write_text("from lib.numbers import TWO\ndef double(x):\n    return x * TWO\n")
    (project / "lib" / "numbers.py").write_text("TWO = 2\n")
    (project / "job.py").write_text(f"from beside import double\n{SHORT}".replace("x * 2", "double(x)"))
    done = cli("run", "-p", "2", "project/job.py")
    assert (done.returncode, done.stdout.splitlines()[1:]) == (0, ["[2, 4, 6]"]), done.stderr
    body = "".join(f"    {line}\n" for line in SHORT.splitlines())
    wheel = write_wheel(cli.home, {"tinyjob.py": f"def main():\n{body}"}, entry="tinyjob:main")
    done = cli("run", wheel.name)
    assert (done.returncode, done.stdout.splitlines()[1:]) == (0, ["[2, 4, 6]"]), done.stderr


def test_a_failing_job_fails_the_command_with_the_users_error(cli: Any, cluster: ClusterDirectory) -> None:
    (cli.home / "job.py").write_text(SHORT.replace("x * 2", "print('seen', x) or x / 0"))
    done = cli("run", "job.py")
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    (job,) = jobs(cli)
    log = cli("logs", job["jid"]).stdout
    assert "ZeroDivisionError" in log
    assert f"({job['jid'][:8]})" in log
    for level in ("error", "ERROR"):
        (event,) = [e for e in events_of(cli("logs", "--level", level, job["name"]).stdout.splitlines())
                    if e.line.origin is not None]  # fmt: skip
        assert event.line.level == "ERROR"
        assert event.line.message.startswith("task ")
        assert "ZeroDivisionError" in "\n".join(event.lines[1:]), "the traceback belongs to its event"
    assert "ZeroDivisionError" in cli("logs", "jobmanager").stdout
    assert f" of {job['name']} ({job['jid'][:8]})] " in cli("logs", "--out", "taskmanager-1").stdout
    assert cli.fails("logs", "f" * 32).startswith("millstream logs: ")

    (cli.home / "again.py").write_text(AGAIN)
    backoff = "-Drestart-strategy.exponential-delay.initial-backoff=1ms"
    done = cli("run", backoff, "-Drestart-strategy.same-error-limit=4", "again.py")
    assert done.returncode == 1
    assert done.stderr.count("Traceback (most recent call last)") == 1, done.stderr
    assert "ValueError: bad 7" in done.stderr
    for restart, again in ((1, ""), (2, "the same error, 2nd time: "), (3, "the same error, 3rd time: ")):
        assert re.search(rf"Job 'again': restart {restart} in 0\.\d s: {again}ValueError: bad 7", done.stderr)
    assert "restart 4" not in done.stderr
    assert "the same error occurred 4 times in a row at the record 7" in done.stderr
    assert "restart-strategy.same-error-limit is 4" in done.stderr
    (job,) = [job for job in jobs(cli) if job["name"] == "again"]
    assert (job["state"], job["restarts"]) == ("FAILED", 3)
    told = cli("exceptions", job["jid"]).stdout
    assert "  the same error, 4th time in a row" in told
    assert told.count("Traceback (most recent call last)") == 1
    log = (cluster.root / "log" / "jobmanager-1.log").read_text()
    assert "raise ValueError" in log
    assert "restart 3 in" in log


def test_cancels_a_detached_job_and_one_that_is_interrupted(cli: Any, cluster: ClusterDirectory) -> None:
    (cli.home / "job.py").write_text(ENDLESS)
    done = cli("run", "-d", "job.py")
    assert done.returncode == 0, done.stderr
    (job,) = jobs(cli)
    cancelled = cli("cancel", "--wait", job["jid"])
    assert cancelled.returncode == 0, cancelled.stderr
    assert [job["state"] for job in jobs(cli)] == ["CANCELED"]

    process = cli.start("run", "job.py")
    try:
        assert process.stdout.readline().startswith("Job has been submitted")
        wait_until(lambda: any(job["state"] == "RUNNING" for job in jobs(cli)), "the job to run")
        os.killpg(process.pid, signal.SIGINT)
        _, told = process.communicate(timeout=DEADLINE)
        assert process.returncode == 130
        assert re.search(r"^Cancelling job [0-9a-f]{32}. Press Ctrl-C again", told, re.M)
        assert re.search(r"^job [0-9a-f]{32} was cancelled$", told, re.M)
        assert "Traceback" not in told
        wait_until(lambda: [job["state"] for job in jobs(cli)] == ["CANCELED", "CANCELED"], "both to be cancelled")
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
