"""Joins of two streams: what they keep, late records, and failures of functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from millstream.common import Watermark
from millstream.core.jobs.plan.join_plan import IntervalJoinSpec
from millstream.core.jobs.plan.plan import KeySelector, TwoInputKeys
from millstream.core.jobs.plan.window_plan import CoGroupSpec, Tagged
from millstream.core.records.batches import LAST_WATERMARK, RowBatch
from millstream.core.records.types import LONG, ListType, TupleType, from_hint
from millstream.core.snapshot.metadata.model import StateKind
from millstream.datastream import (
    CoGroupFunction,
    FlatJoinFunction,
    OutputTag,
    ProcessJoinFunction,
    RuntimeContext,
)
from millstream.datastream.functions import TaggedUnion
from millstream.datastream.state import ValueStateDescriptor
from millstream.datastream.window import CountEvictor, CountTrigger, GlobalWindows, TumblingEventTimeWindows
from millstream.taskmanager.testing import OperatorHarness
from millstream.taskmanager.worker.operators.base import OperatorError
from millstream.taskmanager.worker.state.heap import HeapKeyedStateBackend

PAIR = from_hint(tuple[str, int])
STAMPED = ListType(TupleType((LONG, PAIR), ("timestamp", "record")))
KEY = KeySelector(fields=(0,))
KEYS = TwoInputKeys(KEY, KEY, from_hint(str))
TAG = OutputTag("side")


class Show(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[Any]:
        yield left, right
        yield TAG, ctx.get_timestamp()


def interval_join(lower: int, upper: int, function: Any = None, **more: Any) -> OperatorHarness:
    spec = IntervalJoinSpec(function or Show(), KEYS, lower, upper, more.pop("late", (None, None)))
    return OperatorHarness(spec, PAIR, PAIR, tags=[TAG.tag_id], **more).open()


def feed(made: OperatorHarness, side: int, *times: int, key: str = "a") -> list[Any]:
    return made.process(RowBatch([(key, time) for time in times], list(times)), input_index=side)


def kept(backend: HeapKeyedStateBackend, name: str) -> int:
    """The number of records in the state of a join."""
    table = backend.table(name, STAMPED, StateKind.VALUE)
    return sum(map(len, table.get_all(backend.entries(name))))


def test_results_have_the_later_timestamp_even_in_a_side_output() -> None:
    made = interval_join(-5, 5)
    feed(made, 0, 10)
    assert feed(made, 1, 7, 15, 16) == [(("a", 10), ("a", 7)), (("a", 10), ("a", 15))]
    assert list(made.out.batches[0].timestamps) == [10, 15]
    assert made.side[TAG.tag_id].rows == [10, 15]
    assert list(made.side[TAG.tag_id].batches[0].timestamps) == [10, 15]


def test_late_records_without_a_side_output_are_counted() -> None:
    made = interval_join(0, 5)
    made.signal(Watermark(10))
    assert feed(made, 0, 9, 10) == []
    assert feed(made, 1, 9, 10) == [(("a", 10), ("a", 10))]
    assert made.operator.context.get_metrics_group().counter("numLateRecordsDropped").get_count() == 2


def test_records_without_timestamps_are_refused() -> None:
    made = interval_join(0, 5)
    with pytest.raises(OperatorError, match="assign_timestamps_and_watermarks"):
        made.process(RowBatch([("a", 1)]))


@pytest.mark.parametrize(("lower", "upper"), [(-1000, 1000), (0, 4000), (-4000, -2000), (500, 500)])
def test_state_is_dropped_as_the_watermark_passes(lower: int, upper: int) -> None:
    """However long it runs: never more than the interval, a fraction of it, and the lag of the watermark."""
    backend = HeapKeyedStateBackend("join")
    made = interval_join(lower, upper, lambda left, right, ctx: None, keyed_backend=backend)
    step, behind = 50, 100

    slack = max(100, (upper - lower + 1) // 8) + behind + step
    reaches = {"left-records": max(0, upper), "right-records": max(0, -lower)}
    for time in range(0, 15_000, step):
        for key in "abc":
            for side in (0, 1):
                feed(made, side, time, key=key)
        made.signal(Watermark(time - behind))
        for name, reach in reaches.items():
            assert kept(backend, name) <= 3 * ((reach + slack) // step + 1)
    made.signal(LAST_WATERMARK)
    assert [kept(backend, name) for name in reaches] == [0, 0]


def test_an_older_record_that_arrives_later_is_dropped_at_its_own_time() -> None:
    backend = HeapKeyedStateBackend("join")
    made = interval_join(0, 1000, keyed_backend=backend)
    feed(made, 0, 9000)
    feed(made, 0, 0, 4000)
    left = []
    for watermark in (1300, 5000, 5300, 12_000):
        made.signal(Watermark(watermark))
        left.append(kept(backend, "left-records"))
    assert left == [2, 2, 1, 0]


def test_a_record_at_the_watermark_joins_the_oldest_in_its_reach() -> None:
    backend = HeapKeyedStateBackend("join")
    made = interval_join(0, 1000, keyed_backend=backend)
    feed(made, 0, 0, 200)
    made.signal(Watermark(1200))
    assert kept(backend, "left-records") == 1
    assert feed(made, 1, 1200) == [(("a", 200), ("a", 1200))]


def test_restored_state_is_dropped_too() -> None:
    made = interval_join(-1000, 1000)
    feed(made, 0, 0, 500, 3000)
    feed(made, 1, 0, key="b")
    backend = HeapKeyedStateBackend("join", from_hint(str))
    after = interval_join(-1000, 1000, keyed_backend=backend, restored=made.snapshot())
    assert (kept(backend, "left-records"), kept(backend, "right-records")) == (3, 1)
    after.signal(Watermark(2500))
    assert (kept(backend, "left-records"), kept(backend, "right-records")) == (1, 0)


def test_a_restored_join_accepts_other_bounds() -> None:
    made = interval_join(0, 10)
    feed(made, 0, 100, 2000)
    after = interval_join(0, 5000, restored=made.snapshot())
    after.signal(Watermark(150))
    assert feed(after, 1, 3000) == [(("a", 100), ("a", 3000)), (("a", 2000), ("a", 3000))]


class Numbered(ProcessJoinFunction):
    """Keeps state of its own for each key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", from_hint(int)))

    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield left[0], self.count.value()


def test_a_function_of_an_interval_join_may_keep_state() -> None:
    made = interval_join(-5, 5, Numbered())
    made.process(RowBatch([("a", 1), ("b", 1), ("a", 2)], [1, 1, 2]))
    found = made.process(RowBatch([("a", 1), ("b", 1)], [1, 1]), input_index=1)
    assert found == [("a", 1), ("a", 2), ("b", 1)]


def test_an_error_names_the_record_that_arrived() -> None:
    def fails(left: Any, right: Any, ctx: Any) -> Any:
        raise ValueError("no")

    made = interval_join(-5, 5, fails)
    feed(made, 0, 1, 2)
    with pytest.raises(OperatorError, match="no") as caught:
        made.process(RowBatch([("b", 1), ("a", 1)], [1, 1]), input_index=1)
    assert caught.value.record == ("a", 1)


class Both(CoGroupFunction):
    def co_group(self, first: Any, second: Any) -> Iterator[Any]:
        yield [r[1] for r in first], [r[1] for r in second]


class Sums(FlatJoinFunction):
    def join(self, first: Any, second: Any) -> Any:
        return [first[1] + second[1]] if first[1] else None


def window_join(function: Any, restored: Any = None, key: KeySelector = KEY, **more: Any) -> OperatorHarness:
    assigner = more.pop("assigner", TumblingEventTimeWindows.of(10))
    trigger = more.pop("trigger", None) or assigner.get_default_trigger(None)
    spec = CoGroupSpec(
        assigner, trigger, Tagged(PAIR, PAIR), function, key, from_hint(str), second_selector=key, **more
    )  # fmt: skip
    return OperatorHarness(spec, PAIR, PAIR, restored=restored).open()


@pytest.mark.parametrize("key", [KEY, KeySelector(function=lambda pair: pair[0])], ids=["field", "function"])
def test_a_group_is_emitted_if_one_side_is_empty(key: KeySelector) -> None:
    made = window_join(Both(), key=key)
    feed(made, 0, 1, 2)
    feed(made, 1, 3, key="b")
    made.signal(Watermark(9))
    assert sorted(made.out.rows) == [([], [3]), ([1, 2], [])]
    assert list(made.out.batches[0].timestamps) == [9, 9], "results have the time of the end of their window"


def test_a_flat_join_may_return_nothing_for_a_pair() -> None:
    made = window_join(Sums())
    feed(made, 0, 0, 1)
    feed(made, 1, 5, 6)
    made.signal(Watermark(9))
    assert made.out.rows == [6, 7]


def test_triggers_and_evictors_see_the_side_of_a_record() -> None:
    seen: list[TaggedUnion] = []

    class Watching(CountTrigger):
        def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> Any:
            seen.append(element)
            return super().on_element(element, timestamp, window, ctx)

    class Newest(CountEvictor):
        def evict_before(self, elements: list[Any], size: int, window: Any, evictor_context: Any) -> None:
            assert all(isinstance(element.value, TaggedUnion) for element in elements)
            super().evict_before(elements, size, window, evictor_context)

    def made(restored: Any = None) -> OperatorHarness:
        windows = {"assigner": GlobalWindows.create(), "trigger": Watching(3), "evictor": Newest.of(2)}
        return window_join(Both(), restored, **windows)

    before = made()
    feed(before, 0, 1)
    feed(before, 1, 2)
    assert [element.is_two() for element in seen] == [False, True]
    assert seen[1].get_two() == ("a", 2)
    after = made(before.snapshot())
    assert feed(after, 0, 3) == [([3], [2])]
