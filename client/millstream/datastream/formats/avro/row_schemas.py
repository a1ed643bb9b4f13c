"""Rows as single Avro messages, without a container: who reads one has to know the schema."""

from __future__ import annotations

import io
from functools import cached_property
from typing import Any

from millstream.common.serialization import DeserializationSchema, SerializationSchema
from millstream.core.errors import InvalidProgramError
from millstream.core.overriding import override
from millstream.core.records.types import TypeInformation
from millstream.datastream.formats.avro.records import Convert, row_type, to_generic, to_row
from millstream.datastream.formats.avro.schema import AvroSchema, fastavro, one_line, refusals


def _schema(record_class: str | None, avro_schema_string: str | None) -> AvroSchema:
    if record_class is not None:
        raise InvalidProgramError(f"record_class={record_class!r}: there are no classes of Java here; give the schema")
    if avro_schema_string is None:
        raise TypeError("avro_schema_string should be specified: there are no record classes here")
    return AvroSchema.parse_string(avro_schema_string)


class _OfSchema:
    """What both directions share: what is derived of the schema is made again after pickling."""

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        self._schema = _schema(record_class, avro_schema_string)

    def __getstate__(self) -> dict[str, Any]:
        return {"_schema": self._schema}


class AvroRowDeserializationSchema(_OfSchema, DeserializationSchema):
    """Rows of messages."""

    @cached_property
    def _rows(self) -> Convert:
        return to_row(self._schema)

    @override
    def deserialize(self, message: bytes) -> Any:
        stream = io.BytesIO(message)
        try:
            record = fastavro().schemaless_reader(stream, self._schema.parsed, None)
        except (EOFError, ValueError, IndexError, TypeError, KeyError, OverflowError) as error:
            reason = str(error) or "it ends too early"
            raise ValueError(f"no Avro message of the schema: {reason}: {message!r:.200}") from error
        if stream.tell() != len(message):
            raise ValueError(f"{len(message) - stream.tell()} bytes more than the schema has: {message!r:.200}")
        return self._rows(record)

    def get_produced_type(self) -> TypeInformation:
        """The schema's fields as a row's."""
        return row_type(self._schema)


class AvroRowSerializationSchema(_OfSchema, SerializationSchema):
    """Messages of rows."""

    @cached_property
    def _generic(self) -> Convert:
        return to_generic(self._schema)

    @override
    def serialize(self, value: Any) -> bytes:
        stream, library = io.BytesIO(), fastavro()
        try:
            generic = self._generic(value)
            library.validation.validate(generic, self._schema.parsed)
            library.schemaless_writer(stream, self._schema.parsed, generic, strict_allow_default=True)
        except refusals() as error:
            raise ValueError(f"cannot be written as Avro: {value!r:.200}: {one_line(error):.500}") from error
        return stream.getvalue()
