"""ORC files of a declared row type in a file sink, with PyFlink's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO

from millstream.core.errors import InvalidProgramError
from millstream.core.overriding import override
from millstream.core.records.batches import Batch
from millstream.core.records.types import TypeInformation
from millstream.datastream.connectors.errors import ConnectorError
from millstream.datastream.connectors.file_system.row_columns import declared_columns
from millstream.datastream.connectors.file_system.sink.bulk_writers import BatchWriterFactory
from millstream.datastream.connectors.file_system.sink.part_formats import PartFormat, PartWriter
from millstream.datastream.formats.hadoop import refuse_hadoop

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["OrcBulkWriters"]

_PROPERTIES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "orc.compress": ("compression", lambda text: {"none": "uncompressed"}.get(text.lower(), text.lower())),
    "orc.stripe.size": ("stripe_size", int),
    "orc.compress.size": ("compression_block_size", int),
    "orc.row.index.stride": ("row_index_stride", int),
}
"""ORC's names of the options of Arrow's writer."""
_COMPRESSIONS = ("uncompressed", "snappy", "zlib", "lz4", "zstd")


class OrcBulkWriters:
    """Makes factories for `FileSink.for_bulk_format`."""

    @staticmethod
    def for_row_type(row_type: Any, writer_properties: Any = None, hadoop_config: Any = None) -> BatchWriterFactory:
        """Returns a factory for ORC files of `row_type`: `Types.ROW_NAMED(...)`, a dataclass or a pyarrow schema.

        `writer_properties` are ORC's: `orc.compress` (NONE, SNAPPY, ZLIB, LZ4, ZSTD), `orc.stripe.size`,
        `orc.compress.size`, `orc.row.index.stride`. `hadoop_config` is accepted as in PyFlink, and has to be empty.
        Raises `InvalidProgramError` for a column that Arrow has no type for.
        """
        refuse_hadoop(hadoop_config)
        schema, type_info = declared_columns(row_type, "row_type")
        if schema is None:
            raise InvalidProgramError(f"row_type has a column that Arrow has no type for: {type_info.describe()}")
        return BatchWriterFactory(OrcPartFormat(schema, type_info, _options(writer_properties)), ".orc")


def _options(properties: Any) -> dict[str, Any]:
    given = properties.to_dict() if hasattr(properties, "to_dict") else dict(properties or {})
    options: dict[str, Any] = {"compression": "zlib"}  # as ORC's own
    for key, value in given.items():
        if key not in _PROPERTIES:
            raise InvalidProgramError(f"writer_properties: '{key}' is not known; there are {', '.join(_PROPERTIES)}")
        name, convert = _PROPERTIES[key]
        try:
            options[name] = convert(str(value))
        except ValueError:
            raise InvalidProgramError(f"writer_properties: {key} is a whole number, not {value!r}") from None
    if options["compression"] not in _COMPRESSIONS:
        raise InvalidProgramError("writer_properties: orc.compress is one of NONE, SNAPPY, ZLIB, LZ4, ZSTD")
    return options


class OrcPartFormat(PartFormat):
    """Part files of one schema."""

    resumable = False  # a file without its footer cannot be read

    def __init__(self, schema: pa.Schema, type_info: TypeInformation, options: dict[str, Any]) -> None:
        self._schema = schema
        self._type = type_info
        self._options = options

    @override
    def open(self, stream: BinaryIO, state: Any = None) -> PartWriter:
        return _OrcWriter(stream, self._schema, self._type, self._options)


class _OrcWriter(PartWriter):
    def __init__(
        self, stream: BinaryIO, schema: pa.Schema, type_info: TypeInformation, options: dict[str, Any]
    ) -> None:
        from pyarrow import orc

        self._schema = schema
        self._type = type_info
        self._writer = orc.ORCWriter(stream, **options)
        self._is_empty = True

    def write(self, batch: Batch) -> None:
        """A table for each batch; Arrow gathers stripes."""
        import pyarrow as pa

        if not len(batch):
            return
        data = batch.columns(self._type)
        try:
            table = pa.Table.from_batches([data]).select(self._schema.names).cast(self._schema)
            self._writer.write(table)
        except (pa.ArrowException, KeyError, ValueError) as error:
            raise ConnectorError(f"file sink: cannot write as ORC: {' '.join(str(error).split())}") from error
        self._is_empty = False

    def finish(self) -> None:
        """Writes the last stripe and the footer."""
        self._close()

    def abandon(self) -> None:
        """Closes Arrow's writer, which would else write to the closed stream when it is collected."""
        self._close()

    def _close(self) -> None:
        if self._is_empty:  # it has to know its columns to write a file
            self._writer.write(self._schema.empty_table())
            self._is_empty = False
        self._writer.close()
