"""Logical types and schemas as JSON, beside the type information of `types_json`.

| what | JSON |
|---|---|
| a logical type | `{"type": "logical", "logical": "DECIMAL(10, 2) NOT NULL"}`, in the words of `parse_type` |
| a schema | `{"fields": [{"name", "type", "description"}]}`, where a description may be absent |

A type that was written as type information reads as the logical type of it, so the schema of a state that a savepoint
of an earlier version holds is known as well. The metadata of a snapshot itself has no logical types yet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from millstream.core.records.schema import (
    Field,
    InvalidTypeError,
    LogicalType,
    Schema,
    from_type_information,
    parse_type,
    serializable_string,
)
from millstream.core.snapshot.metadata.json_reader import JsonNode
from millstream.core.snapshot.metadata.model import TypeJson
from millstream.core.snapshot.metadata.types_json import check_type_json, type_from_json

_From = TypeVar("_From")
_To = TypeVar("_To")


def logical_type_to_json(type: LogicalType) -> TypeJson:
    """The type as JSON."""
    return {"type": "logical", "logical": serializable_string(type)}


def logical_type_from_json(node: JsonNode) -> LogicalType:
    """Checks the JSON of a type, logical or not, and returns the logical type."""
    if not isinstance(node.value, dict) or node.value.get("type") != "logical":
        check_type_json(node)
        return _as_error_of(node, from_type_information, type_from_json(node.value))
    node.fields("type", "logical")
    words = node.field("logical")
    return _as_error_of(words, parse_type, words.text())


def schema_to_json(schema: Schema) -> dict[str, Any]:
    """The schema as JSON."""
    return {
        "fields": [
            {"name": field.name, "type": logical_type_to_json(field.type)}
            | ({} if field.description is None else {"description": field.description})
            for field in schema
        ]
    }


def schema_from_json(node: JsonNode) -> Schema:
    """Checks the JSON of a schema and returns it."""
    node.fields("fields")
    fields = tuple(map(_field, node.field("fields").items()))
    return _as_error_of(node.field("fields"), Schema, fields)


def _field(node: JsonNode) -> Field:
    node.fields("name", "type", optional=("description",))
    type, described = logical_type_from_json(node.field("type")), node.field("description")
    description = None if described.is_null() else described.text(empty=True)
    return _as_error_of(node, lambda name: Field(name, type, description=description), node.field("name").text())


def _as_error_of(node: JsonNode, make: Callable[[_From], _To], source: _From) -> _To:
    try:
        return make(source)
    except InvalidTypeError as error:
        raise node.error(f"is not valid: {error}") from error
