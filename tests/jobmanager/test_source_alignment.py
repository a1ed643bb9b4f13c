"""Sources that keep together in event time: the group, and the responses to its readers."""

from __future__ import annotations

import asyncio
from typing import Any

from job_graphs import pipeline
from test_running_job import JobWithoutProcess, NoLinks, led

from millstream.core.clock import SystemClock
from millstream.core.jobs.ids import NO_ALLOCATION, AllocationId, AttemptId, JobId, TaskManagerId, VertexId
from millstream.core.jobs.states import ExecutionState
from millstream.core.messages.sources import WatermarkLimit, WatermarkReport
from millstream.core.messages.task_manager import JobManagerCommand, TaskUpdate
from millstream.core.processes.background import BackgroundTasks
from millstream.core.records.batches import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.core.settings.configuration import Configuration
from millstream.jobmanager.failover.topology import Subtask
from millstream.jobmanager.job_master import events as ev
from millstream.jobmanager.sources.alignment import AlignmentGroups

ORDERS, CLICKS = VertexId("orders"), VertexId("clicks")


def report(watermark: int, group: str = "g", drift: int = 10) -> WatermarkReport:
    return WatermarkReport(JobId("job"), AttemptId("a"), group, drift, watermark)


def test_a_reader_may_go_as_far_as_the_slowest_of_its_group_and_the_drift() -> None:
    groups = AlignmentGroups()
    assert groups.reported(Subtask(ORDERS, 0), report(100)) == 110
    assert groups.reported(Subtask(ORDERS, 1), report(50)) == 60
    assert groups.reported(Subtask(CLICKS, 0), report(70, drift=30)) == 80, "sources of one group, each with its drift"
    assert groups.reported(Subtask(ORDERS, 1), report(90)) == 80
    assert groups.reported(Subtask(CLICKS, 1), report(5, group="another")) == 15


def test_one_that_has_no_watermark_yet_holds_the_others_back() -> None:
    groups = AlignmentGroups()
    groups.reported(Subtask(ORDERS, 0), report(MIN_TIMESTAMP))
    assert groups.reported(Subtask(ORDERS, 1), report(50)) == MIN_TIMESTAMP + 10


def test_idle_readers_and_those_at_their_end_hold_no_other_back() -> None:
    groups = AlignmentGroups()
    groups.reported(Subtask(ORDERS, 0), report(10))
    assert groups.reported(Subtask(ORDERS, 1), report(50)) == 20
    groups.reported(Subtask(ORDERS, 0), report(MAX_TIMESTAMP))
    assert groups.reported(Subtask(ORDERS, 1), report(50)) == 60
    assert groups.reported(Subtask(ORDERS, 1), report(MAX_TIMESTAMP)) == MAX_TIMESTAMP, "all are: nothing is held back"


def test_after_a_restart_a_group_consists_of_the_readers_that_report() -> None:
    groups = AlignmentGroups()
    groups.reported(Subtask(ORDERS, 0), report(10))
    groups.reported(Subtask(ORDERS, 1), report(20))
    groups.forget({Subtask(ORDERS, 0), Subtask(CLICKS, 0)})
    assert groups.reported(Subtask(ORDERS, 1), report(50)) == 60


class Told(NoLinks):
    def __init__(self) -> None:
        self.commands: list[JobManagerCommand] = []

    def command(self, task_manager: TaskManagerId, command: JobManagerCommand) -> None:
        self.commands.append(command)

    @property
    def limits(self) -> list[tuple[str, int]]:
        return [(told.attempt_id, told.watermark) for told in self.commands if isinstance(told, WatermarkLimit)]


def test_responses_go_to_the_workers_of_readers_and_earlier_attempts_do_not_count() -> None:
    async def scenario() -> None:
        options = Configuration({"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "0 s"})
        background, told = BackgroundTasks(), Told()
        graph = pipeline(2, source=True)
        job = JobWithoutProcess(graph, options, told, background, SystemClock(), await led(graph.job_id))
        job.start()
        for slot in ("a0", "a1"):
            job.tell(ev.SlotOffered(AllocationId(slot), TaskManagerId("tm"), "host"))
        for slot in ("a0", "a1"):
            job.tell(ev.WorkerReadied(AllocationId(slot), "address"))
        job.tell(ev.EnumeratorsReadied())
        first, second = (e.attempt_id for e in job.master.execution_graph.executions if e.vertex.source)

        def says(attempt_id: Any, watermark: int) -> None:
            job.task_manager_message(WatermarkReport(JobId("job"), attempt_id, "g", 10, watermark))

        says(first, 5)
        says(second, 100)
        assert told.limits == [(first, 15), (second, 15)]
        says("unknown", 1)
        job.tell(ev.TaskChanged(TaskUpdate(NO_ALLOCATION, first, ExecutionState.FAILED)))
        says(first, 1)
        assert len(told.limits) == 2
        says(second, 100)
        assert told.limits[2:] == [(second, 110)], "it is of another region, and continues"
        await job.stop()
        await background.cancel()

    asyncio.run(scenario())
