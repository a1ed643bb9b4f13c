"""`GET /jobs/:jobid/stall`, from the job manager while the job runs, and event time by Flink's names."""

from __future__ import annotations

import asyncio
import json

import jsonschema
import pytest
from dispatcher_fixtures import RunningDispatcher, graph

from millstream.core.jobs.details import JobDetails, SubtaskStatus, TaskMetrics, VertexStatus
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.ids import JobId, VertexId
from millstream.core.jobs.stalls import Finding, FindingKind, Stall, Waiting, WaitingKind
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.core.messages.dispatcher import ForgetJob, StartJob
from millstream.core.messages.queries import JobQuery, JobQueryResult, JobView
from millstream.dispatcher import lifecycle
from millstream.dispatcher.rest import stall_schemas


async def test_a_running_job_is_explained_by_its_job_manager(
    dispatcher: RunningDispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    http, job = dispatcher.http, graph()
    path = f"/jobs/{job.job_id}/stall"
    await dispatcher.submit(job)
    with monkeypatch.context() as patch:
        patch.setattr(lifecycle, "RESPONSE_TIMEOUT", 0.05)
        (error,) = (await http("GET", path, status=503)).json["errors"]
    assert error == f"no job manager runs job {job.job_id}, it is INITIALIZING"
    async with dispatcher.job_manager() as manager:
        await manager.next(StartJob)
        request = asyncio.ensure_future(http("GET", path))
        query = await manager.next(JobQuery)
        assert (query.job_id, query.kind) == (job.job_id, JobView.STALL)
        told = Stall(
            job.job_id, "j", JobStatus.RUNNING, 7, [Finding(FindingKind.NO_RECORDS, "m", "a", "v", "o", 5)],
            [
                Waiting("v", "o", WaitingKind.WINDOWS, "w", 1, 2, None, 4, None),
                Waiting("v", "p", WaitingKind.TIMERS, "t", 1, None, 3, None, 5),
            ],
        ).as_json()  # fmt: skip
        jsonschema.validate(told, stall_schemas.STALL)
        manager.send(JobQueryResult(query.request_id, json.dumps(told).encode()))
        assert ((await request).status, (await request).json) == (200, told)
        request = asyncio.ensure_future(http("GET", path))
        manager.send(JobQueryResult((await manager.next(JobQuery)).request_id, error="no such job"))
        assert ((await request).status, (await request).json) == (404, {"errors": ["no such job"]})
        request = asyncio.ensure_future(http("GET", path))
        await manager.next(JobQuery)
    assert (await request).status == 503
    await http("GET", f"/jobs/{'0' * 32}/stall", status=404)


async def test_a_job_that_has_ended_is_explained_without_one(dispatcher: RunningDispatcher) -> None:
    http, job = dispatcher.http, graph()
    async with dispatcher.running_job(job) as manager:
        failure = TaskFailure(exception="ValueError: bad", task_name="Map (1/1)")
        manager.report(JobDetails(job.job_id, "j", JobStatus.FAILED, failures=(failure,), end_time=9))
        await manager.next(ForgetJob)
        shown = (await http("GET", f"/jobs/{job.job_id}/stall", status=200)).json
        jsonschema.validate(shown, stall_schemas.STALL)
        assert shown["summary"].startswith("The job has failed: ValueError: bad")
        assert [(found["kind"], found["since"]) for found in shown["findings"]] == [("ENDED", 9)]
        assert manager.told.empty()


async def test_watermarks_of_a_vertex_have_flinks_names(dispatcher: RunningDispatcher) -> None:
    http, job = dispatcher.http, graph()
    async with dispatcher.running_job(job) as manager:
        metrics = (
            TaskMetrics(input_watermark=5, output_watermark=7, alignment_drift_ms=3),
            TaskMetrics(input_watermark=-(2**63)),
        )
        subtasks = tuple(SubtaskStatus(n, ExecutionState.RUNNING, metrics=told) for n, told in enumerate(metrics))
        vertex = VertexStatus(VertexId("v"), "Source", 2, 128, subtasks=subtasks)
        manager.report(JobDetails(JobId(job.job_id), "j", JobStatus.RUNNING, vertices=(vertex,)))
        root = f"/jobs/{job.job_id}/vertices"
        while (response := await http("GET", f"{root}/v/watermarks")).status == 404:
            pass
        lowest = {"id": "1.currentInputWatermark", "value": str(-(2**63))}
        assert response.json == [{"id": "0.currentInputWatermark", "value": "5"}, lowest], "as Flink's dashboard has it"
        wanted = "currentInputWatermark,currentOutputWatermark,watermarkAlignmentDrift"
        every = (await http("GET", f"{root}/v/watermarks?get={wanted}", status=200)).json
        assert every == [
            {"id": "0.currentInputWatermark", "value": "5"},
            {"id": "0.currentOutputWatermark", "value": "7"},
            {"id": "0.watermarkAlignmentDrift", "value": "3"},
            lowest,
        ]
        jsonschema.validate(every, stall_schemas.WATERMARKS)
        output = (await http("GET", f"{root}/v/watermarks?get=currentOutputWatermark", status=200)).json
        assert output == [{"id": "0.currentOutputWatermark", "value": "7"}]
        wrong = (await http("GET", f"{root}/v/watermarks?get=numRecordsIn", status=400)).json["errors"]
        assert "get: 'numRecordsIn' is not one of currentInputWatermark, " in wrong[0]
        assert "has no vertex w" in (await http("GET", f"{root}/w/watermarks", status=404)).json["errors"][0]
