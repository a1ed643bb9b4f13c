"""What the REST API shows of a vertex and its subtasks, and of the process that responds, in Flink's shapes."""

from __future__ import annotations

import pickle
from pathlib import Path

from dispatcher_fixtures import Checked, Http, RunningDispatcher, configuration, graph, running
from msgspec.structs import replace

from millstream.core.jobs.details import Accumulator, JobDetails, SubtaskStatus, TaskMetrics, VertexStatus
from millstream.core.jobs.earlier_attempts import AttemptHistory, EarlierAttempt
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.dispatcher.rest import vertex_json


def subtask(index: int, busy: int, backpressured: int, manager: str) -> SubtaskStatus:
    return SubtaskStatus(
        index, ExecutionState.RUNNING, attempt=1, task_manager=manager, host=f"host of {manager}", start_time=1000,
        state_times={"CREATED": 900, "RUNNING": 1000}, busy_percent=busy, backpressured_percent=backpressured,
        metrics=TaskMetrics(records_in=10 * (index + 1), counters={"seen": index + 1}),
    )  # fmt: skip


def details(job: JobGraph) -> JobDetails:
    first, second = job.vertices
    held = (subtask(0, 20, 70, "tm-1"), subtask(1, 30, 20, "tm-2"), subtask(2, 30, 0, "tm-1"))
    earlier, times = AttemptHistory(), {"DEPLOYING": 100, "FAILED": 400}
    failed = SubtaskStatus(1, ExecutionState.FAILED, 0, "tm-0", "host of tm-0", state_times=times)
    earlier.add(EarlierAttempt.of(second.id, failed))
    return JobDetails(
        job.job_id, job.name, JobStatus.RUNNING, start_time=500,
        vertices=(
            VertexStatus(first.id, "Source", 1, 9, subtasks=(SubtaskStatus(0, ExecutionState.CREATED),)),
            VertexStatus(second.id, "Sink", 3, 9, subtasks=held),
        ),
        accumulators=(
            Accumulator("count", "IntCounter", pickle.dumps(42), second.id, 1),
            Accumulator("count", "IntCounter", pickle.dumps(7), first.id, 0),
        ),
        earlier_attempts=earlier.encoded,
    )  # fmt: skip


async def test_a_vertex_in_flinks_shapes(dispatcher: RunningDispatcher) -> None:
    get, job = await dispatcher.checked(), graph()
    one = "/jobs/{jobid}/vertices/{vertexid}"
    async with dispatcher.running_job(job) as manager:
        await dispatcher.reported(manager, details(job))
        source, sink = ((job.job_id, vertex.id) for vertex in job.vertices)

        pressed = await get("GET", f"{one}/backpressure", *sink)
        assert (pressed["status"], pressed["backpressureLevel"]) == ("ok", "high")
        assert [s["backpressureLevel"] for s in pressed["subtasks"]] == ["high", "low", "ok"]
        assert [pressed["backpressure-level"], *(s["backpressure-level"] for s in pressed["subtasks"])] == [
            "high", "high", "low", "ok",
        ]  # fmt: skip
        assert [(s["ratio"], s["busyRatio"], s["idleRatio"]) for s in pressed["subtasks"]] == [
            (0.7, 0.2, 0.1), (0.2, 0.3, 0.5), (0.0, 0.3, 0.7),
        ]  # fmt: skip
        waiting = await get("GET", f"{one}/backpressure", *source)
        assert waiting["subtasks"][0]["idleRatio"] == 0.0, "it does not run"

        times = await get("GET", f"{one}/subtasktimes", *sink)
        assert times["subtasks"][1]["timestamps"]["RUNNING"] == 1000
        assert times["subtasks"][1]["timestamps"]["FINISHED"] == 0
        managers = await get("GET", f"{one}/taskmanagers", *sink)
        assert {m["taskmanager-id"]: m["status-counts"]["RUNNING"] for m in managers["taskmanagers"]} == {
            "tm-1": 2, "tm-2": 1,
        }  # fmt: skip
        first = managers["taskmanagers"][0]
        assert (first["endpoint"], first["metrics"]["read-records"]) == ("host of tm-1", 40)
        spread = first["aggregated"]["metrics"]["read-records"]
        assert spread == {"min": 10, "max": 30, "avg": 20, "sum": 40, "median": 20, "p25": 15, "p75": 25, "p95": 29}
        unassigned = await get("GET", f"{one}/taskmanagers", *source)
        assert unassigned["taskmanagers"][0]["taskmanager-id"] == "(unassigned)"

        left = {"name": "count", "type": "IntCounter", "value": "42"}
        assert (await get("GET", f"{one}/accumulators", *sink))["user-accumulators"] == [
            left, {"name": "seen", "type": "Counter", "value": "6"},
        ]  # fmt: skip
        by_subtask = await get("GET", f"{one}/subtasks/accumulators", *sink)
        assert by_subtask["subtasks"][1]["user-accumulators"] == [
            left, {"name": "seen", "type": "Counter", "value": "2"},
        ]  # fmt: skip
        shown = await get("GET", f"{one}/subtasks/{{subtaskindex}}", *sink, "1")
        assert (shown["attempt"], shown["taskmanager-id"]) == (1, "tm-2")
        assert shown["start-time"] == shown["start_time"] == 1000, "Flink's dashboard reads the second"
        attempt = f"{one}/subtasks/{{subtaskindex}}/attempts/{{attempt}}"
        assert (await get("GET", attempt, *sink, "1", "1"))["metrics"] == shown["metrics"]
        before = await get("GET", attempt, *sink, "1", "0")
        assert (before["status"], before["endpoint"], before["duration"]) == ("FAILED", "host of tm-0", 300)
        accumulated = await get("GET", f"{attempt}/accumulators", *sink, "1", "1")
        assert accumulated["user-accumulators"][0] == left
        assert accumulated["id"] == f"{job.job_id}_{sink[1]}_1_1"

        path = f"/jobs/{job.job_id}/vertices/{sink[1]}/subtasks"
        for wrong, status, reason in (
            ("3", 404, "has no subtask 3; it has 3"),
            ("x", 400, "is not a whole number"),
            ("1/attempts/7", 404, "1 is the current one"),
            ("1/attempts/0/accumulators", 404, "without accumulators"),
        ):
            assert reason in (await dispatcher.http("GET", f"{path}/{wrong}", status=status)).json["errors"][0]


def test_the_spread_of_one_and_of_no_subtask() -> None:
    empty = VertexStatus(graph().vertices[0].id, "v", 0, 1)
    assert vertex_json.vertex(empty, 0)["aggregated"]["metrics"]["read-records"]["max"] == 0
    single = replace(empty, subtasks=(subtask(0, 0, 0, "tm"),))
    assert vertex_json.vertex(single, 2000)["aggregated"]["metrics"]["read-records"]["p95"] == 10
    assert vertex_json.backpressure(empty, 0)["backpressureLevel"] == "ok"


async def test_the_process_that_answers(tmp_path: Path) -> None:
    secret = {"high-availability.zookeeper.client.sasl.password": "verysecret"}
    async with running(configuration(tmp_path).merged(secret)) as service:
        http = Http(service.rest_address)
        get = Checked(http, (await http("GET", "/openapi.json")).json)
        shown = {row["key"]: row["value"] for row in await get("GET", "/jobmanager/config")}
        assert shown["high-availability.zookeeper.client.sasl.password"] == "******"
        assert shown["rest.port"] == "0"
        environment = await get("GET", "/jobmanager/environment")
        assert environment["jvm"]["version"].startswith("CPython")
        assert "msgspec" in environment["packages"]
