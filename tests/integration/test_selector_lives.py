"""Key selectors and partitioners are opened and closed in each task that uses them, on either side of a shuffle."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from millstream.common import Configuration, Row, Time, Types, WatermarkStrategy
from millstream.datastream import (
    CoMapFunction,
    DataStream,
    KeySelector,
    MapFunction,
    Partitioner,
    RuntimeContext,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from millstream.datastream.window import TumblingEventTimeWindows

pytestmark = pytest.mark.process

CONSUMERS = 2
ONE_SHUFFLE = 1 + CONSUMERS  # the source, which is one task, and those after it


class Lived:
    """Records when it is opened and closed, and checks that it is only called in between."""

    def __init__(self, notes: Path) -> None:
        self.notes = notes
        self.identity = ""

    def open(self, runtime_context: RuntimeContext) -> None:
        assert not self.identity
        assert runtime_context.get_index_of_this_subtask() < runtime_context.get_number_of_parallel_subtasks()
        self.identity = uuid.uuid4().hex
        self.note("opened")

    def close(self) -> None:
        self.note("closed")
        self.identity = ""

    def note(self, event: str) -> None:
        with self.notes.open("a") as file:
            file.write(f"{self.identity} {event}\n")


class Parity(Lived, KeySelector):
    def get_key(self, value: int) -> int:
        assert self.identity
        return value % 2


class ParityRow(Lived, KeySelector):
    def get_key(self, value: int) -> tuple[int]:
        assert self.identity
        return (value % 2,)


class Straight(Lived, Partitioner):
    def partition(self, key: int, num_partitions: int) -> int:
        assert self.identity
        return key % num_partitions


class Doubled(MapFunction):
    def map(self, value: int) -> int:
        return value * 2


class Same(CoMapFunction):
    def map1(self, value: int) -> int:
        return value

    def map2(self, value: int) -> int:
        return value


def window(stream: Any) -> Any:
    return stream.window(TumblingEventTimeWindows.of(Time.milliseconds(100)))


def selected(numbers: DataStream, notes: Path) -> Any:
    return numbers.key_by(Parity(notes), Types.LONG())


def joined(numbers: DataStream, notes: Path) -> DataStream:
    keyed = numbers.join(numbers).where(Parity(notes), Types.LONG()).equal_to(Parity(notes))
    return window(keyed).apply(lambda a, b: a * b)


def interval(numbers: DataStream, notes: Path) -> DataStream:
    both = selected(numbers, notes).interval_join(selected(numbers, notes))
    return both.between(Time.milliseconds(-1), Time.milliseconds(1)).process(lambda a, b, _: [a * b])


PLACES: dict[str, tuple[Callable[[DataStream, Path], Any], int]] = {
    "a reduce": (lambda n, notes: selected(n, notes).reduce(lambda a, b: a + b), ONE_SHUFFLE),
    "a rich map": (lambda n, notes: selected(n, notes).map(Doubled()), ONE_SHUFFLE),
    "a callable, which needs no key": (lambda n, notes: selected(n, notes).map(lambda x: x), 1),
    "windows": (lambda n, notes: window(selected(n, notes)).reduce(lambda a, b: a + b), ONE_SHUFFLE),
    "rows as keys": (
        lambda n, notes: n.key_by(ParityRow(notes), Types.ROW([Types.LONG()])).map(Doubled()), ONE_SHUFFLE
    ),
    "connected streams": (
        lambda n, notes: selected(n, notes).connect(selected(n, notes)).map(Same()), 2 * ONE_SHUFFLE
    ),
    "streams that are keyed once connected": (
        lambda n, notes: n.connect(n).key_by(Parity(notes), Parity(notes), Types.LONG()).map(Same()), 2 * ONE_SHUFFLE
    ),
    "a window join": (joined, 2 * ONE_SHUFFLE),
    "an interval join": (interval, 2 * ONE_SHUFFLE),
    "a union": (lambda n, notes: selected(n, notes).union(selected(n, notes)).map(lambda x: x), 2),
    "a keyed stream's own records": (selected, 1),
    "a partitioner": (lambda n, notes: n.partition_custom(Straight(notes), Parity(notes)).map(lambda x: x), 2),
}  # fmt: skip


@pytest.mark.parametrize("mode", [RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH])
@pytest.mark.parametrize("place", PLACES)
def test_a_selector_is_opened_and_closed_once_in_each_task(
    place: str, mode: RuntimeExecutionMode, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    env = StreamExecutionEnvironment.get_execution_environment(Configuration({"execution.local.in-process": "true"}))
    env.set_parallelism(CONSUMERS).set_runtime_mode(mode)
    timed = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, _: n)
    numbers = env.from_collection(list(range(10)), Types.LONG()).assign_timestamps_and_watermarks(timed)
    build, tasks = PLACES[place]
    with build(numbers.set_parallelism(1), notes).execute_and_collect() as results:
        assert list(results)
    events = Counter(notes.read_text().splitlines())
    assert set(events.values()) == {1}
    lives = {event.split()[0] for event in events}
    assert events.keys() == {f"{life} {event}" for life in lives for event in ("opened", "closed")}
    assert len(lives) == tasks


class Refusing(KeySelector):
    def open(self, runtime_context: RuntimeContext) -> None:
        raise ValueError("the list of customers is not there")

    def get_key(self, value: Any) -> Any:
        return Row(value)


def test_a_selector_that_cannot_be_opened_fails_the_job_with_its_operators_name() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration({"execution.local.in-process": "true"}))
    numbers = env.from_collection([1, 2, 3]).name("numbers").key_by(Refusing())
    with (
        pytest.raises(Exception, match="the list of customers is not there") as failed,
        numbers.reduce(lambda a, b: a + b).name("sums").execute_and_collect() as results,
    ):
        list(results)
    assert "numbers" in str(failed.value) or "sums" in str(failed.value)
