"""Watermarks take effect after the record that caused them: results do not depend on batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.common import Duration, Watermark, WatermarkGenerator, WatermarkStrategy
from millstream.common.watermark_strategy import BoundedOutOfOrdernessWatermarks
from millstream.core.jobs.plan import plan
from millstream.core.jobs.plan.window_plan import Buffered, Reduced, WindowSpec
from millstream.core.records.batches import LAST_WATERMARK, Batch, ColumnBatch, RowBatch, WatermarkStatus
from millstream.core.records.types import from_hint
from millstream.datastream import KeyedProcessFunction, OutputTag
from millstream.datastream.connectors.base import PollStatus, SourceReader
from millstream.datastream.connectors.collection import CollectionSource
from millstream.datastream.functions import ProcessWindowFunction
from millstream.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from millstream.taskmanager.testing import OperatorHarness
from millstream.taskmanager.worker.operators.base import OperatorError

Record = tuple[str, int, int]
"""Its key, its timestamp, and the watermark after it, if any, or that the stream becomes idle."""
RECORD = from_hint(tuple[str, int, int])
IDLE = -1
NOTHING = -2
KEY = plan.KeySelector(fields=(0,))


class Marks(WatermarkGenerator):
    """Emits the watermark in the record."""

    def on_event(self, event: Record, event_timestamp: int, output: Any) -> None:
        assert event_timestamp == event[1]
        if event[2] == IDLE:
            output.mark_idle()
        elif event[2] != NOTHING:
            output.emit_watermark(Watermark(event[2]))

    def on_periodic_emit(self, output: Any) -> None:
        pass


MARKS = WatermarkStrategy.for_generator(lambda context: Marks()).with_timestamp_field(1)
MARKED_COLUMNS = WatermarkStrategy.for_generator(lambda context: Marks()).with_timestamp_field("f1")


class Shown(ProcessWindowFunction):
    """`(key, start, end, what the window holds, the watermark)`."""

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        window = context.window()
        yield key, window.start, window.end, list(elements), context.current_watermark()

    def clear(self, context: Any) -> None:
        pass


class Alarms(KeyedProcessFunction):
    """Emits what it processes, late or not, and a timer 3 ms later."""

    def process_element(self, value: Record, ctx: Any) -> Iterator[Any]:
        late = ctx.timestamp() <= ctx.timer_service().current_watermark()
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 3)
        yield (OutputTag("late"), value) if late else ("record", value)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield "timer", ctx.get_current_key(), timestamp, ctx.timer_service().current_watermark()


def longer(first: Record, second: Record) -> Record:
    return f"{first[0]}, {second[1]}", second[1], second[2]


def windows(assigner: Any, lateness: int, contents: Any = None) -> WindowSpec:
    trigger = assigner.get_default_trigger(None)
    return WindowSpec(
        assigner, trigger, contents or Buffered(RECORD), Shown(), plan.KeySelector(function=lambda row: row[0][0]),
        from_hint(str), allowed_lateness=lateness, late_tag="late",
    )  # fmt: skip


BEHIND = [
    lambda: windows(TumblingEventTimeWindows.of(5), 0),
    lambda: windows(TumblingEventTimeWindows.of(4), 3),
    lambda: windows(TumblingEventTimeWindows.of(3), 2, Reduced(longer, RECORD)),
    lambda: windows(SlidingEventTimeWindows.of(6, 2), 0, Reduced(longer, RECORD)),
    lambda: windows(SlidingEventTimeWindows.of(9, 3), 4, Reduced(longer, RECORD)),
    lambda: windows(EventTimeSessionWindows.with_gap(3), 0),
    lambda: plan.KeyedProcessSpec(Alarms(), KEY, from_hint(str)),
]
RECORDS = st.lists(
    st.tuples(
        st.sampled_from("ab"), st.integers(0, 30), st.one_of(st.just(NOTHING), st.just(IDLE), st.integers(0, 30))
    ),
    max_size=40,
)


def cut(records: list[Record], sizes: list[int]) -> Iterator[list[Record]]:
    """Splits records into batches of these sizes, in turn."""
    start = 0
    while start < len(records):
        for size in sizes:
            yield records[start : start + size]
            start += size


def columns(records: list[Record]) -> ColumnBatch:
    names = ["f0", "f1", "f2"]
    return ColumnBatch(pa.record_batch([pa.array(values) for values in zip(*records, strict=True)], names=names))


def flat(elements: list[Any]) -> list[Any]:
    """One record or signal after the other, without the bounds of batches."""
    found: list[Any] = []
    for element in elements:
        if isinstance(element, ColumnBatch):
            rows = [tuple(row.values()) for row in element.data.to_pylist()]
            found += zip(rows, element.timestamps.to_pylist(), strict=True)
        elif isinstance(element, RowBatch):
            found += zip(element.rows, element.timestamps or [], strict=True)
        else:
            found.append(element)
    return found


def expected(records: list[Record]) -> list[Any]:
    """The expected stream with these watermarks, record by record."""
    found: list[Any] = []
    last, is_idle = -(2**63), False
    for record in records:
        found.append((record, record[1]))
        if record[2] == IDLE:
            found += [] if is_idle else [WatermarkStatus(True)]
            is_idle = True
        elif record[2] != NOTHING and record[2] > last:
            found += [WatermarkStatus(False)] if is_idle else []
            last, is_idle = record[2], False
            found.append(Watermark(last))
    return found


def behind(spec: Any, elements: list[Any]) -> tuple[list[Any], list[Any]]:
    """The output of an operator for these elements, and its late records."""
    harness = OperatorHarness(spec, RECORD, tags=["late"]).open()
    for element in [*elements, LAST_WATERMARK]:
        if isinstance(element, RowBatch):
            harness.process(element)
        elif isinstance(element, Watermark):
            harness.signal(element)
    return flat(harness.out.elements), flat(harness.side["late"].elements)


@settings(deadline=None)
@given(records=RECORDS, sizes=st.lists(st.integers(1, 50), min_size=1, max_size=3))
def test_a_batch_is_split_at_its_watermarks(records: list[Record], sizes: list[int]) -> None:
    made = OperatorHarness(plan.TimestampsSpec(MARKS), RECORD).open()
    for rows in cut(records, sizes):
        made.process(RowBatch(rows))
    assert flat(made.out.elements) == expected(records)
    of_columns = OperatorHarness(plan.TimestampsSpec(MARKED_COLUMNS), RECORD).open()
    for rows in cut(records, sizes):
        if rows:
            of_columns.process(columns(rows))
    assert flat(of_columns.out.elements) == expected(records)


@pytest.mark.parametrize(
    "spec", BEHIND, ids=["tumbling", "late", "reduced", "sliding", "late-sliding", "sessions", "timers"]
)
@settings(deadline=None)
@given(records=RECORDS, size=st.integers(2, 50))
def test_late_records_and_timers_do_not_depend_on_batches(
    spec: Callable[[], Any], records: list[Record], size: int
) -> None:
    def run(rows: int) -> tuple[list[Any], list[Any]]:
        made = OperatorHarness(plan.TimestampsSpec(MARKS), RECORD).open()
        for batch in cut(records, [rows]):
            made.process(RowBatch(batch))
        return behind(spec(), made.out.elements)

    assert run(size) == run(1)


class Reader(SourceReader[str]):
    """Reads runs of records, each of one split, which ends after the last of its runs."""

    def __init__(self, context: Any, runs: list[tuple[str, list[Record]]]) -> None:
        self._context = context
        self._runs = [(split, list(records)) for split, records in runs]
        self._split: str | None = None

    def poll_next(self, max_rows: int) -> Batch | PollStatus:
        while self._runs and not self._runs[0][1]:
            split, _ = self._runs.pop(0)
            if all(split != later for later, _ in self._runs):
                self._context.split_finished(split)
        if not self._runs:
            return PollStatus.END_OF_INPUT
        self._split, records = self._runs[0]
        taken, records[:max_rows] = records[:max_rows], []
        return RowBatch(taken)

    def current_split_id(self) -> str | None:
        return self._split

    def add_splits(self, splits: list[str]) -> None:
        pass

    def notify_no_more_splits(self) -> None:
        pass

    def snapshot_state(self, checkpoint_id: int) -> list[str]:
        return []


class Runs(CollectionSource):
    """A source with such a reader."""

    def __init__(self, runs: list[tuple[str, list[Record]]]) -> None:
        super().__init__([])
        self._runs = runs

    def create_reader(self, context: Any) -> Any:
        return Reader(context, self._runs)


def source_elements(runs: list[tuple[str, list[Record]]], max_rows: int) -> list[Any]:
    options = {"execution.batch.max-rows": str(max_rows)}
    harness = OperatorHarness(plan.SourceSpec(Runs(runs), MARKS), options=options).open()
    while isinstance(batch := harness.operator.poll(max_rows), RowBatch):
        harness.operator.emit_polled(batch)
    return harness.out.elements


@settings(deadline=None)
@given(runs=st.lists(st.tuples(st.sampled_from("xyz"), RECORDS), max_size=6), max_rows=st.integers(2, 50))
def test_a_source_of_several_splits_splits_batches_where_its_slowest_split_advances(
    runs: list[tuple[str, list[Record]]], max_rows: int
) -> None:
    elements = source_elements(runs, max_rows)
    assert flat(elements) == flat(source_elements(runs, 1))
    for spec in BEHIND:
        assert behind(spec(), elements) == behind(spec(), source_elements(runs, 1))


def outline(made: OperatorHarness) -> list[Any]:
    """The sizes of batches, and the signals between them."""
    return [len(element) if isinstance(element, RowBatch) else element for element in made.out.elements]


def test_a_batch_without_watermarks_is_not_split() -> None:
    records = [("a", time, 7 if time else 9) for time in range(100)]
    made = OperatorHarness(plan.TimestampsSpec(MARKS), RECORD).open()
    made.process(RowBatch(records))
    assert [len(batch) for batch in made.out.batches] == [1, 99]
    made.process(batch := RowBatch(records))
    assert made.out.batches[2].rows is batch.rows
    periodic = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(1)).with_timestamp_field(1)
    made = OperatorHarness(plan.TimestampsSpec(periodic), RECORD).open()
    made.process(batch)
    assert made.out.batches[0].rows is batch.rows


def test_the_more_derived_method_of_a_generator_is_used() -> None:
    class Eager(BoundedOutOfOrdernessWatermarks):
        def on_event(self, event: Any, event_timestamp: int, output: Any) -> None:
            super().on_event(event, event_timestamp, output)
            if event[2] != NOTHING:
                self.on_periodic_emit(output)

    class ByBatch(Marks):
        def on_batch(self, events: Any, timestamps: Any, output: Any) -> None:
            output.emit_watermark(Watermark(max(timestamps)))

    records = [("a", 5, 0), ("a", 7, NOTHING), ("a", 9, 0), ("a", 1, NOTHING)]
    eager = WatermarkStrategy.for_generator(lambda context: Eager(1)).with_timestamp_field(1)
    made = OperatorHarness(plan.TimestampsSpec(eager), RECORD).open()
    made.process(RowBatch(records))
    assert outline(made) == [1, Watermark(3), 2, Watermark(7), 1]
    by_batch = WatermarkStrategy.for_generator(lambda context: ByBatch()).with_timestamp_field(1)
    made = OperatorHarness(plan.TimestampsSpec(by_batch), RECORD).open()
    made.process(RowBatch(records))
    assert outline(made) == [4, Watermark(9)]


def test_an_error_of_a_generator_names_its_record_after_the_records_before_it_were_emitted() -> None:
    class Fails(Marks):
        def on_event(self, event: Record, event_timestamp: int, output: Any) -> None:
            if event[0] == "bad":
                raise ValueError("no")
            super().on_event(event, event_timestamp, output)

    strategy = WatermarkStrategy.for_generator(lambda context: Fails()).with_timestamp_field(1)
    records = [("a", 1, NOTHING), ("a", 2, 2), ("a", 3, NOTHING), ("bad", 4, NOTHING), ("a", 5, 5)]
    for size in (1, 5):
        made = OperatorHarness(plan.TimestampsSpec(strategy), RECORD).open()
        with pytest.raises(OperatorError, match="no") as caught:
            made.process(*map(RowBatch, cut(records, [size])))
        assert caught.value.record == records[3]
        assert flat(made.out.elements) == expected(records[:4])


def test_an_idle_stream_becomes_active_before_its_next_records() -> None:
    strategy = MARKS.with_idleness(Duration.of_seconds(1))
    made = OperatorHarness(plan.TimestampsSpec(strategy), RECORD).open()
    for _ in range(10):
        made.advance(0.2)
    made.process(RowBatch([("a", 1, NOTHING), ("a", 2, NOTHING)]))
    assert outline(made) == [WatermarkStatus(True), WatermarkStatus(False), 2]
