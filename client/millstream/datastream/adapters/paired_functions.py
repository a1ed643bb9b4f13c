"""Two plain callables where a function of two connected streams is wanted: one for the records of each stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from millstream.datastream.functions import CoFlatMapFunction, CoMapFunction, Context, CoProcessFunction


class PairedMapFunction(CoMapFunction):
    """Calls `first(value)` or `second(value)`."""

    def __init__(self, first: Callable[[Any], Any], second: Callable[[Any], Any]) -> None:
        self.first = first
        self.second = second

    def map1(self, value: Any) -> Any:
        """Whatever the first function answers."""
        return self.first(value)

    def map2(self, value: Any) -> Any:
        """Whatever the second function answers."""
        return self.second(value)


class PairedFlatMapFunction(CoFlatMapFunction):
    """Calls `first(value)` or `second(value)`."""

    def __init__(
        self, first: Callable[[Any], Iterable[Any] | None], second: Callable[[Any], Iterable[Any] | None]
    ) -> None:
        self.first = first
        self.second = second

    def flat_map1(self, value: Any) -> Iterable[Any] | None:
        """Whatever the first function answers or yields."""
        return self.first(value)

    def flat_map2(self, value: Any) -> Iterable[Any] | None:
        """Whatever the second function answers or yields."""
        return self.second(value)


class PairedProcessFunction(CoProcessFunction):
    """Calls `first(value, ctx)` or `second(value, ctx)`; the context knows the key when both streams are keyed."""

    def __init__(
        self,
        first: Callable[[Any, Any], Iterable[Any] | None],
        second: Callable[[Any, Any], Iterable[Any] | None],
    ) -> None:
        self.first = first
        self.second = second

    def process_element1(self, value: Any, ctx: Context) -> Iterable[Any] | None:
        """Whatever the first function answers or yields."""
        return self.first(value, ctx)

    def process_element2(self, value: Any, ctx: Context) -> Iterable[Any] | None:
        """Whatever the second function answers or yields."""
        return self.second(value, ctx)
