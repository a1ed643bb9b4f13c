"""Between records of Avro's, which are dicts, and rows; and the type of a row from a schema."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from millstream.core.records.types import (
    BIG_DEC,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INSTANT,
    INT,
    LONG,
    PICKLED,
    STRING,
    TIME,
    TIMESTAMP,
    ListType,
    MapType,
    RowType,
    TypeInformation,
)
from millstream.core.row import Row, names_of
from millstream.datastream.formats.avro.schema import AvroSchema

_PLAIN: dict[str, TypeInformation] = {
    "boolean": BOOLEAN, "int": INT, "long": LONG, "float": FLOAT, "double": DOUBLE, "bytes": BYTES, "string": STRING,
    "enum": STRING, "fixed": BYTES,
}  # fmt: skip
_LOGICAL: dict[str, TypeInformation] = {
    "decimal": BIG_DEC, "date": DATE, "time-millis": TIME, "time-micros": TIME,
    "timestamp-millis": INSTANT, "timestamp-micros": INSTANT,
    "local-timestamp-millis": TIMESTAMP, "local-timestamp-micros": TIMESTAMP,
    "uuid": PICKLED,
}  # fmt: skip

Convert = Callable[[Any], Any]


class Named:
    """A schema as JSON has it, with the types that it names."""

    def __init__(self, schema: AvroSchema) -> None:
        self.root = schema.plain
        self._types: dict[str, Any] = {}
        self._note(self.root, "")

    def _note(self, schema: Any, namespace: str) -> None:
        if isinstance(schema, list):
            for branch in schema:
                self._note(branch, namespace)
        if not isinstance(schema, dict):
            return
        if "name" in schema:
            space = schema.get("namespace", namespace)
            name = schema["name"]
            self._types.setdefault(name.rpartition(".")[2], schema)
            self._types[name if "." in name or not space else f"{space}.{name}"] = schema
            namespace = space
        for inner in (schema.get("type"), schema.get("items"), schema.get("values")):
            self._note(inner, namespace)
        for field in schema.get("fields", ()):
            self._note(field["type"], namespace)

    def of(self, schema: Any) -> Any:
        """The definition: a list for a union, else a dict with a type that is text."""
        while not isinstance(schema, list):
            if isinstance(schema, str):
                if schema not in self._types:
                    return {"type": schema}
                schema = self._types[schema]
            elif isinstance(schema["type"], str) and schema["type"] not in self._types:
                return schema
            else:
                schema = schema["type"]
        return schema

    def branches(self, union: list[Any]) -> list[Any]:
        """What a union may be beside nothing."""
        return [branch for branch in union if self.of(branch)["type"] != "null"]


def row_type(schema: AvroSchema) -> TypeInformation:
    """What rows of a schema's records are; a record that contains itself is pickled inside."""
    named = Named(schema)
    return _type_of(named, named.root, ())


def _type_of(named: Named, schema: Any, inside: tuple[str, ...]) -> TypeInformation:
    found = named.of(schema)
    if isinstance(found, list):
        branches = named.branches(found)
        return _type_of(named, branches[0], inside) if len(branches) == 1 else PICKLED
    if (logical := _LOGICAL.get(found.get("logicalType", ""))) is not None:
        return logical
    match found["type"]:
        case "record" if found["name"] in inside:
            return PICKLED
        case "record":
            fields, deeper = found["fields"], (*inside, found["name"])
            types = tuple(_type_of(named, field["type"], deeper) for field in fields)
            return RowType(types, tuple(field["name"] for field in fields))
        case "array":
            return ListType(_type_of(named, found["items"], inside))
        case "map":
            return MapType(STRING, _type_of(named, found["values"], inside))
    return _PLAIN.get(found["type"], PICKLED)


def to_row(schema: AvroSchema) -> Convert:
    """What makes rows of a schema's records, at any depth."""
    named = Named(schema)
    return _converter(named, named.root, {}, _row_of) or _same


def to_generic(schema: AvroSchema) -> Convert:
    """What makes dicts, as fastavro writes them, of rows, tuples and dataclasses; dicts are taken as they are."""
    named = Named(schema)
    return _converter(named, named.root, {}, _generic_of) or _same


Fields = dict[str, Convert | None]
"""What converts each field of a record; None for those that stay as they are."""


def _converter(
    named: Named, schema: Any, known: dict[str, Convert], record_of: Callable[[Any, Fields], Any]
) -> Convert | None:
    """What converts the records in a value of the schema; None when there can be none."""
    found = named.of(schema)
    if isinstance(found, list):
        inner = [c for branch in named.branches(found) if (c := _converter(named, branch, known, record_of))]
        return inner[0] if len(inner) == 1 else None  # a value does not identify its record in a union of several
    match found["type"]:
        case "record" if found["name"] in known:
            return lambda value: known[found["name"]](value)
        case "record":
            fields: Fields = {}
            known[found["name"]] = lambda value: record_of(value, fields)
            fields.update({f["name"]: _converter(named, f["type"], known, record_of) for f in found["fields"]})
            return known[found["name"]]
        case "array":
            element = _converter(named, found["items"], known, record_of)
            return None if element is None else lambda v: [element(i) for i in v] if isinstance(v, list | tuple) else v
        case "map":
            item = _converter(named, found["values"], known, record_of)
            return None if item is None else lambda v: {k: item(i) for k, i in v.items()} if isinstance(v, dict) else v
    return None


def _row_of(value: Any, fields: Fields) -> Any:
    if not isinstance(value, dict):
        return value
    values = [value[name] if convert is None else convert(value[name]) for name, convert in fields.items()]
    return Row.of_names(tuple(fields), values)


def _generic_of(value: Any, fields: Fields) -> Any:
    plain = _as_dict(value, list(fields))
    if not isinstance(plain, dict):
        return plain
    return {name: convert(item) if (convert := fields.get(name)) else item for name, item in plain.items()}


def _as_dict(value: Any, names: list[str]) -> Any:
    if isinstance(value, dict):
        return value
    if isinstance(value, Row):
        return dict(zip(names, value, strict=True)) if names_of(value) is None else value.as_dict()
    if isinstance(value, tuple):
        return dict(zip(names, value, strict=True))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return value


def _same(value: Any) -> Any:
    return value
