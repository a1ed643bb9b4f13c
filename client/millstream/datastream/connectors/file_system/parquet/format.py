"""Parquet files as Arrow batches, cut between row groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from millstream.core.overriding import override
from millstream.core.records.types import PICKLED, TypeInformation, from_hint
from millstream.datastream.connectors.errors import ConnectorError, MalformedInputError
from millstream.datastream.connectors.file_system.column_reader import ColumnReader
from millstream.datastream.connectors.file_system.paths import FoundFile
from millstream.datastream.connectors.file_system.splits import FileFormat, FileSplit, FormatReader

if TYPE_CHECKING:
    import pyarrow as pa

_READ_ROWS = 65536
Conform = Callable[["pa.RecordBatch"], "pa.RecordBatch"]


class ParquetFormat(FileFormat):
    """All columns, or the named ones. The position is a number of rows from the split's first row group on."""

    def __init__(self, columns: Sequence[str] | None = None, type_info: Any = PICKLED) -> None:
        self._type = from_hint(type_info)
        self._columns = list(columns) if columns is not None else self._type.field_names()

    def cut(self, file: FoundFile, block_size: int) -> list[FileSplit]:
        """Between row groups."""
        return cut_row_groups(file, block_size)

    def open(self, split: FileSplit) -> FormatReader:
        """Starts at the row group that holds the position."""

        def chosen(names: list[str]) -> list[str]:
            missing = [name for name in self._columns or () if name not in names]
            if missing:
                raise MalformedInputError(split.path, f"no column {', '.join(missing)}; it has {', '.join(names)}")
            return self._columns or names

        return open_row_groups(split, chosen)

    @override
    def produces_columns(self) -> bool:
        return True

    @override
    def produced_type(self) -> TypeInformation:
        return self._type


def cut_row_groups(file: FoundFile, block_size: int) -> list[FileSplit]:
    """Neighbouring row groups together up to the block size."""
    with _open(file.path) as parquet:
        metadata = parquet.metadata
        sizes = [metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)]
    splits: list[FileSplit] = []
    start = held = 0
    for i, size in enumerate(sizes):
        if i > start and held + size > block_size:
            splits.append(FileSplit(file.path, start, i))
            start, held = i, 0
        held += size
    if start < len(sizes):
        splits.append(FileSplit(file.path, start, len(sizes)))
    return splits


def open_row_groups(
    split: FileSplit, chosen: Callable[[list[str]], list[str]], rows: int = _READ_ROWS, conform: Conform | None = None
) -> ColumnReader:
    """Reads the columns `chosen` of those in the file, in that order, as batches that `conform` may make others of."""
    parquet = _open(split.path)
    try:
        columns = chosen(parquet.schema_arrow.names)
        resume_at, first_row, group = split.position or 0, 0, split.start
        while group < split.end and first_row + parquet.metadata.row_group(group).num_rows <= resume_at:
            first_row += parquet.metadata.row_group(group).num_rows
            group += 1
        batches = parquet.iter_batches(
            rows, row_groups=list(range(group, split.end)), columns=columns, use_threads=False
        )
    except BaseException:
        parquet.close()
        raise
    in_order = (batch.select(columns) for batch in batches)
    made = in_order if conform is None else map(conform, in_order)
    return ColumnReader(split.path, made, parquet.close, first_row, resume_at)


def _open(path: str) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return parquet.ParquetFile(path)
    except pa.ArrowException as error:
        raise MalformedInputError(path, " ".join(str(error).split())) from error
    except OSError as error:
        reason = " ".join(str(error).split())
        if error.errno is None:  # Arrow's, about what is in the file
            raise MalformedInputError(path, reason) from error
        raise ConnectorError(f"file source: {path}: {reason}") from error
