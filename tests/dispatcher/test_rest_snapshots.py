"""Savepoints, stops and checkpoints over REST, with a job manager that responds when the test lets it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from dispatcher_fixtures import (
    DEADLINE,
    Checked,
    FakeJobManager,
    Http,
    RunningDispatcher,
    configuration,
    dispatching,
    eventually,
    graph,
)

from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.ids import JobId, new_id
from millstream.core.jobs.states import JobStatus
from millstream.core.messages.dispatcher import CancelJob, ForgetJob, JobRequest, StartJob
from millstream.core.messages.snapshots import SnapshotRequest, SnapshotRequestKind, SnapshotResult
from millstream.core.settings.configuration import Configuration
from millstream.dispatcher import lifecycle
from millstream.dispatcher.rest import operations as rest_operations

SAVEPOINTS = "/jobs/{jobid}/savepoints"
SAVEPOINT = "/jobs/{jobid}/savepoints/{triggerid}"
STOP = "/jobs/{jobid}/stop"
CHECKPOINTS = "/jobs/{jobid}/checkpoints"
CHECKPOINT = "/jobs/{jobid}/checkpoints/{triggerid}"


@dataclass
class RunningJob:
    """A dispatcher with a job that its job manager runs."""

    dispatcher: RunningDispatcher
    manager: FakeJobManager
    rest: Checked
    job_id: JobId

    @property
    def http(self) -> Http:
        return self.rest.http

    async def ask(self, what: str = "savepoints", body: dict[str, Any] | None = None) -> str:
        """Requests a snapshot of the job; returns the id of the request."""
        answer = await self.http("POST", f"/jobs/{self.job_id}/{what}", body, status=202)
        return str(answer.json["request-id"])

    def answer(self, asked: SnapshotRequest, **result: Any) -> None:
        self.manager.send(SnapshotResult(asked.trigger_id, **result))

    def report(self, state: JobStatus) -> None:
        self.manager.report(JobDetails(self.job_id, "a job", state))

    async def outcome(self, template: str, trigger_id: str) -> Any:
        """The operation once it is completed."""

        async def completed() -> bool:
            return bool((await self.rest("GET", template, self.job_id, trigger_id))["status"]["id"] == "COMPLETED")

        await eventually(completed)
        return (await self.rest("GET", template, self.job_id, trigger_id))["operation"]

    async def refusal(self, method: str, template: str, status: int, body: Any = None) -> str:
        path = template.replace("{jobid}", self.job_id)
        (reason,) = (await self.http(method, path, body, status=status)).json["errors"]
        return str(reason)


@asynccontextmanager
async def running_job(options: Configuration) -> AsyncIterator[RunningJob]:
    submitted = graph()
    async with dispatching(options) as dispatcher, dispatcher.running_job(submitted) as manager:
        await dispatcher.reported(manager, JobDetails(submitted.job_id, "a job", JobStatus.RUNNING))
        yield RunningJob(dispatcher, manager, await dispatcher.checked(), submitted.job_id)


@pytest.fixture
def job(tmp_path: Path) -> AbstractAsyncContextManager[RunningJob]:
    return running_job(configuration(tmp_path))


async def test_a_savepoint(job: RunningJob) -> None:
    trigger = new_id()
    body = {"target-directory": "/sp", "formatType": "NATIVE", "triggerId": trigger}
    answer = await job.rest("POST", SAVEPOINTS, job.job_id, status=202, body=body)
    assert answer == {"request-id": trigger}
    asked = await job.manager.next(SnapshotRequest)
    assert (asked.job_id, asked.kind) == (job.job_id, SnapshotRequestKind.SAVEPOINT)
    assert (asked.target_directory, asked.format) == ("/sp", "NATIVE")
    assert job.manager.told.empty(), "the same trigger id again, under /v1, is the same request"
    status = await job.rest("GET", SAVEPOINT, job.job_id, trigger)
    assert status == {"status": {"id": "IN_PROGRESS"}, "operation": None}
    job.answer(asked, location="file:///sp/savepoint-1", checkpoint_id=7)
    assert await job.outcome(SAVEPOINT, trigger) == {"location": "file:///sp/savepoint-1"}

    assert await job.ask() != await job.ask()
    defaults = await job.manager.next(SnapshotRequest)
    assert (defaults.target_directory, defaults.format) == ("", "CANONICAL")
    assert (await job.manager.next(SnapshotRequest)).trigger_id != defaults.trigger_id


async def test_a_savepoint_that_fails(job: RunningJob, monkeypatch: pytest.MonkeyPatch) -> None:
    trigger = await job.ask()
    job.answer(await job.manager.next(SnapshotRequest), error="no space left")
    cause = (await job.outcome(SAVEPOINT, trigger))["failure-cause"]
    assert cause == {"class": "millstream.core.errors.MillstreamError", "stack-trace": "no space left"}

    trigger = await job.ask()
    await job.manager.next(SnapshotRequest)
    await job.manager.disconnect()
    cause = (await job.outcome(SAVEPOINT, trigger))["failure-cause"]
    assert "the job manager is disconnected, and may have taken the snapshot" in cause["stack-trace"]
    monkeypatch.setattr(lifecycle, "RESPONSE_TIMEOUT", 0.05)
    trigger = await job.ask()
    cause = (await job.outcome(SAVEPOINT, trigger))["failure-cause"]
    assert f"no job manager runs job {job.job_id}, it is RUNNING" in cause["stack-trace"]


async def test_cancelling_with_a_savepoint(job: RunningJob) -> None:
    await job.ask(body={"cancel-job": True})
    job.answer(await job.manager.next(SnapshotRequest), error="no")
    trigger = await job.ask(body={"cancel-job": True})
    asked = await job.manager.next(SnapshotRequest)
    assert asked.kind == SnapshotRequestKind.SAVEPOINT
    job.answer(asked, location="/sp")
    assert (await job.manager.next(CancelJob)).job_id == job.job_id
    assert await job.outcome(SAVEPOINT, trigger) == {"location": "/sp"}

    late = await job.ask(body={"cancel-job": True})
    asked = await job.manager.next(SnapshotRequest)
    job.report(JobStatus.FINISHED)
    await job.manager.next(ForgetJob)
    job.answer(asked, location="/late")
    cause = (await job.outcome(SAVEPOINT, late))["failure-cause"]["stack-trace"]
    assert cause.startswith("the savepoint is at /late, but job ")
    assert "already FINISHED" in cause


async def test_stopping(job: RunningJob) -> None:
    body = {"targetDirectory": "/sp", "drain": True, "triggerId": new_id()}
    trigger = (await job.rest("POST", STOP, job.job_id, status=202, body=body))["request-id"]
    asked = await job.manager.next(SnapshotRequest)
    assert (asked.kind, asked.drain, asked.target_directory) == (SnapshotRequestKind.STOP, True, "/sp")
    job.report(JobStatus.FINISHED)
    await job.manager.next(ForgetJob)
    job.answer(asked, location="/sp/1")
    assert await job.outcome(SAVEPOINT, trigger) == {"location": "/sp/1"}, "reported after the end of the job"
    assert (await job.http("POST", f"/jobs/{job.job_id}/stop", body, status=202)).json["request-id"] == trigger
    reason = await job.refusal("POST", STOP, 409, {})
    assert reason == f"no snapshot can be taken of job {job.job_id}: it is already FINISHED"
    assert job.manager.told.empty()


async def test_a_job_that_ends_without_a_word_about_its_savepoint(
    job: RunningJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    trigger = await job.ask("stop")
    await job.manager.next(SnapshotRequest)
    monkeypatch.setattr(lifecycle, "RESPONSE_TIMEOUT", 0.05)
    job.report(JobStatus.FAILED)
    cause = (await job.outcome(SAVEPOINT, trigger))["failure-cause"]["stack-trace"]
    assert cause == f"job {job.job_id} is FAILED, and its job manager sent no result of the snapshot"


async def test_checkpoints(job: RunningJob) -> None:
    for kind, full in (("FULL", True), ("CONFIGURED", False), ("INCREMENTAL", False)):
        body = {"checkpointType": kind, "triggerId": new_id()}
        trigger = (await job.rest("POST", CHECKPOINTS, job.job_id, status=202, body=body))["request-id"]
        asked = await job.manager.next(SnapshotRequest)
        assert (asked.kind, asked.full) == (SnapshotRequestKind.CHECKPOINT, full)
        assert (await job.rest("GET", CHECKPOINT, job.job_id, trigger))["operation"] is None
        job.answer(asked, checkpoint_id=42, location="/chk-42")
        assert await job.outcome(CHECKPOINT, trigger) == {"checkpointId": 42}
    await job.http("GET", f"/jobs/{job.job_id}/savepoints/{trigger}", status=404)
    trigger = await job.ask("checkpoints")
    job.answer(await job.manager.next(SnapshotRequest), error="declined")
    assert (await job.outcome(CHECKPOINT, trigger))["failureCause"]["stack-trace"] == "declined"


async def test_ids_in_capital_letters_are_the_same_ids(job: RunningJob) -> None:
    trigger = new_id()
    path = f"/jobs/{job.job_id.upper()}/savepoints"
    answer = (await job.http("POST", path, {"triggerId": trigger.upper()}, status=202)).json
    assert answer == {"request-id": trigger}
    job.answer(await job.manager.next(SnapshotRequest), location="/sp")
    assert await job.outcome(SAVEPOINT, trigger.upper()) == {"location": "/sp"}


async def test_a_trigger_id_is_of_one_job_and_kind(job: RunningJob) -> None:
    other = graph()
    await job.dispatcher.submit(other)
    await job.manager.next(StartJob)
    body = {"triggerId": new_id()}
    paths = (f"/jobs/{job.job_id}/savepoints", f"/jobs/{other.job_id}/savepoints")
    for path in (*paths, f"/jobs/{job.job_id}/checkpoints"):
        await job.http("POST", path, body, status=202)
    asked = [await job.manager.next(SnapshotRequest) for _ in range(3)]
    assert len({request.trigger_id for request in asked}) == 3
    for number, request in enumerate(asked):
        job.answer(request, location=f"/{number}", checkpoint_id=number)
    assert await job.outcome(SAVEPOINT, body["triggerId"]) == {"location": "/0"}
    assert await job.outcome(CHECKPOINT, body["triggerId"]) == {"checkpointId": 2}


@pytest.mark.parametrize(
    ("template", "body", "reason"),
    [
        (SAVEPOINTS, {"target-directory": 1}, "target-directory: expected a string"),
        (SAVEPOINTS, {"cancel-job": "yes"}, "cancel-job: expected true or false"),
        (SAVEPOINTS, {"formatType": "ZIP"}, "formatType: 'ZIP' is not one of CANONICAL, NATIVE"),
        (SAVEPOINTS, {"triggerId": "mine"}, "triggerId: 'mine' is not a trigger id; it has 32 hexadecimal digits"),
        (SAVEPOINTS, "[]", "the request's body is not a JSON object"),
        (SAVEPOINTS, '{"target-directory": "\\ud800"}', "the request's body is not JSON"),
        (SAVEPOINTS, {"targetDirectory": "/sp"}, "targetDirectory: there is no such field; there are target-directory"),
        (SAVEPOINTS, {"target-directory": "sp"}, "target-directory: 'sp' is a relative path; write an absolute one"),
        (STOP, {"targetDirectory": "file:sp"}, "targetDirectory: 'file:sp' is a relative path"),
        (CHECKPOINTS, {"target-directory": "/sp"}, "there is no such field; there are checkpointType"),
        (STOP, {"drain": 1}, "drain: expected true or false"),
        (CHECKPOINTS, {"checkpointType": "BIG"}, "'BIG' is not one of CONFIGURED, FULL, INCREMENTAL"),
    ],
)
async def test_wrong_requests(job: RunningJob, template: str, body: Any, reason: str) -> None:
    assert reason in await job.refusal("POST", template, 400, body)
    assert job.manager.told.empty()


async def test_what_does_not_exist(job: RunningJob) -> None:
    for part in ("savepoints", "checkpoints"):
        trigger = new_id()
        reason = await job.refusal("GET", f"/jobs/{{jobid}}/{part}/{trigger}", 404)
        assert f"has the trigger id {trigger}" in reason
        await job.http("POST", f"/jobs/{new_id()}/{part}", {}, status=404)
        await job.http("POST", f"/jobs/nonsense/{part}", {}, status=400)
    await job.http("POST", f"/jobs/{new_id()}/stop", {}, status=404)


async def test_outcomes_expire_and_operations_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_operations, "_CAPACITY", 1)
    async with running_job(configuration(tmp_path, **{"rest.async.store-duration": "1 ms"})) as job:
        path = f"/jobs/{job.job_id}/savepoints"
        trigger = await job.ask()
        assert "1 operations are in progress" in await job.refusal("POST", SAVEPOINTS, 503, {})
        job.answer(await job.manager.next(SnapshotRequest), location="/x")

        async def forgotten() -> bool:
            return (await job.http("GET", f"{path}/{trigger}")).status == 404

        await eventually(forgotten)


async def test_stopping_the_dispatcher_waits_for_no_savepoint(job: RunningJob) -> None:
    await job.ask()
    await job.manager.next(SnapshotRequest)
    await asyncio.wait_for(job.dispatcher.service.stop(), DEADLINE)


async def test_over_grpc_the_same_trigger_id_is_the_same_request(job: RunningJob) -> None:
    request = SnapshotRequest(job.job_id, new_id(), target_directory="/sp")
    first, second = [asyncio.ensure_future(job.dispatcher.stub.trigger_snapshot(request)) for _ in range(2)]
    asked = await job.manager.next(SnapshotRequest)
    assert asked == request
    given_up = asyncio.ensure_future(job.dispatcher.stub.trigger_snapshot(request))
    await job.dispatcher.stub.get_job(JobRequest(job.job_id))  # what was sent before it has arrived
    given_up.cancel()
    await asyncio.wait([given_up])
    assert job.manager.told.empty()
    job.answer(asked, location="/sp/1", checkpoint_id=3)
    for answer in (await first, await second):
        assert (answer.location, answer.checkpoint_id, answer.error) == ("/sp/1", 3, "")

    nameless = asyncio.ensure_future(job.dispatcher.stub.trigger_snapshot(SnapshotRequest(job.job_id)))
    asked = await job.manager.next(SnapshotRequest)
    assert asked.trigger_id
    job.answer(asked, error="declined")
    assert (await nameless).error == "declined"
