"""Bulk writers in a file sink: files that are written as a whole, and end with every checkpoint.

A user-defined `BulkWriterFactory` writes record by record. The formats here have `BatchWriterFactory`s, which write a
batch in one call in a file sink, and record by record when a program calls them.
"""

from __future__ import annotations

from typing import Any, BinaryIO

from millstream.common.serialization import BulkWriter, BulkWriterFactory
from millstream.core.overriding import override
from millstream.core.records.batches import Batch, RowBatch, lines_of
from millstream.datastream.connectors.file_system.sink.part_formats import PartFormat, PartWriter

_AT_ONCE = 1024  # records


class BatchWriterFactory(BulkWriterFactory):
    """Writes the part files of a format. `suffix` is the end of their names unless the sink sets another one."""

    def __init__(self, part_format: PartFormat, suffix: str) -> None:
        self.part_format = part_format
        self.suffix = suffix

    def create(self, stream: BinaryIO) -> BulkWriter:
        """A writer for single records."""
        return _GatheringWriter(self.part_format.open(stream))


class _GatheringWriter(BulkWriter):
    def __init__(self, writer: PartWriter) -> None:
        self._writer = writer
        self._gathered: list[Any] = []

    def add_element(self, element: Any) -> None:
        """Held until there are enough."""
        self._gathered.append(element)
        if len(self._gathered) >= _AT_ONCE:
            self.flush()

    @override
    def flush(self) -> None:
        gathered, self._gathered = self._gathered, []
        if gathered:
            self._writer.write(RowBatch(gathered))

    @override
    def finish(self) -> None:
        self.flush()
        self._writer.finish()


class BulkPartFormat(PartFormat):
    """The part files of a user's factory."""

    resumable = False  # only the writer knows what it holds

    def __init__(self, factory: BulkWriterFactory) -> None:
        self._factory = factory

    @override
    def open(self, stream: BinaryIO, state: Any = None) -> PartWriter:
        return _ElementWriter(self._factory.create(stream))


class _ElementWriter(PartWriter):
    def __init__(self, writer: BulkWriter) -> None:
        self._writer = writer

    @override
    def write(self, batch: Batch) -> None:
        for record in lines_of(batch):
            self._writer.add_element(record)

    @override
    def finish(self) -> None:
        self._writer.finish()


def part_format_of(factory: BulkWriterFactory) -> tuple[PartFormat, str]:
    """How a sink writes with a factory, and the suffix of its parts."""
    if isinstance(factory, BatchWriterFactory):
        return factory.part_format, factory.suffix
    return BulkPartFormat(factory), ""
