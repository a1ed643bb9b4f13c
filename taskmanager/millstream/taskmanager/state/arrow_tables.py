"""Captured state as the tables of the snapshot format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millstream.core.snapshot.model import StateKind
from millstream.core.snapshot.table import broadcast_table, element_table, list_table, map_table, value_table
from millstream.taskmanager.state.captured import StateDeclaration, StateRows

if TYPE_CHECKING:
    import pyarrow as pa


def keyed_table(declaration: StateDeclaration, rows: StateRows, max_parallelism: int) -> pa.Table:
    """The rows of a keyed state, sorted by key group."""
    shared: dict[str, Any] = {"namespaces": rows.namespaces, "key_groups": rows.key_groups}
    types = declaration.types
    match declaration.kind:
        case StateKind.LIST:
            return list_table(rows.keys, rows.values, types, max_parallelism, expires_at=rows.expires_at, **shared)
        case StateKind.MAP:
            expires = None
            if rows.expires_at is not None:
                both = zip(rows.expires_at, rows.values, strict=True)
                expires = [[deadlines[key] for key in entries] for deadlines, entries in both]
            return map_table(rows.keys, rows.values, types, max_parallelism, expires_at=expires, **shared)
        case _:
            return value_table(rows.keys, rows.values, types, max_parallelism, expires_at=rows.expires_at, **shared)


def operator_table(declaration: StateDeclaration, contents: Any) -> pa.Table:
    """The elements of a list, or the entries of a broadcast map."""
    if declaration.kind is StateKind.BROADCAST:
        return broadcast_table(contents, declaration.types)
    return element_table(contents, declaration.types)
