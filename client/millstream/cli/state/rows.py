"""What `state show` prints: rows of one state, with the columns that its kind has."""

from __future__ import annotations

from typing import Any

import click

from millstream.cli.tables import moment, print_table
from millstream.core.snapshot.inspection.readable import readable
from millstream.core.snapshot.inspection.state_rows import StateRows
from millstream.core.snapshot.metadata.types_json import holds_pickled
from millstream.core.snapshot.tables.columns import Pickled


def print_rows(found: StateRows, key: str | None, unpickled: bool) -> None:
    """For users; stderr reports what is not shown."""
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
