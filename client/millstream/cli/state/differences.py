"""What `state diff` prints: only what differs, with the values of the entries that do."""

from __future__ import annotations

from itertools import takewhile

import click

from millstream.cli.state.listing import scaling
from millstream.core.logs.printable import printable
from millstream.core.snapshot.inspection.diff import ABSENT, Entry, OperatorDiff, SnapshotDiff, StateDiff
from millstream.core.snapshot.inspection.diff_json import Shown
from millstream.core.snapshot.inspection.readable import readable

_WIDTH = 200
_CONTEXT = 40


def print_differences(found: SnapshotDiff, shown: Shown) -> None:
    """For users: `-` is only in the first snapshot, `+` only in the second, `~` differs."""
    for operator in found.operators:
        if not operator.equal:
            scaled = scaling(operator.first, operator.second)
            line = f"{_named(operator)}, {scaled}" if scaled else _named(operator)
            click.echo(f"{_side(operator.first, operator.second)} operator {line}")
            for state in operator.states:
                if not state.equal:
                    _print_state(state, shown)
    for name in found.properties:
        click.echo(f"~ property {name}")
    if found.equal:
        click.echo("Both hold the same state.")


def _print_state(state: StateDiff, shown: Shown) -> None:
    total = state.added + state.removed + state.changed
    changes = f"{state.added} added, {state.removed} removed, {state.changed} changed"
    if state.first is None or state.second is None:
        total = sum(file.rows for side in (state.first, state.second) if side is not None for file in side.files)
        changes = f"{total} rows"
    elif state.types:
        changes = f"{state.types}; {changes}" if total else state.types
    click.echo(f"  {_side(state.first, state.second)} state {state.name}: {changes}")
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


def _side(first: object, second: object) -> str:
    return "+" if first is None else "-" if second is None else "~"


def _named(operator: OperatorDiff) -> str:
    one = operator.operator
    return f"{one.uid or one.operator_id} ({one.name})"
