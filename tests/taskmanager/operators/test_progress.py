"""What operators report when nothing is emitted: windows, timers, joins, transactions."""

from __future__ import annotations

from typing import Any

import pytest
from test_column_windows import spec_of
from test_committing_sink import Recording
from test_joins import feed, interval_join
from test_timers import alarms
from test_windows import PAIR, TEN, added, harness, rows

from millstream.common import Time, Watermark
from millstream.core.jobs.plan.plan import SinkSpec
from millstream.core.jobs.plan.window_plan import Reduced
from millstream.core.jobs.progress import KeptRecords, PendingCommits, TimedKind, TimedWork
from millstream.core.records.batches import RowBatch
from millstream.core.records.types import LONG, STRING, TupleType
from millstream.datastream.aggregates import sum
from millstream.datastream.window import (
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from millstream.taskmanager.testing import OperatorHarness


def progress(made: OperatorHarness) -> Any:
    found = made.operator.progress()
    assert found is not None
    assert found.operator == "the operator"
    return found.kind


def test_windows_are_reported_with_their_records_until_one_fires() -> None:
    for contents in (None, Reduced(added, PAIR)):
        made = harness(TEN, contents, allowed_lateness=5)
        assert progress(made) == TimedWork(TimedKind.WINDOWS, 0)
        made.process(rows(("a", 1), ("b", 2), ("a", 3), times=[1, 2, 13]))
        assert progress(made) == TimedWork(TimedKind.WINDOWS, 3, 3, 9)
        made.signal(Watermark(9))
        waits = progress(made)
        assert (waits.records, waits.next_event_time) == (0, 14), "what has fired is kept for late records"
        made.process(rows(("a", 3), times=[14]))
        assert progress(made).records == 1


def test_windows_in_processing_time_and_count_windows() -> None:
    made = harness(TumblingProcessingTimeWindows.of(Time.seconds(1)))
    made.process(rows(("a", 1)))
    assert progress(made) == TimedWork(TimedKind.WINDOWS, 1, 1, None, 999)
    counting = harness(CountTumblingWindowAssigner.of(2))
    counting.process(rows(("a", 1)))
    assert (progress(counting).open, progress(counting).records) == (0, 1)


WORD_COUNTS = TupleType((STRING, LONG), ("word", "n"))


def column_windows(assigner: Any, lateness: int = 0, restored: Any = None) -> OperatorHarness:
    spec = spec_of(assigner, WORD_COUNTS, ["word"], sum("n"), lateness=lateness)
    return OperatorHarness(spec, WORD_COUNTS, restored=restored).open()


def test_windows_of_columns_are_counted_once_for_all_keys() -> None:
    made = column_windows(TEN, lateness=5)
    assert progress(made) == TimedWork(TimedKind.WINDOWS_OF_ALL_KEYS, 0)
    made.process(rows(("a", 1), ("b", 2), ("a", 3), times=[1, 2, 33]))
    assert progress(made) == TimedWork(TimedKind.WINDOWS_OF_ALL_KEYS, 2, 3, 9)
    made.signal(Watermark(9))
    assert progress(made) == TimedWork(TimedKind.WINDOWS_OF_ALL_KEYS, 1, 0, 39), "what has fired has not to wait"
    made.process(rows(("a", 3), ("a", 4), times=[34, 45]))
    assert progress(made) == TimedWork(TimedKind.WINDOWS_OF_ALL_KEYS, 2, 2, 39)
    after = column_windows(TEN, 5, made.snapshot())
    after.signal(Watermark(9))
    assert progress(after) == TimedWork(TimedKind.WINDOWS_OF_ALL_KEYS, 2, 0, 39)


@pytest.mark.parametrize(
    ("size", "slide", "watermark", "open_", "upcoming"),
    [(30, 10, 0, 4, 9), (30, 10, 15, 3, 19), (25, 10, 0, 4, 4), (10, 20, 0, 1, 9), (30, 10, 29, 1, 39)],
)
def test_sliding_windows_of_columns(size: int, slide: int, watermark: int, open_: int, upcoming: int) -> None:
    made = column_windows(SlidingEventTimeWindows.of(Time.milliseconds(size), Time.milliseconds(slide)))
    made.signal(Watermark(watermark))
    made.process(rows(("a", 1), ("a", 2), times=[1, 11]) if watermark < 20 else rows(("a", 1), times=[11]))
    assert progress(made) == TimedWork(TimedKind.WINDOWS_OF_ALL_KEYS, open_, progress(made).records, upcoming)


def test_very_many_windows_of_columns_are_not_all_counted() -> None:
    made = column_windows(TEN)
    for first in (50_000, 0):  # some are grouped, others are still buffered
        made.process(rows(*(("a", 1) for _ in range(70_000)), times=[first + n % 50_000 for n in range(70_000)]))
        made.process(rows(("a", 1), times=[first + 49_999]))
    made.signal(Watermark(9))
    assert (progress(made).open, progress(made).next_event_time) == (1000, 19)


def test_sessions_of_columns_are_not_merged_for_counting() -> None:
    made = column_windows(EventTimeSessionWindows.with_gap(Time.milliseconds(10)))
    assert progress(made) == TimedWork(TimedKind.SESSIONS, 0)
    made.process(rows(("a", 1), ("a", 2), ("b", 3), times=[5, 7, 33]))
    assert progress(made) == TimedWork(TimedKind.SESSIONS, 3, 3, 14)
    after = column_windows(EventTimeSessionWindows.with_gap(Time.milliseconds(10)), restored=made.snapshot())
    assert progress(after) == TimedWork(TimedKind.SESSIONS, 2, 0, 16), "they are merged by now"
    after.signal(Watermark(20))
    assert progress(after) == TimedWork(TimedKind.SESSIONS, 1, 0, 42)


def test_windows_of_columns_in_processing_time() -> None:
    made = column_windows(TumblingProcessingTimeWindows.of(Time.seconds(1)))
    made.process(rows(("a", 1)))
    assert progress(made) == TimedWork(TimedKind.WINDOWS_OF_ALL_KEYS, 1, 1, None, 1000)


def test_an_interval_join_reports_what_it_keeps_of_both_streams() -> None:
    made = interval_join(-1000, 1000)
    assert progress(made) == KeptRecords()
    feed(made, 0, 100, 200, 5_000)
    feed(made, 0, 100, key="b")
    feed(made, 1, 1_000)
    assert progress(made) == KeptRecords(4, 1, 4, 1, 1250), "records go in steps of an eighth of the interval"
    made.signal(Watermark(1_250))
    assert progress(made) == KeptRecords(1, 1, 4, 1, 2250)
    feed(made, 1, 1_200)
    assert progress(made) == KeptRecords(1, 1, 4, 2, 2250), "a late one has come, and is not kept"
    assert progress(interval_join(-1000, 1000, restored=made.snapshot())) == KeptRecords(1, 1, 0, 0, 2250)
    made.signal(Watermark(10_000))
    assert progress(made) == KeptRecords(0, 0, 4, 2)


def test_keys_with_timers() -> None:
    made = alarms()
    made.process(RowBatch([("a", "event", 10), ("a", "event", 20), ("b", "event", 20), ("c", "processing", 5)]))
    assert progress(made) == TimedWork(TimedKind.TIMERS, 3, 0, 10, 5)
    made.signal(Watermark(10))
    assert progress(made).next_event_time == 20


def test_records_that_are_written_but_not_committed() -> None:
    made = OperatorHarness(SinkSpec(Recording())).open()
    assert progress(made) == PendingCommits()
    made.clock.advance(1)
    made.process(RowBatch([1]))
    made.clock.advance(1)
    made.process(RowBatch([2]))
    assert progress(made) == PendingCommits(0, 1000)
    made.snapshot(1)
    made.process(RowBatch([3]))
    made.clock.advance(1)
    made.snapshot(2)
    made.snapshot(3)
    assert progress(made) == PendingCommits(2, 1000)
    assert made.complete(1)
    assert progress(made) == PendingCommits(1, 2000)
    assert made.complete(3)
    assert progress(made) == PendingCommits()
