"""The end of tasks in a slot worker: the last checkpoint, savepoints that stop the job, and commits that fail."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from checkpoint_rig import CheckpointRig, PositionedSource, chain_of
from worker_rig import WRITTEN, NamedSink, local_pair

from millstream.core.jobs import plan
from millstream.core.jobs.barriers import StopMode
from millstream.core.jobs.ids import OperatorId
from millstream.core.messages.checkpoints import CommitFailed, InputsEnded
from millstream.core.messages.deployment import TaskDeployment
from millstream.core.messages.sources import NoMoreSplits, ReaderEvent, Splits
from millstream.core.pickling import to_bytes
from millstream.core.snapshot import OperatorSnapshot
from millstream.core.snapshot.metadata.operator_json import operators_to_json
from millstream.datastream.functions import MapFunction
from millstream.taskmanager.worker.checkpointing.task_checkpoints import _COMMIT_ATTEMPTS

SOURCE = plan.SourceSpec(PositionedSource())
CHECKPOINTED = {"execution.checkpointing.interval": "1 h"}


class Committing(MapFunction):
    """Commits when it is told to, unless it cannot."""

    told: ClassVar[list[int]] = []
    fails = False

    def map(self, value: Any) -> Any:
        return value

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        Committing.told.append(checkpoint_id)
        if Committing.fails:
            raise OSError("the broker is away")


@pytest.fixture(autouse=True)
def fresh() -> None:
    Committing.told.clear()
    Committing.fails = False


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[CheckpointRig]:
    made = CheckpointRig(tmp_path, **CHECKPOINTED)
    yield made
    made.close()


class Pipeline:
    """A source and a sink in one worker."""

    def __init__(self, rig: CheckpointRig, name: str, rows: Iterable[Any] = range(100), ends: bool = True) -> None:
        self.rig = rig
        self.name = name
        output, gate = local_pair(rig, 900)
        self.source = rig.subtask(chain_of(SOURCE, outputs=1), outputs=[output])
        chain = chain_of(plan.MapSpec(Committing()), plan.SinkSpec(NamedSink(name)), prefix="sink")
        self.sink = rig.subtask(chain, inputs=[gate])
        rig.deploy(self.sink, self.source)
        rig.tell(self.source, Splits(to_bytes([(list(rows), 0)])))
        if ends:
            rig.tell(self.source, NoMoreSplits())

    @property
    def tasks(self) -> tuple[TaskDeployment, TaskDeployment]:
        return self.source, self.sink

    def ended(self) -> set[str]:
        return {ended.attempt_id for ended in self.rig.said(InputsEnded)}

    def both_ended(self) -> bool:
        return self.ended() == {task.attempt_id for task in self.tasks}

    def states(self) -> list[str]:
        return [self.rig.states(task)[-1] for task in self.tasks]

    def rows(self) -> list[Any]:
        return [row for row in WRITTEN[self.name] if isinstance(row, int)]


def turns(rig: CheckpointRig, count: int = 50) -> None:
    for _ in range(count):
        rig.worker.turn()


def commit_failures(rig: CheckpointRig) -> list[CommitFailed]:
    return rig.said(CommitFailed)


# The last checkpoint


def test_tasks_stay_until_a_checkpoint_that_holds_their_end_is_complete(rig: CheckpointRig) -> None:
    pipeline = Pipeline(rig, "stay")
    rig.turn_until(pipeline.both_ended)
    assert WRITTEN["stay"][-1] == "flushed"
    turns(rig)
    assert pipeline.states() == ["RUNNING", "RUNNING"]
    rig.trigger(1, *pipeline.tasks)
    rig.acknowledged(1, *pipeline.tasks)
    turns(rig)
    assert pipeline.states() == ["RUNNING", "RUNNING"]
    rig.notice(1, True, *pipeline.tasks)
    rig.turn_until(rig.ended(*pipeline.tasks))
    assert pipeline.states() == ["FINISHED", "FINISHED"]
    assert Committing.told == [1]


def test_a_checkpoint_from_before_the_end_is_not_enough(rig: CheckpointRig) -> None:
    pipeline = Pipeline(rig, "before", ends=False)
    rig.turn_until(lambda: len(pipeline.rows()) == 100)
    rig.trigger(1, pipeline.source)
    rig.tell(pipeline.source, NoMoreSplits())
    assert not any(ack.ended for ack in rig.acknowledged(1, *pipeline.tasks))
    rig.turn_until(pipeline.both_ended)
    rig.notice(1, True, *pipeline.tasks)
    turns(rig)
    assert pipeline.states() == ["RUNNING", "RUNNING"]
    rig.trigger(2, *pipeline.tasks)
    assert all(ack.ended for ack in rig.acknowledged(2, *pipeline.tasks))
    rig.notice(2, False, *pipeline.tasks)
    turns(rig)
    assert pipeline.states() == ["RUNNING", "RUNNING"]
    rig.trigger(3, *pipeline.tasks)
    rig.acknowledged(3, *pipeline.tasks)
    rig.notice(3, True, *pipeline.tasks)
    rig.turn_until(rig.ended(*pipeline.tasks))
    assert pipeline.states() == ["FINISHED", "FINISHED"]


def test_a_trigger_behind_the_end_of_a_source_finds_the_sink_through_its_own(rig: CheckpointRig) -> None:
    pipeline = Pipeline(rig, "behind")
    rig.turn_until(lambda: pipeline.source.attempt_id in pipeline.ended())
    rig.trigger(1, pipeline.source)
    rig.acknowledged(1, pipeline.source)
    rig.trigger(1, pipeline.sink)  # what the coordinator does when it hears that the source has ended
    rig.acknowledged(1, pipeline.sink)
    rig.notice(1, True, *pipeline.tasks)
    rig.turn_until(rig.ended(*pipeline.tasks))
    assert pipeline.rows() == list(range(100))


@pytest.mark.parametrize(
    "options",
    [{}, {**CHECKPOINTED, "execution.checkpointing.checkpoints-after-tasks-finish.enabled": "false"}],
)
def test_without_checkpoints_behind_the_end_tasks_finish_at_once(tmp_path: Path, options: dict[str, str]) -> None:
    rig = CheckpointRig(tmp_path, **options)
    try:
        pipeline = Pipeline(rig, "at once")
        rig.turn_until(rig.ended(*pipeline.tasks))
        assert pipeline.both_ended()
        assert pipeline.states() == ["FINISHED", "FINISHED"]
    finally:
        rig.close()


def test_a_task_that_had_finished_passes_its_end_on_and_nothing_else(rig: CheckpointRig) -> None:
    output, gate = local_pair(rig, 901)
    done = [OperatorSnapshot(OperatorId("op-0"), None, "op 0", 1, 128, finished=True)]
    source = rig.subtask(chain_of(SOURCE, outputs=1), outputs=[output], restore=operators_to_json(done))
    sink = rig.subtask(chain_of(plan.SinkSpec(NamedSink("again")), prefix="sink"), inputs=[gate])
    rig.deploy(sink, source)
    rig.trigger(1, source)
    rig.turn_until(rig.ended(source))
    assert rig.states(source)[-1] == "FINISHED"
    assert not rig.acks(1)
    assert not rig.said(ReaderEvent), "no reader was made"
    rig.turn_until(lambda: WRITTEN["again"] == ["flushed"])
    assert rig.states(sink)[-1] == "RUNNING"


def test_tasks_that_had_finished_end_one_behind_the_other(rig: CheckpointRig) -> None:
    """The end of event time comes with the end of the input."""
    output, gate = local_pair(rig, 902)
    source_done = [OperatorSnapshot(OperatorId("op-0"), None, "op 0", 1, 128, finished=True)]
    sink_done = [OperatorSnapshot(OperatorId("sink-0"), None, "sink 0", 1, 128, finished=True)]
    source = rig.subtask(chain_of(SOURCE, outputs=1), outputs=[output], restore=operators_to_json(source_done))
    written = chain_of(plan.SinkSpec(NamedSink("never")), prefix="sink")
    sink = rig.subtask(written, inputs=[gate], restore=operators_to_json(sink_done))
    rig.deploy(sink, source)
    rig.turn_until(rig.ended(sink, source))
    assert [rig.states(task)[-1] for task in (source, sink)] == ["FINISHED", "FINISHED"]
    assert "never" not in WRITTEN


# Stopping


@pytest.mark.parametrize("mode", [StopMode.SUSPEND, StopMode.DRAIN])
def test_a_savepoint_stops_the_tasks_when_it_is_complete(rig: CheckpointRig, mode: StopMode) -> None:
    pipeline = Pipeline(rig, "stop", range(10_000), ends=False)
    rig.turn_until(lambda: len(pipeline.rows()) >= 50)
    rig.trigger(1, pipeline.source, savepoint=True, full=True, stop=mode)
    assert [ack.ended for ack in rig.acknowledged(1, *pipeline.tasks)] == [mode is StopMode.DRAIN] * 2
    turns(rig)
    stopped_at = pipeline.rows()
    assert len(stopped_at) < 10_000
    assert (WRITTEN["stop"].count("flushed") == 1) == (mode is StopMode.DRAIN)
    rig.notice(1, True, pipeline.source)
    rig.turn_until(rig.ended(pipeline.source))
    turns(rig)
    assert pipeline.states() == ["FINISHED", "RUNNING"], "its own notice is to come"
    rig.notice(1, True, pipeline.sink)
    rig.turn_until(rig.ended(pipeline.sink))
    assert pipeline.states() == ["FINISHED", "FINISHED"]
    assert pipeline.rows() == stopped_at
    assert Committing.told == [1]
    assert not pipeline.ended()
    assert (WRITTEN["stop"].count("flushed") == 1) == (mode is StopMode.DRAIN)


def test_a_stop_that_is_given_up_lets_the_source_go_on(rig: CheckpointRig) -> None:
    pipeline = Pipeline(rig, "goes on", range(1000))
    rig.turn_until(lambda: len(pipeline.rows()) >= 50)
    rig.trigger(1, pipeline.source, savepoint=True, full=True, stop=StopMode.SUSPEND)
    rig.acknowledged(1, *pipeline.tasks)
    assert len(pipeline.rows()) < 1000
    rig.notice(1, False, pipeline.source)
    rig.turn_until(lambda: pipeline.source.attempt_id in pipeline.ended())
    turns(rig)
    assert pipeline.ended() == {pipeline.source.attempt_id}, "the sink cannot know yet whether the job stops"
    rig.notice(1, False, pipeline.sink)
    rig.turn_until(pipeline.both_ended)
    assert pipeline.rows() == list(range(1000))
    assert WRITTEN["goes on"].count("flushed") == 1


def test_a_stop_reaches_tasks_that_had_ended(rig: CheckpointRig) -> None:
    pipeline = Pipeline(rig, "had ended")
    rig.turn_until(pipeline.both_ended)
    rig.trigger(1, *pipeline.tasks, savepoint=True, full=True, stop=StopMode.DRAIN)
    rig.acknowledged(1, *pipeline.tasks)
    rig.notice(1, True, *pipeline.tasks)
    rig.turn_until(rig.ended(*pipeline.tasks))
    assert pipeline.states() == ["FINISHED", "FINISHED"]
    assert WRITTEN["had ended"].count("flushed") == 1


# Commits


def test_a_commit_that_fails_is_reported_and_the_task_stays_until_it_succeeds(rig: CheckpointRig) -> None:
    pipeline = Pipeline(rig, "owed")
    rig.turn_until(pipeline.both_ended)
    Committing.fails = True
    rig.trigger(1, *pipeline.tasks)
    rig.acknowledged(1, *pipeline.tasks)
    rig.notice(1, True, *pipeline.tasks)
    turns(rig)
    assert pipeline.states() == ["FINISHED", "RUNNING"]
    (failed,) = commit_failures(rig)
    assert (failed.allocation_id, failed.attempt_id, failed.checkpoint_id) == (
        "allocation", pipeline.sink.attempt_id, 1,
    )  # fmt: skip
    assert failed.message == "sink 0: OSError: the broker is away"
    Committing.fails = False
    rig.notice(1, True, pipeline.sink)
    rig.turn_until(rig.ended(pipeline.sink))
    assert pipeline.states() == ["FINISHED", "FINISHED"]
    assert Committing.told == [1, 1]


def test_a_task_that_owes_a_commit_does_not_finish_with_its_input(tmp_path: Path) -> None:
    rig = CheckpointRig(tmp_path)
    try:
        pipeline = Pipeline(rig, "owes", ends=False)
        Committing.fails = True
        rig.trigger(1, pipeline.source)
        rig.acknowledged(1, *pipeline.tasks)
        rig.notice(1, True, *pipeline.tasks)
        rig.tell(pipeline.source, NoMoreSplits())
        rig.turn_until(pipeline.both_ended)
        turns(rig)
        assert pipeline.states() == ["FINISHED", "RUNNING"]
        Committing.fails = False
        rig.notice(1, True, pipeline.sink)
        rig.turn_until(rig.ended(pipeline.sink))
        assert pipeline.states() == ["FINISHED", "FINISHED"]
    finally:
        rig.close()


def test_a_commit_that_keeps_failing_fails_the_task(rig: CheckpointRig) -> None:
    pipeline = Pipeline(rig, "hopeless", ends=False)
    Committing.fails = True
    rig.trigger(1, pipeline.source)
    rig.acknowledged(1, *pipeline.tasks)
    for _ in range(_COMMIT_ATTEMPTS - 1):
        rig.notice(1, True, *pipeline.tasks)
    assert pipeline.states() == ["RUNNING", "RUNNING"]
    Committing.fails = False
    rig.notice(1, True, *pipeline.tasks)
    Committing.fails = True
    for _ in range(_COMMIT_ATTEMPTS):
        assert pipeline.states() == ["RUNNING", "RUNNING"], "it counts from the last success"
        rig.notice(1, True, *pipeline.tasks)
    assert pipeline.states()[1] == "FAILED"
    assert "the broker is away" in rig.updates(pipeline.sink)[-1].failure.exception
    assert len(commit_failures(rig)) == 2 * (_COMMIT_ATTEMPTS - 1)


def test_a_stop_waits_for_its_commit(rig: CheckpointRig) -> None:
    pipeline = Pipeline(rig, "stop owed", range(10_000), ends=False)
    rig.turn_until(lambda: len(pipeline.rows()) >= 50)
    Committing.fails = True
    rig.trigger(1, pipeline.source, savepoint=True, full=True, stop=StopMode.SUSPEND)
    rig.acknowledged(1, *pipeline.tasks)
    rig.notice(1, True, *pipeline.tasks)
    turns(rig)
    assert pipeline.states() == ["FINISHED", "RUNNING"]
    Committing.fails = False
    rig.notice(1, True, pipeline.sink)
    rig.turn_until(rig.ended(pipeline.sink))
    assert pipeline.states() == ["FINISHED", "FINISHED"]


# Measures


def test_acknowledgements_say_how_late_the_first_barrier_came(rig: CheckpointRig) -> None:
    pipeline = Pipeline(rig, "late", ends=False)
    now = rig.clock.now_ms()
    rig.trigger(1, pipeline.source, timestamp=now - 30)
    assert [ack.start_delay_ms for ack in rig.acknowledged(1, *pipeline.tasks)] == [30, 30]
