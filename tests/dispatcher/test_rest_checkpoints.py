"""Checkpoints in REST: from the job manager while the job runs, and from the store after its end."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from dispatcher_fixtures import RunningDispatcher, graph

from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.states import JobStatus
from millstream.core.messages.dispatcher import ForgetJob, StartJob
from millstream.core.messages.queries import JobQuery, JobQueryResult, JobView
from millstream.dispatcher import lifecycle

VERTEX = "b" * 32
PATHS = {
    "": (JobView.CHECKPOINTS, 0, ""),
    "/config": (JobView.CHECKPOINT_CONFIG, 0, ""),
    "/details/7": (JobView.CHECKPOINT_DETAILS, 7, ""),
    f"/details/7/subtasks/{VERTEX}": (JobView.CHECKPOINT_SUBTASKS, 7, VERTEX),
}
LEFT = {
    "overview": {"counts": {}},
    "config": {"interval": 5},
    "details": {"7": {"id": 7}, "8": {"id": 8}},
    "subtasks": {"7": {VERTEX: {"subtasks": []}}},
}


async def test_of_a_running_job(dispatcher: RunningDispatcher, monkeypatch: pytest.MonkeyPatch) -> None:
    http, job = dispatcher.http, graph()
    root = f"/jobs/{job.job_id}/checkpoints"
    await dispatcher.submit(job)
    with monkeypatch.context() as patch:
        patch.setattr(lifecycle, "RESPONSE_TIMEOUT", 0.05)
        (error,) = (await http("GET", root, status=503)).json["errors"]
    assert error == f"no job manager runs job {job.job_id}, it is INITIALIZING"
    before = asyncio.ensure_future(http("GET", root))
    async with dispatcher.job_manager() as manager:
        await manager.next(StartJob)
        query = await manager.next(JobQuery)
        manager.send(JobQueryResult(query.request_id, b'"requested before there was a job manager"'))
        assert (await before).json == "requested before there was a job manager"

        async def asked(path: str) -> tuple[JobQuery, asyncio.Future[Any]]:
            request = asyncio.ensure_future(http("GET", root + path))
            return await manager.next(JobQuery), request

        for path, (kind, checkpoint_id, vertex_id) in PATHS.items():
            query, request = await asked(path)
            found = (query.job_id, query.kind, query.checkpoint_id, query.vertex_id)
            assert found == (job.job_id, kind, checkpoint_id, vertex_id)
            content = json.dumps({"asked": path}).encode()
            manager.send(JobQueryResult(query.request_id, content))
            shown = await request
            assert (shown.status, shown.json) == (200, {"asked": path})
            assert shown.headers["content-type"] == "application/json"

        query, request = await asked("/details/9")
        manager.send(JobQueryResult(query.request_id, error="no checkpoint 9"))
        assert ((await request).status, (await request).json) == (404, {"errors": ["no checkpoint 9"]})

        for wrong in ("x", "-1", "1e3", str(2**63)):
            (error,) = (await http("GET", f"{root}/details/{wrong}", status=400)).json["errors"]
            assert f"the id of a checkpoint: '{wrong}' is not a whole number" in error
        assert manager.told.empty()

        monkeypatch.setattr(lifecycle, "RESPONSE_TIMEOUT", 0.05)
        assert "did not respond" in (await http("GET", root, status=503)).json["errors"][0]
        await manager.next(JobQuery)
        monkeypatch.setattr(lifecycle, "RESPONSE_TIMEOUT", 30.0)
        _, request = await asked("")
    assert "disconnected" in (await request).json["errors"][0]
    assert (await request).status == 503


async def test_of_a_job_that_has_ended(dispatcher: RunningDispatcher) -> None:
    http, job, silent = dispatcher.http, graph(), graph()
    async with dispatcher.job_manager() as manager:
        for each, left in ((job, json.dumps(LEFT).encode()), (silent, b"")):
            await dispatcher.submit(each)
            await manager.next(StartJob)
            manager.report(JobDetails(each.job_id, "j", JobStatus.FINISHED, checkpoints=left))
            await manager.next(ForgetJob)
        root = f"/jobs/{job.job_id}/checkpoints"
        expected = (LEFT["overview"], LEFT["config"], {"id": 7}, {"subtasks": []})
        for path, shown in zip(PATHS, expected, strict=True):
            assert (await http("GET", root + path, status=200)).json == shown
        missing = {
            "/details/9": "has no checkpoint 9",
            "/details/8/subtasks/x": "has no vertex x",
            "/details/9/subtasks/x": "has no checkpoint 9",
        }
        for path, reason in missing.items():
            assert reason in (await http("GET", root + path, status=404)).json["errors"][0]
        for path in PATHS:
            response = await http("GET", f"/jobs/{silent.job_id}/checkpoints{path}", status=404)
            assert "nothing is known of the checkpoints" in response.json["errors"][0]
        await http("GET", f"/jobs/{'0' * 32}/checkpoints", status=404)
        assert manager.told.empty(), "the job manager may have forgotten the job"
