"""Which windows a record is put into."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import Any

import cloudpickle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from window_fakes import AssignerContext, Merges

from millstream.common import Duration, InvalidProgramError, Time
from millstream.core.errors import UnrecoverableError
from millstream.core.records.batches import MIN_TIMESTAMP
from millstream.datastream.window import (
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    CountWindow,
    CountWindowSerializer,
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindow,
    GlobalWindows,
    GlobalWindowSerializer,
    MissingTimestampError,
    NeverTrigger,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeWindow,
    TimeWindowSerializer,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)

UNUSED: Any = None
times = st.integers(-(2**53), 2**53)


@st.composite
def lengths_and_offsets(draw: st.DrawFn) -> tuple[int, int]:
    length = draw(st.integers(1, 10**9))
    return length, draw(st.integers(1 - length, length - 1))


class ByField(SessionWindowTimeGapExtractor):
    def extract(self, element: Any) -> Any:
        return element["gap"]


EVENT_TIME: list[WindowAssigner[Any, Any]] = [
    TumblingEventTimeWindows.of(5),
    SlidingEventTimeWindows.of(10, 5),
    EventTimeSessionWindows.with_gap(5),
    DynamicEventTimeSessionWindows.with_dynamic_gap(ByField()),
]
PROCESSING_TIME: list[WindowAssigner[Any, Any]] = [
    TumblingProcessingTimeWindows.of(5),
    SlidingProcessingTimeWindows.of(10, 5),
    ProcessingTimeSessionWindows.with_gap(5),
    DynamicProcessingTimeSessionWindows.with_dynamic_gap(ByField()),
]


def windows_of(assigner: WindowAssigner[Any, Any], timestamp: int, element: Any = None) -> list[Any]:
    return list(assigner.assign_windows(element, timestamp, AssignerContext()))


@given(times, lengths_and_offsets())
def test_every_timestamp_is_in_its_tumbling_window(timestamp: int, shape: tuple[int, int]) -> None:
    size, offset = shape
    [window] = windows_of(TumblingEventTimeWindows.of(size, offset), timestamp)
    assert window.start <= timestamp < window.end == window.start + size
    assert (window.start - offset) % size == 0
    assert window.start == TimeWindow.get_window_start_with_offset(timestamp, offset, size)
    assert windows_of(TumblingEventTimeWindows.of(size, offset), window.max_timestamp()) == [window]
    assert windows_of(TumblingEventTimeWindows.of(size, offset), window.end) != [window]


@given(times, st.integers(1, 200), st.integers(1, 50), st.data())
def test_sliding_windows_are_all_those_around_the_timestamp(
    timestamp: int, size: int, slide: int, data: st.DataObject
) -> None:
    offset = data.draw(st.integers(1 - slide, slide - 1))
    windows = windows_of(SlidingEventTimeWindows.of(size, slide, offset), timestamp)
    around = [start for start in range(timestamp, timestamp - size, -1) if (start - offset) % slide == 0]
    assert windows == [TimeWindow(start, start + size) for start in around], "the latest comes first"


@given(times, times, lengths_and_offsets())
def test_processing_time_windows_are_those_of_the_clock(now: int, timestamp: int, shape: tuple[int, int]) -> None:
    size, offset = shape
    slide = max(abs(offset) + 1, size // 3)
    context = AssignerContext(now)
    for machine, event in (
        (TumblingProcessingTimeWindows.of(size, offset), TumblingEventTimeWindows.of(size, offset)),
        (SlidingProcessingTimeWindows.of(size, slide, offset), SlidingEventTimeWindows.of(size, slide, offset)),
        (ProcessingTimeSessionWindows.with_gap(size), EventTimeSessionWindows.with_gap(size)),
        (
            ProcessingTimeSessionWindows.with_dynamic_gap(lambda _: size),
            EventTimeSessionWindows.with_dynamic_gap(lambda _: size),
        ),
    ):
        assert machine.assign_windows(None, timestamp, context) == windows_of(event, now)


@pytest.mark.parametrize("length", [Time.seconds(5), Duration.of_seconds(5), timedelta(seconds=5), 5000])
def test_any_length_of_time_will_do(length: Any) -> None:
    expected = [TimeWindow(5000, 10000)]
    assert windows_of(TumblingEventTimeWindows.of(length), 7000) == expected
    assert windows_of(TumblingEventTimeWindows(length, 0), 7000) == expected
    assert windows_of(SlidingEventTimeWindows.of(length, length), 7000) == expected
    assert windows_of(TumblingEventTimeWindows.of(10_000, length), 7000) == [TimeWindow(5000, 15000)]
    for sessions in (
        EventTimeSessionWindows.with_gap(length),
        EventTimeSessionWindows.with_dynamic_gap(ByField()),
        DynamicEventTimeSessionWindows(lambda element: element["gap"]),
    ):
        assert windows_of(sessions, 7000, {"gap": length}) == [TimeWindow(7000, 12000)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TumblingEventTimeWindows.of("1 min"), r"TumblingEventTimeWindows: size .* not '1 min'"),  # type: ignore[arg-type]
        (lambda: TumblingEventTimeWindows.of(1.5), r"TumblingEventTimeWindows: size .* not 1\.5"),  # type: ignore[arg-type]
        (lambda: TumblingProcessingTimeWindows.of(True), "TumblingProcessingTimeWindows: size .* not True"),
        (lambda: TumblingProcessingTimeWindows.of(0), "size must be longer than 0"),
        (lambda: TumblingEventTimeWindows.of(5, -5), "offset must be shorter than the size"),
        (lambda: TumblingEventTimeWindows.of(5, "x"), "TumblingEventTimeWindows: offset"),  # type: ignore[arg-type]
        (lambda: SlidingEventTimeWindows.of(5, 0), "SlidingEventTimeWindows: slide must be longer than 0"),
        (lambda: SlidingEventTimeWindows.of(-5, 1), "SlidingEventTimeWindows: size must be longer than 0"),
        (lambda: SlidingProcessingTimeWindows.of(20, 5, 5), "offset must be shorter than the slide"),
        (lambda: EventTimeSessionWindows.with_gap(0), "EventTimeSessionWindows: the gap must be longer than 0"),
        (lambda: ProcessingTimeSessionWindows.with_gap(None), "ProcessingTimeSessionWindows: the gap must be a length"),  # type: ignore[arg-type]
        (lambda: DynamicEventTimeSessionWindows(5), "DynamicEventTimeSessionWindows: expected a SessionWindow"),  # type: ignore[arg-type]
        (lambda: CountTumblingWindowAssigner.of(0), "CountTumblingWindowAssigner: window_size must be at least 1"),
        (lambda: CountSlidingWindowAssigner.of(5, 2.0), "window_slide must be a number of records, not 2.0"),  # type: ignore[arg-type]
    ],
)
def test_shapes_that_make_no_sense_are_refused_by_the_call_that_gave_them(make: Any, message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        make()


@pytest.mark.parametrize("assigner", EVENT_TIME, ids=lambda made: type(made).__name__)
@pytest.mark.parametrize("missing", [MIN_TIMESTAMP, None])
def test_a_record_without_a_timestamp_fails_the_job_with_what_to_do(assigner: Any, missing: Any) -> None:
    with pytest.raises(MissingTimestampError, match=r"has no timestamp.*assign_timestamps_and_watermarks") as caught:
        windows_of(assigner, missing, {"gap": 5})
    assert type(assigner).__name__ in str(caught.value)
    assert isinstance(caught.value, UnrecoverableError), "another attempt reads the same record"


@pytest.mark.parametrize("gap", [0, -1, "x", None, timedelta(0)])
def test_the_gap_of_a_record_must_be_above_0(gap: Any) -> None:
    with pytest.raises(InvalidProgramError, match="DynamicEventTimeSessionWindows: the extracted gap must"):
        windows_of(DynamicEventTimeSessionWindows.with_dynamic_gap(ByField()), 1, {"gap": gap})


@given(st.lists(st.tuples(st.integers(-100, 100), st.integers(1, 20)), min_size=1, max_size=10, unique=True))
def test_sessions_end_where_no_record_came_for_their_gap(records: list[tuple[int, int]]) -> None:
    assigner = EventTimeSessionWindows.with_dynamic_gap(lambda element: element[1])
    assigned = {window for record in records for window in windows_of(assigner, record[0], record)}
    merges = Merges()
    assigner.merge_windows(assigned, merges)
    sessions = assigned - {old for group, _ in merges.merged for old in group} | {result for _, result in merges.merged}
    reach, expected = None, 0
    for time, gap in sorted(records):
        if reach is None or time > reach:
            expected += 1
        reach = max(time + gap, time if reach is None or time > reach else reach)
    assert len(sessions) == expected
    assert all(any(s.start <= time and time + gap <= s.end for s in sessions) for time, gap in records)


def test_count_windows_follow_each_other() -> None:
    context = AssignerContext()
    assigner = CountTumblingWindowAssigner.of(3)
    assigned = [assigner.assign_windows("x", 0, context) for _ in range(7)]
    assert assigned == [[CountWindow(number)] for number in (0, 0, 0, 1, 1, 1, 2)]


@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 40))
def test_sliding_count_windows_begin_with_every_slide(size: int, slide: int, count: int) -> None:
    context = AssignerContext()
    assigner = CountSlidingWindowAssigner.of(size, slide)
    members: dict[int, list[int]] = {}
    for record in range(count):
        windows = [window.id for window in assigner.assign_windows(record, 0, context)]
        assert windows == sorted(windows, reverse=True), "the latest comes first"
        for number in windows:
            members.setdefault(number, []).append(record)
    starts = range(0, count, slide)
    assert members == {n: list(range(start, min(start + size, count))) for n, start in enumerate(starts)}


def test_all_records_are_in_the_one_global_window() -> None:
    assert windows_of(GlobalWindows.create(), MIN_TIMESTAMP) == [GlobalWindow.get()]


def test_each_kind_has_its_trigger_and_serializer() -> None:
    for assigner in EVENT_TIME:
        assert assigner.is_event_time()
        assert isinstance(assigner.get_default_trigger(UNUSED), EventTimeTrigger)
        assert isinstance(assigner.get_window_serializer(), TimeWindowSerializer)
    for assigner in PROCESSING_TIME:
        assert not assigner.is_event_time()
        assert isinstance(assigner.get_default_trigger(UNUSED), ProcessingTimeTrigger)
        assert isinstance(assigner.get_window_serializer(), TimeWindowSerializer)
    for counting in (CountTumblingWindowAssigner.of(4), CountSlidingWindowAssigner.of(4, 2)):
        assert not counting.is_event_time()
        trigger = counting.get_default_trigger(UNUSED)
        assert isinstance(trigger, CountTrigger)
        assert trigger.window_size == 4
        assert isinstance(counting.get_window_serializer(), CountWindowSerializer)
    everything = GlobalWindows.create()
    assert not everything.is_event_time()
    assert isinstance(everything.get_default_trigger(UNUSED), NeverTrigger)
    assert isinstance(everything.get_window_serializer(), GlobalWindowSerializer)


def test_assigners_have_a_shape() -> None:
    assert repr(TumblingEventTimeWindows.of(Time.seconds(5))) == "TumblingEventTimeWindows(5000, 0)"
    assert repr(SlidingProcessingTimeWindows.of(10, 5, 1)) == "SlidingProcessingTimeWindows(10, 5, 1)"
    assert repr(EventTimeSessionWindows.with_gap(7)) == "EventTimeSessionWindows(7)"
    assert repr(ProcessingTimeSessionWindows.with_gap(7)) == "ProcessingTimeSessionWindows(7)"
    assert repr(CountTumblingWindowAssigner.of(3)) == "CountTumblingWindowAssigner(3)"
    assert repr(CountSlidingWindowAssigner.of(3, 2)) == "CountSlidingWindowAssigner(3, 2)"
    assert repr(GlobalWindows.create()) == "GlobalWindows()"


@pytest.mark.parametrize(
    "assigner",
    [*EVENT_TIME, *PROCESSING_TIME, CountSlidingWindowAssigner.of(3, 2), GlobalWindows.create()],
    ids=lambda made: type(made).__name__,
)
def test_assigners_are_carried_to_the_task(assigner: WindowAssigner[Any, Any]) -> None:
    carried = pickle.loads(cloudpickle.dumps(assigner))
    element = {"gap": 4}
    assert carried.assign_windows(element, 12, AssignerContext(12)) == assigner.assign_windows(
        element, 12, AssignerContext(12)
    )
