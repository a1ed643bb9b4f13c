"""What `state diff` prints: only what differs, with the values of the entries that do."""

from __future__ import annotations

import pickle
from itertools import takewhile
from typing import Any

import click
from msgspec import Struct

from millstream.cli.state.listing import scaling
from millstream.core.logs.printable import printable
from millstream.core.pickling import reading_state
from millstream.core.row import Row
from millstream.core.snapshot.inspection.diff import ABSENT, Entry, OperatorDiff, SnapshotDiff, StateDiff
from millstream.core.snapshot.inspection.readable import readable, to_json
from millstream.core.snapshot.tables.columns import Pickled

_WIDTH = 200
_CONTEXT = 40


class Shown(Struct, frozen=True):
    """What is shown of entries: their values, and those that are pickled loaded."""

    values: bool = True
    unpickle: bool = False

    def value(self, value: Any) -> Any:
        """A value as it is to be shown."""
        return _loaded(value) if self.unpickle else value


def print_differences(found: SnapshotDiff, shown: Shown) -> None:
    """For people: `-` is only in the first snapshot, `+` only in the second, `~` differs."""
    for operator in found.operators:
        if not operator.equal:
            scaled = scaling(operator.first, operator.second)
            told = f"{_named(operator)}, {scaled}" if scaled else _named(operator)
            click.echo(f"{_side(operator.first, operator.second)} operator {told}")
            for state in operator.states:
                if not state.equal:
                    _print_state(state, shown)
    for name in found.properties:
        click.echo(f"~ property {name}")
    if found.equal:
        click.echo("Both hold the same state.")


def _print_state(state: StateDiff, shown: Shown) -> None:
    total = state.added + state.removed + state.changed
    told = f"{state.added} added, {state.removed} removed, {state.changed} changed"
    if state.first is None or state.second is None:
        total = sum(file.rows for side in (state.first, state.second) if side is not None for file in side.files)
        told = f"{total} rows"
    elif state.types:
        told = f"{state.types}; {told}" if total else state.types
    click.echo(f"  {_side(state.first, state.second)} state {state.name}: {told}")
    for entry in state.entries:
        path = printable(" | ".join(readable(shown.value(part)) for part in entry.path))
        click.echo(f"    {entry.sign} {path}{_values(entry, shown)}")
    listed = len(state.entries)
    if listed and listed < total and all(side is not None for side in (state.first, state.second)):
        click.echo(f"    … and {total - listed} more")


def _values(entry: Entry, shown: Shown) -> str:
    sides = [printable(readable(shown.value(side))) for side in (entry.old, entry.new) if side is not ABSENT]
    if not sides or not shown.values:
        return ""
    begin = 0
    if len(sides) == 2 and max(map(len, sides)) > _WIDTH:  # so that what differs is seen
        alike = takewhile(lambda pair: pair[0] == pair[1], zip(*sides, strict=False))
        begin = max(0, sum(1 for _ in alike) - _CONTEXT)
    return f": {' -> '.join(_cut(side, begin) for side in sides)}"


def _cut(text: str, begin: int) -> str:
    end = begin + _WIDTH
    return f"{'…' if begin else ''}{text[begin:end]}{f'… ({len(text)} characters)' if len(text) > end else ''}"


def _loaded(value: Any) -> Any:
    """What is pickled, at any depth, as the value that it was; else why it cannot be loaded."""
    match value:
        case Pickled(data):
            try:
                with reading_state():
                    return pickle.loads(data)
            except Exception as error:
                return f"<pickled, {len(data)} bytes: {type(error).__name__}: {error}>"
        case Row():
            return Row.of_names(value.get_fields_names(), [_loaded(item) for item in value])
        case list():
            return [_loaded(item) for item in value]
        case tuple():
            return tuple(map(_loaded, value))
        case dict():
            return {_loaded(key): _loaded(item) for key, item in value.items()}
    return value


def _side(first: object, second: object) -> str:
    return "+" if first is None else "-" if second is None else "~"


def _named(operator: OperatorDiff) -> str:
    one = operator.operator
    return f"{one.uid or one.operator_id} ({one.name})"


def differences_json(found: SnapshotDiff, shown: Shown) -> dict[str, Any]:
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
                "states": [_state_json(state, shown) for state in operator.states],
            }
            for operator in found.operators
        ],
    }


def _state_json(state: StateDiff, shown: Shown) -> dict[str, Any]:
    return {
        "name": state.name,
        "in": _in(state.first, state.second),
        "equal": state.equal,
        "types": state.types or None,
        "added": state.added,
        "removed": state.removed,
        "changed": state.changed,
        "entries": [_entry_json(entry, shown) for entry in state.entries],
    }


def _entry_json(entry: Entry, shown: Shown) -> dict[str, Any]:
    sides = {"old": entry.old, "new": entry.new} if shown.values else {}
    return {
        "sign": entry.sign,
        "path": [to_json(shown.value(part)) for part in entry.path],
        **{name: to_json(shown.value(side)) for name, side in sides.items() if side is not ABSENT},
    }


def _in(first: object, second: object) -> str:
    return "second" if first is None else "first" if second is None else "both"
