"""How records become bytes and come back, with PyFlink's names. Pure.

PyFlink's schemas are names for Java classes. These do it themselves: a schema is a class with one method, and anyone
may write another. Formats (`millstream.datastream.formats`) and connectors build on them.
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
    """Makes the bytes of a record. Picklable; one schema is used for any number of records."""

    @abstractmethod
    def serialize(self, value: Any, /) -> bytes:
        """Returns the bytes of the record `value`, without a separator."""


class DeserializationSchema(ABC):
    """Makes a record of bytes. Picklable; one schema is used for any number of records."""

    @abstractmethod
    def deserialize(self, message: bytes, /) -> Any:
        """Returns the record that the bytes `message` hold."""

    def get_produced_type(self) -> TypeInformation:
        """What its records are; any Python object unless it says more."""
        return PICKLED


class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    """Text in a character set."""

    def __init__(self, charset: str = "UTF-8") -> None:
        self.charset = _known_charset(charset)

    @override
    def serialize(self, value: str) -> bytes:
        return value.encode(self.charset)

    @override
    def deserialize(self, message: bytes) -> str:
        return message.decode(self.charset)

    def get_produced_type(self) -> TypeInformation:
        """Text."""
        return STRING


class ByteArraySchema(SerializationSchema, DeserializationSchema):
    """Bytes as they are."""

    @override
    def serialize(self, value: bytes) -> bytes:
        return bytes(value)

    @override
    def deserialize(self, message: bytes) -> bytes:
        return bytes(message)

    def get_produced_type(self) -> TypeInformation:
        """Bytes."""
        return BYTES


class RowFieldExtractorSchema(SerializationSchema):
    """One field of a row, or of a tuple, which holds bytes already: a message's key, say."""

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
    """Makes the bytes of a record; PyFlink's name. `Encoder(function)` takes a function that answers str or bytes."""

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

        One with a function of the program's own does not change.
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
    """Writes the records of one file into a stream, which it neither opens nor closes. Called in the order below."""

    @abstractmethod
    def add_element(self, element: Any, /) -> None:
        """Writes the record `element`, or buffers it."""

    @abstractmethod
    def flush(self) -> None:
        """Writes what is held, as far as the format allows it before the end."""

    @abstractmethod
    def finish(self) -> None:
        """Writes what is held and what ends the file. No record follows."""


class BulkWriterFactory(ABC):
    """Makes the writer of each file of a sink whose files are whole (Parquet, ORC, Avro). Picklable."""

    @abstractmethod
    def create(self, stream: BinaryIO, /) -> BulkWriter:
        """Returns a writer for a new file, which is open for writing as `stream`."""


def _known_charset(name: str) -> str:
    try:
        codecs.lookup(name)
    except LookupError:
        raise InvalidProgramError(f"unknown character set '{name}'; write it like 'UTF-8'") from None
    return name
