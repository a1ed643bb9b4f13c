"""Batches of Python objects."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, compress
from typing import TYPE_CHECKING, Any

from millstream.core.records.batches.kinds import joined_kinds, own_kinds, refuse_changes, with_kinds, without_kinds
from millstream.core.records.conversion import rows_to_record_batch
from millstream.core.records.types import PICKLED, TypeInformation

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from millstream.core.records.batches.columns import ColumnBatch

    Mask = bytes | list[bool] | npt.NDArray[np.bool_]
    Indices = Sequence[int] | npt.NDArray[np.integer[Any]]

TIMESTAMP = "q"
"""The type code of timestamps in arrays."""
_FEW_PARTS = 8
"""Up to this many parts, one pass for each is faster: with two, 17 ns per timestamp instead of 40."""
_ONE_OF = [bytes([place == part for place in range(256)]) for part in range(_FEW_PARTS)]


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
        return _chosen_times(times if isinstance(times, array) else times.gathered(), bytes(self._mask))


class RowBatch:
    """A list of records, and their timestamps when they have any: 64-bit integers, in milliseconds.

    `kinds` are the kinds of change of the records, None for insertions only. Records that are `Row`s have their own
    kinds, and none beside them.

    It is `plain` if all of its records are known to be values without parts, or tuples of such: they cannot be
    changed, so they need no further check.
    """

    __slots__ = ("_times", "kinds", "plain", "rows")

    in_columns = False
    """Whether the records are in columns: then kernels process them, for which a batch should be large."""

    def __init__(
        self,
        rows: list[Any],
        timestamps: Iterable[int] | ChosenTimes | None = None,
        plain: bool = False,
        kinds: bytes | None = None,
    ) -> None:
        self.rows = rows
        self._times: array[int] | ChosenTimes | None = (
            timestamps
            if timestamps is None or isinstance(timestamps, array | ChosenTimes)
            else array(TIMESTAMP, timestamps)
        )
        self.plain = plain
        self.kinds = kinds

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"RowBatch({len(self.rows)} rows)"

    # Time

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

    def row_times(self) -> array[int] | None:
        """The timestamps as an array of integers."""
        return self.timestamps

    def column_times(self) -> pa.Array | None:
        """The timestamps as an Arrow array."""
        import pyarrow as pa

        return None if self._times is None else pa.array(self.timestamps, pa.int64())

    def with_timestamps(self, timestamps: Iterable[int]) -> RowBatch:
        """The same records, with these timestamps."""
        return RowBatch(self.rows, timestamps, self.plain, self.kinds)

    def without_timestamps(self) -> RowBatch:
        """The same records."""
        return RowBatch(self.rows, None, self.plain, self.kinds) if self.is_timed else self

    # Selection

    def filter(self, mask: Mask) -> RowBatch:
        """The records that the mask selects, which has a truth value for each."""
        chosen = mask if isinstance(mask, bytes | list) else mask.tobytes()
        return self.chosen(list(compress(self.rows, chosen)), chosen, self.plain)

    def chosen(self, rows: list[Any], mask: bytes | list[bool], plain: bool = False) -> RowBatch:
        """The same for `rows`, which are the selected records or copies of these."""
        kinds = self.kinds
        return RowBatch(
            rows,
            None if self._times is None else ChosenTimes(self._times, mask),
            plain,
            None if kinds is None else bytes(compress(kinds, mask)),
        )

    def take(self, indices: Indices) -> RowBatch:
        """The records at these positions, in the order of these."""
        chosen: list[int] = indices.tolist() if hasattr(indices, "tolist") else list(indices)
        times, kinds = self.timestamps, self.kinds
        return RowBatch(
            list(map(self.rows.__getitem__, chosen)),
            None if times is None else _taken_times(times, chosen),
            self.plain,
            None if kinds is None else bytes(map(kinds.__getitem__, chosen)),
        )

    def slice(self, start: int, end: int | None = None, step: int = 1) -> RowBatch:
        """The records from one position up to another, or to the last; with a step, one of so many."""
        part = slice(start, end, step)
        times, kinds = self.timestamps, self.kinds
        return RowBatch(
            self.rows[part],
            None if times is None else times[part],
            self.plain,
            None if kinds is None else kinds[part],
        )

    def split(self, indices: Iterable[int], parts: int) -> Iterator[tuple[int, RowBatch]]:
        """Divides the records: `indices` has the part of each, from 0 to `parts - 1`. Only parts with records."""
        if parts <= _FEW_PARTS:
            places = bytes(indices)
            for part in range(parts):
                if part in places:
                    mask = places.translate(_ONE_OF[part])
                    yield part, self.chosen(list(compress(self.rows, mask)), mask, self.plain)
            return
        only_rows = self._times is None and self.kinds is None  # then it takes half the time
        buckets: list[list[Any]] = [[] for _ in range(parts)]
        for part, item in zip(indices, self.rows if only_rows else range(len(self)), strict=True):
            buckets[part].append(item)
        for part, items in enumerate(buckets):
            if items:
                yield part, RowBatch(items, None, self.plain) if only_rows else self.take(items)

    # In one

    def is_like(self, other: RowBatch | ColumnBatch) -> bool:
        """Whether both are of records of the same form, apart from their timestamps."""
        return isinstance(other, RowBatch)

    @staticmethod
    def concat(batches: Sequence[RowBatch]) -> RowBatch:
        """The records of several batches, all with timestamps or all without."""
        times = [batch.timestamps for batch in batches]
        return RowBatch(
            list(chain.from_iterable(batch.rows for batch in batches)),
            None if times[0] is None else array(TIMESTAMP, b"".join(times)),  # type: ignore[arg-type]  # all have
            all(batch.plain for batch in batches),
            joined_kinds([batch.kinds for batch in batches], list(map(len, batches))),
        )

    def extend(self, other: RowBatch) -> None:
        """Appends the records of another batch that `is_timed` alike. Only a batch that was not emitted yet."""
        if self.kinds is not None or other.kinds is not None:
            self.kinds = joined_kinds((self.kinds, other.kinds), (len(self), len(other)))
        self.rows += other.rows
        self.plain = self.plain and other.plain
        times, more = self.timestamps, other.timestamps
        if times is not None and more is not None:
            times.extend(more)

    # Conversion

    def with_rows(self, rows: list[Any], plain: bool = False) -> RowBatch:
        """A batch of other records, one for each of these, with the same timestamps and kinds."""
        return RowBatch(rows, self._times, plain, self.kinds)

    def records(self, type: TypeInformation = PICKLED) -> list[Any]:
        """The records. Raises a ChangedRecordError if there are kinds beside them that are not insertions."""
        if self.kinds is not None:
            refuse_changes(self.rows, self.kinds, f"a record of type {type.describe()}")
        return self.rows

    def columns(self, type: TypeInformation, only: Sequence[str] | None = None) -> pa.RecordBatch:
        """The records as columns of the declared type, or some of its columns.

        Raises a ChangedRecordError if one is not an insertion.
        """
        return rows_to_record_batch(self.records(type), type, only)

    def to_rows(self, type: TypeInformation) -> RowBatch:
        """The batch itself."""
        return self

    def to_columns(self, type: TypeInformation, only: Sequence[str] | None = None) -> ColumnBatch:
        """The records as columns of the declared type, or some of these, with their timestamps and kinds.

        `Row`s hand their kinds over to the batch.
        """
        from millstream.core.records.batches.columns import ColumnBatch, kinds_column

        rows, kinds = self.rows, self.kinds
        if kinds is None and (kinds := own_kinds(rows)) is not None:
            rows = without_kinds(rows, kinds)
        return ColumnBatch(rows_to_record_batch(rows, type, only), self.column_times(), kinds_column(kinds))


def rows_of_kinds(rows: list[Any], timestamps: array[int] | None, kinds: bytes | None) -> RowBatch:
    """A batch of new records, which get their kinds if they are `Row`s; else the kinds are beside them."""
    if kinds is None or with_kinds(rows, kinds) is not None:
        return RowBatch(rows, timestamps)
    return RowBatch(rows, timestamps, kinds=kinds)


def _taken_times(timestamps: array[int], indices: list[int]) -> array[int]:
    import numpy as np

    return array(TIMESTAMP, np.frombuffer(timestamps, np.int64).take(indices).tobytes())


def _chosen_times(timestamps: array[int], chosen: bytes) -> array[int]:
    """The timestamps of the records that are `chosen`, with a byte for each: 1, or 0."""
    import numpy as np

    times = np.frombuffer(timestamps, np.int64)
    return array(TIMESTAMP, times.compress(np.frombuffer(chosen, np.bool_)).tobytes())  # an index takes twice as long
