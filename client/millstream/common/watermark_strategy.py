"""How records get their timestamps, and how far event time has come: `WatermarkStrategy`, with PyFlink's names.

PyFlink has no generators of one's own; these are as in Flink's Java API.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from millstream.common.time import Duration, Time, plain_milliseconds
from millstream.core.errors import InvalidProgramError
from millstream.core.records.batches import MIN_TIMESTAMP, Watermark

Length = Duration | Time | timedelta | int


class TimestampAssigner(ABC):
    """Takes the event time from a record."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """The record's time, in milliseconds since 1970 began in UTC.

        `record_timestamp` is the one that it has already, from its source; the lowest one if it has none.
        """


class WatermarkOutput(ABC):
    """Where a generator says how far event time has come."""

    @abstractmethod
    def emit_watermark(self, watermark: Watermark) -> None:
        """Later records up to this time are late. What does not go forward is ignored; an idle stream wakes up."""

    @abstractmethod
    def mark_idle(self) -> None:
        """Nobody has to wait for this stream, until its next watermark or `mark_active`."""

    @abstractmethod
    def mark_active(self) -> None:
        """It is to be waited for again."""


class WatermarkGenerator(ABC):
    """Follows the records of one stream, or of one split of a source."""

    @abstractmethod
    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        """Called for each record. A punctuated generator emits here.

        What is emitted takes effect directly behind this record, whatever `execution.batch.max-rows` is: the batch is
        cut there, if event time advances. Each cut has a cost, as if the records up to it were a batch.
        """

    @abstractmethod
    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Called every `pipeline.auto-watermark-interval`; a periodic generator emits here."""

    def on_batch(self, events: Sequence[Any], timestamps: Any, output: WatermarkOutput) -> None:
        """The records of a batch, with their timestamps: an array of integers, or an Arrow array for columns.

        For periodic generators that need no call for each record: one that overrides this is called here only. What it
        emits here takes effect behind the last record of the batch.
        """
        for event, timestamp in zip(events, timestamps, strict=True):
            self.on_event(event, int(timestamp), output)

    reads_events: bool = True
    """Whether it looks at records and not only at their timestamps."""


class BoundedOutOfOrdernessWatermarks(WatermarkGenerator):
    """Event time is the highest timestamp so far, less the time by which records may be late."""

    reads_events = False

    def __init__(self, max_out_of_orderness_ms: int) -> None:
        self._delay = max_out_of_orderness_ms + 1
        self._highest = MIN_TIMESTAMP + self._delay

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        """Remembers the highest timestamp."""
        if event_timestamp > self._highest:
            self._highest = event_timestamp

    def on_batch(self, events: Sequence[Any], timestamps: Any, output: WatermarkOutput) -> None:
        """The same for all at once."""
        if len(timestamps):
            self.on_event(None, highest(timestamps), output)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Says how far time has come."""
        output.emit_watermark(Watermark(self._highest - self._delay))


class NoWatermarks(WatermarkGenerator):
    """Event time stands still until the end."""

    reads_events = False

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        """Nothing."""

    def on_batch(self, events: Sequence[Any], timestamps: Any, output: WatermarkOutput) -> None:
        """Nothing."""

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Nothing."""


def highest(timestamps: Any) -> int:
    """Of those beside rows, or of an Arrow array."""
    if isinstance(timestamps, array):
        import numpy as np

        return int(timestamps[np.frombuffer(timestamps, np.int64).argmax()])  # `max` takes twice as long
    import pyarrow.compute as pc

    return int(pc.max(timestamps).as_py())


@dataclass(frozen=True, slots=True)
class GeneratorContext:
    """What a supplier of generators is handed."""

    metric_group: Any
    """Where the generator may register metrics."""


@dataclass(frozen=True, slots=True)
class WatermarkAlignment:
    """Sources of one group keep together: none gets ahead of the slowest by more than the drift."""

    group: str
    max_drift_ms: int
    update_interval_ms: int


@dataclass(frozen=True, slots=True)
class WatermarkStrategy:
    """Where event time comes from: a generator of watermarks, and what assigns timestamps.

    Its methods answer another strategy, and leave this one as it is.
    """

    generator: Callable[[GeneratorContext], WatermarkGenerator]
    """Makes a generator, for each subtask and each split of a source."""
    timestamp_assigner: TimestampAssigner | Callable[..., int] | None = None
    timestamp_field: str | int | None = None
    idle_timeout_ms: int | None = None
    alignment: WatermarkAlignment | None = None

    def with_timestamp_assigner(self, timestamp_assigner: TimestampAssigner | Callable[..., int]) -> WatermarkStrategy:
        """Takes the time of each record by a TimestampAssigner, or a callable `(value, record_timestamp)`."""
        if not isinstance(timestamp_assigner, TimestampAssigner) and not callable(timestamp_assigner):
            raise InvalidProgramError(
                "with_timestamp_assigner: expected a TimestampAssigner or a callable (value, record_timestamp), "
                f"got {timestamp_assigner!r}"
            )
        return replace(self, timestamp_assigner=timestamp_assigner, timestamp_field=None)

    def with_timestamp_field(self, field: str | int) -> WatermarkStrategy:
        """Takes the time from a field or column, without a call for each record: milliseconds, or a point in time."""
        if isinstance(field, bool) or not isinstance(field, str | int):
            raise InvalidProgramError(f"with_timestamp_field: a field is a name or a position, not {field!r}")
        return replace(self, timestamp_field=field, timestamp_assigner=None)

    def with_idleness(self, idle_timeout: Length) -> WatermarkStrategy:
        """A stream without records for this long counts as idle: nobody waits for it.

        Time in which it could not have sent any does not count: while what follows is full, or while it is paused.
        """
        return replace(self, idle_timeout_ms=_positive("with_idleness", idle_timeout))

    def with_watermark_alignment(
        self,
        watermark_group: str,
        max_allowed_watermark_drift: Length,
        update_interval: Length | None = None,
    ) -> WatermarkStrategy:
        """A source pauses while it is ahead of the slowest of its group by more than the drift.

        All subtasks of all sources of the job with the same group belong to it; idle ones hold nobody back. They tell
        how far they are every interval, which is 1 s if it is not given. For strategies of sources only.
        """
        name = "with_watermark_alignment"
        if not isinstance(watermark_group, str) or not watermark_group:
            raise InvalidProgramError(f"{name}: a group is a name that is not empty, not {watermark_group!r}")
        drift = _milliseconds(name, max_allowed_watermark_drift)
        interval = _positive(name, 1000 if update_interval is None else update_interval)
        return replace(self, alignment=WatermarkAlignment(watermark_group, drift, interval))

    def without_watermarks(self) -> WatermarkStrategy:
        """The same timestamps, while event time stands still until the end of the input: so it is in a batch."""
        return replace(self, generator=_none, idle_timeout_ms=None, alignment=None)

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """Of records whose timestamps never go back."""
        return WatermarkStrategy.for_bounded_out_of_orderness(0)

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: Length) -> WatermarkStrategy:
        """Of records that come out of order by at most so much."""
        delay = _milliseconds("for_bounded_out_of_orderness", max_out_of_orderness)
        return WatermarkStrategy(_Bounded(delay))

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """Event time stands still; at the end of the input it comes to its end."""
        return WatermarkStrategy(_none)

    @staticmethod
    def for_generator(generator_supplier: Callable[[GeneratorContext], WatermarkGenerator]) -> WatermarkStrategy:
        """With a generator of one's own."""
        if not callable(generator_supplier):
            raise InvalidProgramError(
                f"for_generator: expected a callable that makes a WatermarkGenerator, got {generator_supplier!r}"
            )
        return WatermarkStrategy(generator_supplier)


@dataclass(frozen=True, slots=True)
class _Bounded:
    delay_ms: int

    def __call__(self, context: GeneratorContext) -> WatermarkGenerator:
        return BoundedOutOfOrdernessWatermarks(self.delay_ms)


def _none(context: GeneratorContext) -> WatermarkGenerator:
    return NoWatermarks()


def _milliseconds(name: str, length: object) -> int:
    value = plain_milliseconds(length)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidProgramError(f"{name}: expected a duration that is not negative, got {length!r}")
    return value


def _positive(name: str, length: object) -> int:
    value = _milliseconds(name, length)
    if value == 0:
        raise InvalidProgramError(f"{name}: expected a duration above 0, got {length!r}")
    return value
