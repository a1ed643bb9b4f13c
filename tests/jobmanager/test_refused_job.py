"""A job whose settings are invalid: it fails with the reason, and nothing is started for it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from job_graphs import pipeline
from msgspec.structs import replace

from millstream.core.clock import SystemClock
from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.ids import AllocationId, JobId, TaskManagerId
from millstream.core.jobs.resumption import Resumption
from millstream.core.jobs.states import JobStatus
from millstream.core.messages.queries import JobQuery, JobView
from millstream.core.messages.rescaling import RescaleRequest, RescaleResult
from millstream.core.messages.resource_manager import Requirement
from millstream.core.messages.snapshots import SnapshotRequest, SnapshotResult
from millstream.core.messages.task_manager import JobManagerCommand, OfferAnswer
from millstream.core.processes.background import BackgroundTasks
from millstream.core.processes.job_process import start_job_process
from millstream.core.settings.configuration import Configuration
from millstream.core.store.leaders import Candidate
from millstream.core.store.memory import MemoryStore
from millstream.core.store.store import Leadership
from millstream.jobmanager.job_master import events as ev
from millstream.jobmanager.jobs import create_job
from millstream.jobmanager.refused_job import RefusedJob
from millstream.jobmanager.restore_points import RestorePoints
from millstream.jobmanager.running_job import RunningJob

JOB = JobId("job")
INVALID = "option 'execution.checkpointing.storage': filesystem needs a directory"


class HeardLinks:
    """Records what is sent, and the recorded end."""

    artifact_address = checkpoint_directory = ""
    recovers = False

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.ended: list[JobDetails] = []
        self.reported = asyncio.Queue[JobId]()

    async def record_end(self, details: JobDetails, leadership: Leadership) -> None:
        self.ended.append(details)

    def command(self, task_manager: TaskManagerId, command: JobManagerCommand) -> None:
        self.said.append((task_manager, command))

    def declare(self, requirement: Requirement) -> None:
        self.said.append(requirement)

    def report_soon(self, job_id: JobId) -> None:
        self.reported.put_nowait(job_id)

    def send_snapshot_result(self, result: SnapshotResult) -> None:
        self.said.append(result)

    def send_rescale_result(self, result: RescaleResult) -> None:
        self.said.append(result)

    def in_charge(self) -> bool:
        return True


async def job_with(links: HeardLinks, background: BackgroundTasks, **options: str) -> RefusedJob | RunningJob:
    graph = replace(pipeline(2, source=True), configuration=options)
    led = await RestorePoints(JOB, Candidate(MemoryStore().connect(), "")).lead()
    return create_job(graph, Configuration({}), links, background, SystemClock(), led, start_job_process)


async def test_a_job_with_invalid_settings_fails_with_the_reason() -> None:
    links, background = HeardLinks(), BackgroundTasks()
    job = await job_with(links, background, **{"execution.checkpointing.storage": "filesystem"})
    assert isinstance(job, RefusedJob)
    job.start()
    assert await links.reported.get() == JOB
    (end,) = links.ended
    assert (end.state, job.is_recorded, job.is_reportable) == (JobStatus.FAILED, True, True)
    assert INVALID in end.failures[0].exception
    assert (end.resumed, end.resumption) == (Resumption.LOST, Resumption.UNKNOWN)
    assert links.said == [], "no slots are declared, and no enumerators are started"
    assert job.metrics() == []
    await background.cancel()


async def test_requests_of_a_refused_job_are_refused() -> None:
    links, background = HeardLinks(), BackgroundTasks()
    job = await job_with(links, background, **{"execution.checkpointing.storage": "filesystem"})
    job.start()
    job.tell(ev.SlotOffered(AllocationId("a"), TaskManagerId("tm"), "host"))
    job.tell(ev.Tick())
    job.snapshot(SnapshotRequest(JOB, "t"))
    job.rescale(RescaleRequest(JOB, "r", parallelism=3))
    assert links.said == [
        ("tm", OfferAnswer(AllocationId("a"), accepted=False)),
        SnapshotResult("t", error="job job has ended, it is FAILED"),
        RescaleResult("r", error="job job is FAILED"),
    ]
    shown = job.query(JobQuery(JOB, JobView.CHECKPOINTS, request_id="q"))
    assert (shown.request_id, shown.json) == ("q", b"")
    assert shown.error.startswith(f"job job: checkpoints are disabled: {INVALID}")
    stall = job.query(JobQuery(JOB, JobView.STALL, request_id="s"))
    assert "FAILED" in json.dumps(json.loads(stall.json))
    assert not job.holds(AllocationId("a"))
    await background.cancel()


async def test_a_job_with_valid_settings_runs() -> None:
    links, background = HeardLinks(), BackgroundTasks()
    job = await job_with(links, background)
    assert isinstance(job, RunningJob)
    await background.cancel()
