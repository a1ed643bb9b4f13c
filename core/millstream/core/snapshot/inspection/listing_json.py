"""A snapshot's header, its operators and their states as JSON: for the command line and the REST API."""

from __future__ import annotations

from typing import Any

from millstream.core.snapshot.inspection.opened import OpenedSnapshot
from millstream.core.snapshot.metadata.model import OperatorSnapshot, StateSnapshot
from millstream.core.snapshot.metadata.types_json import describe_json


def header(snapshot: OpenedSnapshot) -> dict[str, Any]:
    """Returns the header of a snapshot as JSON."""
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
    """Returns operators and states as JSON."""
    files = list(snapshot.metadata.files())
    return {
        **header(snapshot),
        "files": len(files),
        "bytes": sum(file.size for file in files),
        "operators": [_operator_json(operator) for operator in snapshot.metadata.operators],
    }


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
    """Returns the description of a state as JSON."""
    types = ("key_type", "namespace_type", "map_key_type", "value_type")
    return {
        "kind": state.kind.value,
        **{name: describe_json(found) if (found := getattr(state, name)) is not None else None for name in types},
        "ttl_ms": state.ttl.ttl_ms if state.ttl is not None else None,
    }


def _state_json(state: StateSnapshot) -> dict[str, Any]:
    return {
        "name": state.name,
        **declaration_json(state),
        "rows": sum(file.rows for file in state.files),
        "files": len(state.files),
        "bytes": sum(file.size for file in state.files),
    }
