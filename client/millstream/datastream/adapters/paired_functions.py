"""Plain callables where a function of two streams is wanted: one for each stream, or one for what is joined."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from millstream.datastream.functions import (
    CoFlatMapFunction,
    CoGroupFunction,
    CoMapFunction,
    Context,
    CoProcessFunction,
    FlatJoinFunction,
    JoinFunction,
)


class PairedMapFunction(CoMapFunction):
    """Calls `first(value)` or `second(value)`."""

    def __init__(self, first: Callable[[Any], Any], second: Callable[[Any], Any]) -> None:
        self.first = first
        self.second = second

    def map1(self, value: Any) -> Any:
        """Returns what the first function returns."""
        return self.first(value)

    def map2(self, value: Any) -> Any:
        """Returns what the second function returns."""
        return self.second(value)


class PairedFlatMapFunction(CoFlatMapFunction):
    """Calls `first(value)` or `second(value)`."""

    def __init__(
        self, first: Callable[[Any], Iterable[Any] | None], second: Callable[[Any], Iterable[Any] | None]
    ) -> None:
        self.first = first
        self.second = second

    def flat_map1(self, value: Any) -> Iterable[Any] | None:
        """Returns what the first function returns or yields."""
        return self.first(value)

    def flat_map2(self, value: Any) -> Iterable[Any] | None:
        """Returns what the second function returns or yields."""
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
        """Returns what the first function returns or yields."""
        return self.first(value, ctx)

    def process_element2(self, value: Any, ctx: Context) -> Iterable[Any] | None:
        """Returns what the second function returns or yields."""
        return self.second(value, ctx)


class CallableJoinFunction(JoinFunction[Any, Any, Any]):
    """Calls the user's function with each pair."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self.function = function

    def join(self, first: Any, second: Any) -> Any:
        """Returns what the function returns."""
        return self.function(first, second)


class CallableFlatJoinFunction(FlatJoinFunction[Any, Any, Any]):
    """Calls the user's generator with each pair."""

    def __init__(self, function: Callable[[Any, Any], Iterable[Any] | None]) -> None:
        self.function = function

    def join(self, first: Any, second: Any) -> Iterable[Any] | None:
        """Whatever the function yields."""
        return self.function(first, second)


class CallableCoGroupFunction(CoGroupFunction[Any, Any, Any]):
    """Calls the user's function with all records of both sides."""

    def __init__(self, function: Callable[[list[Any], list[Any]], Iterable[Any] | None]) -> None:
        self.function = function

    def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Iterable[Any] | None:
        """Returns what the function returns or yields."""
        return self.function(first, second)  # type: ignore[arg-type]  # they are lists, which callables may index
