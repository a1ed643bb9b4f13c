"""Plain callables `(value, ctx)` where a process function is wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from millstream.datastream.functions import Context, KeyedContext, KeyedProcessFunction, ProcessFunction


class CallableProcessFunction(ProcessFunction):
    """Calls the user's function for each record."""

    def __init__(self, function: Callable[[Any, Context], Iterable[Any] | None]) -> None:
        self.function = function

    def process_element(self, value: Any, ctx: Context) -> Iterable[Any] | None:
        """Whatever the function answers or yields."""
        return self.function(value, ctx)


class CallableKeyedProcessFunction(KeyedProcessFunction):
    """The same on a keyed stream."""

    def __init__(self, function: Callable[[Any, KeyedContext], Iterable[Any] | None]) -> None:
        self.function = function

    def process_element(self, value: Any, ctx: KeyedContext) -> Iterable[Any] | None:
        """Whatever the function answers or yields."""
        return self.function(value, ctx)
