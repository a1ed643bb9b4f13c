"""Functions of windows: called with all that a window holds, each time it is evaluated.

With `reduce` or `aggregate` before it, a function gets the one result in place of the records.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, TypeAlias, TypeVar

from millstream.datastream.functions.function import Function
from millstream.datastream.state import KeyedStateStore

IN = TypeVar("IN")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")
W = TypeVar("W")


class WindowFunction(Function, ABC, Generic[IN, OUT, KEY, W]):
    """Any number out for each window of a key."""

    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[OUT] | None:
        """Called when the window is evaluated; answers or yields results, or `(tag, result)` for a side output."""


class AllWindowFunction(Function, ABC, Generic[IN, OUT, W]):
    """The same for windows over all records of a stream."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[OUT] | None:
        """Called when the window is evaluated; answers or yields results, or `(tag, result)` for a side output."""


class WindowContext(ABC):
    """What a process function of windows can ask. Valid only during the call that it was passed to."""

    def __class_getitem__(cls, window: Any) -> type[WindowContext]:
        """Programs of PyFlink say of which windows it is: `ProcessWindowFunction.Context[TimeWindow]`."""
        return cls

    @abstractmethod
    def window(self) -> Any:
        """The window at hand."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """The machine's time, in milliseconds since 1970 began in UTC."""

    @abstractmethod
    def current_watermark(self) -> int:
        """How far event time has come; the lowest number there is before the first watermark."""

    @abstractmethod
    def window_state(self) -> KeyedStateStore:
        """State of the key in this window alone; the function's `clear` has to remove it."""

    @abstractmethod
    def global_state(self) -> KeyedStateStore:
        """State of the key, the same in all windows."""


class ProcessWindowFunction(Function, ABC, Generic[IN, OUT, KEY, W]):
    """The general function of a key's windows: the window's context and state, and any number out."""

    Context: TypeAlias = WindowContext

    @abstractmethod
    def process(self, key: KEY, context: WindowContext, elements: Iterable[IN]) -> Iterable[OUT] | None:
        """Called when the window is evaluated; answers or yields results, or `(tag, result)` for a side output."""

    def clear(self, context: WindowContext) -> None:
        """Called once the window has expired: clear here what `context.window_state()` holds."""


class ProcessAllWindowFunction(Function, ABC, Generic[IN, OUT, W]):
    """The same for windows over all records of a stream."""

    Context: TypeAlias = WindowContext

    @abstractmethod
    def process(self, context: WindowContext, elements: Iterable[IN]) -> Iterable[OUT] | None:
        """Called when the window is evaluated; answers or yields results, or `(tag, result)` for a side output."""

    def clear(self, context: WindowContext) -> None:
        """Called once the window has expired: clear here what `context.window_state()` holds."""
