"""Reads CSV blocks with Arrow. The position is the number of records behind it, malformed ones too.

A block that Arrow refuses is halved until the records that it refuses stand alone: clean input costs nothing for it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from millstream.core.overriding import override
from millstream.core.records.batches import ColumnBatch
from millstream.datastream.connectors.errors import MalformedInputError
from millstream.datastream.connectors.file_system.csv.blocks import Block, CsvBlocks
from millstream.datastream.connectors.file_system.csv.records import CsvRecords
from millstream.datastream.connectors.file_system.csv.suspects import certain
from millstream.datastream.connectors.file_system.splits import FileSplit, FormatReader
from millstream.datastream.connectors.malformed import LONGEST_LINE, LONGEST_RAW, DeadLetter

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """How files are read. `recoded` is a character set that is decoded before records are cut, else `charset` after.

    A record without a value in a `required` column is none; in a column of `text`, that is empty text. The fields have
    `names` when those are not the columns'.
    """

    header: bool = True
    columns: list[str] | None = None
    column_types: dict[str, Any] = field(default_factory=dict)  # of Arrow
    delimiter: str = ","
    quote: str | None = '"'
    null_values: list[str] = field(default_factory=lambda: [""])
    charset: str = "utf-8"
    recoded: str | None = None
    block_size: int = 1 << 20
    longest: int = LONGEST_LINE
    required: frozenset[str] = frozenset()
    text: frozenset[str] = frozenset()
    names: list[str] | None = None


@dataclass(slots=True)
class _Parsed:
    """A block's rows, and the records among them that are none, by their number in the block."""

    rows: pa.RecordBatch
    malformed: dict[int, DeadLetter]
    records: int
    good: list[int] | None  # the records that the rows are, when some are none

    def behind(self, rows: int) -> int:
        """The number of records up to this number of rows."""
        if self.good is None:
            return rows
        return self.good[rows] if rows < len(self.good) else self.records


class CsvReader(FormatReader):
    """Reads from the start of the file, so that types are the same after a restore, and passes over what was read."""

    def __init__(self, split: FileSplit, options: CsvOptions) -> None:
        self._path = split.path
        self._options = options
        self._records = CsvRecords(options.delimiter, options.quote)
        self._blocks = CsvBlocks(split.path, self._records, options.block_size, options.longest, options.recoded)
        self._types: dict[str, Any] | None = None
        self._names: list[str] = []
        self._parsed: _Parsed | None = None
        self._at = 0  # rows of the block
        self._letters: list[DeadLetter] = []
        self._passed = 0  # records of blocks before
        self._position = split.position or 0
        try:
            self._names = self._header()
        except BaseException:
            self._blocks.close()
            raise

    def _header(self) -> list[str]:
        import pyarrow as pa

        options = self._options
        if not options.header and options.columns is not None:
            return options.columns
        block = self._blocks.first_record()
        if block is None:
            return []
        line = block.data if block.data.endswith((b"\n", b"\r")) else block.data + b"\n"  # Arrow takes none without
        try:
            made = self._parse(line, None, {}).schema.names
            (row,) = self._parse(line, made, dict.fromkeys(made, pa.string())).to_pylist()
        except _refusals() as error:
            raise MalformedInputError(self._path, f"its first line: {one_line(error)}", 0, block.data) from error
        if not options.header:
            return list(row)
        self._blocks.drop(block)
        names = [name or "" for name in row.values()]
        missing = [name for name in options.columns or () if name not in names]
        if missing:
            reason = f"no column {', '.join(missing)}; it has {', '.join(names)}"
            raise MalformedInputError(self._path, reason, 0, block.data)
        wanted = names if options.columns is None else options.columns
        twice = [name for name in twice_in(names) if name and (name in wanted or name in options.column_types)]
        if twice:
            reason = f"its header has {', '.join(twice)} more than once, so that the column is ambiguous"
            raise MalformedInputError(self._path, reason, 0, block.data)
        return names

    @override
    def read(self, max_rows: int) -> ColumnBatch | None:
        while self._parsed is None or self._at >= self._parsed.rows.num_rows:
            if self._parsed is not None:
                self._passed += self._parsed.records
            block = self._blocks.next()
            self._parsed = None if block is None else self._parse_block(block)
            if self._parsed is None:
                return None
            self._at = self._begin(self._parsed)
            if self._at >= self._parsed.rows.num_rows and self._letters_behind(self._parsed, self._at):
                return ColumnBatch(self._parsed.rows.slice(0, 0))
        piece = self._parsed.rows.slice(self._at, max_rows)
        self._at += piece.num_rows
        self._letters_behind(self._parsed, self._at)
        return ColumnBatch(piece if self._options.names is None else piece.rename_columns(self._options.names))

    def _begin(self, parsed: _Parsed) -> int:
        """How many rows of a new block are behind the position."""
        done = max(0, min(self._position - self._passed, parsed.records))
        return done if parsed.good is None else bisect_left(parsed.good, done)

    def _letters_behind(self, parsed: _Parsed, rows: int) -> bool:
        """Moves the position behind this number of rows of the block; whether there are malformed records before it."""
        before, behind = self._position - self._passed, parsed.behind(rows)
        self._letters += [letter for number, letter in parsed.malformed.items() if before <= number < behind]
        self._position = max(self._position, self._passed + behind)
        return bool(self._letters)

    def malformed(self) -> list[DeadLetter]:
        """Records that Arrow refuses, or without an end."""
        found, self._letters = self._letters, []
        return found

    def line_of(self, malformed: DeadLetter) -> int | None:
        """By counting the lines before it."""
        return self._blocks.line_number(malformed.offset)

    def _parse_block(self, block: Block) -> _Parsed:
        import pyarrow as pa

        if block.malformed is not None:
            return _Parsed(pa.record_batch({}), {0: block.malformed}, 1, [])
        if self._types is None:
            self._types = self._inferred(block.data)
        if len(block.data) > self._options.longest:
            return self._one_by_one(block, self._types)
        try:
            rows = self._complete(self._parse(block.data, self._names, self._types))
            return _Parsed(rows, {}, rows.num_rows, None)
        except _refusals():
            return self._one_by_one(block, self._types)

    def _one_by_one(self, block: Block, types: dict[str, Any]) -> _Parsed:
        import pyarrow as pa

        spans = self._records.split(block.data)
        records = [block.data[begin:end] for begin, end in spans]
        reasons = self._certain(records, types)
        parts: list[pa.RecordBatch] = []
        pending = [[number for number in range(len(records)) if number not in reasons]]
        while pending:
            some = pending.pop()
            if not some:
                continue
            try:
                data = b"".join([records[number] for number in some])
                part = self._complete(self._parse(data, self._names, types))
                if part.num_rows != len(some):
                    raise ValueError(f"read as {part.num_rows} records")
                parts.append(part)
            except _refusals() as error:
                if len(some) == 1:
                    reasons[some[0]] = self._explained(error)
                else:
                    middle = len(some) // 2
                    pending += [some[middle:], some[:middle]]  # the lower half comes first
        malformed: dict[int, DeadLetter] = {}
        for number, reason in sorted(reasons.items()):
            raw = records[number].rstrip(b"\r\n")[:LONGEST_RAW]
            offset = block.offset + spans[number][0]
            malformed[number] = DeadLetter(self._path, offset, raw, f"not valid CSV: {reason}")
        good = [number for number in range(len(records)) if number not in malformed]
        rows = _one_batch(pa.Table.from_batches(parts)) if parts else pa.record_batch({})
        return _Parsed(rows, malformed, len(records), good)

    def _certain(self, records: list[bytes], types: dict[str, Any]) -> dict[int, str]:
        """Why some records are none, by their number, found all at once."""
        import pyarrow as pa

        longest = self._options.longest
        reasons = {
            number: f"a record of {len(record)} bytes, and max_line_length is {longest}"
            for number, record in enumerate(records)
            if len(record) > longest
        }
        left = [number for number in range(len(records)) if number not in reasons]
        others: dict[int, str] = {}

        def skip(row: Any) -> str:
            if row.number is not None and 0 < row.number <= len(left):
                message = f"Expected {row.expected_columns} columns, got {row.actual_columns}: {row.text[:200]}"
                others[left[row.number - 1]] = f"CSV parse error: {message}"
            return "skip"

        try:
            data = b"".join([records[number] for number in left])
            rows = self._parse(data, self._names, dict.fromkeys(types, pa.binary()), skip=skip)
        except _refusals():
            return reasons
        left = [number for number in left if number not in others]
        if rows.num_rows != len(left):
            return reasons
        reasons.update(others)
        for name in rows.schema.names:
            for number, reason in certain(rows.column(name), types[name]).items():
                reasons.setdefault(left[number], f"column '{name}': {reason}")
            if name in self._options.required and rows.column(name).null_count:
                for number, is_null in enumerate(rows.column(name).is_null().to_pylist()):
                    if is_null:
                        reasons.setdefault(left[number], _missing(name))
        return reasons

    def _complete(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with empty text where a column of text has no value; refused if a required value is missing."""
        import pyarrow as pa

        options = self._options
        if not options.required and not options.text:
            return rows
        for position, name in enumerate(rows.schema.names):
            column = rows.column(position)
            if not column.null_count:
                continue
            if name in options.required:
                raise ValueError(_missing(name))
            if name in options.text:
                empty = pa.scalar("" if pa.types.is_string(column.type) else b"", column.type)
                rows = rows.set_column(position, name, column.fill_null(empty))
        return rows

    def _inferred(self, data: bytes) -> dict[str, Any]:
        """The types of all columns: those declared, else what the first block suggests, whatever is wrong with it."""
        import pyarrow as pa

        declared = self._options.column_types
        wanted = self._options.columns if self._options.header and self._options.columns else self._names
        if all(name in declared for name in wanted):
            return {name: declared[name] for name in wanted}
        anything = dict.fromkeys(declared, pa.binary())
        text = data.decode(self._options.charset, "replace").encode()
        try:
            schema = self._parse(text, self._names, anything, recoded=True, skip=lambda row: "skip").schema
        except _refusals() as error:
            raise MalformedInputError(self._path, one_line(error), 0, data[:200]) from error
        text_types = (pa.null(), pa.binary())
        kinds = {f.name: pa.string() if f.type in text_types else f.type for f in schema}
        return {**kinds, **{name: kind for name, kind in declared.items() if name in kinds}}

    def _parse(
        self,
        data: bytes,
        names: list[str] | None,
        types: dict[str, Any],
        recoded: bool = False,
        skip: Callable[[Any], str] | None = None,
    ) -> pa.RecordBatch:
        """The rows of the text, all of them or an error; with `skip`, without those of another number of values."""
        import pyarrow as pa
        from pyarrow import csv

        options = self._options
        if not recoded and options.charset != "utf-8":
            data = data.decode(options.charset).encode()
        convert: dict[str, Any] = {"column_types": types}
        if self._names and options.header and options.columns is not None:
            convert["include_columns"] = options.columns
        table = csv.read_csv(
            pa.BufferReader(data),
            read_options=csv.ReadOptions(
                use_threads=False,
                block_size=max(len(data), 1) + 1,
                column_names=names,
                autogenerate_column_names=names is None,
            ),
            parse_options=csv.ParseOptions(
                delimiter=options.delimiter,
                quote_char=options.quote or False,
                newlines_in_values=True,
                invalid_row_handler=skip,
            ),
            convert_options=csv.ConvertOptions(
                **convert,
                null_values=options.null_values,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        return _one_batch(table)

    def _explained(self, error: Exception) -> str:
        """Arrow's words with the column's name in place of its number, and without the number of a row in the block."""
        text = re.sub(r"\bRow #\d+: ", "", one_line(error))
        number = re.match(r"In CSV column #(\d+): ", text)
        if number is None or int(number[1]) >= len(self._names):
            return text
        return f"column '{self._names[int(number[1])]}': {text[number.end() :]}"

    def position(self) -> int:
        """Records since the file's start."""
        return self._position

    def close(self) -> None:
        """Drops what is held and closes the file."""
        self._parsed = None
        self._blocks.close()


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    import pyarrow as pa

    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)


def _refusals() -> tuple[type[Exception], ...]:
    """The errors of text that is not of the type that it is read as."""
    import pyarrow as pa

    return (pa.ArrowException, ValueError)  # and what cannot be decoded, which is one


def _missing(name: str) -> str:
    return f"column '{name}': no value, and its type does not allow None: declare it optional (`... | None`)"


def twice_in(names: Iterable[str]) -> list[str]:
    """The names that come more than once."""
    return [name for name, count in Counter(names).items() if count > 1]


def one_line(error: Exception) -> str:
    """Arrow's message, in one line."""
    return " ".join(str(error).split())
