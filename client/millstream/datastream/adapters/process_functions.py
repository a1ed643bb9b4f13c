"""Plain callables where a process function is wanted, `(value, ctx)`, or a window function, `(key, window, inputs)`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from millstream.datastream.functions import (
    AllWindowFunction,
    Context,
    KeyedContext,
    KeyedProcessFunction,
    ProcessFunction,
    WindowFunction,
)


class CallableProcessFunction(ProcessFunction):
    """Calls the user's function for each record."""

    def __init__(self, function: Callable[[Any, Context], Iterable[Any] | None]) -> None:
        self.function = function

    def process_element(self, value: Any, ctx: Context) -> Iterable[Any] | None:
        """Returns what the function returns or yields."""
        return self.function(value, ctx)


class CallableKeyedProcessFunction(KeyedProcessFunction):
    """Calls the user's function for each record of a keyed stream."""

    def __init__(self, function: Callable[[Any, KeyedContext], Iterable[Any] | None]) -> None:
        self.function = function

    def process_element(self, value: Any, ctx: KeyedContext) -> Iterable[Any] | None:
        """Returns what the function returns or yields."""
        return self.function(value, ctx)


class CallableWindowFunction(WindowFunction[Any, Any, Any, Any]):
    """Calls the user's function for each window that fires."""

    def __init__(self, function: Callable[[Any, Any, Iterable[Any]], Iterable[Any] | None]) -> None:
        self.function = function

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any] | None:
        """Returns what the function returns or yields."""
        return self.function(key, window, inputs)


class CallableAllWindowFunction(AllWindowFunction[Any, Any, Any]):
    """Calls the user's function for each window of a stream without keys."""

    def __init__(self, function: Callable[[Any, Iterable[Any]], Iterable[Any] | None]) -> None:
        self.function = function

    def apply(self, window: Any, inputs: Iterable[Any]) -> Iterable[Any] | None:
        """Returns what the function returns or yields."""
        return self.function(window, inputs)
