"""What operators have to say when it is asked why nothing comes out: windows, timers, transactions."""

from __future__ import annotations

from typing import Any

from test_committing_sink import Recording
from test_timers import alarms
from test_windows import PAIR, TEN, added, harness, rows

from millstream.common import Time, Watermark
from millstream.core.jobs.plan.plan import SinkSpec
from millstream.core.jobs.plan.window_plan import Reduced
from millstream.core.jobs.progress import PendingCommits, TimedWork
from millstream.core.records.batches import RowBatch
from millstream.datastream.window import CountTumblingWindowAssigner, TumblingProcessingTimeWindows
from millstream.taskmanager.testing import OperatorHarness


def said(made: OperatorHarness) -> Any:
    told = made.operator.progress()
    assert told is not None
    assert told.operator == "the operator"
    return told.kind


def test_windows_wait_with_their_records_until_one_fires() -> None:
    for contents in (None, Reduced(added, PAIR)):
        made = harness(TEN, contents, allowed_lateness=5)
        assert said(made) == TimedWork(True, 0)
        made.process(rows(("a", 1), ("b", 2), ("a", 3), times=[1, 2, 13]))
        assert said(made) == TimedWork(True, 3, 3, 9)
        made.signal(Watermark(9))
        waits = said(made)
        assert (waits.records, waits.next_event_time) == (0, 14), "what has fired is kept for late records"
        made.process(rows(("a", 3), times=[14]))
        assert said(made).records == 1


def test_windows_of_the_machine_s_clock_and_of_counts() -> None:
    made = harness(TumblingProcessingTimeWindows.of(Time.seconds(1)))
    made.process(rows(("a", 1)))
    assert said(made) == TimedWork(True, 1, 1, None, 999)
    counting = harness(CountTumblingWindowAssigner.of(2))
    counting.process(rows(("a", 1)))
    assert (said(counting).open, said(counting).records) == (0, 1)


def test_keys_with_timers() -> None:
    made = alarms()
    made.process(RowBatch([("a", "event", 10), ("a", "event", 20), ("b", "event", 20), ("c", "processing", 5)]))
    assert said(made) == TimedWork(False, 3, 0, 10, 5)
    made.signal(Watermark(10))
    assert said(made).next_event_time == 20


def test_records_that_are_written_and_not_committed() -> None:
    made = OperatorHarness(SinkSpec(Recording())).open()
    assert said(made) == PendingCommits()
    made.clock.advance(1)
    made.process(RowBatch([1]))
    made.clock.advance(1)
    made.process(RowBatch([2]))
    assert said(made) == PendingCommits(0, 1000)
    made.snapshot(1)
    made.process(RowBatch([3]))
    made.clock.advance(1)
    made.snapshot(2)
    made.snapshot(3)
    assert said(made) == PendingCommits(2, 1000)
    made.operator.notify_checkpoint_complete(1)
    assert said(made) == PendingCommits(1, 2000)
    made.operator.notify_checkpoint_complete(3)
    assert said(made) == PendingCommits()
