"""Parquet files of a declared row type in a file sink."""

from __future__ import annotations

from typing import Any

from millstream.datastream.connectors.file_system.parquet.part import ParquetPartFormat
from millstream.datastream.connectors.file_system.row_columns import declared_columns
from millstream.datastream.connectors.file_system.sink.bulk_writers import BatchWriterFactory
from millstream.datastream.formats.hadoop import refuse_hadoop


class ParquetBulkWriters:
    """Makes factories for `FileSink.for_bulk_format`."""

    @staticmethod
    def for_row_type(
        row_type: Any, hadoop_config: Any = None, utc_timestamp: bool = False, *, compression: str = "snappy"
    ) -> BatchWriterFactory:
        """Returns a factory for Parquet files of `row_type`: `Types.ROW_NAMED(...)`, a dataclass or a pyarrow schema.

        `compression` is a codec of Parquet's. Times without a zone are written as such, so that `utc_timestamp` makes
        no difference. `hadoop_config` is accepted as in PyFlink, and has to be empty.
        """
        refuse_hadoop(hadoop_config)
        schema, type_info = declared_columns(row_type, "row_type")
        return BatchWriterFactory(ParquetPartFormat(schema, type_info, compression), ".parquet")
