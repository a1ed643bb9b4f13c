"""Serialization of records to bytes and back, with PyFlink's names. Pure.

PyFlink's schemas wrap Java classes; these are implemented in Python. Programs can define their own
schemas as subclasses. Formats (`millstream.datastream.formats`) and connectors use them.
"""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, BinaryIO

from millstream.core.errors import InvalidProgramError
from millstream.core.overriding import override
from millstream.core.records.texts import as_printed, text_of
from millstream.core.records.types import BYTES, PICKLED, STRING, TypeInformation


class SerializationSchema(ABC):
    """Serializes records to bytes. Schemas must be picklable; one instance serializes many records."""

    @abstractmethod
    def serialize(self, value: Any, /) -> bytes:
        """Serializes the record `value`; returns its bytes, without a delimiter."""


class DeserializationSchema(ABC):
    """Deserializes records from bytes. Schemas must be picklable; one instance deserializes many records."""

    @abstractmethod
    def deserialize(self, message: bytes, /) -> Any:
        """Deserializes the bytes `message`; returns the record."""

    def get_produced_type(self) -> TypeInformation:
        """Returns the type of the records; any Python object unless overridden."""
        return PICKLED


class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    """Serializes text in a character set."""

    def __init__(self, charset: str = "UTF-8") -> None:
        self.charset = _known_charset(charset)

    @override
    def serialize(self, value: str) -> bytes:
        return value.encode(self.charset)

    @override
    def deserialize(self, message: bytes) -> str:
        return message.decode(self.charset)

    @override
    def get_produced_type(self) -> TypeInformation:
        return STRING


class ByteArraySchema(SerializationSchema, DeserializationSchema):
    """Records that are bytes, written and read without a conversion."""

    @override
    def serialize(self, value: bytes) -> bytes:
        return bytes(value)

    @override
    def deserialize(self, message: bytes) -> bytes:
        return bytes(message)

    @override
    def get_produced_type(self) -> TypeInformation:
        return BYTES


class RowFieldExtractorSchema(SerializationSchema):
    """Serializes one field of a row or tuple, which must contain bytes; for example, the key of a message."""

    def __init__(self, field_index: int) -> None:
        if isinstance(field_index, bool) or not isinstance(field_index, int) or field_index < 0:
            raise ValueError(f"Field index must be non-negative, a whole number, got: {field_index!r}")
        self.field_index = field_index

    @override
    def serialize(self, value: Any) -> bytes:
        if value is None:
            return b""
        if len(value) <= self.field_index:
            raise ValueError(f"there is no field {self.field_index} in {value!r:.200}, which has {len(value)}")
        field = value[self.field_index]
        if field is None:
            return b""
        if not isinstance(field, bytes | bytearray):
            raise TypeError(f"field {self.field_index} has to hold bytes, and is {field!r:.200}")
        return bytes(field)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowFieldExtractorSchema) and self.field_index == other.field_index

    def __hash__(self) -> int:
        return hash(self.field_index)


class Encoder:
    """Encodes records as lines, with PyFlink's name. In `Encoder(function)`, the function returns str or bytes."""

    def __init__(self, encode: Callable[[Any], str | bytes] = str, charset_name: str = "UTF-8") -> None:
        self._encode = encode
        self.charset = _known_charset(charset_name)
        self._type: TypeInformation = PICKLED

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """Returns an encoder that writes a line of text for each record, in the character set `charset_name`.

        Records of a declared type are written as Flink writes them, `(ann,3)`; others by `str`.
        """
        return Encoder(str, charset_name)

    def for_type(self, record_type: TypeInformation) -> Encoder:
        """Returns the encoder for records of `record_type`.

        The type has no effect on an encoder with a function of the program.
        """
        other = Encoder(self._encode, self.charset)
        other._type = record_type
        return other

    @cached_property
    def _text(self) -> Callable[[Any], str]:
        return text_of(self._type)

    def lines(self, rows: list[Any], to_bytes: Callable[[str], bytes]) -> bytes:
        """Returns the records `rows`, each with a line feed after it.

        `to_bytes` encodes the text of one file from its start.
        """
        encode = self._encode
        if encode is str:
            write = self._text
            lines = as_printed(rows) if write is str else map(write, rows)
            return to_bytes("".join([f"{line}\n" for line in lines]))
        texts = [encode(row) for row in rows]
        return b"".join([t + b"\n" if isinstance(t, bytes) else to_bytes(f"{t}\n") for t in texts])


class BulkWriter(ABC):
    """Writes the records of one file to a stream, which it neither opens nor closes.

    `add_element` and `flush` are called any number of times, then `finish` once.
    """

    @abstractmethod
    def add_element(self, element: Any, /) -> None:
        """Writes the record `element`, or buffers it."""

    @abstractmethod
    def flush(self) -> None:
        """Writes buffered records, as far as the format allows it before the end of the file."""

    @abstractmethod
    def finish(self) -> None:
        """Writes buffered records and the end of the file, such as a footer. No record follows."""


class BulkWriterFactory(ABC):
    """Creates the writer of each file of a bulk format (Parquet, ORC, Avro). Factories must be picklable."""

    @abstractmethod
    def create(self, stream: BinaryIO, /) -> BulkWriter:
        """Returns a writer for a new file, which is open for writing as `stream`."""


def _known_charset(name: str) -> str:
    try:
        codecs.lookup(name)
    except LookupError:
        raise InvalidProgramError(f"unknown character set '{name}'; write it like 'UTF-8'") from None
    return name
