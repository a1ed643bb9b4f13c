"""What flows through a channel: batches of records, and the signals between them. Order is never broken.

A batch is a `RowBatch` (Python objects) or a `ColumnBatch` (an Arrow record batch), each with optional event
timestamps beside the records. Batches are handed on by reference and never changed after they were emitted.

Of the signals, the end of the input and barriers are the task's own business: it ends, and takes its snapshot, between
two elements. All others are `StreamSignal`s: the task hands them to its operators in their turn. Channels and gates
need to know none of these.
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
    """The timestamps of those records of a batch that a mask chose, gathered on demand.

    A filter's often go nowhere but to a sink that never looks: to gather them takes as long as to choose the records.
    """

    __slots__ = ("_mask", "_times")

    def __init__(self, times: array[int] | ChosenTimes, mask: bytes | list[bool]) -> None:
        self._times = times
        self._mask = mask

    def gathered(self) -> array[int]:
        """They themselves."""
        times = self._times
        return chosen_times(times if isinstance(times, array) else times.gathered(), bytes(self._mask))


class RowBatch:
    """A list of records, and their timestamps when they have any: 64-bit integers, in milliseconds.

    It is `plain` if all of its records were seen to be values without parts, or tuples of such: they cannot be
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
        """Those of the records, in their order; None when they have none."""
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
        """Other records in the place of these, one for each, with the same timestamps."""
        return RowBatch(rows, self._times, plain)

    def chosen(self, rows: list[Any], mask: bytes | list[bool], plain: bool = False) -> RowBatch:
        """The records of this batch that the mask chose, which are `rows`, with their timestamps."""
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
        """The records from one position up to another, or to the last; nothing is copied."""
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
    """The producer finished: nothing follows on this channel."""


class Barrier(Struct, frozen=True):
    """Divides the stream: records before it belong to the checkpoint, records after it do not.

    It carries all that a task has to know of the checkpoint, because the coordinator notifies only sources.
    """

    checkpoint_id: int
    timestamp: int  # when the coordinator triggered it, in milliseconds
    is_savepoint: bool = False
    location: str = ""  # the folder that the state files go to
    aligned: bool = True  # exactly-once: channels that delivered it wait for the others
    full: bool = False  # refers to no file of an earlier checkpoint
    stop: StopMode = StopMode.NONE
    unaligned: bool = False  # exactly-once without waiting: it overtakes records, which become part of the checkpoint
    aligned_timeout_ms: int | None = None  # aligned until it is this old, then unaligned
    native: bool = False  # a savepoint in the files of checkpoints
    oldest_base: int = 0  # the oldest checkpoint whose files it may refer to; those of older ones may be gone

    @property
    def may_overtake(self) -> bool:
        """Whether it overtakes records where it can, at once or when it is old enough."""
        return self.unaligned or self.aligned_timeout_ms is not None


class StreamSignal:
    """Base of the signals that operators see and send on, in their place among the records."""

    __slots__ = ()


MIN_TIMESTAMP = -(2**63)
"""Before every record: where event time begins."""
MAX_TIMESTAMP = 2**63 - 1
"""Behind every record: where event time ends."""


class Watermark(StreamSignal, Struct, frozen=True):
    """Event time has come to here: records that follow with a timestamp up to this one are late."""

    timestamp: int


class WatermarkStatus(StreamSignal, Struct, frozen=True):
    """Whether watermarks are to be waited for on this channel; those of an idle one hold nothing back."""

    is_idle: bool


class LatencyMarker(StreamSignal, Struct, frozen=True):
    """Sent by a source to time the way to the operators behind it."""

    marked_ms: int
    operator_id: str
    """The source, and its subtask."""
    subtask: int = 0


LAST_WATERMARK = Watermark(MAX_TIMESTAMP)
Signal = EndOfInput | Barrier | StreamSignal
Element = Batch | Signal
END_OF_INPUT = EndOfInput()
