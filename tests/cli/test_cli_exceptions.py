from __future__ import annotations

import json
from typing import Any

import pytest

pytestmark = pytest.mark.process

JOB = "0123456789abcdef" * 2
TRACE = 'Traceback (most recent call last):\n  File "job.py", line 3, in check\nValueError: bad\n'


def entry(timestamp: int, times: int, restart: int | None, **more: Any) -> dict[str, Any]:
    return {
        "exceptionName": "ValueError", "exception": "ValueError: bad", "stacktrace": TRACE, "timestamp": timestamp,
        "taskName": "Map (2/2)", "taskManagerId": "host:1-a", "operator": "Map", "subtask": 1, "attempt": times - 1,
        "record": "'x\\ny'", "timesInARow": times, "restart": restart, "restartDelay": restart and 1500,
        "concurrentExceptions": [], **more,
    }  # fmt: skip


def response(fake_cluster: Any, entries: list[dict[str, Any]], truncated: bool = False, **job: Any) -> dict[str, Any]:
    history = {"exceptionHistory": {"entries": entries, "truncated": truncated}}
    shown = {"jid": JOB, "name": "words", "state": "FAILED", "message": "", "restarts": 0, **job}
    fake_cluster.responses[f"GET /jobs/{JOB}/exceptions?maxExceptions=1000000"] = (200, history)
    fake_cluster.responses[f"GET /jobs/{JOB}"] = (200, shown)
    return history


def test_the_story_of_a_job_with_each_traceback_once(cli: Any, fake_cluster: Any) -> None:
    lost = {"exceptionName": "PeerLostError", "exception": "PeerLostError: lost", "taskName": "Sink (1/1)"}
    entries = [entry(1_700_000_001_000, 2, None), entry(1_700_000_000_000, 1, 1, concurrentExceptions=[lost])]
    history = response(fake_cluster, entries, truncated=True, restarts=1, message="the job was not restarted: why")
    done = cli("exceptions", "-m", fake_cluster.address, JOB)
    assert done.returncode == 0, done.stderr
    head, first, second = done.stdout.split("\n\n")
    assert head.splitlines() == [
        f"Job 'words' ({JOB}) is FAILED, restarts: 1",
        "  the job was not restarted: why",
        "Older exceptions are forgotten (web.exception-history-size).",
    ]
    assert first.splitlines()[0].endswith("  ValueError: bad")
    assert first.splitlines()[1:] == [
        "  operator: Map", "  record: 'x\\ny'", "  task: Map (2/2)", "  subtask: 1", "  attempt: 0",
        "  task manager: host:1-a", "  led to restart 1, after 1.5 s", *[f"  {line}" for line in TRACE.splitlines()],
        "  along with it: PeerLostError: lost in Sink (1/1)",
    ]  # fmt: skip
    assert "  the same error, 2nd time in a row" in second
    assert "  led to no restart" in second
    assert "Traceback" not in second
    assert json.loads(cli("exceptions", "-m", fake_cluster.address, "--json", JOB).stdout) == history


def test_a_job_without_exceptions_and_an_unknown_one(cli: Any, fake_cluster: Any) -> None:
    response(fake_cluster, [], state="RUNNING")
    done = cli("exceptions", "-m", fake_cluster.address, JOB)
    assert done.stdout == f"Job 'words' ({JOB}) is RUNNING, restarts: 0\nNo exceptions.\n"
    assert "Not found" in cli.fails("exceptions", "-m", fake_cluster.address, "f" * 32)
    assert ": no job 'no/id': " in cli.fails("exceptions", "-m", fake_cluster.address, "no/id")
