"""The type that a JSON schema describes, as Flink's converter reads it."""

from __future__ import annotations

import json
from typing import Any

from millstream.core.errors import InvalidProgramError
from millstream.core.records.types import (
    BIG_DEC,
    BIG_INT,
    BOOLEAN,
    BYTES,
    DATE,
    PICKLED,
    STRING,
    TIME,
    TIMESTAMP,
    ListType,
    RowType,
    TypeInformation,
)

_FORMATS = {"date": DATE, "time": TIME, "date-time": TIMESTAMP}
_PLAIN = {"number": BIG_DEC, "integer": BIG_INT, "boolean": BOOLEAN, "null": PICKLED}


def type_of_json_schema(json_schema: str) -> TypeInformation:
    """Objects are rows, arrays lists, or rows where each place has a type; numbers are exact, whatever their size."""
    try:
        root = json.loads(json_schema)
    except (TypeError, ValueError) as error:
        raise InvalidProgramError(f"no JSON schema: {error}: {json_schema!r:.200}") from None
    return _type(root, root, "<root>", ())


def _type(schema: Any, root: Any, path: str, seen: tuple[str, ...]) -> TypeInformation:
    if not isinstance(schema, dict):
        raise InvalidProgramError(f"JSON schema: {path} is {schema!r:.100}, and not an object")
    if (reference := schema.get("$ref")) is not None:
        return _type(_referred(reference, root, path, seen), root, path, (*seen, reference))
    if (choices := schema.get("oneOf")) is not None:
        return _one_of([_type(choice, root, path, seen) for choice in choices], path)
    if "allOf" in schema or "anyOf" in schema or "not" in schema:
        raise InvalidProgramError(f"JSON schema: {path}: allOf, anyOf and not define no type")
    kinds = schema.get("type")
    if isinstance(kinds, list):
        return _one_of([_of_kind(kind, schema, root, path, seen) for kind in kinds], path)
    return _of_kind(kinds, schema, root, path, seen)


def _one_of(types: list[TypeInformation], path: str) -> TypeInformation:
    """Null beside another type says that it may be None, which every type may."""
    concrete = [found for found in types if found != PICKLED]
    if len(concrete) > 1:
        told = ", ".join(found.describe() for found in concrete)
        raise InvalidProgramError(f"JSON schema: {path} may be of several types, {told}; a field has one")
    return concrete[0] if concrete else PICKLED


def _of_kind(kind: Any, schema: dict[str, Any], root: Any, path: str, seen: tuple[str, ...]) -> TypeInformation:
    match kind:
        case "object":
            properties = schema.get("properties", {})
            fields = [_type(inner, root, f"{path}/{name}", seen) for name, inner in properties.items()]
            return RowType(tuple(fields), tuple(properties))
        case "array":
            items = schema.get("items")
            if isinstance(items, list):
                return RowType(tuple(_type(item, root, f"{path}[{n}]", seen) for n, item in enumerate(items)))
            if items is None:
                raise InvalidProgramError(f"JSON schema: {path} is an array, and 'items' does not say of what")
            return ListType(_type(items, root, f"{path}[]", seen))
        case "string":
            encoding = schema.get("contentEncoding")
            if encoding not in (None, "base64"):
                raise InvalidProgramError(f"JSON schema: {path}: bytes are encoded as base64, not as {encoding!r}")
            return BYTES if encoding else _FORMATS.get(schema.get("format", ""), STRING)
    if kind in _PLAIN:
        return _PLAIN[kind]
    raise InvalidProgramError(f"JSON schema: {path} has the type {kind!r}, which is none")


def _referred(reference: str, root: Any, path: str, seen: tuple[str, ...]) -> Any:
    if reference in seen:
        raise InvalidProgramError(f"JSON schema: {path} contains itself, by {reference}")
    if not reference.startswith("#/"):
        raise InvalidProgramError(f"JSON schema: {path} refers to {reference!r}, which is outside of the schema")
    found = root
    for step in reference[2:].split("/"):
        found = found.get(step) if isinstance(found, dict) else None
    if found is None:
        raise InvalidProgramError(f"JSON schema: {path} refers to {reference!r}, which is not there")
    return found
