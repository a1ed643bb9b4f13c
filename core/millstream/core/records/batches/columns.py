"""Batches of Arrow columns."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from millstream.core.records.batches.kinds import refuse_changes
from millstream.core.records.batches.rows import TIMESTAMP, RowBatch, rows_of_kinds
from millstream.core.records.conversion import record_batch_to_rows
from millstream.core.records.types import PICKLED, TypeInformation

if TYPE_CHECKING:
    import pyarrow as pa

    from millstream.core.records.batches.rows import Indices, Mask


class ColumnBatch:
    """An Arrow record batch, with an int64 array of timestamps when the records have any.

    `kinds` are the kinds of change of the records, an int8 array; None for insertions only.
    """

    __slots__ = ("data", "kinds", "timestamps")

    in_columns = True
    """Whether the records are in columns: then kernels process them, for which a batch should be large."""
    plain = False
    """See `RowBatch`: of the records that columns become, that depends on their type."""

    def __init__(self, data: pa.RecordBatch, timestamps: Any | None = None, kinds: Any | None = None) -> None:
        self.data = data
        self.timestamps = timestamps
        self.kinds = kinds

    def __len__(self) -> int:
        return int(self.data.num_rows)

    def __repr__(self) -> str:
        return f"ColumnBatch({self.data.num_rows} rows, {self.data.schema.names})"

    # Time

    @property
    def is_timed(self) -> bool:
        """Whether the records have timestamps."""
        return self.timestamps is not None

    def row_times(self) -> array[int] | None:
        """The timestamps as an array of integers."""
        times = self.timestamps
        return None if times is None else array(TIMESTAMP, times.to_numpy().tobytes())

    def column_times(self) -> pa.Array | None:
        """The timestamps as an Arrow array."""
        return self.timestamps

    def with_timestamps(self, timestamps: Any) -> ColumnBatch:
        """The same records, with these timestamps."""
        import pyarrow as pa

        return ColumnBatch(self.data, pa.array(timestamps, pa.int64()), self.kinds)

    def without_timestamps(self) -> ColumnBatch:
        """The same records."""
        return ColumnBatch(self.data, None, self.kinds) if self.is_timed else self

    # Selection

    def filter(self, mask: Mask) -> ColumnBatch:
        """The records that the mask selects, which has a truth value for each; it may be an Arrow array, too."""
        import numpy as np
        import pyarrow as pa

        chosen: Any = mask
        if not isinstance(mask, pa.Array):
            chosen = pa.array(np.frombuffer(mask, np.bool_) if isinstance(mask, bytes) else mask, pa.bool_())
        return self._each(lambda part: part.filter(chosen))

    def take(self, indices: Indices) -> ColumnBatch:
        """The records at these positions, in the order of these."""
        import numpy as np
        import pyarrow as pa

        chosen = pa.array(np.asarray(indices, np.int64))
        times, kinds = self.timestamps, self.kinds
        return ColumnBatch(  # without `_each`, which costs half a microsecond
            self.data.take(chosen),
            None if times is None else times.take(chosen),
            None if kinds is None else kinds.take(chosen),
        )

    def slice(self, start: int, end: int | None = None, step: int = 1) -> ColumnBatch:
        """The records from one position up to another, or to the last, without copying; with a step, one of so many."""
        if step != 1:
            import numpy as np

            return self.take(np.arange(start, len(self) if end is None else end, step))
        length = None if end is None else end - start
        return self._each(lambda part: part.slice(start, length))

    def _each(self, apply: Any) -> ColumnBatch:
        """Applies a function to the columns, and to what is beside them."""
        times, kinds = self.timestamps, self.kinds
        return ColumnBatch(
            apply(self.data), None if times is None else apply(times), None if kinds is None else apply(kinds)
        )

    def split(self, indices: Any, parts: int) -> Iterator[tuple[int, ColumnBatch]]:
        """Divides the records: `indices` has the part of each, from 0 to `parts - 1`. Only parts with records."""
        import numpy as np

        chosen = np.asarray(indices)
        for part in range(parts):
            positions = np.flatnonzero(chosen == part)
            if len(positions):
                yield part, self if len(positions) == len(self) else self.take(positions)

    # In one

    def is_like(self, other: RowBatch | ColumnBatch) -> bool:
        """Whether both are of records of the same form, apart from their timestamps."""
        return isinstance(other, ColumnBatch) and bool(
            self.data.schema.equals(other.data.schema, check_metadata=True)
        )

    @staticmethod
    def concat(batches: Sequence[ColumnBatch]) -> ColumnBatch:
        """The records of several batches of the same columns, all with timestamps or all without."""
        import pyarrow as pa

        times = [batch.timestamps for batch in batches]
        kinds = None
        if any(batch.kinds is not None for batch in batches):
            kinds = pa.concat_arrays([_insertions(len(b)) if b.kinds is None else b.kinds for b in batches])
        data = pa.concat_batches([batch.data for batch in batches])
        return ColumnBatch(data, None if times[0] is None else pa.concat_arrays(times), kinds)

    # Conversion

    def with_rows(self, rows: list[Any], plain: bool = False) -> RowBatch:
        """A batch of other records, one for each of these, with the same timestamps."""
        return RowBatch(rows, self.row_times(), plain)

    def records(self, type: TypeInformation = PICKLED) -> list[Any]:
        """The records as Python objects of the declared type; without one, as `Row`s with the columns' names.

        `Row`s get their kinds. Raises a ChangedRecordError if another record is not an insertion.
        """
        return self.to_rows(type).records(type)

    def columns(self, type: TypeInformation, only: Sequence[str] | None = None) -> pa.RecordBatch:
        """The columns as they are. Raises a ChangedRecordError if a record is not an insertion."""
        if self.kinds is not None and any(kinds := _kind_bytes(self.kinds)):
            refuse_changes(self.data.to_pylist(), kinds, "a batch of columns without kinds of change")
        return self.data

    def to_rows(self, type: TypeInformation) -> RowBatch:
        """The records as Python objects, with their timestamps and kinds."""
        kinds = None if self.kinds is None else _kind_bytes(self.kinds)
        return rows_of_kinds(record_batch_to_rows(self.data, type), self.row_times(), kinds)

    def to_columns(self, type: TypeInformation, only: Sequence[str] | None = None) -> ColumnBatch:
        """The batch itself."""
        return self


def kinds_column(kinds: bytes | None) -> pa.Array | None:
    """The kinds of a batch of rows as those of a batch of columns."""
    import pyarrow as pa

    return None if kinds is None else pa.Array.from_buffers(pa.int8(), len(kinds), [None, pa.py_buffer(kinds)])


def _kind_bytes(kinds: Any) -> bytes:
    return kinds.to_numpy().tobytes()  # type: ignore[no-any-return]  # untyped library


def _insertions(count: int) -> Any:
    return kinds_column(bytes(count))
