"""Rows as CSV messages, and back; with PyFlink's builders."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

from millstream.common.serialization import DeserializationSchema, SerializationSchema
from millstream.core.errors import InvalidProgramError
from millstream.core.overriding import override
from millstream.core.records.types import RowType, TypeInformation, from_hint
from millstream.core.row import Row
from millstream.datastream.formats.csv.columns import Column
from millstream.datastream.formats.csv.dialect import CsvError, Dialect
from millstream.datastream.formats.csv.record_codec import RecordCodec


class _OfRows:
    """What both directions share: what is derived of the type is made again after pickling."""

    def __init__(self, type_info: RowType, dialect: Dialect, separator: str) -> None:
        self._type = type_info
        self._dialect = dialect
        self._separator = separator
        _ = self._codec  # refuses columns that CSV does not have

    @cached_property
    def _codec(self) -> RecordCodec:
        named = zip(self._type.field_names() or (), self._type.fields, strict=True)
        columns = [Column(name, kind, self._separator) for name, kind in named]
        return RecordCodec(columns, self._dialect, self._type.row_names)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "_codec"}


class _Builder:
    """Settings of a schema."""

    def __init__(self, type_info: Any) -> None:
        if type_info is None:
            raise TypeError("Type information must not be None")
        kind = from_hint(type_info)
        if not isinstance(kind, RowType):
            raise InvalidProgramError(f"a CSV message is a row: expected Types.ROW(...), got {type_info!r}")
        self._type = kind
        self._dialect: dict[str, Any] = {}
        self._separator = ";"

    def set_field_delimiter(self, delimiter: str) -> Self:
        """What is between values."""
        return self._write(delimiter=delimiter)

    def set_array_element_delimiter(self, delimiter: str) -> Self:
        """What is between the elements of lists, and the fields of rows in a row."""
        self._separator = delimiter
        return self

    def set_quote_character(self, c: str) -> Self:
        """What text is put between."""
        return self._write(quote=c)

    def set_escape_character(self, c: str) -> Self:
        """What takes the character behind it for what it is."""
        return self._write(escape=c)

    def set_null_literal(self, null_literal: str) -> Self:
        """What stands for None, without quotes."""
        return self._write(null_literal=null_literal)

    def _write(self, **changed: Any) -> Self:
        Dialect(**{**self._dialect, **changed})  # refuses what cannot be
        self._dialect.update(changed)
        return self


class CsvRowDeserializationSchema(_OfRows, DeserializationSchema):
    """Rows of messages, each of which is one record, with or without a line end."""

    def __init__(
        self, type_info: RowType, dialect: Dialect, separator: str, ignores_errors: bool, allows_comments: bool
    ) -> None:
        super().__init__(type_info, dialect, separator)
        self._ignores = ignores_errors
        self._allows_comments = allows_comments

    def deserialize(self, message: bytes) -> Row | None:
        """One row; None for a comment, and for a message that cannot be read when such are ignored.

        Raises `ValueError` for any other message that cannot be read.
        """
        if self._allows_comments and message.startswith(b"#"):
            return None
        try:
            return self._codec.row(message.decode().rstrip("\r\n"))
        except (CsvError, UnicodeDecodeError) as error:
            if self._ignores:
                return None
            raise ValueError(f"no CSV of {self._type.describe()}: {error}: {message!r:.200}") from error

    @override
    def get_produced_type(self) -> TypeInformation:
        return self._type

    class Builder(_Builder):
        """Settings of a schema."""

        def __init__(self, type_info: Any) -> None:
            super().__init__(type_info)
            self._ignores = False
            self._comments = False

        def set_allow_comments(self, allow_comments: bool) -> Self:
            """Whether a message that begins with # is None."""
            self._comments = allow_comments
            return self

        def set_ignore_parse_errors(self, ignore_parse_errors: bool) -> Self:
            """Whether a message that cannot be read is None, rather than an error."""
            self._ignores = ignore_parse_errors
            return self

        def build(self) -> CsvRowDeserializationSchema:
            """The schema."""
            dialect = Dialect(**self._dialect)
            return CsvRowDeserializationSchema(self._type, dialect, self._separator, self._ignores, self._comments)


class CsvRowSerializationSchema(_OfRows, SerializationSchema):
    """Messages of rows, each with a line end."""

    @override
    def serialize(self, value: Any) -> bytes:
        try:
            return (self._codec.record(value) + self._dialect.line_separator).encode()
        except CsvError as error:
            raise ValueError(f"cannot be written as CSV: {value!r:.200}: {error}") from error

    class Builder(_Builder):
        """Settings of a schema."""

        def set_line_delimiter(self, delimiter: str) -> Self:
            r"""What ends a message: \n, \r\n, \r or nothing."""
            return self._write(line_separator=delimiter)

        def disable_quote_character(self) -> Self:
            """Nothing is in quotes."""
            return self._write(quote=None)

        def build(self) -> CsvRowSerializationSchema:
            """The schema."""
            return CsvRowSerializationSchema(self._type, Dialect(**self._dialect), self._separator)
