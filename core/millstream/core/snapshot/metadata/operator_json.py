"""Operators of a snapshot as a JSON list, for acknowledgements and restores of tasks.

Each item is an operator as `_metadata.json` writes it. Reading checks it as a metadata file is checked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from millstream.core.snapshot.metadata.json_reader import JsonNode, parsed
from millstream.core.snapshot.metadata.model import OperatorSnapshot
from millstream.core.snapshot.metadata.model_json import operator_document, operators_of


def operators_to_json(operators: Iterable[OperatorSnapshot]) -> bytes:
    """The list, as bytes."""
    return json.dumps([operator_document(operator) for operator in operators], ensure_ascii=False).encode()


def operators_from_json(data: bytes, where: str) -> tuple[OperatorSnapshot, ...]:
    """The operators; `where` names them in errors."""
    return operators_of(JsonNode(parsed(data, where), where, "operators"))
