"""Rows of one state, with the columns that its kind has: for the command line and the REST API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from msgspec import Struct

from millstream.core.snapshot.inspection.readable import to_json
from millstream.core.snapshot.metadata.model import StateFile, StateKind, StateSnapshot
from millstream.core.snapshot.tables.restore import Rows

_CONTENT = {
    StateKind.MAP: ("map_key", "map_value"),
    StateKind.BROADCAST: ("map_key", "map_value"),
    StateKind.TIMERS: ("domain", "timestamp"),
}


class StateRows(Struct, frozen=True):
    """Collects rows of a state up to a limit."""

    state: StateSnapshot
    parts: Iterable[tuple[StateFile, Rows]]
    limit: int

    def __iter__(self) -> Iterator[dict[str, Any]]:
        every = (row for file, rows in self.parts for row in _rows(self.state, file, rows))
        return islice(every, self.limit)


def _rows(state: StateSnapshot, file: StateFile, rows: Rows) -> Iterator[dict[str, Any]]:
    detail, content = _CONTENT.get(state.kind, ("position", "element"))
    for number, value in enumerate(rows.content):
        row: dict[str, Any] = {}
        if state.kind.keyed:
            row["key"] = rows.keys[number]
        else:
            row["subtask"] = file.subtask
        if rows.namespaces:
            row["namespace"] = rows.namespaces[number]
        if rows.detail:
            row[detail] = rows.detail[number]
        row[content if rows.detail else "value"] = value
        if rows.expires_at is not None:
            row["expires_at"] = rows.expires_at[number]
        yield row


def rows_json(found: StateRows) -> list[dict[str, Any]]:
    """Returns the rows as JSON."""
    return [{name: to_json(value) for name, value in row.items()} for row in found]
