"""What a program declares, as JSON: from the process that runs the program to the one that compares it."""

from __future__ import annotations

import json
from collections.abc import Iterable

from millstream.core.snapshot.fitting.fit import ProgramOperator
from millstream.core.snapshot.metadata.json_reader import JsonNode, parsed
from millstream.core.snapshot.metadata.model import StateKind
from millstream.core.snapshot.metadata.model_json import operators_of
from millstream.core.snapshot.metadata.operator_json import operators_to_json


def program_to_json(program: Iterable[ProgramOperator]) -> bytes:
    """A list of operators, as `_metadata.json` writes them, each with what is known of it besides."""
    documents = [
        {
            "operator": json.loads(operators_to_json([operator.declared]))[0],
            "holds": sorted(kind.value for kind in operator.holds),
            "error": operator.error,
            "max_parallelism_derived": operator.max_parallelism_derived,
            "task": operator.task,
        }
        for operator in program
    ]
    return json.dumps(documents, ensure_ascii=False).encode()


def program_from_json(data: bytes, where: str) -> tuple[ProgramOperator, ...]:
    """The operators; `where` names the document in errors."""
    return tuple(_operator(node) for node in JsonNode(parsed(data, where), where).items())


def _operator(node: JsonNode) -> ProgramOperator:
    node.fields("operator", "holds", "error", "max_parallelism_derived", "task")
    (declared,) = operators_of(JsonNode([node.field("operator").value], node.file, "operators"))
    error = node.field("error")
    holds = frozenset(item.enum(StateKind) for item in node.field("holds").items())
    detail = None if error.is_null() else error.text(empty=True)
    derived = node.field("max_parallelism_derived").boolean()
    return ProgramOperator(declared, holds, detail, derived, node.field("task").text(empty=True))
