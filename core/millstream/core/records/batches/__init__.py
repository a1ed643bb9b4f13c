"""The elements of a channel: batches of records, and the signals between them, in order.

A batch is a `RowBatch` (Python objects) or a `ColumnBatch` (an Arrow record batch), each with optional event
timestamps and kinds of change beside the records. Both have the same verbs, so that code which selects, divides or
converts records need not know which one it has. Batches are passed on by reference and never changed after they were
emitted.
"""

from __future__ import annotations

from typing import Any

from millstream.core.jobs.barriers import Barrier
from millstream.core.records.batches.columns import ColumnBatch
from millstream.core.records.batches.kinds import ChangedRecordError
from millstream.core.records.batches.rows import TIMESTAMP, RowBatch
from millstream.core.records.batches.signals import (
    END_OF_INPUT,
    LAST_WATERMARK,
    MAX_TIMESTAMP,
    MIN_TIMESTAMP,
    EndOfInput,
    LatencyMarker,
    Signal,
    StreamSignal,
    Watermark,
    WatermarkStatus,
)
from millstream.core.records.conversion import VALUE_COLUMN

Batch = RowBatch | ColumnBatch
Element = Batch | Signal


def may_join(first: Batch, other: Batch) -> bool:
    """Whether the records of two batches can be in one: both with timestamps or both without, of the same columns."""
    return first.is_timed == other.is_timed and first.is_like(other)


def joined(batches: list[Batch]) -> Batch:
    """The records of batches that may join, in one."""
    return batches[0] if len(batches) == 1 else type(batches[0]).concat(batches)  # type: ignore[arg-type]  # of one class


def lines_of(batch: Batch) -> list[Any]:
    """The records as a sink writes them in lines; of columns with the single name `value`, those are the values."""
    rows = batch.records()
    if isinstance(batch, ColumnBatch) and batch.data.schema.names == [VALUE_COLUMN]:
        return [row[0] for row in rows]
    return rows


__all__ = [
    "END_OF_INPUT",
    "LAST_WATERMARK",
    "MAX_TIMESTAMP",
    "MIN_TIMESTAMP",
    "TIMESTAMP",
    "Barrier",
    "Batch",
    "ChangedRecordError",
    "ColumnBatch",
    "Element",
    "EndOfInput",
    "LatencyMarker",
    "RowBatch",
    "Signal",
    "StreamSignal",
    "Watermark",
    "WatermarkStatus",
    "joined",
    "lines_of",
    "may_join",
]
