"""What `state ls` prints: a snapshot's header, its operators and their states."""

from __future__ import annotations

import click

from millstream.cli.tables import moment, print_table, size
from millstream.core.logs.times import duration
from millstream.core.snapshot.inspection.opened import OpenedSnapshot
from millstream.core.snapshot.metadata.model import OperatorSnapshot, StateSnapshot, TypeJson
from millstream.core.snapshot.metadata.types_json import describe_json

_OPERATORS = ["UID", "ID", "NAME", "PARALLELISM", "MAX PARALLELISM", "FINISHED"]
_STATES = ["OPERATOR", "STATE", "KIND", "KEY", "NAMESPACE", "VALUE", "TTL", "ROWS", "FILES", "SIZE"]


def print_listing(snapshot: OpenedSnapshot) -> None:
    """Prints the operators and states of a snapshot, for users."""
    metadata, operators = snapshot.metadata, snapshot.metadata.operators
    files = list(metadata.files())
    taken = moment(metadata.created_ms)
    click.echo(f"{metadata.kind.value} {snapshot.location}")
    click.echo(f"job {metadata.job_id} ({metadata.job_name}), checkpoint {metadata.checkpoint_id}, taken {taken}")
    click.echo(f"{size(sum(file.size for file in files))} in {len(files)} {'file' if len(files) == 1 else 'files'}")
    if operators:
        click.echo()
        print_table(_OPERATORS, [_operator_row(operator) for operator in operators])
    states = [_state_row(operator, state) for operator in operators for state in operator.states]
    if states:
        click.echo()
        print_table(_STATES, states)


def _operator_row(operator: OperatorSnapshot) -> list[str]:
    finished = "yes" if operator.finished else "no"
    sizes = [str(operator.parallelism), str(operator.max_parallelism)]
    return [operator.uid or "-", operator.operator_id, operator.name, *sizes, finished]


def _state_row(operator: OperatorSnapshot, state: StateSnapshot) -> list[str]:
    value = _described(state.value_type)
    if state.map_key_type is not None:
        value = f"{describe_json(state.map_key_type)} -> {value}"
    return [
        operator.uid or operator.name,
        state.name,
        state.kind.value,
        _described(state.key_type),
        _described(state.namespace_type),
        value,
        duration(state.ttl.ttl_ms) if state.ttl is not None else "-",
        str(sum(file.rows for file in state.files)),
        str(len(state.files)),
        size(sum(file.size for file in state.files)),
    ]


def _described(document: TypeJson | None) -> str:
    return "-" if document is None else describe_json(document)


def scaling(before: OperatorSnapshot | None, after: OperatorSnapshot | None) -> str:
    """How the parallelism of an operator changed; nothing when it did not."""
    if before is None or after is None:
        return ""
    changes = {
        "parallelism": (before.parallelism, after.parallelism),
        "max parallelism": (before.max_parallelism, after.max_parallelism),
    }
    return ", ".join(f"{what} {old} to {new}" for what, (old, new) in changes.items() if old != new)
