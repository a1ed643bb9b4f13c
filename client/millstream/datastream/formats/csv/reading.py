"""CSV files as rows of a schema. A file is one split: quoted line ends are recognized only from its start."""

from __future__ import annotations

from collections.abc import Iterator

from millstream.core.overriding import override
from millstream.core.records.batches import RowBatch
from millstream.core.records.types import TypeInformation
from millstream.core.row import Row
from millstream.datastream.connectors.errors import MalformedInputError
from millstream.datastream.connectors.file_system.csv.blocks import CsvBlocks
from millstream.datastream.connectors.file_system.csv.records import CsvRecords
from millstream.datastream.connectors.file_system.lines.lines import checked_length
from millstream.datastream.connectors.file_system.lines.text_format import StreamFormat
from millstream.datastream.connectors.file_system.paths import FoundFile
from millstream.datastream.connectors.file_system.splits import WHOLE, FileSplit, FormatReader
from millstream.datastream.connectors.malformed import LONGEST_LINE, LONGEST_RAW, DeadLetter
from millstream.datastream.formats.csv.dialect import CsvError
from millstream.datastream.formats.csv.record_codec import RecordCodec
from millstream.datastream.formats.csv.schema import CsvSchema

_BLOCK = 1 << 20


class CsvReaderFormat(StreamFormat[Row]):
    """Made with `for_schema`, for `FileSource.for_record_stream_format`."""

    def __init__(self, schema: CsvSchema, max_line_length: int = LONGEST_LINE) -> None:
        self._schema = schema
        self._longest = checked_length(max_line_length)
        RecordCodec(schema.columns, schema.dialect)  # refuses columns that cannot be read

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvReaderFormat:
        """Rows with the schema's columns as their fields."""
        return CsvReaderFormat(schema)

    @override
    def cut(self, file: FoundFile, block_size: int) -> list[FileSplit]:
        return [FileSplit(file.path, 0, WHOLE)] if file.size else []

    @override
    def open(self, split: FileSplit) -> FormatReader:
        return _CsvRowReader(split, self._schema, self._longest)

    @override
    def produced_type(self) -> TypeInformation:
        return self._schema.get_type_info()


class _CsvRowReader(FormatReader):
    def __init__(self, split: FileSplit, schema: CsvSchema, longest: int) -> None:
        dialect = schema.dialect
        self._path = split.path
        self._schema = schema
        self._codec = RecordCodec(schema.columns, dialect, tuple(column.name for column in schema.columns))
        self._cut = CsvRecords(dialect.delimiter, dialect.quote, dialect.escape)
        self._blocks = CsvBlocks(split.path, self._cut, _BLOCK, longest, None)
        self._records = self._numbered()
        self._position = 0
        self._rows_before = 0  # data rows, also malformed ones
        self._letters: list[DeadLetter] = []
        try:
            while self._position < (split.position or 0) and self._next() is not None:
                pass
        except BaseException:
            self._blocks.close()
            raise
        self._letters.clear()

    def _numbered(self) -> Iterator[DeadLetter | tuple[int, bytes]]:
        """The records with their offsets; what has no end is a dead letter."""
        while (block := self._blocks.next()) is not None:
            if block.malformed is not None:
                yield block.malformed
                continue
            for begin, end in self._cut.split(block.data):
                yield block.offset + begin, block.data[begin:end].rstrip(b"\r\n")

    def _next(self) -> Row | DeadLetter | bool | None:
        """The next row, a dead letter, False for a record that is neither, or None at the end."""
        found = next(self._records, None)
        if found is None:
            return None
        self._position += 1
        if isinstance(found, DeadLetter):
            return found
        offset, raw = found
        if self._schema.allow_comments and raw.startswith(b"#"):
            return False
        try:
            text = raw.decode()
            number, self._rows_before = self._rows_before, self._rows_before + 1
            if number < self._schema.use_header + self._schema.skip_first_data_row:
                if number == 0 and self._schema.use_header and self._schema.strict_headers:
                    self._check_header(text, raw)
                return False
            return self._codec.row(text)
        except (CsvError, UnicodeDecodeError) as error:
            return DeadLetter(self._path, offset, raw[:LONGEST_RAW], f"not valid CSV: {error}")

    def _check_header(self, header: str, raw: bytes) -> None:
        names, wanted = self._schema.dialect.fields(header), [column.name for column in self._schema.columns]
        if names != wanted:
            found = ", ".join(map(str, names))
            raise MalformedInputError(self._path, f"its header is {found}, not {', '.join(wanted)}", 0, raw)

    @override
    def read(self, max_rows: int) -> RowBatch | None:
        rows: list[Row] = []
        while len(rows) < max_rows and len(self._letters) < max_rows:
            match self._next():
                case None:
                    return RowBatch(rows) if rows or self._letters else None
                case Row() as row:
                    rows.append(row)
                case DeadLetter() as letter:
                    self._letters.append(letter)
        return RowBatch(rows)

    @override
    def malformed(self) -> list[DeadLetter]:
        found, self._letters = self._letters, []
        return found

    def line_of(self, malformed: DeadLetter) -> int | None:
        """By counting the lines before it."""
        return self._blocks.line_number(malformed.offset)

    def position(self) -> int:
        """Records since the file's start."""
        return self._position

    @override
    def close(self) -> None:
        self._blocks.close()
