"""Tumbling windows: time cut into pieces of one size; each record is in exactly one."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from millstream.common.serializer import TypeSerializer
from millstream.common.time import Interval
from millstream.core.errors import InvalidProgramError
from millstream.core.overriding import override
from millstream.core.records.batches import MIN_TIMESTAMP
from millstream.core.records.type_variables import T
from millstream.datastream.window.assigner import WindowAssigner, missing_timestamp
from millstream.datastream.window.lengths import milliseconds, positive_milliseconds
from millstream.datastream.window.serializers import TimeWindowSerializer
from millstream.datastream.window.triggers.time_triggers import EventTimeTrigger, ProcessingTimeTrigger
from millstream.datastream.window.triggers.trigger import Trigger
from millstream.datastream.window.windows import TimeWindow

if TYPE_CHECKING:
    from millstream.datastream.stream_execution_environment import StreamExecutionEnvironment



class _TumblingWindows(WindowAssigner[T, TimeWindow]):
    """What both clocks share. Windows begin at the offset and at every multiple of the size before and after it."""

    def __init__(self, size: Interval, offset: Interval) -> None:
        call = type(self).__name__
        self.size = positive_milliseconds(call, "size", size)
        self.offset = milliseconds(call, "offset", offset)
        if abs(self.offset) >= self.size:
            raise InvalidProgramError(
                f"{call}: the offset must be shorter than the size in either direction, "
                f"not {self.offset} ms with windows of {self.size} ms"
            )

    def _window(self, time: int) -> list[TimeWindow]:
        start = time - (time - self.offset) % self.size
        return [TimeWindow(start, start + self.size)]

    @override
    def get_window_serializer(self) -> TypeSerializer[TimeWindow]:
        return TimeWindowSerializer()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size}, {self.offset})"


class TumblingEventTimeWindows(_TumblingWindows[T]):
    """By the records' timestamps: `TumblingEventTimeWindows.of(Time.minutes(1))`."""

    @staticmethod
    def of(size: Interval, offset: Interval | None = None) -> TumblingEventTimeWindows[Any]:
        """Windows of a size, which begin at multiples of it: in UTC, for sizes up to a day.

        The offset moves them: `of(Time.days(1), Time.hours(-8))` are the days of UTC+8.
        """
        return TumblingEventTimeWindows(size, 0 if offset is None else offset)

    @override
    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        if timestamp is None or timestamp == MIN_TIMESTAMP:
            raise missing_timestamp(self)
        return self._window(timestamp)

    @override
    def get_default_trigger(self, env: StreamExecutionEnvironment) -> Trigger[T, TimeWindow]:
        return EventTimeTrigger()

    @override
    def is_event_time(self) -> bool:
        return True


class TumblingProcessingTimeWindows(_TumblingWindows[T]):
    """By the machine's time when a record comes: `TumblingProcessingTimeWindows.of(Time.minutes(1))`."""

    @staticmethod
    def of(size: Interval, offset: Interval | None = None) -> TumblingProcessingTimeWindows[Any]:
        """Windows of a size, which begin at multiples of it: in UTC, for sizes up to a day.

        The offset moves them: `of(Time.days(1), Time.hours(-8))` are the days of UTC+8.
        """
        return TumblingProcessingTimeWindows(size, 0 if offset is None else offset)

    @override
    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return self._window(context.get_current_processing_time())

    @override
    def get_default_trigger(self, env: StreamExecutionEnvironment) -> Trigger[T, TimeWindow]:
        return ProcessingTimeTrigger()

    @override
    def is_event_time(self) -> bool:
        return False
