"""How a file sink writes CSV: what a source of ours reads from it is what was written.

Text is quoted, and None is not: an empty value is None, `""` is empty text, and text that equals the null literal is
still text.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, BinaryIO

from millstream.core.errors import InvalidProgramError
from millstream.core.overriding import override
from millstream.core.records.batches import Batch
from millstream.core.records.types import TypeInformation
from millstream.datastream.connectors.errors import ConnectorError
from millstream.datastream.connectors.file_system.sink.part_formats import PartFormat, PartWriter

if TYPE_CHECKING:
    import pyarrow as pa


class CsvPartFormat(PartFormat):
    """Columns by the records' fields, with an optional header line in each part file."""

    def __init__(self, type: TypeInformation, header: bool, delimiter: str, null_literal: str = "") -> None:
        if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
            raise InvalidProgramError(f"a CSV delimiter must be one ASCII character and no quote, got {delimiter!r}")
        if any(letter in null_literal for letter in (delimiter, '"', "\r", "\n")):
            raise InvalidProgramError(
                f"a CSV null literal has no delimiter, quote or line end in it, got {null_literal!r}"
            )
        self._type = type
        self._header = header
        self._delimiter = delimiter
        self._null = null_literal

    @property
    def joinable(self) -> bool:
        """Unless each file has a header."""
        return not self._header

    @override
    def open(self, stream: BinaryIO, state: Any = None) -> PartWriter:
        return _CsvWriter(stream, self._type, self._header, self._delimiter, self._null, state)


class _CsvWriter(PartWriter):
    def __init__(
        self,
        stream: BinaryIO,
        type: TypeInformation,
        header: bool,
        delimiter: str,
        null_literal: str,
        names: list[str] | None,
    ) -> None:
        self._stream = stream
        self._type = type
        self._header = header
        self._delimiter = delimiter
        self._null = null_literal
        self._names = names

    def state(self) -> Any:
        """The columns, once the header is written."""
        return self._names

    def write(self, batch: Batch) -> None:
        """Lines of CSV; each batch must have the columns of the first."""
        if not len(batch):
            return
        data = batch.columns(self._type)
        names = data.schema.names
        header = b""
        if self._names is None:
            if self._header:
                header = self._delimiter.join(map(self._quoted, names)).encode() + b"\n"
        elif names != self._names:
            if set(names) != set(self._names):
                raise ConnectorError(
                    f"file sink: the CSV file has the columns {', '.join(self._names)}, but a batch has "
                    f"{', '.join(names)}; declare type_info=... or make all records alike"
                )
            data = data.select(self._names)
        text = self._text(data)
        self._names = self._names or names
        self._stream.write(header)
        self._stream.write(text)

    def _text(self, data: pa.RecordBatch) -> bytes | memoryview:
        import pyarrow as pa
        from pyarrow import csv

        if not self._null and data.num_columns == 1 and data.column(0).null_count:
            raise ConnectorError(
                f"file sink: None in the only column, '{data.schema.names[0]}', would be an empty line, which readers "
                "pass over; give the sink a null_literal, and the source the same as null_values"
            )
        block = io.BytesIO()
        try:
            if self._null:
                return self._with_literal(data)
            csv.write_csv(data, block, csv.WriteOptions(include_header=False, delimiter=self._delimiter))
        except pa.ArrowException as error:
            raise ConnectorError(f"file sink: cannot write as CSV: {_unwritable(data, error)}") from error
        return block.getbuffer()

    def _with_literal(self, data: pa.RecordBatch) -> bytes:
        """Writes the data with a literal for None, which is not supported by all versions of Arrow."""
        import pyarrow as pa
        from pyarrow import compute

        quote, nothing, end, delimiter, null = (
            pa.scalar(text, pa.large_string()) for text in ('"', "", "\n", self._delimiter, self._null)
        )
        columns = []
        for name, column in zip(data.schema.names, data.columns, strict=True):
            text = column.cast(pa.large_string())
            if _is_text(column.type):
                doubled = compute.replace_substring(text, '"', '""')
                text = compute.binary_join_element_wise(quote, doubled, quote, nothing)
            elif compute.any(compute.equal(text, null)).as_py():
                raise ConnectorError(
                    f"file sink: {self._null} in the column '{name}' would be read as None; choose another null_literal"
                )
            columns.append(compute.fill_null(text, null))
        lines = compute.binary_join_element_wise(*columns, delimiter)
        return "".join(compute.binary_join_element_wise(lines, nothing, end).to_pylist()).encode()

    def _quoted(self, name: str) -> str:
        special = (self._delimiter, '"', "\n", "\r", "\ufeff")
        if not name or any(character in name for character in special):
            return '"' + name.replace('"', '""') + '"'
        return name


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    kinds = pa.types
    tests = (kinds.is_string, kinds.is_large_string, kinds.is_string_view, kinds.is_binary, kinds.is_large_binary)
    plain = kind.value_type if kinds.is_dictionary(kind) else kind
    return any(test(plain) for test in tests)


def _unwritable(data: pa.RecordBatch, error: Exception) -> str:
    """Which column cannot be written, and why."""
    import pyarrow as pa

    kinds = pa.types
    for name, column in zip(data.schema.names, data.columns, strict=True):
        if kinds.is_nested(column.type):
            return f"column '{name}' holds {column.type}; map it to plain values first"
        if kinds.is_binary(column.type) or kinds.is_large_binary(column.type):
            try:
                column.cast(pa.string())
            except pa.ArrowException:
                return f"column '{name}' holds bytes that are no UTF-8 text; map them to text first"
    return " ".join(str(error).split())
