"""What Flink's clients request beside jobs: applications, results, cancelling by GET, heartbeats, where logs are."""

from __future__ import annotations

import base64
import pickle

from dispatcher_fixtures import FakeJobManager, RunningDispatcher, eventually, graph

from millstream.core.clock import ManualClock
from millstream.core.errors import MillstreamError
from millstream.core.jobs.details import Accumulator, JobDetails, SubtaskStatus, VertexStatus
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import JobId
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.core.messages.dispatcher import CancelJob
from millstream.core.pickling import to_bytes
from millstream.datastream.functions import IntCounter, ListAccumulator
from millstream.dispatcher.rest import accumulator_json, result_json
from millstream.dispatcher.rest.client_leases import ClientLeases


def details(job: JobGraph, state: JobStatus = JobStatus.RUNNING) -> JobDetails:
    first = job.vertices[0]
    held = SubtaskStatus(0, ExecutionState.RUNNING, task_manager="tm-1", host="here", start_time=1000)
    return JobDetails(
        job.job_id, job.name, state, start_time=500, end_time=2500 if state.is_terminal else 0,
        state_times={"INITIALIZING": 500, "CREATED": 600, "RUNNING": 700},
        vertices=(VertexStatus(first.id, "Source", 1, 9, subtasks=(held,)),),
        failures=(TaskFailure(exception="ValueError: bad", traceback="Traceback", timestamp=9),),
    )  # fmt: skip


async def test_each_job_is_an_application(dispatcher: RunningDispatcher) -> None:
    get, job = await dispatcher.checked(), graph()
    async with dispatcher.running_job(job) as manager:
        await dispatcher.reported(manager, details(job))
        (listed,) = (await get("GET", "/applications/overview"))["applications"]
        assert (listed["id"], listed["status"], listed["jobs"]) == (job.job_id, "RUNNING", {"RUNNING": 1})
        one = await get("GET", "/applications/{applicationid}", job.job_id)
        assert (one["name"], one["start-time"], one["jobs"][0]["jid"]) == (job.name, 500, job.job_id)
        assert (one["timestamps"]["CREATED"], one["timestamps"]["RUNNING"]) == (500, 600)
        (failed,) = (await get("GET", "/applications/{applicationid}/exceptions", job.job_id))["exceptionHistory"][
            "entries"
        ]
        assert failed == {
            "exceptionName": "ValueError", "stacktrace": "Traceback", "timestamp": 9, "jobId": job.job_id,
        }  # fmt: skip
        config = await get("GET", "/applications/{applicationid}/jobmanager/config", job.job_id)
        assert "rest.port" in {row["key"] for row in config}
        await get("POST", "/applications/{applicationid}/cancel", job.job_id, status=202)
        assert (await manager.next(CancelJob)).job_id == job.job_id
    http = dispatcher.http
    assert "not the id of an application" in (await http("GET", "/applications/x", status=400)).json["errors"][0]
    assert "could not be found" in (await http("GET", f"/applications/{'0' * 32}", status=404)).json["errors"][0]


async def cancelled(manager: FakeJobManager, job: JobGraph) -> None:
    assert (await manager.next(CancelJob)).job_id == job.job_id


async def test_flinks_dashboard_cancels_with_get(dispatcher: RunningDispatcher) -> None:
    job = graph()
    path = f"/jobs/{job.job_id}/yarn-cancel"
    async with dispatcher.running_job(job) as manager:
        await dispatcher.reported(manager, details(job))
        await dispatcher.http("HEAD", path, status=405)
        await dispatcher.http("GET", path, status=202)
        await cancelled(manager, job)
        stop = await dispatcher.http("GET", f"/jobs/{job.job_id}/yarn-stop", status=308)
        assert "POST /jobs/:jobid/stop" in stop.json["errors"][0]


async def test_what_is_said_of_the_processes_of_a_job(dispatcher: RunningDispatcher) -> None:
    get, job = await dispatcher.checked(), graph()
    async with dispatcher.running_job(job) as manager:
        await dispatcher.reported(manager, details(job))
        own = f"http://{dispatcher.http.address}"
        assert (await get("GET", "/jobs/{jobid}/status", job.job_id)) == {"status": "RUNNING"}
        log_url = await get("GET", "/jobs/{jobid}/jobmanager/log-url", job.job_id)
        assert log_url == {"url": f"{own}/jobmanagers/jm-1/log"}
        of_task_manager = "/jobs/{jobid}/taskmanagers/{taskmanagerid}/log-url"
        assert (await get("GET", of_task_manager, job.job_id, "tm-1")) == {"url": f"{own}/taskmanagers/tm-1/log"}
        other = await dispatcher.http("GET", f"/jobs/{job.job_id}/taskmanagers/tm-9/log-url", status=404)
        assert "no task of job" in other.json["errors"][0]
        assert "rest.port" in {row["key"] for row in await get("GET", "/jobs/{jobid}/jobmanager/config", job.job_id)}
        assert (await get("GET", "/jobs/{jobid}/jobmanager/environment", job.job_id))["classpath"]
        running = await get("GET", "/jobs/{jobid}/execution-result", job.job_id)
        assert running == {"status": {"id": "IN_PROGRESS"}, "job-execution-result": None}
        labelled = await dispatcher.http("GET", f"/jobs/{job.job_id}/exceptions?failureLabelFilter=a:b", status=200)
        assert labelled.json["exceptionHistory"]["entries"] == []
        await dispatcher.http("GET", f"/jobs/{job.job_id}/exceptions?failureLabelFilter=ab", status=400)
    assert await get("GET", "/datasets") == {"dataSets": []}
    assert "there is no data set" in (await dispatcher.http("DELETE", f"/datasets/{'1' * 32}")).json["errors"][0]


def test_the_result_of_a_job_has_the_names_of_the_wire_and_of_the_specification() -> None:
    job = graph()
    done = result_json.execution_result(details(job, JobStatus.FINISHED))["job-execution-result"]
    assert (done["application-status"], done["net-runtime"], done["success"]) == ("SUCCEEDED", 2000, True)
    assert done["failure-cause"] is None
    failed = result_json.execution_result(details(job, JobStatus.FAILED))["job-execution-result"]
    assert (failed["application-status"], failed["jobStatus"], failed["success"]) == ("FAILED", "FAILED", False)
    assert failed["failure-cause"] == {"class": "ValueError", "stack-trace": "Traceback"}


class Mine(IntCounter):
    """A class of the user's, which no service loads."""


def test_accumulators_of_all_subtasks_are_merged() -> None:
    numbers, more, own = IntCounter(3), IntCounter(4), ListAccumulator()
    own.add("x")
    left = [
        Accumulator("count", "IntCounter", to_bytes(numbers), "v", 0),
        Accumulator("count", "IntCounter", to_bytes(more), "w", 0),
        Accumulator("list", "ListAccumulator", to_bytes(own), "v", 0),
        Accumulator("mine", "Mine", to_bytes(Mine(5)), "v", 0),
        Accumulator("odd", "IntCounter", to_bytes(IntCounter(1)), "v", 0),
        Accumulator("odd", "ListAccumulator", to_bytes(own), "v", 1),
    ]
    merged = {one["name"]: one["value"] for one in accumulator_json.merged(left)}
    assert merged == {"count": "7", "list": "['x']", "mine": "(serialized)", "odd": "(serialized)"}
    known = JobDetails(graph().job_id, "j", JobStatus.FINISHED, accumulators=tuple(left))
    assert accumulator_json.of_job(known, with_serialized=False)["serialized-user-task-accumulators"] == {}
    serialized = accumulator_json.of_job(known, with_serialized=True)["serialized-user-task-accumulators"]
    assert pickle.loads(base64.b64decode(serialized["count"])) == 7
    assert set(serialized) == {"count", "list", "mine"}, "what only the client could merge is left out"


async def test_a_job_whose_client_is_silent_is_cancelled() -> None:
    clock, ended = ManualClock(), list[JobId]()

    async def cancel(job_id: JobId) -> None:
        ended.append(job_id)
        if job_id == "gone":
            raise MillstreamError("it has ended")

    leases = ClientLeases(clock, cancel)
    silent, alive, gone = JobId("silent"), JobId("alive"), JobId("gone")
    leases.renew(silent, clock.now_ms() + 10_000)
    leases.renew(silent, clock.now_ms())
    leases.renew(gone, clock.now_ms())
    leases.renew(alive, clock.now_ms() + 10_000_000)

    async def are_cancelled() -> bool:
        return set(ended) == {silent, gone}

    await eventually(are_cancelled)
    await leases.close()


async def test_a_heartbeat_of_a_client(dispatcher: RunningDispatcher) -> None:
    get, job = await dispatcher.checked(), graph()
    path = "/jobs/{jobid}/clientHeartbeat"
    async with dispatcher.running_job(job) as manager:
        await dispatcher.reported(manager, details(job))
        later = {"expiredTimestamp": 4102444800000}
        await get("PATCH", path, job.job_id, status=202, body=later)
        wrong = await dispatcher.http("PATCH", f"/jobs/{job.job_id}/clientHeartbeat", {}, status=400)
        assert "expiredTimestamp" in wrong.json["errors"][0]
        await get("PATCH", path, job.job_id, status=202, body={"expiredTimestamp": 1})
        await cancelled(manager, job)
