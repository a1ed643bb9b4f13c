"""The parts of a state file: record batches of an Arrow file, row groups of a Parquet file.

A reader takes those that it wants, and of those the columns that it wants; the others are not decoded. What the file
lists as its parts is trusted, so it has to be one that was compared with its checksum.

The key groups of the parts are read from their column, which is small: a file is written part by part, when those that
follow are not known yet. Of a Parquet file, PyArrow's metadata of column chunks and their statistics are not used:
where these are invalid, even in one byte, they end the process (PyArrow 26 does not translate the exceptions of C++
there).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from millstream.core.snapshot.errors import SnapshotError
from millstream.core.snapshot.metadata.model import StateFile
from millstream.core.snapshot.tables.table import KEY_GROUP

if TYPE_CHECKING:
    import pyarrow as pa

ARROW, PARQUET = "arrow", "parquet"
_NATIVE = ".native"

Ends = tuple[int, int]


class FileParts(Protocol):
    """An opened file."""

    schema: pa.Schema
    count: int
    """Of parts."""

    @property
    def rows(self) -> int:
        """All rows."""
        ...

    @property
    def ranges(self) -> Sequence[Ends | None]:
        """The key groups of each part, from the first to past the last; None: not known."""
        ...

    def read(self, numbers: Sequence[int], columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of some parts, with some columns or with all."""
        ...


def native_format(file: StateFile) -> str | None:
    """The state backend's own format that a file is in; None: rows that anyone can read."""
    name = file.path.rpartition("/")[2]
    return name.removesuffix(_NATIVE).rpartition(".")[2] if name.endswith(_NATIVE) else None


def native_suffix(format: str) -> str:
    """What the name of a file in a state backend's own format ends with."""
    return f"{format}{_NATIVE}"


def open_parts(data: Any, file: StateFile, where: str) -> FileParts:
    """The parts of a verified file. What Arrow finds wrong with it is raised as Arrow's error."""
    if file.path.endswith(f".{ARROW}"):
        return _ArrowParts(data)
    if file.path.endswith(f".{PARQUET}"):
        return _ParquetParts(data)
    if native := native_format(file):
        reason = f"is in the format of the state backend {native}, which only a job with it reads"
        raise SnapshotError(where, f"{reason}: take a savepoint to inspect its state")
    raise SnapshotError(where, "has a name that ends neither with .arrow nor with .parquet")


class _Parts(ABC):
    """What both formats have in common."""

    schema: pa.Schema
    count: int

    @cached_property
    def ranges(self) -> Sequence[Ends | None]:
        return [self._range(number) for number in range(self.count)]

    @abstractmethod
    def read(self, numbers: Sequence[int], columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of some parts."""

    def _range(self, number: int) -> Ends | None:
        """The key groups of a part; None if it has no rows, or no such column of integers."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if KEY_GROUP not in self.schema.names or not pa.types.is_integer(self.schema.field(KEY_GROUP).type):
            return None
        found = pc.min_max(self.read([number], [KEY_GROUP]).column(0))
        least, most = found["min"].as_py(), found["max"].as_py()
        return None if least is None else (least, most + 1)


class _ArrowParts(_Parts):
    def __init__(self, data: Any) -> None:
        self._data = data
        with self._open() as reader:
            self.schema = reader.schema.remove_metadata()
            self.count = reader.num_record_batches

    @cached_property
    def rows(self) -> int:
        return sum(self.read([number], self.schema.names[:1]).num_rows for number in range(self.count))

    def _open(self, options: Any = None) -> Any:
        import pyarrow as pa

        return pa.ipc.open_file(pa.BufferReader(self._data), options=options)

    def read(self, numbers: Sequence[int], columns: Sequence[str] | None = None) -> pa.Table:
        import pyarrow as pa

        options = None
        if columns is not None:
            options = pa.ipc.IpcReadOptions(included_fields=[self.schema.get_field_index(name) for name in columns])
        with self._open(options) as reader:
            schema = reader.schema.remove_metadata()
            batches = [reader.get_batch(number).replace_schema_metadata(None) for number in numbers]
        table = pa.Table.from_batches(batches, schema if columns is None or not batches else batches[0].schema)
        return table if columns is None else table.select(columns)


class _ParquetParts(_Parts):
    def __init__(self, data: Any) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._reader = pq.ParquetFile(pa.BufferReader(data))
        self.schema = self._reader.schema_arrow.remove_metadata()
        self.rows = self._reader.metadata.num_rows
        self.count = self._reader.num_row_groups

    def read(self, numbers: Sequence[int], columns: Sequence[str] | None = None) -> pa.Table:
        wanted = None if columns is None else list(columns)
        return self._reader.read_row_groups(list(numbers), columns=wanted).replace_schema_metadata(None)
