"""The end of tasks in a slot worker: the last checkpoint, savepoints that stop the job, and commits that fail."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import pytest
from checkpoint_rig import SOURCE, CheckpointRig
from worker_rig import WRITTEN, chain, local_pair, writing, written

from millstream.core.jobs.barriers import StopMode
from millstream.core.jobs.ids import OperatorId
from millstream.core.jobs.plan import plan
from millstream.core.messages.checkpoints import CheckpointAck, CommitFailed, InputsEnded
from millstream.core.messages.deployment import TaskDeployment
from millstream.core.messages.sources import ReaderEvent
from millstream.core.snapshot import OperatorSnapshot
from millstream.core.snapshot.metadata.operator_json import operators_to_json
from millstream.datastream.functions import MapFunction
from millstream.taskmanager.worker.checkpointing.task_commits import COMMIT_ATTEMPTS

CHECKPOINTED = {"execution.checkpointing.interval": "1 h"}


@pytest.fixture
def options() -> dict[str, str]:
    return CHECKPOINTED


class Committing(MapFunction):
    """Commits when notified, unless it cannot."""

    notified: ClassVar[list[int]] = []
    fails = False

    def map(self, value: Any) -> Any:
        return value

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        Committing.notified.append(checkpoint_id)
        if Committing.fails:
            raise OSError("the broker is away")


@pytest.fixture(autouse=True)
def fresh() -> None:
    Committing.notified.clear()
    Committing.fails = False


class Pipeline:
    """A source and a sink in one worker."""

    def __init__(self, rig: CheckpointRig, name: str, rows: Iterable[Any] = range(100), ends: bool = True) -> None:
        self.rig = rig
        self.name = name
        output, gate = local_pair(rig, 900)
        self.source = rig.subtask(chain(SOURCE, outputs=1), outputs=[output])
        self.sink = rig.subtask(chain(plan.MapSpec(Committing()), writing(name), prefix="sink"), inputs=[gate])
        rig.deploy(self.sink, self.source)
        rig.feed(self.source, rows, last=ends)

    @property
    def tasks(self) -> tuple[TaskDeployment, TaskDeployment]:
        return self.source, self.sink

    def ended(self) -> set[str]:
        return {ended.attempt_id for ended in self.rig.messages(InputsEnded)}

    def both_ended(self) -> bool:
        return self.ended() == {task.attempt_id for task in self.tasks}

    def states(self) -> list[str]:
        return [self.rig.state(task) for task in self.tasks]

    def settled(self) -> list[str]:
        """The states when nothing changes any more."""
        self.rig.turns(50)
        return self.states()

    def rows(self) -> list[Any]:
        return written(self.name, int)

    def checkpoint(self, number: int, **options: Any) -> list[CheckpointAck]:
        """Both tasks are triggered."""
        return self.rig.checkpoint(number, *self.tasks, **options)

    def from_the_source(self, number: int, **options: Any) -> list[CheckpointAck]:
        """The barrier reaches the sink behind the records."""
        self.rig.trigger(number, self.source, **options)
        return self.rig.acknowledged(number, *self.tasks)

    def notice(self, number: int, completed: bool = True) -> None:
        self.rig.notice(number, completed, *self.tasks)

    def owes_its_commit(self) -> None:
        """The sink stays until a commit succeeds."""
        assert self.settled() == ["FINISHED", "RUNNING"]
        Committing.fails = False
        self.rig.notice(1, True, self.sink)
        self.finish()

    def finish(self) -> None:
        self.rig.turn_until(self.rig.ended(*self.tasks))
        assert self.states() == ["FINISHED", "FINISHED"]


# The last checkpoint


def test_tasks_stay_until_a_checkpoint_that_contains_their_end_completes(rig: CheckpointRig) -> None:
    pipeline = Pipeline(rig, "stay")
    rig.turn_until(pipeline.both_ended)
    assert WRITTEN["stay"][-1] == "flushed"
    assert pipeline.settled() == ["RUNNING", "RUNNING"]
    pipeline.checkpoint(1)
    assert pipeline.settled() == ["RUNNING", "RUNNING"]
    pipeline.notice(1)
    pipeline.finish()
    assert Committing.notified == [1]


def test_a_checkpoint_from_before_the_end_is_not_enough(rig: CheckpointRig) -> None:
    pipeline = Pipeline(rig, "before", ends=False)
    rig.turn_until(lambda: len(pipeline.rows()) == 100)
    rig.trigger(1, pipeline.source)
    rig.feed(pipeline.source, last=True)
    assert not any(ack.ended for ack in rig.acknowledged(1, *pipeline.tasks))
    rig.turn_until(pipeline.both_ended)
    pipeline.notice(1)
    assert pipeline.settled() == ["RUNNING", "RUNNING"]
    assert all(ack.ended for ack in pipeline.checkpoint(2))
    pipeline.notice(2, False)
    assert pipeline.settled() == ["RUNNING", "RUNNING"]
    pipeline.checkpoint(3)
    pipeline.notice(3)
    pipeline.finish()


def test_a_trigger_after_the_end_of_a_source_reaches_the_sink_directly(rig: CheckpointRig) -> None:
    pipeline = Pipeline(rig, "behind")
    rig.turn_until(lambda: pipeline.source.attempt_id in pipeline.ended())
    rig.trigger(1, pipeline.source)
    rig.acknowledged(1, pipeline.source)
    rig.trigger(1, pipeline.sink)  # the coordinator does this when the source has reported its end
    rig.acknowledged(1, pipeline.sink)
    pipeline.notice(1)
    rig.turn_until(rig.ended(*pipeline.tasks))
    assert pipeline.rows() == list(range(100))


@pytest.mark.parametrize(
    "options",
    [{}, {**CHECKPOINTED, "execution.checkpointing.checkpoints-after-tasks-finish.enabled": "false"}],
)
def test_without_checkpoints_after_the_end_tasks_finish_at_once(rig: CheckpointRig) -> None:
    pipeline = Pipeline(rig, "at once")
    pipeline.finish()
    assert pipeline.both_ended()


def test_a_restored_finished_task_only_forwards_its_end(rig: CheckpointRig) -> None:
    output, gate = local_pair(rig, 901)
    done = [OperatorSnapshot(OperatorId("op-0"), None, "op 0", 1, 128, finished=True)]
    source = rig.subtask(chain(SOURCE, outputs=1), outputs=[output], restore=operators_to_json(done))
    sink = rig.subtask(chain(writing("again"), prefix="sink"), inputs=[gate])
    rig.deploy(sink, source)
    rig.trigger(1, source)
    rig.turn_until(rig.ended(source))
    assert rig.state(source) == "FINISHED"
    assert not rig.acks(1)
    assert not rig.messages(ReaderEvent), "no reader was made"
    rig.turn_until(lambda: WRITTEN["again"] == ["flushed"])
    assert rig.state(sink) == "RUNNING"


def test_restored_finished_tasks_end_one_after_the_other(rig: CheckpointRig) -> None:
    """The end of event time arrives with the end of the input."""
    output, gate = local_pair(rig, 902)
    source_done = [OperatorSnapshot(OperatorId("op-0"), None, "op 0", 1, 128, finished=True)]
    sink_done = [OperatorSnapshot(OperatorId("sink-0"), None, "sink 0", 1, 128, finished=True)]
    source = rig.subtask(chain(SOURCE, outputs=1), outputs=[output], restore=operators_to_json(source_done))
    never = chain(writing("never"), prefix="sink")
    sink = rig.subtask(never, inputs=[gate], restore=operators_to_json(sink_done))
    rig.deploy(sink, source)
    rig.turn_until(rig.ended(sink, source))
    assert [rig.state(task) for task in (source, sink)] == ["FINISHED", "FINISHED"]
    assert "never" not in WRITTEN


# Stopping


@pytest.mark.parametrize("mode", [StopMode.SUSPEND, StopMode.DRAIN])
def test_a_savepoint_stops_the_tasks_when_it_completes(rig: CheckpointRig, mode: StopMode) -> None:
    pipeline = Pipeline(rig, "stop", range(10_000), ends=False)
    rig.turn_until(lambda: len(pipeline.rows()) >= 50)
    rig.trigger(1, pipeline.source, savepoint=True, full=True, stop=mode)
    assert [ack.ended for ack in rig.acknowledged(1, *pipeline.tasks)] == [mode is StopMode.DRAIN] * 2
    rig.turns(50)
    stopped_at = pipeline.rows()
    assert len(stopped_at) < 10_000
    assert (WRITTEN["stop"].count("flushed") == 1) == (mode is StopMode.DRAIN)
    rig.notice(1, True, pipeline.source)
    rig.turn_until(rig.ended(pipeline.source))
    assert pipeline.settled() == ["FINISHED", "RUNNING"], "its own notice is to come"
    rig.notice(1, True, pipeline.sink)
    pipeline.finish()
    assert pipeline.rows() == stopped_at
    assert Committing.notified == [1]
    assert not pipeline.ended()
    assert (WRITTEN["stop"].count("flushed") == 1) == (mode is StopMode.DRAIN)


def test_a_stop_that_is_aborted_lets_the_source_continue(rig: CheckpointRig) -> None:
    pipeline = Pipeline(rig, "continues", range(1000))
    rig.turn_until(lambda: len(pipeline.rows()) >= 50)
    pipeline.from_the_source(1, savepoint=True, full=True, stop=StopMode.SUSPEND)
    assert len(pipeline.rows()) < 1000
    rig.notice(1, False, pipeline.source)
    rig.turn_until(lambda: pipeline.source.attempt_id in pipeline.ended())
    rig.turns(50)
    assert pipeline.ended() == {pipeline.source.attempt_id}, "the sink cannot know yet whether the job stops"
    rig.notice(1, False, pipeline.sink)
    rig.turn_until(pipeline.both_ended)
    assert pipeline.rows() == list(range(1000))
    assert WRITTEN["continues"].count("flushed") == 1


def test_a_stop_reaches_tasks_that_had_ended(rig: CheckpointRig) -> None:
    pipeline = Pipeline(rig, "had ended")
    rig.turn_until(pipeline.both_ended)
    pipeline.checkpoint(1, savepoint=True, full=True, stop=StopMode.DRAIN)
    pipeline.notice(1)
    pipeline.finish()
    assert WRITTEN["had ended"].count("flushed") == 1


# Commits


def test_a_commit_that_fails_is_reported_and_the_task_stays_until_it_succeeds(rig: CheckpointRig) -> None:
    pipeline = Pipeline(rig, "owed")
    rig.turn_until(pipeline.both_ended)
    Committing.fails = True
    pipeline.checkpoint(1)
    pipeline.notice(1)
    assert pipeline.settled() == ["FINISHED", "RUNNING"]
    (failed,) = rig.messages(CommitFailed)
    assert (failed.allocation_id, failed.attempt_id, failed.checkpoint_id) == (
        "allocation", pipeline.sink.attempt_id, 1,
    )  # fmt: skip
    assert failed.message == "sink 0: OSError: the broker is away"
    Committing.fails = False
    rig.notice(1, True, pipeline.sink)
    pipeline.finish()
    assert Committing.notified == [1, 1]


@pytest.mark.parametrize("options", [{}])
def test_a_task_with_a_pending_commit_does_not_finish_with_its_input(rig: CheckpointRig) -> None:
    pipeline = Pipeline(rig, "owes", ends=False)
    Committing.fails = True
    pipeline.from_the_source(1)
    pipeline.notice(1)
    rig.feed(pipeline.source, last=True)
    rig.turn_until(pipeline.both_ended)
    pipeline.owes_its_commit()


def test_a_commit_that_keeps_failing_fails_the_task(rig: CheckpointRig) -> None:
    pipeline = Pipeline(rig, "hopeless", ends=False)
    Committing.fails = True
    pipeline.from_the_source(1)
    for _ in range(COMMIT_ATTEMPTS - 1):
        pipeline.notice(1)
    assert pipeline.states() == ["RUNNING", "RUNNING"]
    Committing.fails = False
    pipeline.notice(1)
    Committing.fails = True
    for _ in range(COMMIT_ATTEMPTS):
        assert pipeline.states() == ["RUNNING", "RUNNING"], "it counts from the last success"
        pipeline.notice(1)
    assert pipeline.states()[1] == "FAILED"
    assert "the broker is away" in rig.failure(pipeline.sink).exception
    assert len(rig.messages(CommitFailed)) == 2 * (COMMIT_ATTEMPTS - 1)


def test_a_stop_waits_for_its_commit(rig: CheckpointRig) -> None:
    pipeline = Pipeline(rig, "stop owed", range(10_000), ends=False)
    rig.turn_until(lambda: len(pipeline.rows()) >= 50)
    Committing.fails = True
    pipeline.from_the_source(1, savepoint=True, full=True, stop=StopMode.SUSPEND)
    pipeline.notice(1)
    pipeline.owes_its_commit()


# Measures


def test_acknowledgements_report_the_delay_of_the_first_barrier(rig: CheckpointRig) -> None:
    pipeline = Pipeline(rig, "late", ends=False)
    acks = pipeline.from_the_source(1, timestamp=rig.clock.now_ms() - 30)
    assert [ack.start_delay_ms for ack in acks] == [30, 30]
