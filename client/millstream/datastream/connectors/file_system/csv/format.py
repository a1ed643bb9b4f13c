"""CSV files as Arrow batches. A file is one split: quoted line ends are recognized only from its start."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from millstream.core.errors import InvalidProgramError
from millstream.core.overriding import override
from millstream.core.records.conversion import field_types
from millstream.core.records.types import (
    BYTES,
    PICKLED,
    STRING,
    DataclassType,
    RowType,
    TupleType,
    TypeInformation,
    from_hint,
)
from millstream.datastream.connectors.file_system.csv.reader import CsvOptions, CsvReader, twice_in
from millstream.datastream.connectors.file_system.lines.charsets import checked_charset
from millstream.datastream.connectors.file_system.lines.lines import checked_length
from millstream.datastream.connectors.file_system.paths import FoundFile
from millstream.datastream.connectors.file_system.splits import WHOLE, FileFormat, FileSplit, FormatReader
from millstream.datastream.connectors.malformed import LONGEST_LINE


class CsvFormat(FileFormat):
    """Columns by the header or by given names; types as declared, else as the first block of the file suggests."""

    def __init__(
        self,
        columns: Sequence[str] | None = None,
        types: Any = None,
        header: bool = True,
        delimiter: str = ",",
        quote: str | None = '"',
        null_values: Sequence[str] | None = None,
        charset: str = "UTF-8",
        block_size: int = 1 << 20,
        max_line_length: int = LONGEST_LINE,
    ) -> None:
        self._type: TypeInformation = PICKLED
        self._column_types: dict[str, TypeInformation] = {}
        self._required: frozenset[str] = frozenset()
        self._names: list[str] | None = None
        if isinstance(types, Mapping):
            self._column_types = {name: from_hint(hint) for name, hint in types.items()}
        elif types is not None:
            self._type = from_hint(types)
            names, fields = self._type.field_names(), field_types(self._type)
            if names is None or fields is None:
                raise InvalidProgramError(
                    f"CSV types must be a row, tuple or dataclass type, or a mapping from column to type; got {types!r}"
                )
            if columns is None:
                named = not isinstance(self._type, TupleType | RowType) or getattr(self._type, "names", None)
                if header and not named:
                    raise InvalidProgramError(f"CSV types {self._type.describe()} have no names: give columns=[...]")
                columns = names
            if len(columns) != len(fields):
                raise InvalidProgramError(f"{len(columns)} CSV columns for the {len(fields)} fields of {types!r}")
            self._column_types = dict(zip(columns, fields, strict=True))
            required: Collection[str] = ()
            if isinstance(self._type, DataclassType):  # its fields are found by name, those of others by position
                self._names = None if list(columns) == names else names
                required = self._type.required_fields()
            self._required = frozenset(c for c, name in zip(columns, names, strict=True) if name in required)
        self._columns = list(columns) if columns is not None else None
        if twice := twice_in(self._columns or ()):
            raise InvalidProgramError(f"CSV columns must have different names, got {', '.join(twice)} more than once")
        for name, value in (("delimiter", delimiter), ("quote", quote or '"')):
            if len(value) != 1 or not value.isascii() or value in "\r\n":
                raise InvalidProgramError(f"a CSV {name} must be one ASCII character, got {value!r}")
        if delimiter == quote:
            raise InvalidProgramError(f"CSV cannot have {quote!r} both as its delimiter and as its quote")
        self._header = header
        self._delimiter = delimiter
        self._quote = quote
        self._null_values = [""] if null_values is None else list(null_values)
        text = (STRING, BYTES) if null_values is None else ()
        self._text = frozenset(c for c in self._required if self._column_types[c] in text)
        self._charset, self._is_cuttable = checked_charset(charset)
        self._block_size = block_size
        self._longest = checked_length(max_line_length)

    def cut(self, file: FoundFile, block_size: int) -> list[FileSplit]:
        """The whole file."""
        return [FileSplit(file.path, 0, WHOLE)] if file.size else []

    def open(self, split: FileSplit) -> FormatReader:
        """Reads from the start, so that types come out the same after a restore, and passes over what was read."""
        column_types = {name: t.arrow_type() for name, t in self._column_types.items()}
        options = CsvOptions(
            self._header,
            self._columns,
            {name: kind for name, kind in column_types.items() if kind is not None},
            self._delimiter,
            self._quote,
            self._null_values,
            self._charset if self._is_cuttable else "utf-8",
            None if self._is_cuttable else self._charset,
            self._block_size,
            self._longest,
            self._required - self._text,
            self._text,
            self._names,
        )
        return CsvReader(split, options)

    @override
    def produces_columns(self) -> bool:
        return True

    @override
    def produced_type(self) -> TypeInformation:
        return self._type
