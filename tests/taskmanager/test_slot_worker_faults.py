"""Faults that must be confined to their task: whatever user code does, the worker's loop continues."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from worker_rig import READERS, WRITTEN, NamedSink, RowsSource, WorkerRig, chain, local_pair, reading, wire, writing

from millstream.core.jobs.plan.plan import (
    FilterSpec,
    FlatMapSpec,
    KeySelector,
    MapSpec,
    ProcessSpec,
    ReduceSpec,
    SinkSpec,
    SourceSpec,
)
from millstream.core.messages.deployment import TaskDeployment
from millstream.core.messages.sources import NoMoreSplits
from millstream.datastream.functions import ListAccumulator, MapFunction, RuntimeContext


@pytest.fixture
def bystander(rig: WorkerRig) -> TaskDeployment:
    """A task that is not affected by the fault."""
    return rig.start(reading(waits=True), writing("bystander"))


def check_failed_alone(rig: WorkerRig, task: TaskDeployment, bystander: TaskDeployment, *texts: str) -> None:
    assert rig.state(task) == "FAILED"
    for text in texts:
        assert text in rig.failure(task).exception
    check_alive(rig, bystander)


def check_alive(rig: WorkerRig, bystander: TaskDeployment) -> None:
    rig.turns()
    assert rig.state(bystander) == "RUNNING"
    rig.send_event(bystander, NoMoreSplits())
    rig.turn_until(rig.ended(bystander))
    assert rig.state(bystander) == "FINISHED"


def test_records_that_cannot_be_pickled_fail_their_producer(rig: WorkerRig, bystander: TaskDeployment) -> None:
    """They are encoded when their buffer is flushed: by the timeout, outside of the task's step."""
    out, _ = wire(1, rig.address, "127.0.0.1:1")
    specs = (reading([1], waits=True), MapSpec(lambda row: threading.Lock()))
    task = rig.task(chain(*specs, outputs=1), outputs=[out])
    rig.worker.listen()
    rig.deploy(task)
    rig.turn_until(rig.ended(task), turns=50)
    check_failed_alone(rig, task, bystander, "pickle")


class Raising(MapFunction):
    """Raises a given exception, where requested."""

    def __init__(self, error: BaseException, where: str) -> None:
        self._error, self._where = error, where

    def open(self, runtime_context: RuntimeContext) -> None:
        self._at("open")

    def map(self, value: Any) -> Any:
        self._at("map")
        return value

    def flat_map(self, value: Any) -> Iterator[Any]:
        yield value
        self._at("flat_map")

    def process_element(self, value: Any, ctx: Any) -> Any:
        self._at("process")

    def key(self, value: Any) -> Any:
        self._at("key")
        return value

    def close(self) -> None:
        self._at("close")

    def _at(self, where: str) -> None:
        if where == self._where:
            raise self._error


class Leaving(BaseException):
    """An exception that a library does not want to be caught."""


class RaisingSource(RowsSource):
    def __init__(self, error: BaseException) -> None:
        super().__init__([1])
        self.error = error

    def create_reader(self, context: Any) -> Any:
        raise self.error


class RaisingSink(NamedSink):
    def __init__(self, error: BaseException) -> None:
        super().__init__("raising")
        self.error = error

    def create_writer(self, context: Any) -> Any:
        return self

    def write(self, batch: Any) -> None:
        raise self.error

    def flush(self, end_of_input: bool) -> None: ...

    def close(self) -> None: ...


def _raising(error: BaseException, where: str) -> bytes:
    rows, sink, raising = reading([7]), writing("raised"), Raising(error, where)
    match where:
        case "flat_map":
            return chain(rows, FlatMapSpec(raising.flat_map), sink)
        case "filter":
            return chain(rows, FilterSpec(Raising(error, "map").map), sink)
        case "process":
            return chain(rows, ProcessSpec(raising), sink)
        case "key":
            return chain(rows, ReduceSpec(lambda a, b: a, KeySelector(function=raising.key)), sink)
        case "source":
            return chain(SourceSpec(RaisingSource(error)), sink)
        case "sink":
            return chain(rows, SinkSpec(RaisingSink(error)))
        case _:
            return chain(rows, MapSpec(raising), sink)


_WITH_RECORD = ("map", "flat_map", "filter", "process", "key")


@pytest.mark.parametrize("where", [*_WITH_RECORD, "open", "close", "source", "sink"])
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), Leaving("now")])
def test_whatever_a_function_raises_is_its_error(
    rig: WorkerRig, bystander: TaskDeployment, where: str, error: BaseException
) -> None:
    task = rig.task(_raising(error, where))
    rig.deploy(task)
    rig.turn_until(rig.ended(task), turns=50)
    assert rig.state(task) == "FAILED"
    failure = rig.failure(task)
    assert type(error).__name__ in failure.exception
    assert failure.operator_name == ("op 0" if where == "source" else failure.operator_name)
    assert failure.operator_name.startswith("op ")
    assert failure.record == ("7" if where in _WITH_RECORD else "")
    check_alive(rig, bystander)


@pytest.mark.parametrize("where", _WITH_RECORD)
def test_a_function_that_raises_stop_iteration_does_not_end_the_batch(rig: WorkerRig, where: str) -> None:
    """A loop of the runtime must not treat the user's StopIteration as its own end, and drop the remaining records."""
    task = rig.task(_raising(StopIteration("none left"), where))
    rig.deploy(task)
    rig.turn_until(rig.ended(task), turns=50)
    assert rig.state(task) == "FAILED"
    assert rig.failure(task).record == "7"


class ExitingAtTheEnd(MapFunction):
    def map(self, value: Any) -> Any:
        return value

    def close(self) -> None:
        sys.exit(3)


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_close_that_exits_fails_only_its_task(rig: WorkerRig, bystander: TaskDeployment, cancelled: bool) -> None:
    specs = (reading([1], cancelled), MapSpec(ExitingAtTheEnd()), writing("exit at the end"))
    task = rig.start(*specs)
    if cancelled:
        rig.cancel(task.attempt_id)
    rig.turn_until(rig.ended(task), turns=50)
    assert rig.state(task) == ("CANCELED" if cancelled else "FAILED")
    assert WRITTEN["exit at the end"][-1] == "closed"
    check_alive(rig, bystander)


class Accumulating(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self._seen = ListAccumulator()
        runtime_context.add_accumulator("seen", self._seen)

    def map(self, value: Any) -> Any:
        self._seen.add(threading.Lock())
        return value


def test_an_accumulator_that_cannot_be_pickled_fails_its_task(rig: WorkerRig, bystander: TaskDeployment) -> None:
    task = rig.run(reading([1]), MapSpec(Accumulating()), writing("accumulated"), turns=50)
    check_failed_alone(rig, task, bystander, "pickle")


class SlowFunction(MapFunction):
    """Takes a second of the worker's clock for each record, and records how many records each turn had."""

    rigs: list[WorkerRig] = []  # noqa: RUF012  # shared on purpose: the worker's copy finds the test's clock here
    turns: list[int] = []  # noqa: RUF012  # as above

    def map(self, value: Any) -> Any:
        self.turns[-1] += 1
        self.rigs[-1].clock.advance(1)
        return value


def test_waiting_does_not_make_the_next_step_of_a_slow_function_long(rig: WorkerRig) -> None:
    """The size of a step is learned from steps that worked, not from those without input."""
    out, gate = local_pair(rig, 1)
    source = rig.task(chain(reading(waits=True), outputs=1), outputs=[out])
    mapper = rig.task(chain(MapSpec(SlowFunction()), writing("slow")), [gate])
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
            rig.turns()
        assert len(WRITTEN["slow"]) == done
        return SlowFunction.turns

    feed(200)
    rig.turns(50)
    assert max(feed(200)) <= 2
