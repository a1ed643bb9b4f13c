"""What all session windows share: each record begins one, and those that overlap or touch are one session."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from millstream.common.serializer import TypeSerializer
from millstream.core.overriding import override
from millstream.core.records.batches import MIN_TIMESTAMP
from millstream.core.records.type_variables import T
from millstream.datastream.window.assigner import MergingWindowAssigner, WindowAssigner, missing_timestamp
from millstream.datastream.window.serializers import TimeWindowSerializer
from millstream.datastream.window.triggers.time_triggers import EventTimeTrigger, ProcessingTimeTrigger
from millstream.datastream.window.triggers.trigger import Trigger
from millstream.datastream.window.windows import TimeWindow

if TYPE_CHECKING:
    from millstream.datastream.stream_execution_environment import StreamExecutionEnvironment



class SessionWindows(MergingWindowAssigner[T, TimeWindow]):
    """Base of the assigners of sessions."""

    @abstractmethod
    def gap_of(self, element: T) -> int:
        """Returns the gap after the record `element`, in milliseconds."""

    @override
    def merge_windows(
        self, windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]
    ) -> None:
        TimeWindow.merge_windows(windows, callback)

    @override
    def get_window_serializer(self) -> TypeSerializer[TimeWindow]:
        return TimeWindowSerializer()


class EventTimeSessions(SessionWindows[T]):
    """Sessions by the records' timestamps."""

    @override
    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        if timestamp is None or timestamp == MIN_TIMESTAMP:
            raise missing_timestamp(self)
        return [TimeWindow(timestamp, timestamp + self.gap_of(element))]

    @override
    def get_default_trigger(self, env: StreamExecutionEnvironment) -> Trigger[T, TimeWindow]:
        return EventTimeTrigger()

    @override
    def is_event_time(self) -> bool:
        return True


class ProcessingTimeSessions(SessionWindows[T]):
    """Sessions by the machine's time when a record comes."""

    @override
    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        now = context.get_current_processing_time()
        return [TimeWindow(now, now + self.gap_of(element))]

    @override
    def get_default_trigger(self, env: StreamExecutionEnvironment) -> Trigger[T, TimeWindow]:
        return ProcessingTimeTrigger()

    @override
    def is_event_time(self) -> bool:
        return False
