"""Functions of windows: called with all that a window holds, each time it is evaluated.

With `reduce` or `aggregate` before it, a function receives the one result in place of the records.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic

from millstream.core.records.type_variables import IN_contra, KEY_contra, OUT_co, W_co, W_contra
from millstream.datastream.functions.function import Function
from millstream.datastream.output_tag import OutputTag
from millstream.datastream.state import KeyedStateStore


class WindowFunction(Function, ABC, Generic[IN_contra, OUT_co, KEY_contra, W_contra]):
    """Emits any number of records for each window of a key: `WindowFunction[IN, OUT, KEY, WINDOW]`.

    For example:

        class Counts(WindowFunction[Event, tuple[str, int], str, TimeWindow]):
            def apply(self, key: str, window: TimeWindow, inputs: Iterable[Event]) -> Iterator[tuple[str, int]]:
                yield key, sum(1 for _ in inputs)
    """

    @abstractmethod
    def apply(
        self, key: KEY_contra, window: W_contra, inputs: Iterable[IN_contra], /
    ) -> Iterable[OUT_co | tuple[OutputTag[Any], Any]] | None:
        """Called when `window` of `key` is evaluated; returns or yields results, or `(tag, result)` for a side output.

        `inputs` are the records of the window, or the one result of a `reduce` or `aggregate`.
        """


class AllWindowFunction(Function, ABC, Generic[IN_contra, OUT_co, W_contra]):
    """Emits any number of records for each window of a whole stream: `AllWindowFunction[IN, OUT, WINDOW]`.

    For example:

        class Counts(AllWindowFunction[Event, int, TimeWindow]):
            def apply(self, window: TimeWindow, inputs: Iterable[Event]) -> Iterator[int]:
                yield sum(1 for _ in inputs)
    """

    @abstractmethod
    def apply(
        self, window: W_contra, inputs: Iterable[IN_contra], /
    ) -> Iterable[OUT_co | tuple[OutputTag[Any], Any]] | None:
        """Called when `window` is evaluated; returns or yields results, or `(tag, result)` for a side output.

        `inputs` are the records of the window, or the one result of a `reduce` or `aggregate`.
        """


class WindowContext(ABC, Generic[W_co]):
    """The context of a process function of windows. Valid only during the call that it was passed to."""

    @abstractmethod
    def window(self) -> W_co:
        """Returns the window that is evaluated or cleared."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """Returns the processing time, in milliseconds since the Unix epoch."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Returns the event time of the operator in milliseconds; -2^63 before the first watermark."""

    @abstractmethod
    def window_state(self) -> KeyedStateStore:
        """Returns the state of the key in this window only. The function's `clear` has to clear it."""

    @abstractmethod
    def global_state(self) -> KeyedStateStore:
        """Returns the state of the key that all its windows share."""


class ProcessWindowFunction(Function, ABC, Generic[IN_contra, OUT_co, KEY_contra, W_contra]):
    """The general function of a key's windows: `ProcessWindowFunction[IN, OUT, KEY, WINDOW]`.

    Example:
        class Count(ProcessWindowFunction[Event, tuple[str, int, int], str, TimeWindow]):
            def process(
                self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Event]
            ) -> Iterator[tuple[str, int, int]]:
                yield key, context.window().start, sum(1 for _ in elements)
    """

    class Context(WindowContext[W_co], ABC):
        """The context of the function: its window, the clocks, and state."""

    @abstractmethod
    def process(
        self, key: KEY_contra, context: Context[W_contra], elements: Iterable[IN_contra], /
    ) -> Iterable[OUT_co | tuple[OutputTag[Any], Any]] | None:
        """Called when a window of `key` is evaluated; returns or yields results, or `(tag, result)` for a side output.

        `context` has the window and its state. `elements` are the records of the window, or the one result of a
        `reduce` or `aggregate`.
        """

    def clear(self, context: Context[W_contra], /) -> None:
        """Called once after a window has expired: clears the state that `context.window_state()` holds."""


class ProcessAllWindowFunction(Function, ABC, Generic[IN_contra, OUT_co, W_contra]):
    """The general function of the windows of a whole stream: `ProcessAllWindowFunction[IN, OUT, WINDOW]`.

    For example:

        class Counts(ProcessAllWindowFunction[Event, tuple[int, int], TimeWindow]):
            def process(
                self, context: ProcessAllWindowFunction.Context[TimeWindow], elements: Iterable[Event]
            ) -> Iterator[tuple[int, int]]:
                yield context.window().start, sum(1 for _ in elements)
    """

    class Context(WindowContext[W_co], ABC):
        """The context of the function: its window, the clocks, and state."""

    @abstractmethod
    def process(
        self, context: Context[W_contra], elements: Iterable[IN_contra], /
    ) -> Iterable[OUT_co | tuple[OutputTag[Any], Any]] | None:
        """Called when a window is evaluated; returns or yields results, or `(tag, result)` for a side output.

        `context` has the window and its state. `elements` are the records of the window, or the one result of a
        `reduce` or `aggregate`.
        """

    def clear(self, context: Context[W_contra], /) -> None:
        """Called once after a window has expired: clears the state that `context.window_state()` holds."""
