"""What is in a snapshot, as tables: itself, its operators, their states. All of it is in the metadata."""

from __future__ import annotations

import datetime
from typing import Any

from millstream.core.snapshot.inspection.opened import OpenedSnapshot
from millstream.core.snapshot.metadata.model import TypeJson
from millstream.core.snapshot.metadata.types_json import describe_json

METADATA = (
    "location string, kind string, version int, job_id string, job_name string, checkpoint_id bigint, "
    "created timestamp, properties map<string, string>"
)
OPERATORS = (
    "uid string, operator_id string, name string, parallelism int, max_parallelism int, finished boolean, states int"
)
STATES = (
    "uid string, operator_id string, name string, kind string, key_type string, namespace_type string, "
    "value_type string, map_key_type string, pickled boolean, ttl_ms bigint, rows bigint, files int, bytes bigint"
)


def metadata_rows(snapshot: OpenedSnapshot) -> list[tuple[Any, ...]]:
    """One row."""
    about = snapshot.metadata
    created = datetime.datetime.fromtimestamp(about.created_ms / 1000, datetime.UTC)
    return [
        (
            snapshot.location, about.kind.value, about.version, str(about.job_id), about.job_name,
            about.checkpoint_id, created, dict(about.properties),
        )
    ]  # fmt: skip


def operator_rows(snapshot: OpenedSnapshot) -> list[tuple[Any, ...]]:
    """A row for each operator."""
    return [
        (o.uid, str(o.operator_id), o.name, o.parallelism, o.max_parallelism, o.finished, len(o.states))
        for o in snapshot.metadata.operators
    ]


def state_rows(snapshot: OpenedSnapshot) -> list[tuple[Any, ...]]:
    """A row for each state of each operator."""
    return [
        (
            operator.uid, str(operator.operator_id), state.name, state.kind.value, _text(state.key_type),
            _text(state.namespace_type), _text(state.value_type), _text(state.map_key_type),
            state.encoding is not None, None if state.ttl is None else state.ttl.ttl_ms,
            sum(file.rows for file in state.files), len(state.files), sum(file.size for file in state.files),
        )
        for operator in snapshot.metadata.operators
        for state in operator.states
    ]  # fmt: skip


def _text(document: TypeJson | None) -> str | None:
    return None if document is None else describe_json(document)
