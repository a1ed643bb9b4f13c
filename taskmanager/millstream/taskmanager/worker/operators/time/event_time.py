"""Creates event time: timestamps of records, and watermarks.

`Timestamps` assigns timestamps to batches. `GeneratedWatermarks` runs a user's generator over one stream, or over one
split of a source; `SplitWatermarks` combines the streams of several splits. All of them belong to one operator, on its
task's thread. Nothing here is executed per record, except where a user function has to be called.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import struct
from array import array
from collections.abc import Callable, Hashable, Iterable
from operator import attrgetter, index, itemgetter
from typing import Any

from msgspec.structs import replace

from millstream.common.watermark_strategy import (
    GeneratorContext,
    TimestampAssigner,
    WatermarkGenerator,
    WatermarkOutput,
    WatermarkStrategy,
)
from millstream.core.clock import Clock
from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.progress import EventTime, StreamTime
from millstream.core.records.batches import (
    MIN_TIMESTAMP,
    TIMESTAMP,
    Batch,
    ColumnBatch,
    RowBatch,
    StreamSignal,
    Watermark,
    WatermarkStatus,
)
from millstream.core.records.conversion import record_batch_to_rows
from millstream.core.records.function_code import getter, picked
from millstream.core.records.types import DataclassType, TupleType, TypeInformation
from millstream.core.settings.options.scheduling import PIPELINE_AUTO_WATERMARK_INTERVAL
from millstream.datastream.adapters.fields import checked_field, get_field
from millstream.datastream.functions import RuntimeContext
from millstream.taskmanager.worker.interruption import TaskInterrupted
from millstream.taskmanager.worker.operators.base import NO_RECORD, OperatorError
from millstream.taskmanager.worker.operators.output import Send
from millstream.taskmanager.worker.tasks.watermark_valve import WatermarkValve

INTERVAL = PIPELINE_AUTO_WATERMARK_INTERVAL
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECOND = dt.timedelta(milliseconds=1)


def milliseconds(moment: Any) -> int:
    """Converts a point in time to event time, in milliseconds. One without a time zone is in UTC, as in Arrow."""
    if type(moment) is int:
        return moment
    if isinstance(moment, dt.datetime):
        return ((moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)) - _EPOCH) // _MILLISECOND
    if hasattr(moment, "__index__") and not isinstance(moment, bool):
        return index(moment)
    raise InvalidProgramError(
        f"an event time must be a whole number of milliseconds or a datetime, not {moment!r:.200} "
        f"({type(moment).__qualname__})"
    )


class Timestamps:
    """Assigns the timestamps of a watermark strategy to batches."""

    def __init__(self, strategy: WatermarkStrategy, record_type: TypeInformation, operator_name: str) -> None:
        self._record_type = record_type
        self._name = operator_name
        self._field = strategy.timestamp_field
        if self._field is not None:
            self._field = checked_field("with_timestamp_field", self._field, record_type)
        self._take = self._getter()
        assigner = strategy.timestamp_assigner
        self._assign = assigner.extract_timestamp if isinstance(assigner, TimestampAssigner) else assigner
        self._part = getter(self._assign)
        import numpy  # noqa: F401  # timestamps beside rows need it: to load it takes 0.1 s, and no records wait yet

    def of(self, batch: Batch) -> Batch:
        """The batch with its timestamps; unchanged if the strategy leaves them to the source."""
        if self._field is not None:
            return self._columns(batch) if isinstance(batch, ColumnBatch) else self._rows(batch)
        return batch if self._assign is None else self._assigned(batch)

    def _getter(self) -> Callable[[Any], Any]:
        field = self._field
        match self._record_type:
            case TupleType() if isinstance(field, int):
                return itemgetter(field)
            case DataclassType() if isinstance(field, str):
                return attrgetter(field)
        return lambda record: get_field(record, field)  # type: ignore[arg-type]  # called only when there is one

    def _rows(self, batch: RowBatch) -> RowBatch:
        source = iter(batch.rows)
        try:
            times = list(map(self._take, source))
        except TaskInterrupted:
            raise
        except BaseException as error:
            raise self._failed(batch.rows, source, error) from error
        return batch.with_timestamps(self._milliseconds(times, batch.rows))

    def _columns(self, batch: ColumnBatch) -> ColumnBatch:
        import pyarrow as pa

        column = batch.data.column(self._field)
        if column.null_count:
            record = record_batch_to_rows(batch.data.filter(column.is_null()).slice(0, 1), self._record_type)[0]
            cause = InvalidProgramError(f"the event time in field {self._field!r} is missing")
            raise OperatorError(self._name, record, cause)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
        elif not pa.types.is_integer(column.type):
            cause = InvalidProgramError(f"field {self._field!r} of type {column.type} cannot be used as event time")
            raise OperatorError(self._name, NO_RECORD, cause)
        return batch.with_timestamps(column.cast(pa.int64()))

    def _assigned(self, batch: Batch) -> Batch:
        rows = batch.to_rows(self._record_type).rows
        stamps = self._milliseconds(picked(self._part, rows) or self._answers(rows, batch.row_times()), rows)
        return batch.with_timestamps(stamps)

    def _answers(self, rows: list[Any], given: Iterable[int] | None) -> list[Any]:
        """The assigner's result for each record."""
        assign: Any = self._assign
        source = iter(rows)
        try:
            if given is None:
                return [assign(record, MIN_TIMESTAMP) for record in source]
            return [assign(record, time) for record, time in zip(source, given, strict=True)]
        except TaskInterrupted:
            raise
        except BaseException as error:
            raise self._failed(rows, source, error) from error

    def _milliseconds(self, times: list[Any], rows: list[Any]) -> array[int]:
        """The timestamps of the rows; converted one by one only if they are not all integers of 64 bits."""
        with contextlib.suppress(struct.error):
            packed = struct.pack(f"{len(times)}{TIMESTAMP}", *times)  # takes half of the time of array()
            if not times or not _has_truth_values(packed, times):
                return array(TIMESTAMP, packed)
        stamps = array(TIMESTAMP)
        for time, row in zip(times, rows, strict=True):
            try:
                stamps.append(milliseconds(time))
            except TaskInterrupted:
                raise
            except BaseException as error:
                raise OperatorError(self._name, row, error) from error
        return stamps

    def _failed(self, rows: list[Any], source: Any, error: BaseException) -> OperatorError:
        return OperatorError(self._name, rows[len(rows) - source.__length_hint__() - 1], error)


def _has_truth_values(packed: bytes, times: list[Any]) -> bool:
    """Whether there are booleans, which Python treats as the integers 0 and 1: only these values need a check."""
    import numpy as np

    return times[np.frombuffer(packed, np.uint64).argmin()] in (0, 1) and bool in set(map(type, times))


class GeneratedWatermarks(WatermarkOutput):
    """The watermarks that a strategy's generator emits for one stream. Emits changes only."""

    def __init__(self, strategy: WatermarkStrategy, context: RuntimeContext, send: Send, clock: Clock) -> None:
        self._generator = strategy.generator(GeneratorContext(context.get_metrics_group()))
        self._idle_after = None if strategy.idle_timeout_ms is None else strategy.idle_timeout_ms / 1000
        self._send = send
        self._clock = clock
        self.is_called_for_each = _is_called_for_each(self._generator)
        """Whether the generator is called for each record, so that what it emits belongs directly after that record."""
        self.last = MIN_TIMESTAMP
        """The last watermark."""
        self.is_idle = False
        self.moved_at = clock.now_ms()
        """When it was emitted, or when the stream became idle or active; initially, when the stream was created."""
        self.record_at = 0
        """When the last record arrived."""
        self._is_quiet = False  # no record since the last check
        self._quiet_since: float | None = None
        self._timed_out = False  # idle because of the idle timeout

    @property
    def reads_events(self) -> bool:
        """Whether the generator needs the records themselves."""
        return self.is_called_for_each or self._generator.reads_events

    def wake_up(self) -> None:
        """Called before records are emitted: the stream is not quiet any more.

        If its generator marked it idle, it stays idle.
        """
        self._is_quiet = False
        self.record_at = self._clock.now_ms()
        if self._timed_out:
            self.mark_active()

    def follow(self, events: list[Any], timestamps: Any) -> None:
        """Passes an emitted batch to the generator."""
        self._generator.on_batch(events, timestamps, self)

    def follow_each(self, events: Iterable[Any], timestamps: Iterable[int]) -> None:
        """Passes the records of a batch one by one; what is emitted meanwhile belongs after the current record."""
        on_event = self._generator.on_event
        for event, timestamp in zip(events, timestamps, strict=True):
            on_event(event, timestamp, self)

    def look(self, now: float) -> None:
        """Called at the interval, on a clock that stands still while the stream cannot emit."""
        if self._idle_after is not None:
            if not self._is_quiet or self._quiet_since is None:
                self._is_quiet, self._quiet_since = True, now
            elif now - self._quiet_since >= self._idle_after:
                self.mark_idle()
                self._timed_out = True
                return
        self._generator.on_periodic_emit(self)

    def look_paused(self) -> None:
        """The same for a paused split: its idle timeout starts when it is resumed."""
        self._is_quiet = False
        self._generator.on_periodic_emit(self)

    def emit_watermark(self, watermark: Watermark) -> None:
        """Emits the watermark if it is higher than the last."""
        if watermark.timestamp > self.last:
            self.mark_active()
            self.last, self.moved_at = watermark.timestamp, self._clock.now_ms()
            self._send(watermark)

    def mark_idle(self) -> None:
        """Marks the stream idle; repeated calls have no effect."""
        if not self.is_idle:
            self.is_idle, self.moved_at = True, self._clock.now_ms()
            self._send(WatermarkStatus(True))

    def mark_active(self) -> None:
        """Marks the stream active; repeated calls have no effect."""
        self._timed_out = False
        if self.is_idle:
            self.is_idle, self.moved_at = False, self._clock.now_ms()
            self._send(WatermarkStatus(False))

    def progress(self) -> EventTime:
        """The event time of this stream, for users."""
        stream = StreamTime("", self.last, self.moved_at, self.record_at, self.is_idle)
        return EventTime(self.last, self.is_idle, 1, int(self.is_idle), self.last, (stream,))


def _is_called_for_each(generator: WatermarkGenerator) -> bool:
    """Whether its `on_event` is defined in a class closer to its own than its `on_batch` is."""
    defining = [vars(one) for one in type(generator).__mro__ if "on_event" in vars(one) or "on_batch" in vars(one)]
    return not defining or "on_batch" not in defining[0]


class SplitWatermarks:
    """A generator for each split of a source: the slowest split that is not idle determines event time."""

    def __init__(self, strategy: WatermarkStrategy, context: RuntimeContext, send: Send, clock: Clock) -> None:
        self._strategy = strategy
        self._context = context
        self._send = send
        self._clock = clock
        self._valve = WatermarkValve(waits=True)
        self._splits: dict[str, GeneratedWatermarks] = {}
        self._idle_after = None if strategy.idle_timeout_ms is None else strategy.idle_timeout_ms / 1000
        self._empty_since: float | None = None
        self.paused: set[str] = set()
        """The splits that are paused because they are too far ahead."""

    def begun(self, split: str) -> GeneratedWatermarks:
        """Adds a split, if it is new; returns its watermarks."""
        known = self._splits.get(split)
        if known is None:
            self._emit_signals(self._valve.begun(split, self._clock.now_ms()))

            def send(signal: StreamSignal) -> None:
                match signal:
                    case Watermark(timestamp):
                        self._emit_signals(self._valve.watermark(split, timestamp, self._clock.now_ms()))
                    case WatermarkStatus(is_idle):
                        self._emit_signals(self._valve.status(split, is_idle, self._clock.now_ms()))

            known = self._splits[split] = GeneratedWatermarks(self._strategy, self._context, send, self._clock)
        return known

    def ended(self, split: str) -> None:
        """Removes a split that was fully read."""
        self.paused.discard(split)
        if self._splits.pop(split, None) is not None:
            self._emit_signals(self._valve.ended(split))

    def look(self, now: float) -> None:
        """Called at the interval."""
        self._look_for_splits(now)
        for split, watermarks in list(self._splits.items()):
            if split in self.paused:
                watermarks.look_paused()
            else:
                watermarks.look(now)

    def _look_for_splits(self, now: float) -> None:
        """A source without splits becomes idle as a silent split does."""
        if self._splits or self._idle_after is None:
            self._empty_since = None
        elif self._empty_since is None:
            self._empty_since = now
        elif now - self._empty_since >= self._idle_after:
            self._emit_signals(self._valve.emptied())

    @property
    def watermark(self) -> int:
        """The watermark of all splits combined."""
        return self._valve.timestamp

    @property
    def is_idle(self) -> bool:
        """Whether all splits are idle."""
        return self._valve.is_idle

    def ahead_of(self, limit: int) -> set[str]:
        """The splits past the limit; none if there is only one, since then the whole source is paused."""
        if len(self._splits) < 2:
            return set()
        return {split for split, watermarks in self._splits.items() if watermarks.last > limit}

    def progress(self) -> EventTime:
        """The event time of the splits, for users."""

        def describe(split: Hashable, stream: StreamTime) -> StreamTime:
            name = str(split)
            return replace(stream, name=name, record_at=self._splits[name].record_at, paused=name in self.paused)

        return self._valve.progress(describe)

    def _emit_signals(self, signals: list[StreamSignal]) -> None:
        for signal in signals:
            self._send(signal)


class Rhythm:
    """When to check next: at every interval, or never."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._next: float | None = None

    def is_due(self, now: float) -> bool:
        """Whether the interval has passed; the first time is one interval after the first call."""
        if self._interval <= 0:
            return False
        if self._next is None or now < self._next:
            self._next = self._next if self._next is not None else now + self._interval
            return False
        self._next = now + self._interval
        return True

    @property
    def next(self) -> float | None:
        """When the next check is due."""
        return self._next
