"""Avro's container files in a file sink."""

from __future__ import annotations

from typing import Any, BinaryIO

from millstream.core.errors import InvalidProgramError
from millstream.core.overriding import override
from millstream.core.records.batches import Batch
from millstream.datastream.connectors.errors import ConnectorError
from millstream.datastream.connectors.file_system.sink.bulk_writers import BatchWriterFactory
from millstream.datastream.connectors.file_system.sink.part_formats import PartFormat, PartWriter
from millstream.datastream.formats.avro.records import to_generic
from millstream.datastream.formats.avro.schema import AvroSchema, fastavro, one_line, refusals

_CODECS = ("null", "deflate", "bzip2", "xz")  # without another package


class AvroBulkWriters:
    """Makes factories for `FileSink.for_bulk_format`."""

    @staticmethod
    def for_generic_record(schema: AvroSchema, codec: str = "null") -> BatchWriterFactory:
        """Files of one schema. Records are dicts, rows or dataclasses; what the schema does not allow fails the sink.

        The codec, which compresses blocks, is null (none), deflate, bzip2 or xz.
        Raises `InvalidProgramError` for an unknown codec.
        """
        if codec not in _CODECS:
            raise InvalidProgramError(f"the codec of an Avro file is one of {', '.join(_CODECS)}, got {codec!r}")
        return BatchWriterFactory(AvroPartFormat(schema, codec), ".avro")


class AvroPartFormat(PartFormat):
    """Part files of one schema."""

    resumable = False  # a block that is begun is in memory

    def __init__(self, schema: AvroSchema, codec: str) -> None:
        self._schema = schema
        self._codec = codec

    @override
    def open(self, stream: BinaryIO, state: Any = None) -> PartWriter:
        return _AvroWriter(stream, self._schema, self._codec)


class _AvroWriter(PartWriter):
    def __init__(self, stream: BinaryIO, schema: AvroSchema, codec: str) -> None:
        fastavro()
        from fastavro.write import Writer

        # Without the validator, numbers that are too large or no whole ones would be written as others.
        options = {"strict_allow_default": True}
        self._writer = Writer(stream, schema.parsed, codec=codec, validator=True, options=options)
        self._generic = to_generic(schema)
        self._refusals = refusals()

    @override
    def write(self, batch: Batch) -> None:
        write, generic = self._writer.write, self._generic
        for record in batch.records():
            try:
                write(generic(record))
            except self._refusals as error:
                reason = f"{record!r:.200}: {one_line(error):.500}"
                raise ConnectorError(f"file sink: cannot write as Avro: {reason}") from error

    def finish(self) -> None:
        """Writes the last block."""
        self._writer.flush()
