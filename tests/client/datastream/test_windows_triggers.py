"""When windows are evaluated, and what triggers leave behind."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import Any

import cloudpickle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from window_fakes import EVENT, PROCESSING, TriggerRig

from millstream.common import Duration, InvalidProgramError, MillstreamError, Time
from millstream.core.records.batches import MAX_TIMESTAMP
from millstream.datastream.window import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    CountTumblingWindowAssigner,
    CountWindow,
    EventTimeTrigger,
    GlobalWindow,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    TimeWindow,
    Trigger,
    TriggerResult,
)

CONTINUE, FIRE, PURGE = TriggerResult.CONTINUE, TriggerResult.FIRE, TriggerResult.PURGE
FIRE_AND_PURGE = TriggerResult.FIRE_AND_PURGE
WINDOW = TimeWindow(0, 100)
OF_ALL_TRIGGERS: list[Trigger[Any, Any]] = [
    EventTimeTrigger.create(),
    ProcessingTimeTrigger.create(),
    ContinuousEventTimeTrigger.of(30),
    ContinuousProcessingTimeTrigger.of(30),
    CountTrigger.of(2),
    PurgingTrigger.of(CountTrigger.of(2)),
    NeverTrigger(),
]


def test_results_have_fire_and_purge() -> None:
    assert [(r.is_fire(), r.is_purge()) for r in (CONTINUE, FIRE, PURGE, FIRE_AND_PURGE)] == [
        (False, False),
        (True, False),
        (False, True),
        (True, True),
    ]
    assert pickle.loads(pickle.dumps(FIRE)) is FIRE


def test_event_time_fires_once_at_the_windows_end() -> None:
    rig = TriggerRig(EventTimeTrigger.create())
    assert rig.element(WINDOW, 3) is CONTINUE
    assert rig.element(WINDOW, 5) is CONTINUE
    assert rig.advance_watermark(98) == []
    assert rig.advance_watermark(99) == [(99, WINDOW, FIRE)]
    assert rig.advance_watermark(200) == []


def test_event_time_fires_at_once_for_a_late_record() -> None:
    rig = TriggerRig(EventTimeTrigger.create())
    rig.advance_watermark(99)
    assert rig.element(WINDOW, 3) is FIRE
    assert rig.timers == set()


def test_merged_event_time_windows_fire_at_the_new_end_only() -> None:
    rig = TriggerRig(EventTimeTrigger.create())
    first, second, whole = TimeWindow(0, 10), TimeWindow(8, 18), TimeWindow(0, 18)
    rig.element(first)
    rig.element(second)
    rig.merge(whole, first, second)
    assert rig.timers == {(EVENT, 17, whole)}
    assert rig.advance_watermark(50) == [(17, whole, FIRE)]
    rig.merge(TimeWindow(0, 20), whole)
    assert rig.timers == set(), "what is late fires by its record"


def test_processing_time_fires_by_the_clock_and_not_by_watermarks() -> None:
    rig = TriggerRig(ProcessingTimeTrigger.create())
    assert rig.element(WINDOW, 3) is CONTINUE
    assert rig.advance_watermark(1000) == []
    assert rig.advance_clock(99) == [(99, WINDOW, FIRE)]
    rig.element(WINDOW)
    rig.merge(TimeWindow(0, 120), WINDOW)
    assert rig.advance_clock(500) == [(119, TimeWindow(0, 120), FIRE)]
    rig.merge(TimeWindow(0, 130), TimeWindow(0, 120))
    assert rig.timers == set()


@given(st.integers(1, 6), st.integers(0, 30))
def test_count_fires_with_every_nth_record(size: int, count: int) -> None:
    rig = TriggerRig(CountTrigger.of(size))
    results = [rig.element(GlobalWindow.get()) for _ in range(count)]
    assert results == [FIRE if n % size == 0 else CONTINUE for n in range(1, count + 1)]
    rig.clear(GlobalWindow.get())
    assert rig.values == {}


def test_windows_are_counted_apart_and_together_when_they_merge() -> None:
    rig = TriggerRig(CountTrigger.of(4))
    first, second, whole = TimeWindow(0, 10), TimeWindow(8, 18), TimeWindow(0, 18)
    for window in (first, first, second):
        assert rig.element(window) is CONTINUE
    rig.merge(whole, first, second)
    assert rig.element(whole) is FIRE
    assert rig.element(whole) is CONTINUE


def test_count_heeds_no_clock() -> None:
    trigger = CountTrigger.of(1)
    rig = TriggerRig(trigger)
    assert trigger.on_event_time(5, WINDOW, rig) is CONTINUE
    assert trigger.on_processing_time(5, WINDOW, rig) is CONTINUE


def test_full_count_windows_keep_nothing() -> None:
    unused: Any = None
    rig = TriggerRig(CountTumblingWindowAssigner.of(2).get_default_trigger(unused))
    assert [rig.element(CountWindow(0)), rig.element(CountWindow(0))] == [CONTINUE, FIRE_AND_PURGE]
    assert rig.values == {}


def test_continuous_event_time_fires_at_each_interval_and_at_the_end() -> None:
    rig = TriggerRig(ContinuousEventTimeTrigger.of(30))
    assert rig.element(WINDOW, 35) is CONTINUE
    assert rig.element(WINDOW, 36) is CONTINUE
    assert rig.advance_watermark(59) == []
    assert rig.advance_watermark(60) == [(60, WINDOW, FIRE)]
    assert rig.element(WINDOW, 70) is CONTINUE
    assert rig.advance_watermark(1000) == [(90, WINDOW, FIRE), (99, WINDOW, FIRE)]
    assert rig.element(WINDOW, 70) is FIRE, "a late record"
    rig.clear(WINDOW)
    assert (rig.values, rig.timers) == ({}, set())


@given(st.integers(1, 50), st.lists(st.integers(0, 99), min_size=1, max_size=8))
def test_continuous_event_time_fires_at_multiples_from_the_first_record_on(interval: int, stamps: list[int]) -> None:
    rig = TriggerRig(ContinuousEventTimeTrigger.of(interval))
    assert [rig.element(WINDOW, stamp) for stamp in stamps] == [CONTINUE] * len(stamps)
    first = stamps[0] - stamps[0] % interval + interval
    assert [time for time, _, _ in rig.advance_watermark(MAX_TIMESTAMP)] == [*range(first, 99, interval), 99]
    rig.clear(WINDOW)
    assert (rig.values, rig.timers) == ({}, set())


def test_merged_continuous_windows_fire_when_the_first_was_due() -> None:
    for trigger, domain in (
        (ContinuousEventTimeTrigger.of(10), EVENT),
        (ContinuousProcessingTimeTrigger.of(10), PROCESSING),
    ):
        rig = TriggerRig(trigger, now=2)
        first, second, whole = TimeWindow(2, 40), TimeWindow(35, 70), TimeWindow(2, 70)
        rig.element(first, 2)
        rig.now = 35
        rig.element(second, 35)
        rig.merge(whole, first, second)
        assert rig.timers == {(domain, 10, whole)}
        advance = rig.advance_watermark if domain is EVENT else rig.advance_clock
        assert [time for time, _, _ in advance(69)] == [10, 20, 30, 40, 50, 60, 69]
        rig.clear(whole)
        assert (rig.values, rig.timers) == ({}, set())


def test_continuous_processing_time_fires_by_the_clock_up_to_the_windows_end() -> None:
    rig = TriggerRig(ContinuousProcessingTimeTrigger.of(30), now=35)
    assert rig.element(WINDOW, 3) is CONTINUE
    assert rig.element(WINDOW, 4) is CONTINUE
    assert rig.advance_watermark(1000) == []
    assert rig.advance_clock(60) == [(60, WINDOW, FIRE)]
    assert rig.advance_clock(99) == [(90, WINDOW, FIRE), (99, WINDOW, FIRE)]
    rig.clear(WINDOW)
    assert (rig.values, rig.timers) == ({}, set())


def test_continuous_processing_time_continues_in_windows_long_past() -> None:
    rig = TriggerRig(ContinuousProcessingTimeTrigger.of(30), now=1000)
    assert rig.element(WINDOW, 3) is CONTINUE
    assert rig.advance_clock(1000) == []
    assert [time for time, _, _ in rig.advance_clock(1100)] == [1020, 1050, 1080]


def test_purging_purges_where_the_other_fires() -> None:
    rig = TriggerRig(PurgingTrigger.of(EventTimeTrigger.create()))
    assert rig.element(WINDOW, 3) is CONTINUE
    assert rig.advance_watermark(99) == [(99, WINDOW, FIRE_AND_PURGE)]
    assert rig.element(WINDOW, 3) is FIRE_AND_PURGE
    clock = TriggerRig(PurgingTrigger.of(ProcessingTimeTrigger.create()))
    clock.element(WINDOW)
    clock.merge(TimeWindow(0, 120), WINDOW)
    assert clock.advance_clock(200) == [(119, TimeWindow(0, 120), FIRE_AND_PURGE)]


def test_what_the_other_trigger_only_purges_stays_a_purge() -> None:
    class Drops(NeverTrigger[Any]):
        def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
            return PURGE

    assert TriggerRig(PurgingTrigger.of(Drops())).element(GlobalWindow.get()) is PURGE


def test_never_fires() -> None:
    rig = TriggerRig(NeverTrigger())
    assert rig.element(GlobalWindow.get()) is CONTINUE
    assert rig.trigger.on_event_time(MAX_TIMESTAMP, GlobalWindow.get(), rig) is CONTINUE
    assert rig.trigger.on_processing_time(MAX_TIMESTAMP, GlobalWindow.get(), rig) is CONTINUE
    assert (rig.values, rig.timers) == ({}, set())


def test_triggers_declare_whether_their_windows_may_merge() -> None:
    assert [trigger.can_merge() for trigger in OF_ALL_TRIGGERS] == [True] * 6 + [False]
    assert not PurgingTrigger.of(NeverTrigger()).can_merge()


def test_a_trigger_without_on_merge_refuses_windows_that_merge() -> None:
    class Own(Trigger[Any, TimeWindow]):
        def on_element(self, element: Any, timestamp: int, window: TimeWindow, ctx: Any) -> TriggerResult:
            return FIRE

        def on_processing_time(self, time: int, window: TimeWindow, ctx: Any) -> TriggerResult:
            return CONTINUE

        def on_event_time(self, time: int, window: TimeWindow, ctx: Any) -> TriggerResult:
            return CONTINUE

        def clear(self, window: TimeWindow, ctx: Any) -> None:
            pass

    rig = TriggerRig(Own())
    assert rig.element(WINDOW) is FIRE
    assert not Own().can_merge()
    with pytest.raises(MillstreamError, match="Own cannot be used with windows that merge"):
        rig.merge(WINDOW)


@pytest.mark.parametrize("interval", [Time.seconds(2), Duration.of_seconds(2), timedelta(seconds=2), 2000])
def test_intervals_are_any_length_of_time(interval: Any) -> None:
    assert ContinuousEventTimeTrigger.of(interval).interval == 2000
    assert ContinuousProcessingTimeTrigger(interval).interval == 2000


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ContinuousEventTimeTrigger.of(0), "ContinuousEventTimeTrigger: interval must be longer than 0"),
        (lambda: ContinuousProcessingTimeTrigger.of("1s"), "ContinuousProcessingTimeTrigger: interval .* not '1s'"),  # type: ignore[arg-type]
        (lambda: CountTrigger.of(0), "CountTrigger: window_size must be at least 1"),
        (lambda: CountTrigger.of(Time.seconds(1)), "CountTrigger: window_size must be a number of records"),  # type: ignore[arg-type]
        (lambda: PurgingTrigger.of(5), "PurgingTrigger: expected the trigger"),  # type: ignore[arg-type]
    ],
)
def test_what_makes_no_sense_is_refused_by_the_call_that_gave_it(make: Any, message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        make()


@pytest.mark.parametrize("trigger", OF_ALL_TRIGGERS, ids=lambda made: type(made).__name__)
def test_triggers_are_carried_to_the_task_and_clear_what_they_left(trigger: Trigger[Any, Any]) -> None:
    rig = TriggerRig(pickle.loads(cloudpickle.dumps(trigger)))
    assert repr(rig.trigger) == repr(trigger)
    rig.element(WINDOW, 3)
    rig.clear(WINDOW)
    assert (rig.values, rig.timers) == ({}, set())
