"""What `state show` prints: rows of one state, with the columns that its kind has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import click
from msgspec import Struct

from millstream.cli.tables import moment, print_table
from millstream.core.snapshot.inspection.readable import readable, to_json
from millstream.core.snapshot.metadata.model import StateFile, StateKind, StateSnapshot
from millstream.core.snapshot.metadata.types_json import holds_pickled
from millstream.core.snapshot.tables.columns import Pickled
from millstream.core.snapshot.tables.restore import Rows

_CONTENT = {
    StateKind.MAP: ("map_key", "map_value"),
    StateKind.BROADCAST: ("map_key", "map_value"),
    StateKind.TIMERS: ("domain", "timestamp"),
}


class StateRows(Struct, frozen=True):
    """Rows of a state as they were found, of which no more than the limit are shown."""

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
    """For programs."""
    return [{name: to_json(value) for name, value in row.items()} for row in found]


def print_rows(found: StateRows, key: str | None, unpickled: bool) -> None:
    """For people; what is not shown is said on stderr."""
    rows, key_type = list(found), found.state.key_type
    total = sum(file.rows for file in found.state.files)
    if rows:
        print_table([name.upper().replace("_", " ") for name in rows[0]], [_texts(row) for row in rows])
    if key is None and len(rows) < total:
        click.echo(f"{len(rows)} of {total} rows; --limit shows more.", err=True)
    elif key is not None and not rows:
        as_bytes = key_type is not None and holds_pickled(key_type) and not unpickled
        hint = ": pickled keys were compared as bytes, --unpickle compares values" if as_bytes else ""
        click.echo(f"No rows for the key {key}{hint}.", err=True)
    elif key is None and not rows:
        click.echo("No rows.", err=True)
    elif len(rows) == found.limit and key is not None:
        click.echo(f"{len(rows)} rows; there may be more, --limit shows them.", err=True)
    if any(isinstance(value, Pickled) for row in rows for value in row.values()):
        click.echo("Pickled values are not loaded; --unpickle does, which executes code from the snapshot.", err=True)


def _texts(row: dict[str, Any]) -> list[str]:
    return [_expiry(value) if name == "expires_at" else readable(value) for name, value in row.items()]


def _expiry(milliseconds: int | None) -> str:
    return "never" if milliseconds is None else moment(milliseconds)
