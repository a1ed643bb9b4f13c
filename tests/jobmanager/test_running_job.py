"""One job in the job manager, without processes."""

from __future__ import annotations

from typing import Any

from job_graphs import pipeline

from millstream.core.clock import SystemClock
from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.ids import NO_ALLOCATION, AllocationId, AttemptId, JobId, TaskManagerId, VertexId
from millstream.core.jobs.states import ExecutionState
from millstream.core.messages.resource_manager import Requirement
from millstream.core.messages.snapshots import SnapshotResult
from millstream.core.messages.sources import EnumeratorsCommand, ReaderEvent, SplitRequest
from millstream.core.messages.task_manager import JobManagerCommand, TaskUpdate
from millstream.core.processes.background import BackgroundTasks
from millstream.core.settings.configuration import Configuration
from millstream.core.store.leaders import Candidate
from millstream.core.store.memory import MemoryStore
from millstream.core.store.store import Leadership
from millstream.jobmanager.job_master import events as ev
from millstream.jobmanager.restore_points import Led, RestorePoints
from millstream.jobmanager.running_job import RunningJob


class NoLinks:
    artifact_address = checkpoint_directory = ""
    recovers = False

    async def record_end(self, details: JobDetails, leadership: Leadership) -> None:
        """Not recorded."""

    def command(self, task_manager: TaskManagerId, command: JobManagerCommand) -> None:
        """Without a receiver."""

    def declare(self, requirement: Requirement) -> None:
        """Without a receiver."""

    def report_soon(self, job_id: JobId) -> None:
        """Without a receiver."""

    def send_snapshot_result(self, result: SnapshotResult) -> None:
        """Without a receiver."""

    def in_charge(self) -> bool:
        return True


async def led(job_id: JobId) -> Led:
    return await RestorePoints(job_id, Candidate(MemoryStore().connect(), "")).lead()


class JobWithoutProcess(RunningJob):
    """Its enumerators only listen."""

    heard: list[EnumeratorsCommand]

    def start_enumerators(self, states: Any) -> None:
        self.heard = []

    def enumerators(self, command: EnumeratorsCommand) -> bool:
        self.heard.append(command)
        return True


async def test_events_of_readers_of_earlier_attempts_do_not_reach_the_enumerators() -> None:
    options = Configuration({"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "0 s"})
    background = BackgroundTasks()
    graph = pipeline(1, source=True)
    job = JobWithoutProcess(graph, options, NoLinks(), background, SystemClock(), await led(graph.job_id))
    job.start()
    job.tell(ev.SlotOffered(AllocationId("a0"), TaskManagerId("tm"), "host"))
    job.tell(ev.WorkerReadied(AllocationId("a0"), "address"))
    job.tell(ev.EnumeratorsReadied())
    (execution,) = job.master.execution_graph.executions

    def says(attempt_id: str, vertex_id: str = "v0", subtask: int = 0) -> int:
        request, attempt = SplitRequest("host"), AttemptId(attempt_id)
        before = len(job.heard)
        job.task_manager_message(ReaderEvent(JobId("job"), VertexId(vertex_id), subtask, request, attempt))
        return len(job.heard) - before

    assert says(execution.attempt_id) == 1
    assert says("another") == says(execution.attempt_id, subtask=1) == says(execution.attempt_id, "v1") == 0
    job.tell(ev.TaskChanged(TaskUpdate(NO_ALLOCATION, execution.attempt_id, ExecutionState.FAILED)))
    assert says(execution.attempt_id) == 0
    await job.stop()
    await background.cancel()
