"""The task manager's view of the tasks in a slot, which it reports to a new leading job manager."""

from __future__ import annotations

from typing import Any

import pytest

from millstream.core.jobs.barriers import Barrier, StopMode
from millstream.core.jobs.ids import NO_ALLOCATION, AttemptId, ChannelId, JobId, VertexId
from millstream.core.jobs.states import ExecutionState
from millstream.core.messages import sources as src
from millstream.core.messages.checkpoints import (
    CheckpointNotice,
    InputsEnded,
    TriggerCheckpoint,
)
from millstream.core.messages.deployment import (
    CancelTasks,
    DeployTasks,
    InputChannel,
    InputGate,
    OutputChannel,
    ResultPartition,
    TaskDeployment,
)
from millstream.core.messages.takeover import AssignedSplits, FoundReader, FoundTask
from millstream.core.messages.task_manager import TaskUpdate, WorkerReady
from millstream.taskmanager.supervisor.slot_tasks import SlotTasks

SOURCE, MAP = AttemptId("source"), AttemptId("map")
BOTH = (SOURCE, MAP)


def deployment(attempt_id: AttemptId, vertex: str, attempt: int = 0, **more: Any) -> TaskDeployment:
    return TaskDeployment(attempt_id, JobId("job"), VertexId(vertex), vertex, 1, 2, 128, attempt, b"chain", **more)


@pytest.fixture
def tasks() -> SlotTasks:
    """A source, followed by a map."""
    tasks = SlotTasks()
    assert tasks.found() is None
    outputs = (ResultPartition(0, b"", (OutputChannel(ChannelId(7), "here", "map"),), 128),)
    inputs = (InputGate(0, b"", (InputChannel(ChannelId(7), "here", "source", 1),)),)
    deployed = deployment(SOURCE, "s", outputs=outputs), deployment(MAP, "m", inputs=inputs, restored_checkpoint_id=3)
    tasks.received(WorkerReady(NO_ALLOCATION, "host:1"))
    tasks.sent(DeployTasks(NO_ALLOCATION, deployed))
    return tasks


def found(tasks: SlotTasks, attempt_id: AttemptId = SOURCE) -> FoundTask:
    slot = tasks.found()
    assert slot is not None
    assert slot.data_address == "host:1"
    return next(task for task in slot.tasks if task.attempt_id == attempt_id)


def reader(tasks: SlotTasks) -> FoundReader:
    read = found(tasks).reader
    assert read is not None
    return read


def give(tasks: SlotTasks, kind: Any) -> None:
    tasks.sent(src.EnumeratorEvent(JobId("job"), VertexId("s"), 1, kind, attempt_id=SOURCE))


def say(tasks: SlotTasks, kind: Any) -> src.ReaderEvent:
    event = src.ReaderEvent(JobId("job"), VertexId("s"), 1, kind, SOURCE)
    tasks.received(event)
    return event


def trigger(tasks: SlotTasks, number: int, stop: StopMode = StopMode.NONE) -> None:
    tasks.sent(TriggerCheckpoint(NO_ALLOCATION, (SOURCE,), Barrier(number, 0, "here", stop=stop)))


def notice(tasks: SlotTasks, number: int, completed: bool = True) -> None:
    tasks.sent(CheckpointNotice(NO_ALLOCATION, BOTH, number, completed))


def test_tasks_are_reported_with_their_deployment_and_their_state(tasks: SlotTasks) -> None:
    source = found(tasks)
    assert (source.vertex_id, source.subtask, source.parallelism, source.attempt) == ("s", 1, 2, 0)
    assert (source.state, source.highest_channel, source.completed) == (ExecutionState.DEPLOYING, 7, 0)
    assert (found(tasks, MAP).reader, found(tasks, MAP).completed) == (None, 3)
    tasks.received(TaskUpdate(NO_ALLOCATION, SOURCE, ExecutionState.RUNNING))
    tasks.received(InputsEnded(NO_ALLOCATION, SOURCE))
    assert found(tasks).state is ExecutionState.RUNNING
    assert found(tasks).inputs_ended
    tasks.received(TaskUpdate(NO_ALLOCATION, SOURCE, ExecutionState.FINISHED))
    tasks.sent(CancelTasks(NO_ALLOCATION, BOTH))
    assert found(tasks).state is ExecutionState.FINISHED
    assert found(tasks, MAP).state is ExecutionState.CANCELING


def test_a_new_attempt_replaces_the_previous_one(tasks: SlotTasks) -> None:
    again = AttemptId("again")
    tasks.sent(DeployTasks(NO_ALLOCATION, (deployment(again, "s", attempt=1),)))
    slot = tasks.found()
    assert slot is not None
    assert {task.attempt_id for task in slot.tasks} == {again, MAP}
    tasks.received(TaskUpdate(NO_ALLOCATION, SOURCE, ExecutionState.FAILED))
    assert found(tasks, again).state is ExecutionState.DEPLOYING


def test_splits_are_part_of_the_checkpoint_that_was_triggered_after_them(tasks: SlotTasks) -> None:
    give(tasks, src.Splits(b"1"))
    trigger(tasks, 4)
    give(tasks, src.Splits(b"2"))
    give(tasks, src.Splits(b"3"))
    trigger(tasks, 5)
    give(tasks, src.Splits(b"4"))
    parts = [AssignedSplits(4, (b"1",)), AssignedSplits(5, (b"2", b"3")), AssignedSplits(0, (b"4",))]
    assert list(reader(tasks).assigned) == parts
    notice(tasks, 4)
    assert list(reader(tasks).assigned) == parts[1:]
    notice(tasks, 5, completed=False)
    assert list(reader(tasks).assigned) == parts[1:], "no completed checkpoint holds them"
    trigger(tasks, 6)
    notice(tasks, 6)
    assert reader(tasks) == FoundReader()


def test_checkpoints_are_in_progress_until_their_outcome_is_known(tasks: SlotTasks) -> None:
    trigger(tasks, 4)
    trigger(tasks, 5)
    assert found(tasks).under_way == (4, 5)
    notice(tasks, 4)
    assert found(tasks).under_way == (5,)
    assert (found(tasks).completed, found(tasks, MAP).completed) == (4, 4)
    notice(tasks, 5, completed=False)
    assert found(tasks).under_way == ()


def test_a_savepoint_is_not_in_progress_unless_it_stops_the_job(tasks: SlotTasks) -> None:
    """It may be complete, and tasks are not notified: reporting it would have it deleted."""
    for number, stop in ((4, StopMode.NONE), (5, StopMode.SUSPEND)):
        barrier = Barrier(number, 0, "here", is_savepoint=True, stop=stop)
        tasks.sent(TriggerCheckpoint(NO_ALLOCATION, (SOURCE,), barrier))
    assert found(tasks).under_way == (5,)


def test_a_task_whose_event_time_was_drained_is_marked_until_the_savepoint_completes(tasks: SlotTasks) -> None:
    trigger(tasks, 4, StopMode.DRAIN)
    notice(tasks, 4, completed=False)
    assert found(tasks).drains
    trigger(tasks, 5, StopMode.DRAIN)
    notice(tasks, 5)
    assert not found(tasks).drains


def test_a_split_request_is_pending_until_splits_arrive_or_there_are_no_more(tasks: SlotTasks) -> None:
    for response in (src.Splits(b"1"), src.NoMoreSplits()):
        request = say(tasks, src.SplitRequest("host"))
        assert tasks.open_requests() == [request]
        give(tasks, response)
        assert tasks.open_requests() == []
    assert not reader(tasks).has_events


@pytest.mark.parametrize("to_reader", [True, False])
def test_custom_events_of_connectors_are_always_remembered(tasks: SlotTasks, to_reader: bool) -> None:
    if to_reader:
        give(tasks, src.Custom(b"event"))
    else:
        say(tasks, src.Custom(b"event"))
    trigger(tasks, 4)
    notice(tasks, 4)
    assert reader(tasks).has_events


def test_too_many_events_are_forgotten_until_a_checkpoint_contains_all_of_them(tasks: SlotTasks) -> None:
    trigger(tasks, 4)
    for _ in range(5):
        give(tasks, src.Splits(b"x" * (1 << 20)))
    assert not reader(tasks).is_known
    notice(tasks, 4)
    assert not reader(tasks).is_known, "it was asked for before"
    trigger(tasks, 5)
    notice(tasks, 5)
    assert reader(tasks) == FoundReader()
