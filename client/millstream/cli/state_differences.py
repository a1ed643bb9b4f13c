"""What `state diff` prints: only what differs."""

from __future__ import annotations

from typing import Any

import click

from millstream.cli.state_listing import scaling
from millstream.cli.tables import printable
from millstream.core.snapshot.diff import Entry, OperatorDiff, SnapshotDiff, StateDiff
from millstream.core.snapshot.readable import readable, to_json


def print_differences(found: SnapshotDiff) -> None:
    """For people: `-` is only in the first snapshot, `+` only in the second, `~` differs."""
    for operator in found.operators:
        if not operator.equal:
            scaled = scaling(operator.first, operator.second)
            told = f"{_named(operator)}, {scaled}" if scaled else _named(operator)
            click.echo(f"{_side(operator.first, operator.second)} operator {told}")
            for state in operator.states:
                if not state.equal:
                    _print_state(state)
    for name in found.properties:
        click.echo(f"~ property {name}")
    if found.equal:
        click.echo("Both hold the same state.")


def _print_state(state: StateDiff) -> None:
    told = f"{state.added} added, {state.removed} removed, {state.changed} changed"
    if state.first is None or state.second is None:
        rows = sum(file.rows for side in (state.first, state.second) if side is not None for file in side.files)
        told = f"{rows} rows"
    elif state.types:
        told = state.types
    click.echo(f"  {_side(state.first, state.second)} state {state.name}: {told}")
    for entry in state.entries:
        click.echo(f"    {entry.sign} {printable(' | '.join(map(readable, entry.path)))}")
    listed = len(state.entries)
    if listed and listed < state.added + state.removed + state.changed:
        click.echo(f"    … and {state.added + state.removed + state.changed - listed} more")


def _side(first: object, second: object) -> str:
    return "+" if first is None else "-" if second is None else "~"


def _named(operator: OperatorDiff) -> str:
    one = operator.operator
    return f"{one.uid or one.operator_id} ({one.name})"


def differences_json(found: SnapshotDiff) -> dict[str, Any]:
    """For programs: everything, with what is equal too."""
    return {
        "equal": found.equal,
        "properties": list(found.properties),
        "operators": [
            {
                "uid": operator.operator.uid,
                "id": operator.operator.operator_id,
                "name": operator.operator.name,
                "in": _in(operator.first, operator.second),
                "equal": operator.equal,
                "states": [_state_json(state) for state in operator.states],
            }
            for operator in found.operators
        ],
    }


def _state_json(state: StateDiff) -> dict[str, Any]:
    return {
        "name": state.name,
        "in": _in(state.first, state.second),
        "equal": state.equal,
        "types": state.types or None,
        "added": state.added,
        "removed": state.removed,
        "changed": state.changed,
        "entries": [_entry_json(entry) for entry in state.entries],
    }


def _entry_json(entry: Entry) -> dict[str, Any]:
    return {"sign": entry.sign, "path": [to_json(part) for part in entry.path]}


def _in(first: object, second: object) -> str:
    return "second" if first is None else "first" if second is None else "both"
