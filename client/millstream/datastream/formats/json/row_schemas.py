"""Rows as JSON messages, and back; with PyFlink's builders."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec

from millstream.common.serialization import DeserializationSchema, SerializationSchema
from millstream.core.errors import InvalidProgramError
from millstream.core.overriding import override
from millstream.core.records.types import TypeInformation, from_hint
from millstream.datastream.connectors.file_system.lines.json_format import json_decoder
from millstream.datastream.formats.json.json_schema import type_of_json_schema
from millstream.datastream.formats.json.values import Convert, read, written


class JsonRowDeserializationSchema(DeserializationSchema):
    """Values of a declared type. Fields that the type lacks are dropped, and those that a message lacks are None."""

    def __init__(
        self, type_info: TypeInformation, fail_on_missing_field: bool = False, ignore_parse_errors: bool = False
    ) -> None:
        if fail_on_missing_field and ignore_parse_errors:
            raise InvalidProgramError(
                "fail_on_missing_field and ignore_parse_errors exclude each other: a message without a field is one "
                "that cannot be read"
            )
        self._type = type_info
        self._all_fields = fail_on_missing_field
        self._ignores = ignore_parse_errors

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        """Begins with nothing."""
        return JsonRowDeserializationSchema.Builder()

    @cached_property
    def _decode(self) -> Convert:
        decode, finish = json_decoder(self._type, all_fields=self._all_fields), read(self._type)
        return decode if finish is None else lambda message: None if (v := decode(message)) is None else finish(v)

    def deserialize(self, message: bytes) -> Any:
        """One value; None for a message that cannot be read, when such are ignored.

        Raises `ValueError` for any other message that cannot be read.
        """
        try:
            return self._decode(message)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if self._ignores:
                return None
            raise ValueError(f"no JSON of {self._type.describe()}: {error}: {message!r:.200}") from error

    @override
    def get_produced_type(self) -> TypeInformation:
        return self._type

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "_decode"}

    class Builder:
        """Settings of a schema."""

        def __init__(self) -> None:
            self._type: TypeInformation | None = None
            self._all_fields = False
            self._ignores = False

        def type_info(self, type_info: Any) -> JsonRowDeserializationSchema.Builder:
            """What the messages are: a row's names are those of the fields."""
            self._type = from_hint(type_info)
            return self

        def json_schema(self, json_schema: str) -> JsonRowDeserializationSchema.Builder:
            """What the messages are, by a JSON schema."""
            if json_schema is None:
                raise TypeError("The json_schema must not be None.")
            self._type = type_of_json_schema(json_schema)
            return self

        def fail_on_missing_field(self) -> JsonRowDeserializationSchema.Builder:
            """A message without one of the fields is an error, rather than one whose field is None."""
            self._all_fields = True
            return self

        def ignore_parse_errors(self) -> JsonRowDeserializationSchema.Builder:
            """A message that cannot be read is None, rather than an error."""
            self._ignores = True
            return self

        def build(self) -> JsonRowDeserializationSchema:
            """The schema."""
            if self._type is None:
                raise TypeError("Typeinfo should be set: call type_info or json_schema.")
            return JsonRowDeserializationSchema(self._type, self._all_fields, self._ignores)


class JsonRowSerializationSchema(SerializationSchema):
    """Messages of values of a declared type: all its fields, by their names and in their order."""

    def __init__(self, type_info: TypeInformation) -> None:
        self._type = type_info

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        """Begins with nothing."""
        return JsonRowSerializationSchema.Builder()

    @cached_property
    def _written(self) -> Convert:
        return written(self._type) or (lambda value: value)

    @override
    def serialize(self, value: Any) -> bytes:
        try:
            return msgspec.json.encode(None if value is None else self._written(value))
        except (TypeError, ValueError, AttributeError, OverflowError, msgspec.MsgspecError) as error:
            declared = self._type.describe()
            raise ValueError(f"cannot be written as JSON of {declared}: {value!r:.200}: {error}") from error

    def __getstate__(self) -> dict[str, Any]:
        return {"_type": self._type}

    class Builder:
        """Settings of a schema."""

        def __init__(self) -> None:
            self._type: TypeInformation | None = None

        def with_type_info(self, type_info: Any) -> JsonRowSerializationSchema.Builder:
            """What the values are."""
            self._type = from_hint(type_info)
            return self

        def build(self) -> JsonRowSerializationSchema:
            """The schema."""
            if self._type is None:
                raise TypeError("Typeinfo should be set.")
            return JsonRowSerializationSchema(self._type)
