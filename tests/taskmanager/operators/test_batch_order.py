"""Operators in batch mode: all records of a key before those of another, ordered by time, and then the key's end."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.common import Time
from millstream.core.errors import MillstreamError
from millstream.core.jobs.plan import plan
from millstream.core.jobs.plan.function_ends_plan import SinkFunctionSpec
from millstream.core.jobs.plan.window_plan import Reduced, WindowSpec
from millstream.core.jobs.progress import AwaitingEnd, OperatorProgress
from millstream.core.records.batches import (
    LAST_WATERMARK,
    MAX_TIMESTAMP,
    MIN_TIMESTAMP,
    TIMESTAMP,
    ColumnBatch,
    RowBatch,
    Watermark,
    WatermarkStatus,
)
from millstream.core.records.types import from_hint
from millstream.datastream import (
    BroadcastProcessFunction,
    CoMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    TimeDomain,
)
from millstream.datastream.functions import SinkContext, SinkFunction
from millstream.datastream.state import MapStateDescriptor
from millstream.datastream.window import (
    ContinuousProcessingTimeTrigger,
    EventTimeTrigger,
    GlobalWindows,
    ProcessingTimeTrigger,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from millstream.taskmanager.testing import OperatorHarness
from millstream.taskmanager.worker.operators.base import OperatorError
from millstream.taskmanager.worker.operators.batch.sorted_records import Place, SortedRecords

KEY = plan.KeySelector(fields=(0,))
KEYS = plan.TwoInputKeys(KEY, KEY, from_hint(str))
SIDE = OutputTag("side")
ROWS = [("a", 5), ("b", 1), ("a", 3), ("b", 7), ("a", 4)]


def timed(rows: list[tuple[str, int]]) -> RowBatch:
    """Each with the timestamp of its second field."""
    return RowBatch(list(rows), array(TIMESTAMP, [row[1] for row in rows]))


class Alarmed(KeyedProcessFunction):
    """Records the order of its calls; sets a timer of both domains for each record, and another for each timer."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        timers = ctx.timer_service()
        timers.register_event_time_timer(value[1] + 10)
        timers.register_processing_time_timer(timers.current_processing_time() + 1_000_000)
        yield value, timers.current_watermark()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        ctx.timer_service().register_event_time_timer(timestamp + 1)
        ctx.timer_service().register_processing_time_timer(timestamp + 1)
        kind = timestamp if ctx.time_domain() is TimeDomain.EVENT_TIME else "clock"
        yield ctx.get_current_key(), kind, ctx.timer_service().current_watermark()


def by_key(rows: list[Any]) -> dict[str, list[Any]]:
    """The records of each key in order of arrival."""
    found: dict[str, list[Any]] = {}
    for row in rows:
        found.setdefault(row[0][0], []).append(row)
    return found


@pytest.mark.parametrize("at_once", [1, 2, 2048])
def test_the_records_of_a_key_are_ordered_by_time_and_end_with_its_timers(at_once: int) -> None:
    made = OperatorHarness(plan.KeyedProcessSpec(Alarmed(), KEY, from_hint(str)), batch=True).open()
    made.process(timed(ROWS[:2]), timed(ROWS[2:]))
    made.signal(Watermark(100))
    made.signal(WatermarkStatus(True))
    assert (made.advance(2_000), made.out.elements) == (None, [])
    made.end_input(at_once)
    assert by_key(made.out.rows) == {
        "a": [
            (("a", 3), MIN_TIMESTAMP), (("a", 4), MIN_TIMESTAMP), (("a", 5), MIN_TIMESTAMP),
            ("a", 13, MAX_TIMESTAMP), ("a", 14, MAX_TIMESTAMP), ("a", 15, MAX_TIMESTAMP), ("a", "clock", MAX_TIMESTAMP),
        ],
        "b": [
            (("b", 1), MIN_TIMESTAMP), (("b", 7), MIN_TIMESTAMP),
            ("b", 11, MAX_TIMESTAMP), ("b", 17, MAX_TIMESTAMP), ("b", "clock", MAX_TIMESTAMP),
        ],
    }  # fmt: skip
    assert made.out.elements[-1] == LAST_WATERMARK
    assert made.out.elements.count(LAST_WATERMARK) == 1
    assert made.finish()


def test_the_function_processes_one_key_after_the_other() -> None:
    seen: list[str] = []

    class Seeing(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> None:
            seen.append(value[0])

    made = OperatorHarness(plan.KeyedProcessSpec(Seeing(), KEY, from_hint(str)), batch=True).open()
    made.process(timed(ROWS))
    made.end_input()
    assert "".join(seen) in ("aaabb", "bbaaa")


def test_records_without_a_timestamp_keep_their_order() -> None:
    class Same(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            yield value, ctx.timestamp()

    made = OperatorHarness(plan.KeyedProcessSpec(Same(), KEY, from_hint(str)), batch=True).open()
    made.process(RowBatch(list(ROWS)))
    made.end_input()
    assert by_key(made.out.rows) == {
        "a": [(("a", 5), None), (("a", 3), None), (("a", 4), None)], "b": [(("b", 1), None), (("b", 7), None)],
    }  # fmt: skip


@pytest.mark.parametrize("at_once", [1, 3, 2048])
def test_state_is_kept_until_its_key_ends_and_no_longer(at_once: int) -> None:
    class Counted(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self.count = runtime_context.get_state("count", int)
            self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", int, int))

        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            self.count.update((self.count.value() or 0) + 1)
            self.seen.put(value[1], 1)
            yield value, self.count.value(), len(list(self.seen.keys()))

    made = OperatorHarness(plan.KeyedProcessSpec(Counted(), KEY, from_hint(str)), batch=True).open()
    made.process(timed(ROWS))
    made.end_input(at_once)
    assert by_key(made.out.rows) == {
        "a": [(("a", 3), 1, 1), (("a", 4), 2, 2), (("a", 5), 3, 3)], "b": [(("b", 1), 1, 1), (("b", 7), 2, 2)],
    }  # fmt: skip
    state = made.operator.keyed_state
    assert state is not None
    assert state.entries("count") == state.entries("seen") == []


def test_columns_are_handled_like_rows() -> None:
    class Same(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            yield (*value, ctx.timestamp())

    made = OperatorHarness(
        plan.KeyedProcessSpec(Same(), KEY, from_hint(str)), from_hint(tuple[str, int]), batch=True
    ).open()
    data = pa.record_batch([pa.array(["a", "a"]), pa.array([2, 1])], names=["f0", "f1"])
    made.process(ColumnBatch(data, pa.array([20, 10], pa.int64())))
    made.end_input()
    assert made.out.rows == [("a", 1, 10), ("a", 2, 20)]


def test_two_streams_are_merged_by_key_and_time() -> None:
    class Sides(CoMapFunction):
        def map1(self, value: Any) -> Any:
            return value, 1

        def map2(self, value: Any) -> Any:
            return value, 2

    made = OperatorHarness(plan.CoMapSpec(Sides(), KEYS), batch=True).open()
    made.process(timed(ROWS))
    made.process(timed([("c", 1), ("a", 4)]), input_index=1)
    made.end_input()
    assert by_key(made.out.rows) == {
        "a": [(("a", 3), 1), (("a", 4), 1), (("a", 4), 2), (("a", 5), 1)],
        "b": [(("b", 1), 1), (("b", 7), 1)],
        "c": [(("c", 1), 2)],
    }


@pytest.mark.parametrize("keyed", [False, True])
def test_a_broadcast_stream_is_read_first(keyed: bool) -> None:
    rules = MapStateDescriptor("rules", str, int)

    class Applied(KeyedBroadcastProcessFunction if keyed else BroadcastProcessFunction):  # type: ignore[misc]  # either
        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            yield value, ctx.get_broadcast_state(rules).get("x")

        def process_broadcast_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            ctx.get_broadcast_state(rules).put("x", value)
            yield "rule", value

    keys = plan.TwoInputKeys(KEY, None, from_hint(str)) if keyed else None
    made = OperatorHarness(plan.BroadcastProcessSpec(Applied(), (rules,), keys), batch=True).open()
    made.process(timed([("a", 2), ("a", 1)]))
    made.process(RowBatch([3]), input_index=1)
    made.end_input()
    first, second = (("a", 1), ("a", 2)) if keyed else (("a", 2), ("a", 1))
    assert made.out.rows == [("rule", 3), (first, 3), (second, 3)]


@pytest.mark.parametrize(("is_timed", "expected"), [(True, [("a", 345), ("b", 17)]), (False, [("a", 534), ("b", 17)])])
def test_a_reduce_emits_only_the_last_value_of_each_key(is_timed: bool, expected: list[Any]) -> None:
    spec = plan.ReduceSpec(lambda a, b: (a[0], a[1] * 10 + b[1]), KEY, from_hint(str))
    made = OperatorHarness(spec, batch=True, timed=is_timed).open()
    made.process(timed(ROWS) if is_timed else RowBatch(list(ROWS)))
    assert made.out.elements == []
    assert made.operator.progress() == OperatorProgress("the operator", AwaitingEnd(len(ROWS)))
    made.end_input()
    assert sorted(made.out.rows) == expected
    assert {time for batch in made.out.batches for time in batch.timestamps} == {MAX_TIMESTAMP}
    assert made.out.elements[-1] == LAST_WATERMARK


def test_results_of_many_keys_are_emitted_together() -> None:
    class Sides(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            yield value
            yield SIDE, value
            ctx.timer_service().register_processing_time_timer(0)

        def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
            yield ctx.get_current_key(), -1

    made = OperatorHarness(plan.KeyedProcessSpec(Sides(), KEY, from_hint(int)), tags=["side"], batch=True).open()
    rows = [(key, number) for number in range(2) for key in range(1_000)]
    made.process(timed(rows))
    made.end_input()
    expected = rows + [(key, -1) for key in range(1_000)]
    assert sorted(made.out.rows) == sorted(expected)
    assert sorted(made.side["side"].rows) == sorted(rows)
    assert len(made.out.batches) + len(made.side["side"].batches) < 10


WHOLE = [("a", 345), ("b", 17), ("c", 2)]


@pytest.mark.parametrize(
    ("assigner", "trigger", "expected"),
    [
        (
            TumblingEventTimeWindows.of(Time.milliseconds(4)),
            EventTimeTrigger.create(),
            [("a", 3), ("a", 45), ("b", 1), ("b", 7), ("c", 2)],
        ),
        (TumblingProcessingTimeWindows.of(Time.hours(1)), ProcessingTimeTrigger.create(), WHOLE),
        (GlobalWindows.create(), ContinuousProcessingTimeTrigger.of(Time.hours(1)), WHOLE),
    ],
    ids=["event time", "processing time", "for ever"],
)
def test_windows_fire_at_the_end_of_their_key_and_nothing_is_late(assigner: Any, trigger: Any, expected: Any) -> None:
    spec = WindowSpec(assigner, trigger, Reduced(lambda a, b: (a[0], a[1] * 10 + b[1])), None, KEY, from_hint(str))
    made = OperatorHarness(spec, batch=True).open()
    made.process(timed(ROWS))
    made.signal(Watermark(1_000))
    made.process(timed([("c", 2)]))
    made.end_input()
    assert sorted(made.out.rows) == expected


def test_checkpoints_are_declined_while_records_are_held() -> None:
    made = OperatorHarness(plan.KeyedProcessSpec(Alarmed(), KEY, from_hint(str)), batch=True).open()
    made.process(timed(ROWS))
    with pytest.raises(MillstreamError, match="a job in batch mode takes no checkpoints and no savepoints"):
        made.snapshot()
    made.end_input()
    made.snapshot()


def test_a_key_selector_that_fails_names_its_record() -> None:
    def broken(value: Any) -> Any:
        return 1 // value[1]

    spec = plan.KeyedProcessSpec(Alarmed(), plan.KeySelector(function=broken), from_hint(int))
    made = OperatorHarness(spec, batch=True).open()
    with pytest.raises(OperatorError, match="ZeroDivisionError") as caught:
        made.process(RowBatch([("a", 1), ("b", 0)]))
    assert caught.value.record == ("b", 0)
    assert made.close() == []


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3))), st.integers(1, 7), st.integers(1, 5))
def test_records_are_sorted_even_if_few_fit_into_memory(places: list[Any], run: int, together: int) -> None:
    all_ = [Place(key, key, time, number, 0, {"n": number}) for number, (key, time) in enumerate(places)]
    records = SortedRecords(run)
    for start in range(0, len(all_), together):
        records.add(all_[start : start + together])
    assert list(records.read()) == sorted(all_, key=lambda place: place[:4])
    records.close()


class Written(SinkFunction[Any]):
    def invoke(self, value: Any, context: SinkContext) -> None:
        """Takes every record."""


def test_a_sink_counts_the_written_records_of_those_held() -> None:
    harness = OperatorHarness(SinkFunctionSpec(Written(), KEY, from_hint(str)), batch=True).open()
    harness.process(RowBatch(list(ROWS)))
    assert harness.operator.records_written == 0
    harness.end_input()
    assert harness.operator.records_written == len(ROWS)
