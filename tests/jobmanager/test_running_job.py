"""One job in the job manager, without processes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from job_graphs import pipeline

from millstream.core.clock import SystemClock
from millstream.core.jobs.ids import AllocationId, JobId, TaskManagerId
from millstream.core.processes.background import BackgroundTasks
from millstream.core.settings.configuration import Configuration
from millstream.jobmanager import events as ev
from millstream.jobmanager.running_job import RunningJob
from millstream.proto import dispatcher_pb2 as dp
from millstream.proto import taskmanager_pb2 as pb


class NoLinks:
    artifact_address = ""

    def command(self, task_manager: TaskManagerId, command: pb.JobManagerCommand) -> None:
        """Nobody is there."""

    def declare(self, job_id: JobId, slots: int) -> None:
        """Nobody is there."""

    def report_soon(self, job_id: JobId) -> None:
        """Nobody is there."""

    def answer_snapshot(self, result: dp.SnapshotResult) -> None:
        """Nobody is there."""

    def in_charge(self) -> bool:
        return True


class JobWithoutProcess(RunningJob):
    """Its enumerators only listen."""

    heard: list[pb.EnumeratorsCommand]

    def start_enumerators(self, states: Any) -> None:
        self.heard = []

    def enumerators(self, command: pb.EnumeratorsCommand) -> bool:
        self.heard.append(command)
        return True


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


def test_events_of_readers_of_earlier_attempts_do_not_reach_the_enumerators() -> None:
    async def scenario() -> None:
        options = Configuration({"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "0 s"})
        background = BackgroundTasks()
        job = JobWithoutProcess(pipeline(1, source=True), options, NoLinks(), background, SystemClock())
        job.start()
        job.tell(ev.SlotOffered(AllocationId("a0"), TaskManagerId("tm"), "host"))
        job.tell(ev.WorkerReadied(AllocationId("a0"), "address"))
        job.tell(ev.EnumeratorsReadied())
        (execution,) = job.master.execution_graph.executions

        def says(attempt_id: str, vertex_id: str = "v0", subtask: int = 0) -> int:
            event = pb.ReaderEvent(
                job_id="job", vertex_id=vertex_id, subtask=subtask, attempt_id=attempt_id, split_request="host"
            )
            before = len(job.heard)
            job.task_manager_message(pb.TaskManagerMessage(reader_event=event))
            return len(job.heard) - before

        assert says(execution.attempt_id) == 1
        assert says("another") == says(execution.attempt_id, subtask=1) == says(execution.attempt_id, "v1") == 0
        job.tell(ev.TaskChanged(pb.TaskUpdate(attempt_id=execution.attempt_id, state="FAILED")))
        assert says(execution.attempt_id) == 0
        await job.stop()
        await background.cancel()

    run(scenario())
