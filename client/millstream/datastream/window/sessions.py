"""Session windows with one gap for all records: a session ends when no record came for so long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.common.time import Interval
from millstream.core.overriding import override
from millstream.core.records.type_variables import T
from millstream.datastream.window.dynamic_sessions import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
)
from millstream.datastream.window.lengths import positive_milliseconds
from millstream.datastream.window.session_assigner import EventTimeSessions, ProcessingTimeSessions


class EventTimeSessionWindows(EventTimeSessions[T]):
    """By the records' timestamps: `EventTimeSessionWindows.with_gap(Time.minutes(10))`."""

    def __init__(self, session_gap: Interval) -> None:
        self.session_gap = positive_milliseconds("EventTimeSessionWindows", "the gap", session_gap)

    @staticmethod
    def with_gap(size: Interval) -> EventTimeSessionWindows[Any]:
        """Returns session windows that end when there was no record for `size`, a duration."""
        return EventTimeSessionWindows(size)

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor | Callable[[Any], Interval],
    ) -> DynamicEventTimeSessionWindows[Any]:
        """Returns session windows whose gap `extractor` returns for each record."""
        return DynamicEventTimeSessionWindows(extractor)

    @override
    def gap_of(self, element: T) -> int:
        return self.session_gap

    def __repr__(self) -> str:
        return f"EventTimeSessionWindows({self.session_gap})"


class ProcessingTimeSessionWindows(ProcessingTimeSessions[T]):
    """By the machine's time when a record comes: `ProcessingTimeSessionWindows.with_gap(Time.minutes(10))`."""

    def __init__(self, session_gap: Interval) -> None:
        self.session_gap = positive_milliseconds("ProcessingTimeSessionWindows", "the gap", session_gap)

    @staticmethod
    def with_gap(size: Interval) -> ProcessingTimeSessionWindows[Any]:
        """Returns session windows that end when there was no record for `size`, a duration."""
        return ProcessingTimeSessionWindows(size)

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor | Callable[[Any], Interval],
    ) -> DynamicProcessingTimeSessionWindows[Any]:
        """Returns session windows whose gap `extractor` returns for each record."""
        return DynamicProcessingTimeSessionWindows(extractor)

    @override
    def gap_of(self, element: T) -> int:
        return self.session_gap

    def __repr__(self) -> str:
        return f"ProcessingTimeSessionWindows({self.session_gap})"
