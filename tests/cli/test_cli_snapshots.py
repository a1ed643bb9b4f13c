"""`savepoint`, `stop` and `checkpoint` against a fake REST API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

pytestmark = pytest.mark.process

IN_PROGRESS = {"status": {"id": "IN_PROGRESS"}, "operation": None}


def completed(**operation: Any) -> dict[str, Any]:
    return {"status": {"id": "COMPLETED"}, "operation": {key.replace("_", "-"): v for key, v in operation.items()}}


def promise(cluster: Any, trigger: str, status: str, *results: dict[str, Any]) -> None:
    """The cluster accepts the operation, and returns these states of it, one after the other."""
    states: Iterator[dict[str, Any]] = iter(results)
    cluster.responses[f"POST {trigger}"] = (202, {"request-id": "t1"})
    cluster.responses[f"GET {status}/t1"] = lambda: (200, next(states))


def test_a_savepoint(cli: Any, fake_cluster: Any) -> None:
    path = "/jobs/abc/savepoints"
    done = completed(location="file:///sp/1")
    promise(fake_cluster, path, path, IN_PROGRESS, IN_PROGRESS, done, done)
    ran = cli("savepoint", "-m", fake_cluster.address, "abc", "s3://bucket/sp", "-type", "native")
    assert (ran.returncode, ran.stdout) == (0, "Savepoint completed. Path: file:///sp/1\n")
    assert fake_cluster.bodies == [{"formatType": "NATIVE", "target-directory": "s3://bucket/sp"}]
    assert fake_cluster.requests == ["GET /jobs/overview", f"POST {path}"] + [f"GET {path}/t1"] * 3
    ran = cli("savepoint", "--json", "-m", fake_cluster.address, "abc")
    assert json.loads(ran.stdout) == {"request-id": "t1", "location": "file:///sp/1"}
    assert fake_cluster.bodies[-1] == {"formatType": "CANONICAL"}


def test_relative_directories_are_below_the_working_directory(cli: Any, fake_cluster: Any) -> None:
    promise(fake_cluster, "/jobs/abc/savepoints", "/jobs/abc/savepoints", completed(location="x"))
    assert cli("savepoint", "-m", fake_cluster.address, "abc", "here/sp").returncode == 0
    assert fake_cluster.bodies[0]["target-directory"] == str(cli.home / "here" / "sp")


def test_detached(cli: Any, fake_cluster: Any) -> None:
    promise(fake_cluster, "/jobs/abc/savepoints", "/jobs/abc/savepoints")
    assert cli("savepoint", "-detached", "-m", fake_cluster.address, "abc").stdout == "Triggered: t1\n"
    ran = cli("savepoint", "--detached", "--json", "-m", fake_cluster.address, "abc")
    assert json.loads(ran.stdout) == {"request-id": "t1"}


def test_stopping(cli: Any, fake_cluster: Any) -> None:
    done = completed(location="/sp/1")
    promise(fake_cluster, "/jobs/abc/stop", "/jobs/abc/savepoints", IN_PROGRESS, done, done)
    ran = cli("stop", "-m", fake_cluster.address, "-p", "/sp", "-d", "--type", "canonical", "abc")
    assert (ran.returncode, ran.stdout) == (0, "Savepoint completed. Path: /sp/1\n")
    assert cli("stop", "-m", fake_cluster.address, "abc", "--savepointPath", "/b").returncode == 0
    assert fake_cluster.bodies == [
        {"drain": True, "formatType": "CANONICAL", "targetDirectory": "/sp"},
        {"drain": False, "formatType": "CANONICAL", "targetDirectory": "/b"},
    ]


def test_a_checkpoint(cli: Any, fake_cluster: Any) -> None:
    path = "/jobs/abc/checkpoints"
    promise(fake_cluster, path, path, completed(checkpointId=7), completed(checkpointId=8))
    assert cli("checkpoint", "-m", fake_cluster.address, "abc").stdout == "Checkpoint 7 completed.\n"
    ran = cli("checkpoint", "-full", "--json", "-m", fake_cluster.address, "abc")
    assert json.loads(ran.stdout) == {"request-id": "t1", "checkpointId": 8}
    assert fake_cluster.bodies == [{"checkpointType": "CONFIGURED"}, {"checkpointType": "FULL"}]


def test_disposing(cli: Any, fake_cluster: Any) -> None:
    path = "/savepoint-disposal"
    promise(fake_cluster, path, path, completed(), completed())
    ran = cli("savepoint", "-m", fake_cluster.address, "-d", "/sp/{1}")
    assert (ran.returncode, ran.stdout) == (0, "Savepoint '/sp/{1}' disposed.\n")
    assert cli("savepoint", "-m", fake_cluster.address, "--dispose", "sp").returncode == 0
    assert fake_cluster.bodies == [{"savepoint-path": "/sp/{1}"}, {"savepoint-path": str(cli.home / "sp")}]


def test_the_same_is_requested_once_more_from_a_dispatcher_that_took_over(cli: Any, fake_cluster: Any) -> None:
    path, stop = "/jobs/abc/savepoints", "/jobs/abc/stop"
    lost = (404, {"errors": ["no savepoint has the trigger id"]})
    states = iter([(200, IN_PROGRESS), lost, (200, completed(location="/sp/1"))])
    fake_cluster.responses[f"POST {stop}"] = (202, {"request-id": "t1"})
    fake_cluster.responses[f"GET {path}/t1"] = lambda: next(states)
    assert cli("stop", "-m", fake_cluster.address, "abc").stdout == "Savepoint completed. Path: /sp/1\n"
    first, again = fake_cluster.bodies
    assert again == {**first, "triggerId": "t1"}
    asked = iter([(202, {"request-id": "t1"}), (409, {"errors": ["it is already FINISHED"]})])
    fake_cluster.responses[f"POST {stop}"] = lambda: next(asked)
    fake_cluster.responses[f"GET {path}/t1"] = lost
    message = cli.fails("stop", "-m", fake_cluster.address, "abc")
    assert "its result is not known: it is already FINISHED" in message


def test_failures_are_one_line(cli: Any, fake_cluster: Any) -> None:
    path = "/jobs/abc/savepoints"
    cause = {"class": "x.Y", "stack-trace": "no space left\n  at some.place"}
    promise(fake_cluster, path, path, IN_PROGRESS, completed(failure_cause=cause))
    assert cli.fails("savepoint", "-m", fake_cluster.address, "abc") == "millstream savepoint: no space left"
    path = "/jobs/abc/checkpoints"
    promise(fake_cluster, path, path, completed(failureCause={"class": "x.Y"}))
    assert cli.fails("checkpoint", "-m", fake_cluster.address, "abc") == "millstream checkpoint: x.Y"
    fake_cluster.responses["POST /jobs/abc/stop"] = (409, {"errors": ["it is already FINISHED"]})
    assert cli.fails("stop", "-m", fake_cluster.address, "abc") == "millstream stop: it is already FINISHED"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["savepoint"], "millstream savepoint: name a job to take a savepoint of, or the savepoint to --dispose"),
        (["savepoint", "-d", "x", "abc"], "millstream savepoint: name a job to take a savepoint of"),
        (["savepoint", "--dispose"], "millstream savepoint: Option '--dispose' requires an argument"),
        (["savepoint", "abc", ""], "millstream savepoint: the path is empty: write a path or a URI"),
        (["savepoint", "--dispose", ""], "millstream savepoint: the path is empty"),
        (["stop", "-p", "", "abc"], "millstream stop: the path is empty"),
        (["state", "ls", ""], "millstream state ls: the path is empty"),
        (["stop"], "millstream stop: Missing argument 'JOB'"),
        (["checkpoint", ""], "millstream checkpoint: the job is empty"),
        (["stop", "-type", "zip", "abc"], "millstream stop: Invalid value for '-type'"),
    ],
)
def test_misuse(cli: Any, arguments: list[str], line: str) -> None:
    assert cli.fails(*arguments, status=2).startswith(line)
