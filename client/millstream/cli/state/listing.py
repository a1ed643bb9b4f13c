"""What `state ls` prints: a snapshot's header, its operators and their states."""

from __future__ import annotations

from typing import Any

import click

from millstream.cli.tables import moment, print_table, size
from millstream.core.logs.times import duration
from millstream.core.snapshot.inspection.opened import OpenedSnapshot
from millstream.core.snapshot.metadata.model import OperatorSnapshot, StateSnapshot, TypeJson
from millstream.core.snapshot.metadata.types_json import describe_json

_OPERATORS = ["UID", "ID", "NAME", "PARALLELISM", "MAX PARALLELISM", "FINISHED"]
_STATES = ["OPERATOR", "STATE", "KIND", "KEY", "NAMESPACE", "VALUE", "TTL", "ROWS", "FILES", "SIZE"]


def print_listing(snapshot: OpenedSnapshot) -> None:
    """For people."""
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


def header(snapshot: OpenedSnapshot) -> dict[str, Any]:
    """What identifies a snapshot, for JSON."""
    metadata = snapshot.metadata
    return {
        "location": snapshot.location,
        "kind": metadata.kind.value,
        "job_id": metadata.job_id,
        "job_name": metadata.job_name,
        "checkpoint_id": metadata.checkpoint_id,
        "created_ms": metadata.created_ms,
    }


def listing_json(snapshot: OpenedSnapshot) -> dict[str, Any]:
    """For programs."""
    files = list(snapshot.metadata.files())
    return {
        **header(snapshot),
        "files": len(files),
        "bytes": sum(file.size for file in files),
        "operators": [_operator_json(operator) for operator in snapshot.metadata.operators],
    }


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


def _operator_json(operator: OperatorSnapshot) -> dict[str, Any]:
    return {
        "uid": operator.uid,
        "id": operator.operator_id,
        "name": operator.name,
        "parallelism": operator.parallelism,
        "max_parallelism": operator.max_parallelism,
        "finished": operator.finished,
        "states": [_state_json(state) for state in operator.states],
    }


def declaration_json(state: StateSnapshot) -> dict[str, Any]:
    """What a state is, for JSON."""
    types = ("key_type", "namespace_type", "map_key_type", "value_type")
    return {
        "kind": state.kind.value,
        **{name: describe_json(found) if (found := getattr(state, name)) is not None else None for name in types},
        "ttl_ms": state.ttl.ttl_ms if state.ttl is not None else None,
    }


def scaling(before: OperatorSnapshot | None, after: OperatorSnapshot | None) -> str:
    """How the parallelism of an operator changed; nothing when it did not."""
    if before is None or after is None:
        return ""
    changes = {
        "parallelism": (before.parallelism, after.parallelism),
        "max parallelism": (before.max_parallelism, after.max_parallelism),
    }
    return ", ".join(f"{what} {old} to {new}" for what, (old, new) in changes.items() if old != new)


def _state_json(state: StateSnapshot) -> dict[str, Any]:
    return {
        "name": state.name,
        **declaration_json(state),
        "rows": sum(file.rows for file in state.files),
        "files": len(state.files),
        "bytes": sum(file.size for file in state.files),
    }
