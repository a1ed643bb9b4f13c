"""Columns of a DataFrame, as Arrow hands them over, to those of the snapshot format. Pure.

A column fits a type when each of its values does: numbers may be of another width, if none changes by it. A column of
bytes for a type that is not declared is taken for pickles, and anything else is pickled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.core.records import types as t
from millstream.core.snapshot.metadata.model import StateSnapshot
from millstream.core.snapshot.tables.columns import to_array
from millstream.core.snapshot.tables.restore import column_types
from millstream.core.snapshot.tables.table import (
    DOMAIN,
    KEY,
    NAMESPACE,
    POSITION,
    TIMESTAMP,
)
from millstream.spark.errors import RowFault
from millstream.spark.types import to_stored

if TYPE_CHECKING:
    import pyarrow as pa

_NEVER_NULL = (KEY, NAMESPACE, POSITION, TIMESTAMP, DOMAIN)


def stored_table(batch: pa.RecordBatch | pa.Table, state: StateSnapshot) -> pa.Table:
    """The rows with the columns that files of the state have, but for the key group. Raises for what does not fit."""
    import pyarrow as pa

    kinds = column_types(state)
    arrays = {}
    for name in batch.schema.names:
        kind, column = kinds[name], batch.column(name)
        assert kind is not None, f"a column {name}, which the state does not have"
        if isinstance(kind, t.PickledType) and not pa.types.is_binary(column.type):
            arrays[name] = to_array(column.to_pylist(), kind, name)
        else:
            arrays[name] = to_stored(column, kind, f"state '{state.name}': column {name}")
        if column.null_count and name in _NEVER_NULL:
            detail = "a null key" if name == KEY else f"a null in column {name}"
            raise RowFault(f"state '{state.name}' has {detail}: leave such rows out, or give them a value")
    return pa.table(arrays)
