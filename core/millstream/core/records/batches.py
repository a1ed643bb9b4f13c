"""The elements of a channel: batches of records, and the signals between them, in order.

A batch is a `RowBatch` (Python objects) or a `ColumnBatch` (an Arrow record batch), each with optional event
timestamps beside the records. Batches are passed on by reference and never changed after they were emitted.

The task itself handles the end of the input and barriers: it ends, and takes its snapshot, between two elements. All
other signals are `StreamSignal`s, which the task passes to its operators in order. Channels and gates do not interpret
them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from millstream.core.jobs.barriers import StopMode

if TYPE_CHECKING:
    import pyarrow as pa


TIMESTAMP = "q"
"""The type code of timestamps in arrays."""


class ChosenTimes:
    """The timestamps of the records of a batch that a mask selected, gathered on demand.

    The output of a filter often goes to a sink that does not read them: gathering them takes as long as the filter.
    """

    __slots__ = ("_mask", "_times")

    def __init__(self, times: array[int] | ChosenTimes, mask: bytes | list[bool]) -> None:
        self._times = times
        self._mask = mask

    def gathered(self) -> array[int]:
        """Returns the timestamps."""
        times = self._times
        return chosen_times(times if isinstance(times, array) else times.gathered(), bytes(self._mask))


class RowBatch:
    """A list of records, and their timestamps when they have any: 64-bit integers, in milliseconds.

    It is `plain` if all of its records are known to be values without parts, or tuples of such: they cannot be
    changed, so they need no further check.
    """

    __slots__ = ("_times", "plain", "rows")

    def __init__(
        self, rows: list[Any], timestamps: Iterable[int] | ChosenTimes | None = None, plain: bool = False
    ) -> None:
        self.rows = rows
        self._times: array[int] | ChosenTimes | None = (
            timestamps
            if timestamps is None or isinstance(timestamps, array | ChosenTimes)
            else array(TIMESTAMP, timestamps)
        )
        self.plain = plain

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def timestamps(self) -> array[int] | None:
        """The timestamps of the records, in their order; None if they have none."""
        times = self._times
        if times is None or isinstance(times, array):
            return times
        self._times = gathered = times.gathered()
        return gathered

    @property
    def is_timed(self) -> bool:
        """Whether the records have timestamps."""
        return self._times is not None

    def without_timestamps(self) -> RowBatch:
        """The same records."""
        return RowBatch(self.rows, None, self.plain) if self.is_timed else self

    def with_rows(self, rows: list[Any], plain: bool = False) -> RowBatch:
        """Returns a batch of other records, one for each of these, with the same timestamps."""
        return RowBatch(rows, self._times, plain)

    def chosen(self, rows: list[Any], mask: bytes | list[bool], plain: bool = False) -> RowBatch:
        """Returns a batch of `rows`, the records that the mask selected, with their timestamps."""
        return RowBatch(rows, None if self._times is None else ChosenTimes(self._times, mask), plain)

    def slice(self, start: int, end: int) -> RowBatch:
        """The records from one position up to another, or to the last."""
        times = self.timestamps
        return RowBatch(self.rows[start:end], times[start:end] if times is not None else None, self.plain)

    def __repr__(self) -> str:
        return f"RowBatch({len(self.rows)} rows)"


class ColumnBatch:
    """An Arrow record batch, and an int64 array of timestamps when the records have any."""

    __slots__ = ("data", "timestamps")

    def __init__(self, data: pa.RecordBatch, timestamps: Any | None = None) -> None:
        self.data = data
        self.timestamps = timestamps

    def __len__(self) -> int:
        return int(self.data.num_rows)

    @property
    def is_timed(self) -> bool:
        """Whether the records have timestamps."""
        return self.timestamps is not None

    def without_timestamps(self) -> ColumnBatch:
        """The same records."""
        return ColumnBatch(self.data) if self.is_timed else self

    def slice(self, start: int, end: int) -> ColumnBatch:
        """Returns the records from one position up to another, or to the last, without copying."""
        times = self.timestamps
        return ColumnBatch(self.data.slice(start, end - start), times[start:end] if times is not None else None)

    def __repr__(self) -> str:
        return f"ColumnBatch({self.data.num_rows} rows, {self.data.schema.names})"


Batch = RowBatch | ColumnBatch


def chosen_times(timestamps: array[int], chosen: bytes) -> array[int]:
    """The timestamps of the records that are `chosen`, with a byte for each: 1, or 0."""
    import numpy as np

    times = np.frombuffer(timestamps, np.int64)
    return array(TIMESTAMP, times.compress(np.frombuffer(chosen, np.bool_)).tobytes())  # an index takes twice as long


def may_join(first: Batch, other: Batch) -> bool:
    """Whether the records of two batches can be in one: both with timestamps or both without, of the same columns."""
    if first.is_timed != other.is_timed:
        return False
    if isinstance(first, RowBatch) or isinstance(other, RowBatch):
        return isinstance(first, RowBatch) and isinstance(other, RowBatch)
    return bool(first.data.schema.equals(other.data.schema, check_metadata=True))


def joined(batches: list[Batch]) -> Batch:
    """The records of batches that may join, in one."""
    if len(batches) == 1:
        return batches[0]
    times = [cast(Any, b.timestamps) for b in batches] if batches[0].is_timed else None
    if isinstance(batches[0], RowBatch):
        parts = [b for b in batches if isinstance(b, RowBatch)]
        rows = list(chain.from_iterable(b.rows for b in parts))
        stamps = None if times is None else array(TIMESTAMP, b"".join(times))
        return RowBatch(rows, stamps, all(b.plain for b in parts))
    import pyarrow as pa

    data = pa.concat_batches([b.data for b in batches if isinstance(b, ColumnBatch)])
    return ColumnBatch(data, None if times is None else pa.concat_arrays(map(pa.array, times)))


class EndOfInput(Struct, frozen=True):
    """The producer has finished: no elements follow on this channel."""


class Barrier(Struct, frozen=True):
    """Divides the stream: records before it belong to the checkpoint, records after it do not.

    It carries the options of the checkpoint, because the coordinator triggers only sources.
    """

    checkpoint_id: int
    timestamp: int  # when the coordinator triggered it, in milliseconds
    is_savepoint: bool = False
    location: str = ""  # the folder for state files
    aligned: bool = True  # exactly-once: channels that delivered it wait for the others
    full: bool = False  # refers to no file of an earlier checkpoint
    stop: StopMode = StopMode.NONE
    unaligned: bool = False  # exactly-once without waiting: it overtakes records, which become part of the checkpoint
    aligned_timeout_ms: int | None = None  # aligned until it is this old, then unaligned
    native: bool = False  # a savepoint in the files of checkpoints
    oldest_base: int = 0  # the oldest checkpoint whose files it may refer to; older ones may be deleted

    @property
    def may_overtake(self) -> bool:
        """Whether it overtakes records where it can, at once or when it is old enough."""
        return self.unaligned or self.aligned_timeout_ms is not None


class StreamSignal:
    """Base of the signals that operators receive and forward, in order with the records."""

    __slots__ = ()


MIN_TIMESTAMP = -(2**63)
"""Before every record: where event time begins."""
MAX_TIMESTAMP = 2**63 - 1
"""Behind every record: where event time ends."""


class Watermark(StreamSignal, Struct, frozen=True):
    """Event time has reached this timestamp: later records with a timestamp up to it are late."""

    timestamp: int


class WatermarkStatus(StreamSignal, Struct, frozen=True):
    """Whether the channel is active or idle; an idle channel does not hold event time back."""

    is_idle: bool


class LatencyMarker(StreamSignal, Struct, frozen=True):
    """Emitted by a source to measure the latency to downstream operators."""

    marked_ms: int
    operator_id: str
    """The source, and its subtask."""
    subtask: int = 0


LAST_WATERMARK = Watermark(MAX_TIMESTAMP)
Signal = EndOfInput | Barrier | StreamSignal
Element = Batch | Signal
END_OF_INPUT = EndOfInput()
