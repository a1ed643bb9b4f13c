"""A batch of records as aggregates see it: its columns, and what state columns are often made of."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from millstream.core.records.types import TypeInformation

if TYPE_CHECKING:
    import pyarrow as pa

_kept_ones: Any = None


class ChangedRecords:
    """Records to be accumulated or retracted, numbered from `first` on in the order of their arrival."""

    def __init__(self, data: pa.RecordBatch, first: int = 0) -> None:
        self._data = data
        self._first = first

    def __len__(self) -> int:
        return int(self._data.num_rows)

    def values(self, column: str, kind: TypeInformation) -> pa.Array:
        """The values of a column, in the Arrow type of `kind`."""
        found, wanted = self._data.column(column), kind.arrow_type()
        return found if found.type == wanted else found.cast(wanted)

    def ones(self) -> pa.Array:
        """A one for each record."""
        import numpy as np
        import pyarrow as pa

        global _kept_ones  # a cache: making them for each batch takes as long as counting
        rows = len(self)
        if _kept_ones is None or len(_kept_ones) < rows:
            _kept_ones = pa.array(np.ones(max(rows, 4096), np.int64))
        return _kept_ones.slice(0, rows)

    def presence(self, column: str) -> pa.Array:
        """A one for each record whose value is not null, and a zero for the others."""
        import pyarrow as pa

        found = self._data.column(column)
        return found.is_valid().cast(pa.int64()) if found.null_count else self.ones()

    def numbers(self, column: str) -> pa.Array:
        """The numbers of the records whose value is not null; null for the others."""
        import pyarrow.compute as pc

        found = self._data.column(column)
        return pc.if_else(found.is_valid(), self._numbers, None) if found.null_count else self._numbers

    @cached_property
    def _numbers(self) -> pa.Array:
        import numpy as np
        import pyarrow as pa

        return pa.array(np.arange(self._first, self._first + len(self), dtype=np.int64))
