"""How a file sink writes Parquet: batches are gathered into row groups of a good size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

from millstream.core.overriding import override
from millstream.core.records.batches import Batch
from millstream.core.records.conversion import keeps_values
from millstream.core.records.types import TypeInformation
from millstream.datastream.connectors.errors import ConnectorError
from millstream.datastream.connectors.file_system.sink.part_formats import PartFormat, PartWriter

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP_ROWS = 1 << 17
ROW_GROUP_BYTES = 64 << 20


class ParquetPartFormat(PartFormat):
    """With a schema, batches are cast to it. Without one, the first row group decides it for the part file."""

    resumable = False  # a file without its footer cannot be read, and its row groups are not in the file alone

    def __init__(self, schema: Any | None, type: TypeInformation, compression: str) -> None:
        self._schema = schema
        self._type = type
        self._compression = compression

    @override
    def open(self, stream: BinaryIO, state: Any = None) -> PartWriter:
        return _ParquetWriter(stream, self._schema, self._type, self._compression)


class _ParquetWriter(PartWriter):
    def __init__(self, stream: BinaryIO, schema: Any | None, type: TypeInformation, compression: str) -> None:
        self._stream = stream
        self._schema = schema
        self._type = type
        self._compression = compression
        self._held: list[pa.RecordBatch] = []
        self._held_rows = 0
        self._held_bytes = 0
        self._writer: Any | None = None

    def write(self, batch: Batch) -> None:
        """Holds the batch until there are enough rows for a row group."""
        if not len(batch):
            return
        data = batch.columns(self._type)
        if self._schema is not None:
            _refuse_other_values(data, self._schema, not batch.in_columns)
        self._held.append(data)
        self._held_rows += data.num_rows
        self._held_bytes += data.nbytes
        if self._held_rows >= ROW_GROUP_ROWS or self._held_bytes >= ROW_GROUP_BYTES:
            self._write_group()

    def held_bytes(self) -> int:
        """Uncompressed."""
        return self._held_bytes

    def _write_group(self) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        if not self._held:
            return
        try:
            if self._schema is None:
                self._schema = pa.unify_schemas([b.schema for b in self._held], promote_options="permissive")
            table = pa.Table.from_batches([_conform(b, self._schema) for b in self._held])
            if self._writer is None:
                self._writer = parquet.ParquetWriter(self._stream, self._schema, compression=self._compression)
            self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        except pa.ArrowException as error:
            raise ConnectorError(f"file sink: cannot write as Parquet: {' '.join(str(error).split())}") from error
        self._held, self._held_rows, self._held_bytes = [], 0, 0

    def finish(self) -> None:
        """Writes the last row group and the footer."""
        self._write_group()
        self.abandon()

    def abandon(self) -> None:
        """Closes pyarrow's writer, which would else write to the closed stream when it is collected."""
        self._held = []
        if self._writer is not None:
            self._writer.close()


def _refuse_other_values(batch: pa.RecordBatch, schema: Any, zones: bool) -> None:
    """Refuses columns that a cast would make other values of, such as text of bytes."""
    for field in schema:
        if field.name in batch.schema.names:
            found = batch.schema.field(field.name).type
            if not keeps_values(found, field.type, zones=zones):
                raise ConnectorError(
                    f"file sink: column '{field.name}' of the Parquet file is {field.type}, and its values are "
                    f"{found}: convert them, or declare another schema=..."
                )


def _conform(batch: pa.RecordBatch, schema: Any) -> pa.RecordBatch:
    """The batch with exactly the schema's columns; one that it lacks is null."""
    import pyarrow as pa

    if batch.schema.equals(schema):
        return batch
    unknown = [name for name in batch.schema.names if name not in schema.names]
    if unknown:
        raise ConnectorError(
            f"file sink: the Parquet file has the columns {', '.join(schema.names)}, but a batch has also "
            f"{', '.join(unknown)}; declare schema=..."
        )
    columns = []
    for field in schema:
        if field.name not in batch.schema.names:
            columns.append(pa.nulls(batch.num_rows, field.type))
            continue
        try:
            columns.append(batch.column(field.name).cast(field.type))
        except pa.ArrowException as error:
            raise ConnectorError(
                f"file sink: column '{field.name}' does not fit {field.type}: {' '.join(str(error).split())}; "
                "declare schema=..."
            ) from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)
