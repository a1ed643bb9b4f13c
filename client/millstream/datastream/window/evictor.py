"""`Evictor`: takes records out of a window when it is evaluated, as in Flink's Java API; PyFlink has none.

A window with an evictor keeps all of its records, also for `reduce` and `aggregate`. It is called by the window's
operator each time a trigger fires: `evict_before`, then the window function with what is left, then `evict_after`;
what both took out is gone from the window.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic

import msgspec

from millstream.core.records.type_variables import T, W
from millstream.datastream.functions import MetricGroup


class TimestampedValue(msgspec.Struct, Generic[T], frozen=True):
    """A record of a window, and its event time when it has any."""

    value: T
    timestamp: int | None = None

    def get_value(self) -> T:
        """The record."""
        return self.value

    def has_timestamp(self) -> bool:
        """Whether it has an event time."""
        return self.timestamp is not None

    def get_timestamp(self) -> int | None:
        """Its event time in milliseconds, or None."""
        return self.timestamp


class Evictor(ABC, Generic[T, W]):
    """Base of all evictors. One is used for all keys and windows: it keeps nothing in itself."""

    class EvictorContext(ABC):
        """The context of an evictor. Valid only during the call."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Returns the processing time, in milliseconds since the Unix epoch."""

        @abstractmethod
        def get_metric_group(self) -> MetricGroup:
            """Returns the operator's group of metrics."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """Returns the event time of the operator in milliseconds; -2^63 before the first watermark."""

    @abstractmethod
    def evict_before(
        self, elements: list[TimestampedValue[T]], size: int, window: W, evictor_context: Evictor.EvictorContext, /
    ) -> None:
        """Called before the window function; removes the evicted records from the list, as `del elements[0]`.

        `elements` are the records of `window` in their order of arrival, and `size` is their number. `evictor_context`
        has the clocks.
        """

    @abstractmethod
    def evict_after(
        self, elements: list[TimestampedValue[T]], size: int, window: W, evictor_context: Evictor.EvictorContext, /
    ) -> None:
        """Called after the window function; removes the evicted records from the list `elements`.

        The arguments `size`, `window` and `evictor_context` are those of `evict_before`.
        """
