"""`WindowAssigner`: assigns windows to records, and `MergingWindowAssigner`, whose windows merge."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Generic, TypeVar

from millstream.common.serializer import TypeSerializer
from millstream.core.errors import UnrecoverableError
from millstream.core.records.type_variables import T_contra, W
from millstream.datastream.functions import RuntimeContext
from millstream.datastream.window.triggers.trigger import Trigger

if TYPE_CHECKING:
    from millstream.datastream.stream_execution_environment import StreamExecutionEnvironment

W2 = TypeVar("W2")


class MissingTimestampError(UnrecoverableError):
    """A record without an event time came to windows of event time."""


def missing_timestamp(assigner: object) -> MissingTimestampError:
    """What an assigner raises for such a record."""
    return MissingTimestampError(
        f"a record has no timestamp, but {type(assigner).__qualname__} assigns records to windows by their timestamps. "
        "Assign timestamps before the window: stream.assign_timestamps_and_watermarks("
        "WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(...)); or use windows of processing time"
    )


class WindowAssigner(ABC, Generic[T_contra, W]):
    """Base of all assigners. It is called for each record, in the task; its only memory is the state of the key."""

    class WindowAssignerContext(ABC):
        """The context of an assigner. Valid only during the call."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Returns the processing time, in milliseconds since the Unix epoch."""

        @abstractmethod
        def get_runtime_context(self) -> RuntimeContext:
            """Returns the context of the operator, with the state of the record's key."""

    @abstractmethod
    def assign_windows(
        self, element: T_contra, timestamp: int, context: WindowAssigner.WindowAssignerContext, /
    ) -> Collection[W]:
        """Returns the windows of the record `element`: none, one or several.

        `timestamp` is the event time of the record, -2^63 if it has none; `context` has the clock.
        """

    @abstractmethod
    def get_default_trigger(self, env: StreamExecutionEnvironment, /) -> Trigger[T_contra, W]:
        """Returns the trigger that decides when windows are evaluated, unless the program of `env` sets one."""

    @abstractmethod
    def get_window_serializer(self) -> TypeSerializer[W]:
        """Returns the serializer of the windows, for checkpoints."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Returns whether windows end by event time: only then can a record be late for its window."""


class MergingWindowAssigner(WindowAssigner[T_contra, W]):
    """Assigns a window to each record, and then merges windows of a key."""

    class MergeCallback(ABC, Generic[W2]):
        """Receives the windows that are to be merged."""

        @abstractmethod
        def merge(self, to_be_merged: Iterable[W2], merge_result: W2) -> None:
            """Merges the windows `to_be_merged` into `merge_result`; a window is in one call at most."""

    @abstractmethod
    def merge_windows(self, windows: Iterable[W], callback: MergingWindowAssigner.MergeCallback[W], /) -> None:
        """Called with the open `windows` of a key and a new one.

        Calls `callback` for each group that becomes one window.
        """
