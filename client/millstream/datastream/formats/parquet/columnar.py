"""Parquet files as columns of a declared row type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millstream.core.errors import InvalidProgramError
from millstream.core.overriding import override
from millstream.core.records.types import TypeInformation
from millstream.datastream.connectors.errors import MalformedInputError
from millstream.datastream.connectors.file_system.bulk_format import BulkFormat
from millstream.datastream.connectors.file_system.parquet.format import cut_row_groups, open_row_groups
from millstream.datastream.connectors.file_system.paths import FoundFile
from millstream.datastream.connectors.file_system.row_columns import declared_columns
from millstream.datastream.connectors.file_system.splits import FileSplit, FormatReader
from millstream.datastream.formats.hadoop import refuse_hadoop

if TYPE_CHECKING:
    import pyarrow as pa


class ParquetColumnarRowInputFormat(BulkFormat):
    """Reads the columns of a row type (`Types.ROW_NAMED(...)`, a dataclass, a pyarrow schema), by their names.

    A column that a file does not have is None in all its rows, as in Flink. Columns of another width are cast; values
    that the declared type cannot hold exactly are an error. Times without a zone are read as they are written, so
    `is_utc_timestamp` makes no difference.
    """

    def __init__(
        self,
        row_type: Any,
        hadoop_config: Any = None,
        batch_size: int = 2048,
        is_utc_timestamp: bool = False,
        is_case_sensitive: bool = True,
    ) -> None:
        refuse_hadoop(hadoop_config)
        schema, self._type = declared_columns(row_type, "row_type")
        if schema is None:
            raise InvalidProgramError(f"row_type has a column that Arrow has no type for: {self._type.describe()}")
        if batch_size < 1:
            raise InvalidProgramError(f"batch_size must be at least 1 row, got {batch_size}")
        self._schema = schema
        self._batch_size = batch_size
        self._is_case_sensitive = is_case_sensitive

    @override
    def cut(self, file: FoundFile, block_size: int) -> list[FileSplit]:
        return cut_row_groups(file, block_size)

    @override
    def open(self, split: FileSplit) -> FormatReader:
        found: dict[str, str] = {}  # the file's name of each declared column that it has

        def chosen(names: list[str]) -> list[str]:
            for wanted in self._schema.names:
                alike = [name for name in names if self._is_same(name, wanted)]
                if len(alike) > 1:
                    reason = f"it has {', '.join(alike)}, and is_case_sensitive is off: any of them may be {wanted}"
                    raise MalformedInputError(split.path, reason)
                if alike:
                    found[wanted] = alike[0]
            return list(found.values())

        return open_row_groups(split, chosen, self._batch_size, lambda batch: self._conformed(batch, found, split.path))

    def _is_same(self, name: str, wanted: str) -> bool:
        return name == wanted or (not self._is_case_sensitive and name.casefold() == wanted.casefold())

    def _conformed(self, batch: pa.RecordBatch, found: dict[str, str], path: str) -> pa.RecordBatch:
        import pyarrow as pa

        columns = []
        for field in self._schema:
            if field.name not in found:
                columns.append(pa.nulls(batch.num_rows, field.type))
                continue
            try:
                columns.append(batch.column(found[field.name]).cast(field.type))
            except pa.ArrowException as error:
                reason = f"column '{found[field.name]}' does not fit {field.type}: {' '.join(str(error).split())}"
                raise MalformedInputError(path, reason) from error
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    @override
    def produced_type(self) -> TypeInformation:
        return self._type
