"""The functions of windows, with PyFlink's names: what is called with the contents of a window that fires."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, TypeAlias

from millstream.datastream.functions import Function
from millstream.datastream.state import KeyedStateStore


class WindowFunction(Function, ABC):
    """Gets a key, a window, and what the window holds for the key."""

    @abstractmethod
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any] | None:
        """Called each time that the window fires; yields results."""


class AllWindowFunction(Function, ABC):
    """The same without keys."""

    @abstractmethod
    def apply(self, window: Any, inputs: Iterable[Any]) -> Iterable[Any] | None:
        """Called each time that the window fires; yields results."""


class WindowContext(ABC):
    """What a process window function can ask. Valid only during the call that it was passed to."""

    @abstractmethod
    def window(self) -> Any:
        """The window that fires, or is gone."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """The machine's time, in milliseconds."""

    @abstractmethod
    def current_watermark(self) -> int:
        """How far event time has come."""

    @abstractmethod
    def window_state(self) -> KeyedStateStore:
        """State of the key in this window. What the function keeps there, its `clear` has to remove."""

    @abstractmethod
    def global_state(self) -> KeyedStateStore:
        """State of the key in all windows."""


class ProcessWindowFunction(Function, ABC):
    """The general function of windows: with a context, state, and side outputs by `yield tag, value`."""

    Context: TypeAlias = WindowContext

    @abstractmethod
    def process(self, key: Any, context: WindowContext, elements: Iterable[Any]) -> Iterable[Any] | None:
        """Called each time that the window fires; yields results."""

    def clear(self, context: WindowContext) -> None:
        """Called when the window is gone."""


class ProcessAllWindowFunction(Function, ABC):
    """The same without keys."""

    Context: TypeAlias = WindowContext

    @abstractmethod
    def process(self, context: WindowContext, elements: Iterable[Any]) -> Iterable[Any] | None:
        """Called each time that the window fires; yields results."""

    def clear(self, context: WindowContext) -> None:
        """Called when the window is gone."""
