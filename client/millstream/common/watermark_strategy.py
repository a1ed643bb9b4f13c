"""Timestamps and watermarks of streams: `WatermarkStrategy`, with PyFlink's names.

PyFlink has no custom watermark generators; these follow Flink's Java API.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Generic, TypeVar, overload

from millstream.common.time import Duration, Time, plain_milliseconds
from millstream.core.errors import InvalidProgramError
from millstream.core.overriding import override
from millstream.core.records.batches import MIN_TIMESTAMP, Watermark
from millstream.core.records.type_variables import T_contra

EVENT = TypeVar("EVENT")

Length = Duration | Time | timedelta | int


class TimestampAssigner(ABC, Generic[T_contra]):
    """Extracts the event time of a record: `TimestampAssigner[Event]`."""

    @abstractmethod
    def extract_timestamp(self, value: T_contra, record_timestamp: int, /) -> int:
        """Returns the event time of the record `value`, in milliseconds since the Unix epoch.

        `record_timestamp` is the timestamp that the record has from its source; -2^63 if it has none.
        """


class WatermarkOutput(ABC):
    """Receives the watermarks of a generator."""

    @abstractmethod
    def emit_watermark(self, watermark: Watermark) -> None:
        """Emits a watermark: later records up to this time are late. It activates an idle stream.

        A watermark that is not higher than the last one is ignored.
        """

    @abstractmethod
    def mark_idle(self) -> None:
        """Marks the stream as idle until its next watermark or `mark_active`: event time does not wait for it."""

    @abstractmethod
    def mark_active(self) -> None:
        """Marks the stream as active: event time waits for it again."""


class WatermarkGenerator(ABC, Generic[T_contra]):
    """Generates the watermarks of one stream, or of one split of a source: `WatermarkGenerator[Event]`.

    For example:

        class Punctuated(WatermarkGenerator):
            def on_event(self, event: Order, event_timestamp: int, output: WatermarkOutput) -> None:
                if event.is_last_of_its_hour:
                    output.emit_watermark(Watermark(event_timestamp))

            def on_periodic_emit(self, output: WatermarkOutput) -> None:
                pass
    """

    @abstractmethod
    def on_event(self, event: T_contra, event_timestamp: int, output: WatermarkOutput, /) -> None:
        """Called for each record, `event`, with its `event_timestamp`. A punctuated generator emits to `output` here.

        What is emitted takes effect directly behind this record, whatever `execution.batch.max-rows` is: the batch is
        cut there, if event time advances. Each cut has a cost, as if the records up to it were a batch.
        """

    @abstractmethod
    def on_periodic_emit(self, output: WatermarkOutput, /) -> None:
        """Called every `pipeline.auto-watermark-interval`; a periodic generator emits to `output` here."""

    def on_batch(self, events: Sequence[Any], timestamps: Any, output: WatermarkOutput, /) -> None:
        """Called with the records of a batch, `events`, and their `timestamps`: an array of integers or an Arrow array.

        For periodic generators that need no call for each record: one that overrides this is called here only. What it
        emits to `output` here takes effect behind the last record of the batch.
        """
        for event, timestamp in zip(events, timestamps, strict=True):
            self.on_event(event, int(timestamp), output)

    reads_events: bool = True
    """Whether the generator reads records and not only their timestamps."""


class BoundedOutOfOrdernessWatermarks(WatermarkGenerator[Any]):
    """Emits watermarks that lag behind the highest timestamp so far by the maximum out-of-orderness."""

    reads_events = False

    def __init__(self, max_out_of_orderness_ms: int) -> None:
        self._delay = max_out_of_orderness_ms + 1
        self._highest = MIN_TIMESTAMP + self._delay

    @override
    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        if event_timestamp > self._highest:
            self._highest = event_timestamp

    @override
    def on_batch(self, events: Sequence[Any], timestamps: Any, output: WatermarkOutput) -> None:
        if len(timestamps):
            self.on_event(None, highest(timestamps), output)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emits the current watermark to `output`."""
        output.emit_watermark(Watermark(self._highest - self._delay))


class NoWatermarks(WatermarkGenerator[Any]):
    """Emits no watermarks: event time advances only at the end of the input."""

    reads_events = False

    @override
    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        pass

    @override
    def on_batch(self, events: Sequence[Any], timestamps: Any, output: WatermarkOutput) -> None:
        pass

    @override
    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        pass


def highest(timestamps: Any) -> int:
    """Returns the highest of `timestamps`: an array of integers, or an Arrow array."""
    if isinstance(timestamps, array):
        import numpy as np

        return int(timestamps[np.frombuffer(timestamps, np.int64).argmax()])  # `max` takes twice as long
    import pyarrow.compute as pc

    return int(pc.max(timestamps).as_py())


@dataclass(frozen=True, slots=True)
class GeneratorContext:
    """The context that a generator supplier is called with."""

    metric_group: Any
    """The metric group of the operator, in which the generator can register metrics."""


@dataclass(frozen=True, slots=True)
class WatermarkAlignment:
    """The alignment of a group of sources: a source is at most the drift ahead of the slowest one."""

    group: str
    max_drift_ms: int
    update_interval_ms: int


@dataclass(frozen=True, slots=True)
class WatermarkStrategy(Generic[T_contra]):
    """The source of event time: a generator of watermarks, and an assigner of timestamps.

    Its methods return a changed copy. Example:

        WatermarkStrategy[Event].for_bounded_out_of_orderness(Duration.of_seconds(5)).with_timestamp_assigner(
            lambda event, record_timestamp: event.time
        )

    The type of the records, here `Event`, is for type checkers and editors, and may be left out.
    """

    generator: Callable[[GeneratorContext], WatermarkGenerator[Any]]
    """Creates a generator for each subtask and each split of a source."""
    timestamp_assigner: TimestampAssigner[Any] | Callable[..., int] | None = None
    timestamp_field: str | int | None = None
    idle_timeout_ms: int | None = None
    alignment: WatermarkAlignment | None = None

    @overload
    def with_timestamp_assigner(self, timestamp_assigner: TimestampAssigner[EVENT]) -> WatermarkStrategy[EVENT]: ...

    @overload
    def with_timestamp_assigner(
        self, timestamp_assigner: Callable[[T_contra, int], int]
    ) -> WatermarkStrategy[T_contra]: ...

    def with_timestamp_assigner(
        self, timestamp_assigner: TimestampAssigner[Any] | Callable[[Any, int], int]
    ) -> WatermarkStrategy[Any]:
        """Assigns timestamps by a TimestampAssigner, or a callable `(value, record_timestamp)`.

        The result of `timestamp_assigner` is the event time in milliseconds since the Unix epoch. Raises
        `InvalidProgramError` if the argument is neither.

            strategy.with_timestamp_assigner(lambda order, timestamp: order.time)
        """
        if not isinstance(timestamp_assigner, TimestampAssigner) and not callable(timestamp_assigner):
            raise InvalidProgramError(
                "with_timestamp_assigner: expected a TimestampAssigner or a callable (value, record_timestamp), "
                f"got {timestamp_assigner!r}"
            )
        if isinstance(timestamp_assigner, TimestampAssigner):
            target: Callable[..., Any] = timestamp_assigner.extract_timestamp
        else:
            target = timestamp_assigner
        if inspect.iscoroutinefunction(target):
            raise InvalidProgramError("with_timestamp_assigner: an async function returns no timestamp")
        return replace(self, timestamp_assigner=timestamp_assigner, timestamp_field=None)

    def with_timestamp_field(self, field: str | int) -> WatermarkStrategy[T_contra]:
        """Assigns the values of a field or column as timestamps, without a call for each record.

        `field` is the name or position of the field, which contains milliseconds since the Unix epoch, or a date and
        time. Raises `InvalidProgramError` if the argument is neither a name nor a position.

            strategy.with_timestamp_field("time")
        """
        if isinstance(field, bool) or not isinstance(field, str | int):
            raise InvalidProgramError(f"with_timestamp_field: a field is a name or a position, not {field!r}")
        return replace(self, timestamp_field=field, timestamp_assigner=None)

    def with_idleness(self, idle_timeout: Length) -> WatermarkStrategy[T_contra]:
        """Marks a stream without records for `idle_timeout` as idle: event time does not wait for it.

        Time under backpressure, or while it is paused, does not count. Raises `InvalidProgramError` if the timeout
        is not a duration above 0.

            strategy.with_idleness(Duration.of_minutes(1))
        """
        return replace(self, idle_timeout_ms=_positive("with_idleness", idle_timeout))

    def with_watermark_alignment(
        self,
        watermark_group: str,
        max_allowed_watermark_drift: Length,
        update_interval: Length | None = None,
    ) -> WatermarkStrategy[T_contra]:
        """Pauses a source while it is ahead of the slowest source of its group by more than a drift.

        All subtasks of all sources of the job with the same `watermark_group` belong to the group, except idle ones.
        `max_allowed_watermark_drift` is the drift, a duration. The sources report their watermarks every
        `update_interval`, which is 1 s by default. For strategies of sources only. Raises `InvalidProgramError` for an
        empty name and for invalid durations.

            strategy.with_watermark_alignment("orders", Duration.of_seconds(20))
        """
        name = "with_watermark_alignment"
        if not isinstance(watermark_group, str) or not watermark_group:
            raise InvalidProgramError(f"{name}: a group is a name that is not empty, not {watermark_group!r}")
        drift = _milliseconds(name, max_allowed_watermark_drift)
        interval = _positive(name, 1000 if update_interval is None else update_interval)
        return replace(self, alignment=WatermarkAlignment(watermark_group, drift, interval))

    def without_watermarks(self) -> WatermarkStrategy[T_contra]:
        """Returns a strategy with the same timestamps and no watermarks until the end of the input, as in a batch."""
        return replace(self, generator=_none, idle_timeout_ms=None, alignment=None)

    @classmethod
    def for_monotonous_timestamps(cls) -> WatermarkStrategy[T_contra]:
        """Returns a strategy for records whose timestamps never decrease within a split.

        For example:

            WatermarkStrategy.for_monotonous_timestamps().with_timestamp_field("time")
        """
        return WatermarkStrategy.for_bounded_out_of_orderness(0)

    @classmethod
    def for_bounded_out_of_orderness(cls, max_out_of_orderness: Length) -> WatermarkStrategy[T_contra]:
        """Returns a strategy for records that are out of order by at most `max_out_of_orderness`, a duration.

        Raises `InvalidProgramError` for a negative duration.

            WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5)).with_timestamp_field("time")
        """
        delay = _milliseconds("for_bounded_out_of_orderness", max_out_of_orderness)
        return WatermarkStrategy(_Bounded(delay))

    @classmethod
    def no_watermarks(cls) -> WatermarkStrategy[T_contra]:
        """Returns a strategy without watermarks: event time advances only at the end of a bounded input.

        For example:

            env.from_source(source, WatermarkStrategy.no_watermarks(), "orders")
        """
        return WatermarkStrategy(_none)

    @staticmethod
    def for_generator(
        generator_supplier: Callable[[GeneratorContext], WatermarkGenerator[EVENT]],
    ) -> WatermarkStrategy[EVENT]:
        """Returns a strategy with a watermark generator of the program.

        `generator_supplier` is called with a context for each subtask and each split of a source, and returns the
        generator. Raises `InvalidProgramError` if it is not callable.

            WatermarkStrategy.for_generator(lambda context: Punctuated())
        """
        if not callable(generator_supplier):
            raise InvalidProgramError(
                f"for_generator: expected a callable that makes a WatermarkGenerator, got {generator_supplier!r}"
            )
        return WatermarkStrategy(generator_supplier)


@dataclass(frozen=True, slots=True)
class _Bounded:
    delay_ms: int

    def __call__(self, context: GeneratorContext) -> WatermarkGenerator[Any]:
        return BoundedOutOfOrdernessWatermarks(self.delay_ms)


def _none(context: GeneratorContext) -> WatermarkGenerator[Any]:
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
