"""Functions whose base class gives their types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from millstream.datastream import (
    AggregateFunction,
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    ReduceFunction,
)


class AsText(MapFunction[int, str]):
    def map(self, value: int) -> str:
        return str(value)


class Twice(FlatMapFunction[int, int]):
    def flat_map(self, value: int) -> Iterable[int]:
        yield from (value, value)


class Positive(FilterFunction[int]):
    def filter(self, value: int) -> bool:
        return value > 0


class Sum(ReduceFunction[int]):
    def reduce(self, value1: int, value2: int) -> int:
        return value1 + value2


class Parity(KeySelector[int, bool]):
    def get_key(self, value: int) -> bool:
        return value % 2 == 0


class Count(AggregateFunction[str, int, int]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: str, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (AsText().map(1), "1"),
        (list(Twice().flat_map(2)), [2, 2]),
        (Positive().filter(-1), False),
        (Sum().reduce(1, 2), 3),
        (Parity().get_key(4), True),
        (Count().get_result(Count().add("a", Count().create_accumulator())), 1),
    ],
)
def test_a_function_with_types_is_a_function(response: Any, expected: Any) -> None:
    assert response == expected


def test_what_has_to_be_written_is_still_required() -> None:
    class Nothing(MapFunction[int, str]):
        """Without its method."""

    with pytest.raises(TypeError, match=r"abstract method '?map"):
        Nothing()  # type: ignore[abstract]  # that is the point
