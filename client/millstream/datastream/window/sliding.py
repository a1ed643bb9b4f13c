"""Sliding windows: of one size, a new one beginning with every slide; a record is in each that its time falls into.

With a slide longer than the size there is time between windows, and records in it are in none.
"""

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



class _SlidingWindows(WindowAssigner[T, TimeWindow]):
    """What both clocks share. Windows begin at the offset and at every multiple of the slide before and after it."""

    def __init__(self, size: Interval, slide: Interval, offset: Interval) -> None:
        call = type(self).__name__
        self.size = positive_milliseconds(call, "size", size)
        self.slide = positive_milliseconds(call, "slide", slide)
        self.offset = milliseconds(call, "offset", offset)
        if abs(self.offset) >= self.slide:
            raise InvalidProgramError(
                f"{call}: the offset must be shorter than the slide in either direction, "
                f"not {self.offset} ms with a slide of {self.slide} ms"
            )

    def _windows(self, time: int) -> list[TimeWindow]:
        """The latest first."""
        size, slide = self.size, self.slide
        latest = time - (time - self.offset) % slide
        return [TimeWindow(start, start + size) for start in range(latest, time - size, -slide)]

    @override
    def get_window_serializer(self) -> TypeSerializer[TimeWindow]:
        return TimeWindowSerializer()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size}, {self.slide}, {self.offset})"


class SlidingEventTimeWindows(_SlidingWindows[T]):
    """By the records' timestamps: `SlidingEventTimeWindows.of(Time.minutes(10), Time.minutes(1))`."""

    @staticmethod
    def of(size: Interval, slide: Interval, offset: Interval | None = None) -> SlidingEventTimeWindows[Any]:
        """Windows of a size, which begin at multiples of the slide in UTC, moved by the offset."""
        return SlidingEventTimeWindows(size, slide, 0 if offset is None else offset)

    @override
    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        if timestamp is None or timestamp == MIN_TIMESTAMP:
            raise missing_timestamp(self)
        return self._windows(timestamp)

    @override
    def get_default_trigger(self, env: StreamExecutionEnvironment) -> Trigger[T, TimeWindow]:
        return EventTimeTrigger()

    @override
    def is_event_time(self) -> bool:
        return True


class SlidingProcessingTimeWindows(_SlidingWindows[T]):
    """By the machine's time when a record comes: `SlidingProcessingTimeWindows.of(Time.hours(1), Time.minutes(1))`."""

    @staticmethod
    def of(size: Interval, slide: Interval, offset: Interval | None = None) -> SlidingProcessingTimeWindows[Any]:
        """Windows of a size, which begin at multiples of the slide in UTC, moved by the offset."""
        return SlidingProcessingTimeWindows(size, slide, 0 if offset is None else offset)

    @override
    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return self._windows(context.get_current_processing_time())

    @override
    def get_default_trigger(self, env: StreamExecutionEnvironment) -> Trigger[T, TimeWindow]:
        return ProcessingTimeTrigger()

    @override
    def is_event_time(self) -> bool:
        return False
