"""Windows as values: equality, order, bytes, and how sessions merge."""

from __future__ import annotations

import copy
import io
import pickle

import cloudpickle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from window_fakes import Merges

from millstream.core.records.batches import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.datastream.window import (
    CountWindow,
    CountWindowSerializer,
    GlobalWindow,
    GlobalWindowSerializer,
    TimeWindow,
    TimeWindowSerializer,
    Window,
)

times = st.integers(MIN_TIMESTAMP, MAX_TIMESTAMP)
windows = st.builds(lambda start, size: TimeWindow(start, start + size), st.integers(-50, 50), st.integers(1, 12))


def test_a_window_is_identified_by_its_value() -> None:
    assert TimeWindow(0, 5) == TimeWindow(0, 5) != TimeWindow(0, 6)
    assert len({TimeWindow(0, 5), TimeWindow(0, 5), TimeWindow(5, 10), CountWindow(0), CountWindow(0)}) == 3
    assert TimeWindow(0, 5) != (0, 5)
    assert CountWindow(3) != CountWindow(4)
    assert GlobalWindow() == GlobalWindow.get() != CountWindow(0)
    assert hash(GlobalWindow()) == hash(GlobalWindow.get())


def test_windows_are_ordered_by_their_start_then_their_end() -> None:
    assert sorted([TimeWindow(5, 6), TimeWindow(0, 9), TimeWindow(0, 2)]) == [
        TimeWindow(0, 2),
        TimeWindow(0, 9),
        TimeWindow(5, 6),
    ]
    assert TimeWindow(0, 5) <= TimeWindow(0, 5)
    assert CountWindow(1) < CountWindow(2)
    with pytest.raises(TypeError):
        TimeWindow(0, 5) < CountWindow(0)  # type: ignore[operator]  # noqa: B015  # refused


def test_the_last_timestamp_of_a_window_is_before_its_end() -> None:
    assert TimeWindow(0, 5).max_timestamp() == 4
    assert CountWindow(7).max_timestamp() == GlobalWindow.get().max_timestamp() == MAX_TIMESTAMP


def test_windows_print_as_in_pyflink() -> None:
    assert repr(TimeWindow(0, 5)) == "TimeWindow(start=0, end=5)"
    assert repr(CountWindow(3)) == "CountWindow(id=3)"
    assert repr(GlobalWindow.get()) == "GlobalWindow"


@pytest.mark.parametrize("window", [TimeWindow(-5, 5), CountWindow(3), GlobalWindow.get()])
def test_a_window_stays_itself_when_it_is_copied_and_carried(window: Window) -> None:
    for carried in (pickle.loads(pickle.dumps(window)), cloudpickle.loads(cloudpickle.dumps(window))):
        assert carried == window
        assert hash(carried) == hash(window)
    assert copy.deepcopy(window) == copy.copy(window) == window
    assert isinstance(window, Window)


def test_there_is_one_global_window() -> None:
    assert GlobalWindow.get() is GlobalWindow.get()
    assert pickle.loads(pickle.dumps(GlobalWindow())) is GlobalWindow.get()


def test_windows_do_not_change() -> None:
    with pytest.raises(AttributeError):
        TimeWindow(0, 5).start = 1  # type: ignore[misc]  # refused


def test_a_custom_window_must_have_an_end() -> None:
    class Odd(Window):
        pass

    with pytest.raises(NotImplementedError, match="Odd does not define its end"):
        Odd().max_timestamp()


@given(times, times, times)
def test_serializers_give_windows_back_and_leave_what_follows(start: int, end: int, number: int) -> None:
    stream = io.BytesIO()
    TimeWindowSerializer().serialize(TimeWindow(start, end), stream)
    GlobalWindowSerializer().serialize(GlobalWindow.get(), stream)
    CountWindowSerializer().serialize(CountWindow(number), stream)
    stream.write(b"more")
    stream.seek(0)
    assert TimeWindowSerializer().deserialize(stream) == TimeWindow(start, end)
    assert GlobalWindowSerializer().deserialize(stream) is GlobalWindow.get()
    assert CountWindowSerializer().deserialize(stream) == CountWindow(number)
    assert stream.read() == b"more"


def test_half_a_window_is_an_error() -> None:
    with pytest.raises(EOFError, match="16 bytes, but only 3"):
        TimeWindowSerializer().deserialize(io.BytesIO(b"abc"))


def test_windows_that_touch_intersect() -> None:
    assert TimeWindow(0, 5).intersects(TimeWindow(5, 9))
    assert TimeWindow(5, 9).intersects(TimeWindow(0, 5))
    assert not TimeWindow(0, 5).intersects(TimeWindow(6, 9))
    assert TimeWindow(0, 5).cover(TimeWindow(-3, 2)) == TimeWindow(-3, 5)


def test_only_groups_of_several_windows_are_merged() -> None:
    merges = Merges()
    TimeWindow.merge_windows(
        [TimeWindow(20, 30), TimeWindow(3, 8), TimeWindow(0, 3), TimeWindow(40, 41), TimeWindow(41, 42)], merges
    )
    assert merges.merged == [
        ([TimeWindow(0, 3), TimeWindow(3, 8)], TimeWindow(0, 8)),
        ([TimeWindow(40, 41), TimeWindow(41, 42)], TimeWindow(40, 42)),
    ]


@given(st.lists(windows, max_size=12))
def test_merged_sessions_are_the_union_of_intervals(given_windows: list[TimeWindow]) -> None:
    merges = Merges()
    TimeWindow.merge_windows(iter(given_windows), merges)
    covered = {time for window in given_windows for time in range(2 * window.start, 2 * window.end + 1)}
    expected = {}
    for window in set(given_windows):  # halves of milliseconds distinguish windows that touch from those that nearly do
        start, end = 2 * window.start, 2 * window.end
        while start - 1 in covered:
            start -= 1
        while end + 1 in covered:
            end += 1
        expected.setdefault(TimeWindow(start // 2, end // 2), []).append(window)
    assert {result: group for group, result in merges.merged} == {
        whole: sorted(group) for whole, group in expected.items() if len(group) > 1
    }
    assert [result for _, result in merges.merged] == sorted(result for _, result in merges.merged)
