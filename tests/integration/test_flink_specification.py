"""Responses of a running cluster against Flink's REST specification: every key is there, or the manual leaves it out.

The jobs have all that responses describe: checkpoints completed, failed and in progress, a savepoint, a restart,
rescales, accumulators, a failure, results.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from flink_specification import Specification
from system import Cluster, given, recovering, wait_until, write_job
from wheels import write_wheel

pytestmark = pytest.mark.process

COMPARED_ELSEWHERE = {"ExceptionInfo"}
"""By a test of the dispatcher, since two tasks do not fail at the same time for sure."""

TALLY = """
import time
from pathlib import Path

from millstream.datastream import CheckpointedFunction, MapFunction

FOLDER = Path("{folder}")

class Tally(MapFunction, CheckpointedFunction):
    def initialize_state(self, context):
        pass

    def snapshot_state(self, context):
        while (FOLDER / "hold").exists():
            time.sleep(0.01)
        if (FOLDER / "decline").exists():
            raise ValueError("declined")

    def map(self, number):
        time.sleep(0.005)
        if (FOLDER / "fail").exists():
            (FOLDER / "fail").unlink(missing_ok=True)
            raise ValueError("failed")
        return number

env.from_sequence(0, 10**12).map(Tally()).name("tally").key_by(lambda n: n % 7).reduce(max).print()
env.execute("tally")
"""
PROGRAM = """
import sys
from millstream.datastream import IntCounter, MapFunction, StreamExecutionEnvironment

class Counted(MapFunction):
    def __init__(self, refused):
        self.refused = refused

    def open(self, runtime_context):
        self.count = IntCounter()
        runtime_context.add_accumulator("count", self.count)
        self.counter = runtime_context.get_metrics_group().counter("seen")

    def map(self, number):
        self.count.add(1)
        self.counter.inc()
        return 1 // (number - self.refused)

def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1, 2]).map(Counted(int(sys.argv[1]))).print()
    env.execute("counted")
"""


class Requests:
    """Requests to a cluster whose responses are compared with the specification."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.flink = Specification()

    def __call__(self, operation: str, body: Any = None, query: str = "", **ids: Any) -> Any:
        method, path = operation.split()
        content = b"" if body is None else json.dumps(body).encode()
        status, response = self.cluster.request(method, path.format(**ids) + query, content)
        assert status == self.flink.operations[operation]["status"], (operation, response)
        self.flink.compare(operation, response)
        return response

    def outcome(self, trigger: str, asked: str, body: Any = None, query: str = "", **ids: Any) -> Any:
        """What became of an operation in the background."""
        ids = {**ids, "triggerid": self(trigger, body, query, **ids)["request-id"]}
        wait_until(lambda: self(asked, **ids)["status"]["id"] == "COMPLETED", f"the end of {trigger}")
        return self(asked, **ids)["operation"]


def test_responses_have_every_key_of_flinks_specification(cluster: Cluster, tmp_path: Path) -> None:
    call = Requests(cluster)
    failed, counted = programs(call, tmp_path)
    for job in failed, counted:
        look(call, job)
    options = given(
        *recovering(tmp_path / "checkpoints", "500ms"),
        "execution.checkpointing.tolerable-failed-checkpoints=1000",
    )
    options += given(
        "pipeline.max-parallelism=4", "execution.checkpointing.savepoint-dir=" + str(tmp_path / "savepoints")
    )
    job = cluster.submit_running(write_job(tmp_path, "tally", TALLY.format(folder=tmp_path)), *options)
    cluster.wait_for_checkpoint(job)
    fail(call, job, tmp_path)
    rescale(call, job)
    checkpoint(call, job, tmp_path)
    look(call, job)
    look_at_processes(call, job)
    call.outcome("POST /jobs/{jobid}/stop", "GET /jobs/{jobid}/savepoints/{triggerid}", {}, jobid=job)
    assert not differences(call.flink), "\n" + "\n".join(differences(call.flink))


def differences(flink: Specification) -> list[str]:
    """What is neither in a response nor left out, and what is both."""
    unseen = {key for key in flink.unseen() if key.partition(".")[0] not in COMPARED_ELSEWHERE}
    with_response = {name for name, operation in flink.operations.items() if operation["response"]}
    return [
        *(f"never requested: {one}" for one in sorted(with_response - flink.compared - flink.left_out)),
        *(f"not in a response: {key}, {at}" for key, at in sorted(flink.missing.items())),
        *(f"in no response: {key}" for key in sorted(unseen)),
        *(f"in a response, though the manual leaves it out: {key}" for key in sorted(flink.left_out & flink.seen)),
    ]


def programs(call: Requests, folder: Path) -> tuple[str, str]:
    """The jobs of a wheel: one failed, one left accumulators."""
    wheel = write_wheel(folder, {"tinyjob.py": PROGRAM}, entry="tinyjob:main")
    status, uploaded = call.cluster.upload(wheel)
    assert status == 200
    call.flink.compare("POST /jars/upload", uploaded)
    [jar] = [one["id"] for one in call("GET /jars")["files"]]
    call("POST /jars/{jarid}/plan", {"programArgsList": ["1"]}, jarid=jar)
    failed = call("POST /jars/{jarid}/run", {"programArgsList": ["1"]}, jarid=jar)["jobid"]
    run = call("POST /jars/{jarid}/run-application", {"programArgsList": ["9"]}, jarid=jar)
    counted = run["applicationid"]
    call.cluster.wait_for(failed, "FAILED")
    call.cluster.wait_for(counted, "FINISHED")
    return failed, counted


def fail(call: Requests, job: str, folder: Path) -> None:
    """A task fails, and the job continues from its last checkpoint."""
    (folder / "fail").touch()
    wait_until(lambda: call("GET /jobs/{jobid}/exceptions", jobid=job)["exceptionHistory"]["entries"], "the failure")
    call.cluster.wait_for_restart(job)
    call.cluster.wait_for(job, "RUNNING")


def rescale(call: Requests, job: str) -> None:
    """One rescale that succeeds, and one beyond the maximum parallelism."""
    patch, asked = "PATCH /jobs/{jobid}/rescaling", "GET /jobs/{jobid}/rescaling/{triggerid}"
    assert "failure-cause" not in call.outcome(patch, asked, query="?parallelism=2", jobid=job)
    assert "failure-cause" in call.outcome(patch, asked, query="?parallelism=9", jobid=job)
    call.cluster.wait_for(job, "RUNNING")
    call(
        "PUT /jobs/{jobid}/resource-requirements", call("GET /jobs/{jobid}/resource-requirements", jobid=job), jobid=job
    )
    for page in "overview", "summary", "config":
        call(f"GET /jobs/{{jobid}}/rescales/{page}", jobid=job)
    for one in call("GET /jobs/{jobid}/rescales/history", jobid=job):
        call("GET /jobs/{jobid}/rescales/details/{rescaleuuid}", jobid=job, rescaleuuid=one["rescaleUuid"])


def checkpoint(call: Requests, job: str, folder: Path) -> None:
    """A savepoint, its disposal, a checkpoint that a task declines, and one that is in progress."""
    taken, asked = "POST /jobs/{jobid}/savepoints", "GET /jobs/{jobid}/savepoints/{triggerid}"
    location = call.outcome(taken, asked, {}, jobid=job)["location"]
    disposal = "POST /savepoint-disposal", "GET /savepoint-disposal/{triggerid}"
    assert "failure-cause" not in (call.outcome(*disposal, {"savepoint-path": location}) or {})
    assert "failure-cause" in call.outcome(*disposal, {"savepoint-path": location})
    triggered = "POST /jobs/{jobid}/checkpoints", "GET /jobs/{jobid}/checkpoints/{triggerid}"
    (folder / "decline").touch()
    assert "failureCause" in call.outcome(*triggered, {}, jobid=job)
    (folder / "decline").unlink()
    checkpoints(call, job)
    assert "checkpointId" in call.outcome(*triggered, {}, jobid=job)
    (folder / "hold").touch()
    wait_until(lambda: any(one["status"] == "IN_PROGRESS" for one in checkpoints(call, job)), "one in progress")
    (folder / "hold").unlink()


def checkpoints(call: Requests, job: str) -> list[Any]:
    """The latest ones of each status."""
    found = call("GET /jobs/{jobid}/checkpoints", jobid=job)["history"]
    for one in {checkpoint["status"]: checkpoint for checkpoint in reversed(found)}.values():
        at = {"jobid": job, "checkpointid": one["id"]}
        for vertex in call("GET /jobs/{jobid}/checkpoints/details/{checkpointid}", **at)["tasks"]:
            call("GET /jobs/{jobid}/checkpoints/details/{checkpointid}/subtasks/{vertexid}", vertexid=vertex, **at)
    return list(found)


def look(call: Requests, job: str) -> None:
    """Requests whatever can be read of a job."""
    of_job = [one for one in call.flink.operations if one.startswith("GET /jobs/{jobid}") and one.count("{") == 1]
    for operation in of_job:
        if "/rescales/" not in operation and operation != "GET /jobs/{jobid}/checkpoints":
            call(operation, jobid=job, query="?includeSerializedValue=true" * operation.endswith("/accumulators"))
    for operation in ("", "/exceptions", "/jobmanager/config"):
        call(f"GET /applications/{{applicationid}}{operation}", applicationid=job)
    for vertex in call("GET /jobs/{jobid}", jobid=job)["vertices"]:
        at = {"jobid": job, "vertexid": vertex["id"], "subtaskindex": 0, "attempt": 0}
        at["attempt"] = call("GET /jobs/{jobid}/vertices/{vertexid}/subtasks/{subtaskindex}", **at)["attempt"]
        for operation in call.flink.operations:
            if operation.startswith("GET /jobs/{jobid}/vertices/"):
                call(operation, **at)


def look_at_processes(call: Requests, job: str) -> None:
    """Requests what is about the cluster and its processes, while a job runs."""
    for operation in call.flink.operations:
        if operation.startswith("GET /") and "{" not in operation:
            call(operation)
    for manager in call.cluster.task_managers_of(job):
        for operation in call.flink.operations:
            if operation.startswith("GET /taskmanagers/{"):
                call(operation, taskmanagerid=manager)
        call("GET /jobs/{jobid}/taskmanagers/{taskmanagerid}/log-url", jobid=job, taskmanagerid=manager)
    graph, vertex = "GET /jobs/{jobid}/vertices/{vertexid}/flamegraph", call.cluster.get(f"/jobs/{job}")["vertices"][0]
    at = {"query": "?duration=200&interval=10", "jobid": job, "vertexid": vertex["id"]}
    wait_until(lambda: (call(graph, **at)["data"] or {}).get("children"), "a flame graph")
