"""Session windows whose gap depends on the record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from millstream.common.time import Interval
from millstream.core.errors import InvalidProgramError
from millstream.core.overriding import override
from millstream.core.records.type_variables import T
from millstream.datastream.window.lengths import positive_milliseconds
from millstream.datastream.window.session_assigner import EventTimeSessions, ProcessingTimeSessions


class SessionWindowTimeGapExtractor(ABC):
    """Takes the gap from a record; a callable does as well."""

    @abstractmethod
    def extract(self, element: Any, /) -> Interval:
        """Returns the gap after the record `element`: milliseconds or a duration, above 0."""


class DynamicEventTimeSessionWindows(EventTimeSessions[T]):
    """By the records' timestamps."""

    def __init__(
        self, session_window_time_gap_extractor: SessionWindowTimeGapExtractor | Callable[[Any], Interval]
    ) -> None:
        self._extract = _extracting("DynamicEventTimeSessionWindows", session_window_time_gap_extractor)

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor | Callable[[Any], Interval],
    ) -> DynamicEventTimeSessionWindows[Any]:
        """Returns session windows whose gap `extractor` returns for each record."""
        return DynamicEventTimeSessionWindows(extractor)

    @override
    def gap_of(self, element: T) -> int:
        return _checked(self, self._extract(element))

    def __repr__(self) -> str:
        return "DynamicEventTimeSessionWindows()"


class DynamicProcessingTimeSessionWindows(ProcessingTimeSessions[T]):
    """By the machine's time when a record comes."""

    def __init__(
        self, session_window_time_gap_extractor: SessionWindowTimeGapExtractor | Callable[[Any], Interval]
    ) -> None:
        self._extract = _extracting("DynamicProcessingTimeSessionWindows", session_window_time_gap_extractor)

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor | Callable[[Any], Interval],
    ) -> DynamicProcessingTimeSessionWindows[Any]:
        """Returns session windows whose gap `extractor` returns for each record."""
        return DynamicProcessingTimeSessionWindows(extractor)

    @override
    def gap_of(self, element: T) -> int:
        return _checked(self, self._extract(element))

    def __repr__(self) -> str:
        return "DynamicProcessingTimeSessionWindows()"


def _extracting(call: str, extractor: object) -> Callable[[Any], Interval]:
    """What takes the gap from a record. Programs of PyFlink need not derive their extractors from its class."""
    extract = getattr(extractor, "extract", extractor)
    if not callable(extract):
        raise InvalidProgramError(
            f"{call}: expected a SessionWindowTimeGapExtractor or a callable (element), got {extractor!r}"
        )
    return extract


def _checked(assigner: object, gap: Interval) -> int:
    if type(gap) is int and gap > 0:
        return gap
    return positive_milliseconds(type(assigner).__name__, "the extracted gap", gap)
