"""Trouble that must stay inside of its task: whatever user code does, the worker's loop goes on."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest
from worker_rig import READERS, WRITTEN, NamedSink, RowsSource, WorkerRig, chain, local_pair, wire

from millstream.core.plan import MapSpec, SinkSpec, SourceSpec
from millstream.datastream.functions import ListAccumulator, MapFunction, RuntimeContext
from millstream.proto import taskmanager_pb2 as pb


@pytest.fixture
def bystander(rig: WorkerRig) -> pb.TaskDeployment:
    """A task that has nothing to do with the trouble."""
    task = rig.task(chain(SourceSpec(RowsSource(waits=True)), SinkSpec(NamedSink("bystander"))))
    rig.deploy(task)
    return task


def check_alive(rig: WorkerRig, bystander: pb.TaskDeployment) -> None:
    rig.worker.turn()
    assert rig.states(bystander)[-1] == "RUNNING"
    rig.tell(bystander, no_more_splits={})
    rig.turn_until(rig.ended(bystander))
    assert rig.states(bystander)[-1] == "FINISHED"


def test_records_that_cannot_be_pickled_fail_their_producer(rig: WorkerRig, bystander: pb.TaskDeployment) -> None:
    """They are encoded when their buffer is flushed: by the timeout, outside of the task's step."""
    out, _ = wire(1, rig.address, "127.0.0.1:1")
    specs = (SourceSpec(RowsSource([1], waits=True)), MapSpec(lambda row: threading.Lock()))
    task = rig.task(chain(*specs, outputs=1), outputs=[out])
    rig.worker._data_plane.start()
    rig.deploy(task)
    rig.turn_until(rig.ended(task), turns=50)
    assert rig.states(task)[-1] == "FAILED"
    assert "pickle" in rig.updates(task)[-1].failure.exception
    check_alive(rig, bystander)


def test_a_function_that_exits_fails_its_task(rig: WorkerRig, bystander: pb.TaskDeployment) -> None:
    task = rig.task(chain(SourceSpec(RowsSource([1])), MapSpec(lambda row: sys.exit(3)), SinkSpec(NamedSink("exit"))))
    rig.deploy(task)
    rig.turn_until(rig.ended(task), turns=50)
    assert rig.states(task)[-1] == "FAILED"
    assert "SystemExit" in rig.updates(task)[-1].failure.exception
    check_alive(rig, bystander)


class ExitingAtTheEnd(MapFunction):
    def map(self, value: Any) -> Any:
        return value

    def close(self) -> None:
        sys.exit(3)


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_close_that_exits_fails_its_task_at_most(
    rig: WorkerRig, bystander: pb.TaskDeployment, cancelled: bool
) -> None:
    specs = (SourceSpec(RowsSource([1], cancelled)), MapSpec(ExitingAtTheEnd()), SinkSpec(NamedSink("exit at the end")))
    task = rig.task(chain(*specs))
    rig.deploy(task)
    if cancelled:
        rig.cancel(task.attempt_id)
    rig.turn_until(rig.ended(task), turns=50)
    assert rig.states(task)[-1] == ("CANCELED" if cancelled else "FAILED")
    assert WRITTEN["exit at the end"][-1] == "closed"
    check_alive(rig, bystander)


class Accumulating(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self._seen = ListAccumulator()
        runtime_context.add_accumulator("seen", self._seen)

    def map(self, value: Any) -> Any:
        self._seen.add(threading.Lock())
        return value


def test_an_accumulator_that_cannot_be_pickled_fails_its_task(rig: WorkerRig, bystander: pb.TaskDeployment) -> None:
    task = rig.task(chain(SourceSpec(RowsSource([1])), MapSpec(Accumulating()), SinkSpec(NamedSink("accumulated"))))
    rig.deploy(task)
    rig.turn_until(rig.ended(task), turns=50)
    assert rig.states(task)[-1] == "FAILED"
    assert "pickle" in rig.updates(task)[-1].failure.exception
    check_alive(rig, bystander)


class SlowFunction(MapFunction):
    """Takes a second of the worker's clock for each record, and remembers how many records each turn had."""

    rigs: list[WorkerRig] = []  # noqa: RUF012  # shared on purpose: the worker's copy finds the test's clock here
    turns: list[int] = []  # noqa: RUF012  # as above

    def map(self, value: Any) -> Any:
        self.turns[-1] += 1
        self.rigs[-1].clock.advance(1)
        return value


def test_waiting_does_not_make_the_next_step_of_a_slow_function_long(rig: WorkerRig) -> None:
    """What a step may take is learnt from steps that worked, not from those that found nothing to do."""
    out, gate = local_pair(rig, 1)
    source = rig.task(chain(SourceSpec(RowsSource(waits=True)), outputs=1), outputs=[out])
    mapper = rig.task(chain(MapSpec(SlowFunction()), SinkSpec(NamedSink("slow"))), [gate])
    rig.deploy(source, mapper)
    SlowFunction.rigs.append(rig)
    reader = READERS[-1]

    def feed(rows: int) -> list[int]:
        SlowFunction.turns.clear()
        done = len(WRITTEN["slow"]) + rows
        reader._rows = list(range(rows))
        reader.context.wake_up()
        for _ in range(10 * rows):
            if len(WRITTEN["slow"]) == done:
                break
            SlowFunction.turns.append(0)
            rig.worker.turn()
        assert len(WRITTEN["slow"]) == done
        return SlowFunction.turns

    feed(200)
    for _ in range(50):
        rig.worker.turn()
    assert max(feed(200)) <= 2
