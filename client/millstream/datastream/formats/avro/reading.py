"""Avro's container files as a source, cut at their sync markers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO

from millstream.common.io import InputFormat
from millstream.core.overriding import override
from millstream.core.records.batches import RowBatch
from millstream.core.records.types import TypeInformation
from millstream.datastream.connectors.errors import ConnectorError, MalformedInputError
from millstream.datastream.connectors.file_system.lines.text_format import StreamFormat
from millstream.datastream.connectors.file_system.paths import FoundFile, PathLike
from millstream.datastream.connectors.file_system.splits import FileSplit, FormatReader
from millstream.datastream.formats.avro.schema import AvroSchema, GenericRecordAvroTypeInfo, fastavro, one_line

_MARKER = 16  # bytes
_CHUNK = 1 << 16


class AvroInputFormat(StreamFormat, InputFormat):
    """The records of a file, or of all files in a folder, as dicts; with another schema than a file's, in that one.

    For `env.create_input(AvroInputFormat(path, schema))`, and for `FileSource.for_record_stream_format`.
    """

    def __init__(self, path: PathLike, schema: AvroSchema) -> None:
        self.path = path
        self._schema = schema

    def get_produced_type(self) -> GenericRecordAvroTypeInfo:
        """Returns the type of records of the schema."""
        return GenericRecordAvroTypeInfo(self._schema)

    def produced_type(self) -> TypeInformation:
        """Returns the type of the records, which is `get_produced_type()`."""
        return self.get_produced_type()

    @override
    def cut(self, file: FoundFile, block_size: int) -> list[FileSplit]:
        ranges = range(0, file.size, block_size)
        return [FileSplit(file.path, at, min(at + block_size, file.size)) for at in ranges]

    @override
    def open(self, split: FileSplit) -> FormatReader:
        return _AvroReader(split, self._schema)


class _AvroReader(FormatReader):
    def __init__(self, split: FileSplit, schema: AvroSchema) -> None:
        self._path = split.path
        self._end = split.end
        self._position = split.position or 0
        self._damage: MalformedInputError | None = None
        try:
            self._file: BinaryIO = open(split.path, "rb")  # noqa: SIM115  # closed by close
        except OSError as error:
            raise ConnectorError(f"file source: {split.path}: {error.strerror}") from error
        try:
            self._blocks: Iterator[Any] = fastavro().block_reader(self._file, schema.parsed)
            begins = self._file.tell() - _MARKER
            self._file.seek(begins)
            self._marker = self._file.read(_MARKER)
            found = begins if split.start <= begins else self._find(split.start)
            self._is_over = found is None
            if found is not None:
                self._file.seek(found + _MARKER)
            self._records: Iterator[Any] = iter(())
            self._skip(self._position)
        except MalformedInputError:
            self._file.close()
            raise
        except Exception as error:  # fastavro raises what it meets: there is no base for it
            self._file.close()
            raise MalformedInputError(self._path, f"no Avro file: {one_line(error)}", split.start) from error

    def _find(self, start: int) -> int | None:
        """Where the next marker begins."""
        self._file.seek(start)
        kept = b""
        while data := self._file.read(_CHUNK):
            buffer = kept + data
            if (at := buffer.find(self._marker)) >= 0:
                return start - len(kept) + at
            start += len(data)
            kept = buffer[-(_MARKER - 1) :]
        return None

    def _skip(self, count: int) -> None:
        """Passes over whole blocks without decoding them."""
        while count and (block := self._next_block()) is not None:
            records = iter(block)
            if count < block.num_records:
                for _ in range(count):
                    next(records)
                self._records = records
                return
            count -= block.num_records

    def _next_block(self) -> Any | None:
        """The next block whose marker is this split's."""
        begins = self._file.tell()
        if self._is_over or begins - _MARKER >= self._end:
            return None
        try:
            return next(self._blocks, None)
        except Exception as error:  # whatever fastavro meets
            raise MalformedInputError(self._path, f"damaged: {one_line(error)}", begins) from error

    def read(self, max_rows: int) -> RowBatch | None:
        """Records of one block or several; damage is reported after all records before it."""
        if self._damage is not None:
            raise self._damage
        rows: list[Any] = []
        try:
            while len(rows) < max_rows:
                self._take(rows, max_rows - len(rows))
                if len(rows) < max_rows:
                    block = self._next_block()
                    if block is None:
                        break
                    self._records = iter(block)
        except MalformedInputError as error:
            if not rows:
                raise
            self._damage = error
        self._position += len(rows)
        return RowBatch(rows) if rows else None

    def _take(self, rows: list[Any], count: int) -> None:
        try:
            rows.extend(islice(self._records, count))
        except Exception as error:  # whatever fastavro meets
            reason = f"damaged: {one_line(error)}; behind record {self._position + len(rows)}"
            raise MalformedInputError(self._path, reason, self._file.tell()) from error

    def position(self) -> int:
        """Records since the split's start."""
        return self._position

    @override
    def close(self) -> None:
        self._file.close()
