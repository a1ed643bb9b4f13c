"""Calls a window's function when the window fires and when it is removed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product, starmap
from typing import Any

from millstream.core.overriding import override
from millstream.datastream.functions import (
    AllWindowFunction,
    CoGroupFunction,
    FlatJoinFunction,
    JoinFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    RuntimeContext,
    WindowFunction,
)
from millstream.datastream.state import KeyedStateStore
from millstream.taskmanager.worker.operators.time.timer_service import OperatorTimers
from millstream.taskmanager.worker.operators.windows.contexts import WindowStates

Fire = Callable[[Any, Any, list[Any]], Iterable[Any] | None]
"""Takes the key, the window and its contents; returns the results."""


class ProcessContext(ProcessWindowFunction.Context[Any], ProcessAllWindowFunction.Context[Any]):
    """The context of a window function, for the window that was entered last."""

    def __init__(self, clocks: OperatorTimers, states: WindowStates, context: RuntimeContext) -> None:
        self._clocks = clocks
        self._states = states
        self._context = context
        self._window: Any = None

    def enter(self, window: Any, namespace: Any) -> None:
        """Sets the window."""
        self._window = window
        self._states.namespace = namespace

    @override
    def window(self) -> Any:
        return self._window

    @override
    def current_processing_time(self) -> int:
        return self._clocks.current_processing_time()

    @override
    def current_watermark(self) -> int:
        return self._clocks.watermark

    def window_state(self) -> KeyedStateStore:
        """State of this key in this window; the function's `clear` has to remove it."""
        return self._states

    def global_state(self) -> KeyedStateStore:
        """State of this key, shared by all windows."""
        return self._context


def firing(function: Any, context: ProcessContext) -> tuple[Fire, Callable[[], None] | None]:
    """How to call a window's function, and what to call when a window is removed."""

    def clear() -> None:
        function.clear(context)

    match function:
        case None:
            return (lambda key, window, elements: elements), None
        case ProcessWindowFunction():
            return (lambda key, window, elements: function.process(key, context, elements)), clear
        case ProcessAllWindowFunction():
            return (lambda key, window, elements: function.process(context, elements)), clear
        case WindowFunction():
            return function.apply, None
        case AllWindowFunction():
            return (lambda key, window, elements: function.apply(window, elements)), None
        case CoGroupFunction():
            return (lambda key, window, elements: function.co_group(*_sides(elements))), None
        case JoinFunction():
            return (lambda key, window, elements: starmap(function.join, product(*_sides(elements)))), None
        case FlatJoinFunction():
            return (lambda key, window, elements: _flat(function.join, *_sides(elements))), None
    raise AssertionError(f"{function!r} is not a window function")


def _sides(elements: list[Any]) -> tuple[list[Any], list[Any]]:
    """Separates the records of two streams: the single element is a tagged list of all of them."""
    tagged = elements[0] if elements else ()
    return [one for one, _, second in tagged if not second], [two for _, two, second in tagged if second]


def _flat(join: Callable[[Any, Any], Iterable[Any] | None], first: list[Any], second: list[Any]) -> Iterator[Any]:
    for one, two in product(first, second):
        yield from join(one, two) or ()
