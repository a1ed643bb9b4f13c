"""Columns in the Arrow types of their declared types, as a snapshot stores them, and back.

Most are stored unchanged. Those of types that a snapshot stores differently are converted through Python values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from millstream.core.records.conversion import record_batch_to_rows, rows_to_record_batch
from millstream.core.records.types import (
    BOOLEAN,
    BYTE,
    BYTES,
    DATE,
    DOUBLE,
    INT,
    LONG,
    SHORT,
    STRING,
    TupleType,
    TypeInformation,
)
from millstream.core.snapshot.tables.columns import from_array

if TYPE_CHECKING:
    import pyarrow as pa

_AS_THEY_ARE = frozenset({STRING, BOOLEAN, BYTE, SHORT, INT, LONG, DOUBLE, BYTES, DATE})
"""Types whose columns a snapshot stores as in Arrow."""


def to_stored(columns: Sequence[pa.Array], types: Sequence[TypeInformation], names: Sequence[str] | None) -> Any:
    """Columns as a snapshot stores them: a struct of all, or the only one if there are no names."""
    import pyarrow as pa

    if all(kind in _AS_THEY_ARE for kind in types):
        return columns[0] if names is None else pa.StructArray.from_arrays(list(columns), list(names))
    given = [f"f{number}" for number in range(len(columns))]
    batch = pa.RecordBatch.from_arrays(list(columns), names=given)
    rows = record_batch_to_rows(batch, TupleType(tuple(types)))
    return [row[0] for row in rows] if names is None else rows


def from_stored(column: pa.Array, kind: TypeInformation, name: str) -> pa.Array:
    """A column of a snapshot in the Arrow type of its declared type."""
    if kind in _AS_THEY_ARE:
        return column.cast(kind.arrow_type())
    values = from_array(column, kind, name, new_fields=True)
    return rows_to_record_batch([(value,) for value in values], TupleType((kind,))).column(0)
