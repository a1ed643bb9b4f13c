"""What evictors take out of a window, and when."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import Any

import cloudpickle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from window_fakes import EvictorClock, timestamped

from millstream.common import InvalidProgramError, Time
from millstream.datastream.window import (
    CountEvictor,
    DeltaEvictor,
    DeltaFunction,
    Evictor,
    GlobalWindow,
    TimeEvictor,
    TimestampedValue,
)


def kept(evictor: Evictor[Any, Any], *records: tuple[Any, int | None]) -> tuple[list[Any], list[Any]]:
    """The records that the window function sees, and those that the window then keeps."""
    elements = timestamped(*records)
    evictor.evict_before(elements, len(elements), GlobalWindow.get(), EvictorClock())
    seen = [element.value for element in elements]
    evictor.evict_after(elements, len(elements), GlobalWindow.get(), EvictorClock())
    return seen, [element.value for element in elements]


@given(st.integers(1, 8), st.integers(0, 12))
def test_count_keeps_the_last_ones(most: int, count: int) -> None:
    records = [(n, None) for n in range(count)]
    last = list(range(count))[-most:]
    assert kept(CountEvictor.of(most), *records) == (last, last)
    assert kept(CountEvictor.of(most, True), *records) == (list(range(count)), last)


def test_time_keeps_what_is_less_than_so_much_older_than_the_newest() -> None:
    records: list[tuple[Any, int | None]] = [("a", 1000), ("b", 5000), ("c", 2000), ("d", 3000), ("e", 4000)]
    for size in (Time.seconds(2), timedelta(seconds=2), 2000):
        assert kept(TimeEvictor.of(size), *records) == (["b", "e"], ["b", "e"])
    assert kept(TimeEvictor.of(2000, do_evict_after=True), *records) == (["a", "b", "c", "d", "e"], ["b", "e"])


def test_time_keeps_what_has_none() -> None:
    assert kept(TimeEvictor.of(1), ("a", None), ("b", None))[1] == ["a", "b"]
    assert kept(TimeEvictor.of(1), ("a", None), ("b", 5), ("c", 9))[1] == ["a", "c"]
    assert kept(TimeEvictor.of(1)) == ([], [])


class Distance(DeltaFunction[int]):
    def get_delta(self, old_data_point: int, new_data_point: int) -> float:
        return abs(new_data_point - old_data_point)


def test_delta_evicts_what_differs_from_the_last_by_the_threshold() -> None:
    records: list[tuple[Any, int | None]] = [(n, None) for n in (1, 9, 7, 4, 10)]
    for function in (Distance(), lambda old, new: new - old):
        assert kept(DeltaEvictor.of(3, function), *records) == ([9, 10], [9, 10])
        assert kept(DeltaEvictor.of(3.5, function, True), *records) == ([1, 9, 7, 4, 10], [9, 7, 10])
    assert kept(DeltaEvictor.of(3, Distance())) == ([], [])


def test_an_evictor_of_ones_own_takes_out_of_the_list() -> None:
    class Odd(Evictor[int, Any]):
        def evict_before(self, elements: list[TimestampedValue[int]], size: int, window: Any, ctx: Any) -> None:
            elements[:] = [element for element in elements if element.get_value() % 2 == 0]

        def evict_after(self, elements: list[TimestampedValue[int]], size: int, window: Any, ctx: Any) -> None:
            del elements[: size - 1]

    assert kept(Odd(), (1, 0), (2, 0), (3, 0), (4, 0)) == ([2, 4], [4])


def test_records_of_a_window_know_their_time() -> None:
    element = TimestampedValue("a", 5)
    assert (element.get_value(), element.get_timestamp(), element.has_timestamp()) == ("a", 5, True)
    assert not TimestampedValue("a").has_timestamp()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CountEvictor.of(0), "CountEvictor: max_count must be at least 1"),
        (lambda: TimeEvictor.of(-1), "TimeEvictor: window_size must not be negative"),
        (lambda: TimeEvictor.of("1s"), "TimeEvictor: window_size must be a length of time"),  # type: ignore[arg-type]
        (lambda: DeltaEvictor.of("x", max), "DeltaEvictor: threshold must be a number"),  # type: ignore[arg-type]
        (lambda: DeltaEvictor.of(1, 2), "DeltaEvictor: expected a DeltaFunction or a callable"),  # type: ignore[arg-type]
    ],
)
def test_what_makes_no_sense_is_refused_by_the_call_that_gave_it(make: Any, message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        make()


@pytest.mark.parametrize(
    "evictor",
    [CountEvictor.of(2), TimeEvictor.of(2), DeltaEvictor.of(2, Distance())],
    ids=lambda made: type(made).__name__,
)
def test_evictors_are_carried_to_the_task(evictor: Evictor[Any, Any]) -> None:
    records = [(n, n) for n in range(5)]
    assert kept(pickle.loads(cloudpickle.dumps(evictor)), *records) == kept(evictor, *records)
