"""CSV files of a schema in a file sink."""

from __future__ import annotations

from typing import Any, BinaryIO

from millstream.core.overriding import override
from millstream.core.records.batches import Batch
from millstream.datastream.connectors.errors import ConnectorError
from millstream.datastream.connectors.file_system.sink.bulk_writers import BatchWriterFactory
from millstream.datastream.connectors.file_system.sink.part_formats import PartFormat, PartWriter
from millstream.datastream.formats.csv.dialect import CsvError
from millstream.datastream.formats.csv.record_codec import RecordCodec
from millstream.datastream.formats.csv.schema import CsvSchema


class CsvBulkWriters:
    """Makes factories for `FileSink.for_bulk_format`."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> BatchWriterFactory:
        """Files of one schema, each with a header if the schema has one. What a column cannot hold fails the sink."""
        RecordCodec(schema.columns, schema.dialect)  # refuses columns that cannot be written
        return BatchWriterFactory(CsvRowPartFormat(schema), ".csv")


class CsvRowPartFormat(PartFormat):
    """Part files of one schema."""

    resumable = False  # as all that bulk writers write: files end with every checkpoint

    def __init__(self, schema: CsvSchema) -> None:
        self._schema = schema

    @override
    def open(self, stream: BinaryIO, state: Any = None) -> PartWriter:
        return _CsvRowWriter(stream, self._schema)


class _CsvRowWriter(PartWriter):
    def __init__(self, stream: BinaryIO, schema: CsvSchema) -> None:
        self._stream = stream
        self._end = schema.dialect.line_separator
        self._codec = RecordCodec(schema.columns, schema.dialect)
        if schema.use_header:
            names = [schema.dialect.text(column.name) for column in schema.columns]
            stream.write((schema.dialect.delimiter.join(names) + self._end).encode())

    @override
    def write(self, batch: Batch) -> None:
        lines: list[str] = []
        for row in batch.records():
            try:
                lines.append(self._codec.record(row))
            except CsvError as error:
                raise ConnectorError(f"file sink: cannot write as CSV: {row!r:.200}: {error}") from error
        self._stream.write("".join(line + self._end for line in lines).encode())
