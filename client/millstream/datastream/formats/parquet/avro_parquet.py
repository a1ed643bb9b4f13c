"""Parquet files of an Avro schema: records are dicts, as in Avro's own files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

from millstream.core.overriding import override
from millstream.core.records.batches import Batch, ColumnBatch, RowBatch
from millstream.core.records.types import PICKLED, TypeInformation
from millstream.datastream.connectors.errors import ConnectorError, MalformedInputError
from millstream.datastream.connectors.file_system.column_reader import ColumnReader
from millstream.datastream.connectors.file_system.lines.text_format import StreamFormat
from millstream.datastream.connectors.file_system.parquet.format import cut_row_groups, open_row_groups
from millstream.datastream.connectors.file_system.parquet.part import ParquetPartFormat
from millstream.datastream.connectors.file_system.paths import FoundFile
from millstream.datastream.connectors.file_system.sink.bulk_writers import BatchWriterFactory
from millstream.datastream.connectors.file_system.sink.part_formats import PartFormat, PartWriter
from millstream.datastream.connectors.file_system.splits import FileSplit, FormatReader
from millstream.datastream.formats.avro.records import to_generic
from millstream.datastream.formats.avro.schema import (
    AvroSchema,
    GenericRecordAvroTypeInfo,
    fastavro,
    one_line,
    refusals,
)

if TYPE_CHECKING:
    from millstream.datastream.formats.avro.arrow import AvroColumns

_READ_ROWS = 4096


class AvroParquetReaders:
    """Makes formats for `FileSource.for_record_stream_format`."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> StreamFormat:
        """Records of the schema; fields that a file does not have are None."""
        return _AvroParquetFormat(schema)


class AvroParquetWriters:
    """Makes factories for `FileSink.for_bulk_format`."""

    @staticmethod
    def for_generic_record(schema: AvroSchema, *, compression: str = "snappy") -> BatchWriterFactory:
        """Returns a factory for Parquet files of the Avro schema `schema`, with a `compression` of Parquet's.

        Records are dicts, rows or dataclasses; a record that does not fit the schema fails the sink.
        """
        return BatchWriterFactory(_AvroParquetPartFormat(schema, compression), ".parquet")


class _AvroParquetFormat(StreamFormat):
    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema

    def cut(self, file: FoundFile, block_size: int) -> list[FileSplit]:
        """Between row groups."""
        return cut_row_groups(file, block_size)

    def open(self, split: FileSplit) -> FormatReader:
        """The fields of the schema that the file has."""
        from millstream.datastream.formats.avro.arrow import AvroColumns

        columns = AvroColumns(self._schema)
        reader = open_row_groups(
            split, lambda names: [name for name in columns.schema.names if name in names], _READ_ROWS
        )
        return _RecordReader(reader, columns, split.path)

    @override
    def produced_type(self) -> TypeInformation:
        return GenericRecordAvroTypeInfo(self._schema)


class _RecordReader(FormatReader):
    def __init__(self, reader: ColumnReader, columns: AvroColumns, path: str) -> None:
        self._reader = reader
        self._columns = columns
        self._path = path

    @override
    def read(self, max_rows: int) -> RowBatch | None:
        batch = self._reader.read(max_rows)
        if batch is None:
            return None
        try:
            return RowBatch([self._columns.decode(row) for row in batch.data.to_pylist()])
        except (TypeError, ValueError, AttributeError, KeyError) as error:
            reason = f"its columns are not those of the Avro schema: {error}; behind row {self._reader.position()}"
            raise MalformedInputError(self._path, reason) from error

    def position(self) -> int:
        """Rows since the split's start."""
        return self._reader.position()

    @override
    def close(self) -> None:
        self._reader.close()


class _AvroParquetPartFormat(PartFormat):
    resumable = False

    def __init__(self, schema: AvroSchema, compression: str) -> None:
        self._schema = schema
        self._compression = compression

    @override
    def open(self, stream: BinaryIO, state: Any = None) -> PartWriter:
        from millstream.datastream.formats.avro.arrow import AvroColumns

        columns = AvroColumns(self._schema)
        parquet = ParquetPartFormat(columns.schema, PICKLED, self._compression)
        return _RecordWriter(parquet.open(stream), columns, self._schema)


class _RecordWriter(PartWriter):
    def __init__(self, writer: PartWriter, columns: AvroColumns, schema: AvroSchema) -> None:
        self._writer = writer
        self._columns = columns
        self._schema = schema.parsed
        self._generic = to_generic(schema)
        self._validate = fastavro().validation.validate
        self._refusals = refusals()

    @override
    def write(self, batch: Batch) -> None:
        import pyarrow as pa

        encoded = [self._encoded(record) for record in batch.records()]
        if encoded:
            self._writer.write(ColumnBatch(pa.RecordBatch.from_pylist(encoded, self._columns.schema)))

    def _encoded(self, record: Any) -> Any:
        try:
            generic = self._generic(record)
            self._validate(generic, self._schema)
            return self._columns.encode(generic)
        except self._refusals as error:
            raise ConnectorError(f"file sink: cannot write as Avro: {record!r:.200}: {one_line(error):.500}") from error

    def held_bytes(self) -> int:
        """Uncompressed."""
        return self._writer.held_bytes()

    @override
    def finish(self) -> None:
        self._writer.finish()

    @override
    def abandon(self) -> None:
        self._writer.abandon()
