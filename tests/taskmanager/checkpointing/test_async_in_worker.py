"""Asynchronous functions in a slot worker: the end of the input, and savepoints that stop the job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from async_gates import Gates
from checkpoint_rig import CheckpointRig, PositionedSource
from worker_rig import WRITTEN, NamedSink, chain, local_pair

from millstream.core.jobs.barriers import StopMode
from millstream.core.jobs.plan import plan
from millstream.core.jobs.plan.async_plan import AsyncSpec
from millstream.core.messages.checkpoints import InputsEnded
from millstream.core.messages.deployment import TaskDeployment
from millstream.core.messages.sources import NoMoreSplits, Splits
from millstream.core.pickling import to_bytes
from millstream.datastream import AsyncFunction, AsyncRetryStrategy

NAME = "async"
gates = Gates()


class Gated(AsyncFunction[int, int]):
    async def async_invoke(self, value: int) -> list[int]:
        await gates.pass_through(value)
        return [value * 10]


class Pipeline:
    """A source with an asynchronous function after it, or in the task of the sink."""

    def __init__(self, rig: CheckpointRig, chained_to_source: bool) -> None:
        self.rig = rig
        function = AsyncSpec(Gated(), None, 100, AsyncRetryStrategy.no_restart(), ordered=True)
        source, sink = plan.SourceSpec(PositionedSource()), plan.SinkSpec(NamedSink(NAME))
        output, gate = local_pair(rig, 901)
        first = (source, function) if chained_to_source else (source,)
        second = (sink,) if chained_to_source else (function, sink)
        self.source = rig.subtask(chain(*first, outputs=1), outputs=[output])
        self.sink = rig.subtask(chain(*second, prefix="sink"), inputs=[gate])
        rig.deploy(self.sink, self.source)
        rig.send_event(self.source, Splits(to_bytes([([1, 2, 3], 0)])))
        rig.turn_until(lambda: gates.begun == [1, 2, 3])

    @property
    def tasks(self) -> tuple[TaskDeployment, TaskDeployment]:
        return self.source, self.sink

    def written(self) -> list[Any]:
        return [row for row in WRITTEN[NAME] if isinstance(row, int)]

    def ended(self) -> bool:
        ended = {message.attempt_id for message in self.rig.messages(InputsEnded)}
        return ended == {task.attempt_id for task in self.tasks}


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[CheckpointRig]:
    gates.__init__()  # type: ignore[misc]  # functions of the worker know this one
    made = CheckpointRig(tmp_path, **{"execution.checkpointing.interval": "1 h"})
    yield made
    made.close()


@pytest.fixture(params=[True, False], ids=["behind the source", "before the sink"])
def pipeline(rig: CheckpointRig, request: pytest.FixtureRequest) -> Pipeline:
    return Pipeline(rig, request.param)


def turns(rig: CheckpointRig) -> None:
    for _ in range(20):
        rig.worker.turn()


def test_the_end_of_the_input_waits_for_results(rig: CheckpointRig, pipeline: Pipeline) -> None:
    rig.send_event(pipeline.source, NoMoreSplits())
    turns(rig)
    assert not pipeline.ended()
    gates.open(2)
    turns(rig)
    assert pipeline.written() == []
    gates.open(1, 3)
    rig.turn_until(pipeline.ended)
    assert pipeline.written() == [10, 20, 30]
    assert WRITTEN[NAME][-1] == "flushed"


def test_a_checkpoint_at_the_end_contains_calls_in_flight(rig: CheckpointRig, pipeline: Pipeline) -> None:
    rig.send_event(pipeline.source, NoMoreSplits())
    turns(rig)
    rig.trigger(1, *pipeline.tasks)
    acks = rig.acknowledged(1, *pipeline.tasks)
    assert not acks[-1].ended
    gates.open(1, 2, 3)
    rig.turn_until(pipeline.ended)
    rig.trigger(2, *pipeline.tasks)
    assert all(ack.ended for ack in rig.acknowledged(2, *pipeline.tasks))


def test_nothing_is_emitted_after_a_savepoint_that_stops_the_job(rig: CheckpointRig, pipeline: Pipeline) -> None:
    rig.trigger(1, pipeline.source, savepoint=True, full=True, stop=StopMode.SUSPEND)
    rig.acknowledged(1, *pipeline.tasks)
    gates.open(1, 2, 3)
    turns(rig)
    assert pipeline.written() == []
    rig.notice(1, False, *pipeline.tasks)
    rig.turn_until(lambda: pipeline.written() == [10, 20, 30])


def test_a_savepoint_that_stops_the_job_completes_without_the_results(rig: CheckpointRig, pipeline: Pipeline) -> None:
    rig.trigger(1, pipeline.source, savepoint=True, full=True, stop=StopMode.SUSPEND)
    rig.acknowledged(1, *pipeline.tasks)
    rig.notice(1, True, *pipeline.tasks)
    rig.turn_until(rig.ended(*pipeline.tasks))
    assert [rig.states(task)[-1] for task in pipeline.tasks] == ["FINISHED", "FINISHED"]
    assert pipeline.written() == []


def test_a_savepoint_that_drains_the_job_waits_for_the_results(rig: CheckpointRig, pipeline: Pipeline) -> None:
    rig.trigger(1, pipeline.source, savepoint=True, full=True, stop=StopMode.DRAIN)
    rig.send_event(pipeline.source, Splits(to_bytes([([4], 0)])))
    turns(rig)
    assert pipeline.sink.attempt_id not in {ack.attempt_id for ack in rig.acks(1)}
    gates.open(1, 2, 3)
    assert all(ack.ended for ack in rig.acknowledged(1, *pipeline.tasks))
    assert pipeline.written() == [10, 20, 30]
    assert gates.begun == [1, 2, 3], "nothing is taken meanwhile"


def test_a_draining_savepoint_that_is_aborted_lets_records_flow_again(rig: CheckpointRig, pipeline: Pipeline) -> None:
    rig.trigger(1, pipeline.source, savepoint=True, full=True, stop=StopMode.DRAIN)
    turns(rig)
    rig.notice(1, False, *pipeline.tasks)
    gates.open(1, 2, 3)
    rig.turn_until(lambda: pipeline.written() == [10, 20, 30])
    rig.send_event(pipeline.source, Splits(to_bytes([([4], 0)])))
    rig.turn_until(lambda: gates.begun == [1, 2, 3, 4])


def test_a_task_that_waits_is_cancelled_at_once(rig: CheckpointRig, pipeline: Pipeline) -> None:
    rig.cancel(*(task.attempt_id for task in pipeline.tasks))
    assert [rig.states(task)[-1] for task in pipeline.tasks] == ["CANCELED", "CANCELED"]
