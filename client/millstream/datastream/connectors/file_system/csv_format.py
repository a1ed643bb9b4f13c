"""CSV files as Arrow batches. A file is one split: only reading from its start tells quoted line ends from others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from millstream.core.conversion import field_types
from millstream.core.errors import InvalidProgramError
from millstream.core.types import PICKLED, RowType, TupleType, TypeInformation, from_hint
from millstream.datastream.connectors.errors import ConnectorError
from millstream.datastream.connectors.file_system.column_reader import ColumnReader
from millstream.datastream.connectors.file_system.paths import FoundFile
from millstream.datastream.connectors.file_system.splits import WHOLE, FileFormat, FileSplit, FormatReader


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
    ) -> None:
        self._type: TypeInformation = PICKLED
        self._column_types: dict[str, TypeInformation] = {}
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
        self._columns = list(columns) if columns is not None else None
        for name, value in (("delimiter", delimiter), ("quote", quote or '"')):
            if len(value) != 1:
                raise InvalidProgramError(f"a CSV {name} must be one character, got {value!r}")
        self._header = header
        self._delimiter = delimiter
        self._quote = quote
        self._null_values = list(null_values) if null_values is not None else None
        self._charset = charset
        self._block_size = block_size

    def cut(self, file: FoundFile, block_size: int) -> list[FileSplit]:
        """The whole file."""
        return [FileSplit(file.path, 0, WHOLE)] if file.size else []

    def open(self, split: FileSplit) -> FormatReader:
        """Reads from the start, so that types come out the same after a restore, and passes over what was read."""
        import pyarrow as pa
        from pyarrow import csv

        column_types = {name: t.arrow_type() for name, t in self._column_types.items()}
        options: dict[str, Any] = {"column_types": {n: t for n, t in column_types.items() if t is not None}}
        if self._header and self._columns is not None:
            options["include_columns"] = self._columns
        if self._null_values is not None:
            options.update(null_values=self._null_values, strings_can_be_null=True)
        try:
            reader = csv.open_csv(
                split.path,
                read_options=csv.ReadOptions(
                    use_threads=False,
                    block_size=self._block_size,
                    column_names=None if self._header else self._columns,
                    autogenerate_column_names=not self._header and self._columns is None,
                    encoding=self._charset,
                ),
                parse_options=csv.ParseOptions(
                    delimiter=self._delimiter, quote_char=self._quote or False, newlines_in_values=True
                ),
                convert_options=csv.ConvertOptions(**options),
            )
        except (pa.ArrowException, OSError, KeyError, LookupError) as error:
            raise ConnectorError(f"file source: {split.path}: {' '.join(str(error).split())}") from error
        return ColumnReader(split.path, reader, reader.close, resume_at=split.position or 0)

    def produces_columns(self) -> bool:
        """Always."""
        return True

    def produced_type(self) -> TypeInformation:
        """The declared type."""
        return self._type
