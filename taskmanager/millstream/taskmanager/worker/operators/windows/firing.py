"""What a window's function makes of the window, when it fires and when it is gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product, starmap
from typing import Any

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
"""Key, window and what it holds: the results."""


class ProcessContext(ProcessWindowFunction.Context[Any], ProcessAllWindowFunction.Context[Any]):
    """For the window that is set."""

    def __init__(self, clocks: OperatorTimers, states: WindowStates, context: RuntimeContext) -> None:
        self._clocks = clocks
        self._states = states
        self._context = context
        self._window: Any = None

    def enter(self, window: Any, namespace: Any) -> None:
        """Which window is meant from now on."""
        self._window = window
        self._states.namespace = namespace

    def window(self) -> Any:
        """The window."""
        return self._window

    def current_processing_time(self) -> int:
        """The machine's time."""
        return self._clocks.current_processing_time()

    def current_watermark(self) -> int:
        """How far event time has come."""
        return self._clocks.watermark

    def window_state(self) -> KeyedStateStore:
        """State of this key in this window; `clear` has to remove it."""
        return self._states

    def global_state(self) -> KeyedStateStore:
        """State of this key, in all windows."""
        return self._context


def firing(function: Any, context: ProcessContext) -> tuple[Fire, Callable[[], None] | None]:
    """How to call a window's function, and what to call when a window is gone."""

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
    raise AssertionError(f"{function!r} is no function of windows")


def _sides(elements: list[Any]) -> tuple[list[Any], list[Any]]:
    """The records of two streams, apart: the one element is a list of all of them, tagged."""
    tagged = elements[0] if elements else ()
    return [one for one, _, second in tagged if not second], [two for _, two, second in tagged if second]


def _flat(join: Callable[[Any, Any], Iterable[Any] | None], first: list[Any], second: list[Any]) -> Iterator[Any]:
    for one, two in product(first, second):
        yield from join(one, two) or ()
