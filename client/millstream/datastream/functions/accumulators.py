"""Accumulators: values that subtasks add to and that the job's result holds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from millstream.core.overriding import override

T = TypeVar("T")


class Accumulator(ABC, Generic[T]):
    """A value that each subtask adds to; the result of the job holds it, merged over all subtasks.

    It is registered with `runtime_context.add_accumulator(name, accumulator)`.
    """

    @abstractmethod
    def add(self, value: Any, /) -> None:
        """Adds a value; called in the task."""

    @abstractmethod
    def get_local_value(self) -> T:
        """Returns the value of this subtask, or the merged value."""

    @abstractmethod
    def merge(self, other: Accumulator[T], /) -> None:
        """Adds the value of `other`, the accumulator of another subtask; called in the client."""


class IntCounter(Accumulator[int]):
    """Sums whole numbers."""

    def __init__(self, value: int = 0) -> None:
        self._value = value

    @override
    def add(self, value: int) -> None:
        self._value += value

    @override
    def get_local_value(self) -> int:
        return self._value

    @override
    def merge(self, other: Accumulator[int]) -> None:
        self._value += other.get_local_value()


class DoubleCounter(Accumulator[float]):
    """Sums floating-point numbers."""

    def __init__(self, value: float = 0.0) -> None:
        self._value = value

    @override
    def add(self, value: float) -> None:
        self._value += value

    @override
    def get_local_value(self) -> float:
        return self._value

    @override
    def merge(self, other: Accumulator[float]) -> None:
        self._value += other.get_local_value()


class ListAccumulator(Accumulator[list[Any]]):
    """Gathers values, in no particular order over subtasks."""

    def __init__(self) -> None:
        self._values: list[Any] = []

    @override
    def add(self, value: Any) -> None:
        self._values.append(value)

    @override
    def get_local_value(self) -> list[Any]:
        return self._values

    def merge(self, other: Accumulator[list[Any]]) -> None:
        """Appends the other's values."""
        self._values.extend(other.get_local_value())


class Histogram(Accumulator[dict[int, int]]):
    """Counts how often each whole number occurs."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    @override
    def add(self, value: int) -> None:
        self._counts[value] = self._counts.get(value, 0) + 1

    def get_local_value(self) -> dict[int, int]:
        """Occurrences by number, sorted."""
        return dict(sorted(self._counts.items()))

    @override
    def merge(self, other: Accumulator[dict[int, int]]) -> None:
        for value, count in other.get_local_value().items():
            self._counts[value] = self._counts.get(value, 0) + count
