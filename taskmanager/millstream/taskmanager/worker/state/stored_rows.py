"""Rows of a table of columns as tables of the snapshot format, and back: the same for every backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from millstream.core.keys.grouped_columns import GroupedColumn
from millstream.core.keys.key_groups import combine_hashes, stable_hash_column
from millstream.core.records.types import TypeInformation
from millstream.core.snapshot.errors import IncompatibleStateError
from millstream.core.snapshot.tables.arrow_values import from_stored, to_stored
from millstream.core.snapshot.tables.table import (
    EXPIRES_AT,
    KEY,
    MAP_KEY,
    MAP_VALUE,
    NAMESPACE,
    VALUE,
    map_entry_table,
    value_table,
)
from millstream.taskmanager.worker.state.capturing.captured import StateDeclaration
from millstream.taskmanager.worker.state.column_table import Named, RowLayout

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa


def key_groups_of_rows(layout: RowLayout, keys: Sequence[Any], max_parallelism: int) -> npt.NDArray[np.uint16]:
    """The key groups of keys, given as their columns."""
    import numpy as np

    decoded = [GroupedColumn(kind).decode(column) for (_, kind), column in zip(layout.key, keys, strict=True)]
    hashes = [stable_hash_column(column) for column in decoded]
    of_keys = hashes[0] if len(hashes) == 1 else combine_hashes(hashes)
    return (of_keys % np.uint64(max_parallelism)).astype(np.uint16)


def stored_table(
    declaration: StateDeclaration, layout: RowLayout, rows: pa.Table, max_parallelism: int,
    key_groups: Any, deadlines: Any = None,
) -> pa.Table:  # fmt: skip
    """The rows as a snapshot has them, sorted by key group."""
    types = declaration.types
    keys = _grouped(rows, layout.key, None if len(layout.key) == 1 else types.key)
    namespaces = _grouped(rows, layout.namespace, types.namespace) if layout.namespace else None
    further = {"namespaces": namespaces, "key_groups": key_groups, "expires_at": deadlines}
    fields = _fields(types.value, layout)
    columns = [whole(rows, name) for name, _ in layout.values]
    values = to_stored(columns, [kind for _, kind in layout.values], fields)
    if layout.sub_key is None:
        return value_table(keys, values, types, max_parallelism, **further)
    sub_keys = _grouped(rows, (layout.sub_key,))
    return map_entry_table(keys, sub_keys, values, types, max_parallelism, **further)


def restored_rows(declaration: StateDeclaration, layout: RowLayout, stored: pa.Table) -> tuple[pa.Table, Any]:
    """The rows of a table of a snapshot, and when they expire, if they do."""
    import pyarrow as pa

    columns: dict[str, Any] = {}
    parts = [(KEY, layout.key, len(layout.key) == 1), (NAMESPACE, layout.namespace, False)]
    if layout.sub_key is not None:
        parts.append((MAP_KEY, (layout.sub_key,), True))
    for stored_name, named, is_single in parts:
        if named:
            column = whole(stored, stored_name)
            for (name, kind), field in zip(named, [column] if is_single else column.flatten(), strict=True):
                columns[name] = GroupedColumn(kind).encode(from_stored(field, kind, stored_name))
    value = whole(stored, VALUE if layout.sub_key is None else MAP_VALUE)
    fields = _fields(declaration.types.value, layout)
    if fields is not None:
        found = [field.name for field in value.type]
        if found != fields:
            reason = f"holds {', '.join(found)}, and the program keeps {', '.join(fields)}: give it another name or uid"
            raise IncompatibleStateError(f"state '{declaration.name}'", reason)
    for (name, kind), field in zip(layout.values, [value] if fields is None else value.flatten(), strict=True):
        columns[name] = from_stored(field, kind, name)
    expires = whole(stored, EXPIRES_AT) if EXPIRES_AT in stored.column_names else None
    return pa.table(columns), expires


def whole(table: pa.Table, name: str) -> Any:
    """A column as one array."""
    import pyarrow as pa

    column = table.column(name)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _fields(value: TypeInformation | None, layout: RowLayout) -> list[str] | None:
    """The names of the fields of a value in snapshots, None where it is a single column."""
    return None if value is None or value.field_names() is None else [name for name, _ in layout.values]


def _grouped(rows: pa.Table, named: Sequence[Named], composite: TypeInformation | None = None) -> Any:
    """Columns of addresses as a snapshot stores them: a struct of a composite type, or the only column."""
    columns = [GroupedColumn(kind).decode(rows.column(name)) for name, kind in named]
    return to_stored(columns, [kind for _, kind in named], None if composite is None else composite.field_names())
