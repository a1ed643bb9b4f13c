"""Operators of a snapshot as a JSON list: what a task acknowledges, and what it is restored from.

Each item is an operator as `_metadata.json` writes it. Reading checks it as a metadata file is checked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from millstream.core.jobs.ids import JobId
from millstream.core.snapshot.metadata.json_reader import JsonNode, parsed
from millstream.core.snapshot.metadata.model import FORMAT_VERSION, OperatorSnapshot, SnapshotKind
from millstream.core.snapshot.metadata.model_json import metadata_of, operator_document

_NO_JOB = JobId("none")


def operators_to_json(operators: Iterable[OperatorSnapshot]) -> bytes:
    """The list, as bytes."""
    return json.dumps([operator_document(operator) for operator in operators], ensure_ascii=False).encode()


def operators_from_json(data: bytes, where: str) -> tuple[OperatorSnapshot, ...]:
    """The operators; `where` names them in errors."""
    return operators_of(parsed(data, where), where)


def operators_of(operators: Any, where: str) -> tuple[OperatorSnapshot, ...]:
    """The same of JSON that was parsed."""
    document = {
        "version": FORMAT_VERSION, "job_id": _NO_JOB, "job_name": "", "checkpoint_id": 0,
        "kind": SnapshotKind.CHECKPOINT.value, "created_ms": 0, "operators": operators,
    }  # fmt: skip
    return metadata_of(JsonNode(document, where)).operators
