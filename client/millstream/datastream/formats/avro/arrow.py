"""Records of Avro's as columns, as Parquet's library for Avro lays them out in Java.

A union of several types is a struct with a field for each, `member0`, `member1`, ..., of which one has a value. A field
that can only be null has no column. All else has a type of its own in Arrow.
"""

from __future__ import annotations

import decimal
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING, Any

from millstream.core.errors import InvalidProgramError
from millstream.datastream.formats.avro.records import Named
from millstream.datastream.formats.avro.schema import AvroSchema

if TYPE_CHECKING:
    import pyarrow as pa

Convert = Callable[[Any], Any]
_PLAIN = {
    "boolean": "bool_", "int": "int32", "long": "int64", "float": "float32", "double": "float64", "bytes": "binary",
    "string": "string", "enum": "string",
}  # fmt: skip

_CLASSES: dict[str, tuple[type, ...]] = {
    "boolean": (bool,), "long": (int,), "float": (float, int), "double": (float, int), "bytes": (bytes, bytearray),
    "string": (str,), "fixed": (bytes, bytearray), "array": (list, tuple), "map": (dict,),
}  # fmt: skip
_MOMENTS = ("timestamp-millis", "timestamp-micros", "local-timestamp-millis", "local-timestamp-micros")
_LOGICAL_CLASSES: dict[str, tuple[type, ...]] = {
    "decimal": (decimal.Decimal,), "date": (date,), "time-millis": (time,), "time-micros": (time,),
    "uuid": (uuid.UUID,), **dict.fromkeys(_MOMENTS, (datetime,)),
}  # fmt: skip


class AvroColumns:
    """Of one schema, whose root is a record."""

    def __init__(self, schema: AvroSchema) -> None:
        import pyarrow as pa

        self._named = Named(schema)
        root = self._named.of(self._named.root)
        if isinstance(root, list) or root["type"] != "record":
            raise InvalidProgramError(f"the columns of a file are the fields of a record, and this is none: {schema}")
        self.schema = pa.schema(list(self._type(root, ())))
        self.encode = self._encoder(root) or _same
        self.decode = self._decoder(root) or _same

    def _type(self, schema: Any, inside: tuple[str, ...]) -> pa.DataType:
        import pyarrow as pa

        found = self._named.of(schema)
        if isinstance(found, list):
            branches = self._named.branches(found)
            if len(branches) == 1:
                return self._type(branches[0], inside)
            return pa.struct([(f"member{n}", self._type(branch, inside)) for n, branch in enumerate(branches)])
        if (logical := _logical(found)) is not None:
            return logical
        match found["type"]:
            case "record":
                if found["name"] in inside:
                    raise InvalidProgramError(f"the Avro record {found['name']} contains itself: it has no columns")
                deeper = (*inside, found["name"])
                written = [field for field in found["fields"] if not self._is_null(field["type"])]
                return pa.struct([(field["name"], self._type(field["type"], deeper)) for field in written])
            case "array":
                return pa.list_(self._type(found["items"], inside))
            case "map":
                return pa.map_(pa.string(), self._type(found["values"], inside))
            case "fixed":
                return pa.binary(found["size"])
        return getattr(pa, _PLAIN[found["type"]])()

    def _is_null(self, schema: Any) -> bool:
        found = self._named.of(schema)
        return not self._named.branches(found) if isinstance(found, list) else found["type"] == "null"

    def _encoder(self, schema: Any) -> Convert | None:
        """What makes a value one that Arrow takes for its type; None when it is one already."""
        found = self._named.of(schema)
        if isinstance(found, list):
            branches = self._named.branches(found)
            if len(branches) == 1:
                return _or_none(self._encoder(branches[0]))
            return _or_none(self._union_encoder(branches))
        if found.get("logicalType") == "uuid":
            return _or_none(str)
        match found["type"]:
            case "record":
                made = {f["name"]: self._encoder(f["type"]) or _same for f in found["fields"]}
                written = {f["name"]: made[f["name"]] for f in found["fields"] if not self._is_null(f["type"])}
                return lambda value: {name: encode(value.get(name)) for name, encode in written.items()}
            case "array":
                element = self._encoder(found["items"])
                return None if element is None else lambda value: [element(item) for item in value]
            case "map":
                item = self._encoder(found["values"]) or _same
                return lambda value: [(key, item(entry)) for key, entry in value.items()]
        return None

    def _union_encoder(self, branches: list[Any]) -> Convert:
        members = [
            (f"member{number}", self._named.of(branch), self._encoder(branch) or _same)
            for number, branch in enumerate(branches)
        ]

        def encode(value: Any) -> dict[str, Any]:
            for name, schema, encoder in members:
                if _is_of(value, schema):
                    return {name: encoder(value)}
            raise ValueError(f"{value!r:.200} is of none of the types of its union")

        return encode

    def _decoder(self, schema: Any) -> Convert | None:
        """What makes a value of Arrow's one as fastavro reads it; None when it is one already."""
        found = self._named.of(schema)
        if isinstance(found, list):
            branches = self._named.branches(found)
            if len(branches) == 1:
                return _or_none(self._decoder(branches[0]))
            decoders = [(f"member{n}", self._decoder(branch) or _same) for n, branch in enumerate(branches)]
            return lambda value: _member(value, decoders)
        logical = found.get("logicalType", "")
        if logical == "uuid":
            return _or_none(uuid.UUID)
        if logical.startswith("timestamp-"):
            return _or_none(_in_utc)
        match found["type"]:
            case "record":
                fields = [(f["name"], self._decoder(f["type"]) or _same) for f in found["fields"]]
                return _or_none(lambda value: {name: decode(value.get(name)) for name, decode in fields})
            case "array":
                element = self._decoder(found["items"])
                return None if element is None else _or_none(lambda value: [element(item) for item in value])
            case "map":
                item = self._decoder(found["values"]) or _same
                return _or_none(lambda value: {key: item(entry) for key, entry in value})
        return None


def _logical(found: Any) -> pa.DataType | None:
    import pyarrow as pa

    match found.get("logicalType"):
        case "decimal":
            return pa.decimal128(found["precision"], found.get("scale", 0))
        case "date":
            return pa.date32()
        case "time-millis":
            return pa.time32("ms")
        case "time-micros":
            return pa.time64("us")
        case "timestamp-millis" | "timestamp-micros" as kind:
            return pa.timestamp("ms" if kind.endswith("millis") else "us", "UTC")
        case "local-timestamp-millis" | "local-timestamp-micros" as kind:
            return pa.timestamp("ms" if kind.endswith("millis") else "us")
        case "uuid":
            return pa.string()
    return None


def _is_of(value: Any, schema: Any) -> bool:
    """Whether a value that the whole schema allows is of this branch of a union."""
    logical = schema.get("logicalType", "")
    if logical in _LOGICAL_CLASSES:
        return value.__class__ in _LOGICAL_CLASSES[logical]
    match schema["type"]:
        case "int":
            return value.__class__ is int and -(2**31) <= value < 2**31
        case "enum":
            return value in schema["symbols"]
        case "record":
            names = {field["name"] for field in schema["fields"] if "default" not in field}
            return isinstance(value, dict) and names <= value.keys() <= {f["name"] for f in schema["fields"]}
    return value.__class__ in _CLASSES.get(schema["type"], ())


def _in_utc(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _member(value: Any, decoders: list[tuple[str, Convert]]) -> Any:
    if value is None:
        return None
    return next((decode(value[name]) for name, decode in decoders if value.get(name) is not None), None)


def _or_none(convert: Convert | None) -> Convert | None:
    return None if convert is None else lambda value: None if value is None else convert(value)


def _same(value: Any) -> Any:
    return value
