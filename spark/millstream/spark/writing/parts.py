"""The second half of a write: the rows of one part into state files.

Each attempt of a task names its files after itself, and reports them to the driver as its result. Spark takes the
result of one attempt of each task, so whatever others have written is named nowhere, and the driver deletes it. An
attempt that fails deletes what it has written; one that is killed cannot.

Each file is read again right after it was written, and compared with the rows that it is to hold: while they are at
hand, which a check of all files at the end would have to hash and sort once more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from millstream.core.jobs.ids import new_id
from millstream.core.records.conversion import ConversionError
from millstream.core.snapshot.errors import IncompatibleStateError, SnapshotError
from millstream.core.snapshot.metadata.model import StateFile, StateSnapshot
from millstream.core.snapshot.storage.file_storage import FileSystemStorage, storage_at
from millstream.core.snapshot.tables.files import FileFormat, decode_table, fetch, file_name, write_state
from millstream.core.snapshot.tables.restore import check_table, column_types
from millstream.core.snapshot.tables.table import POSITION
from millstream.spark.errors import RowFault
from millstream.spark.writing.blocks import SIDE, opened
from millstream.spark.writing.comparison import same_rows
from millstream.spark.writing.identity import KeepOnConflict, Rule, without_conflicts
from millstream.spark.writing.runs import IN_MEMORY, sorted_rows

if TYPE_CHECKING:
    import pyarrow as pa

ROW_FAULTS = (RowFault, ConversionError, IncompatibleStateError)
"""What would be the same in another attempt, and so is reported to the driver; Spark retries after anything else."""
REPORT = "report"
REPORT_SCHEMA = f"{REPORT} binary"
BYTES_PER_FILE = 320 * 1024 * 1024
"""Of rows in memory: as Parquet some 128 MB, for numbers and short texts."""


class PartReport(msgspec.Struct, frozen=True):
    """What an attempt of a task has made of its part; with a fault, nothing."""

    files: tuple[tuple[StateSnapshot, tuple[StateFile, ...]], ...] = ()
    fault: str = ""

    def encoded(self) -> pa.RecordBatch:
        """As the one row that the task returns."""
        import pyarrow as pa

        return pa.RecordBatch.from_arrays([pa.array([msgspec.msgpack.encode(self)], pa.binary())], [REPORT])

    @staticmethod
    def decoded(data: bytes) -> PartReport:
        """Of what Spark collected."""
        return msgspec.msgpack.decode(bytes(data), type=PartReport)


class Destination(msgspec.Struct, frozen=True):
    """Where the files of one operator go. The URI may have credentials and options."""

    uri: str
    operator: str
    in_memory: int = IN_MEMORY
    bytes_per_file: int = BYTES_PER_FILE
    verify: bool = True


class PartWriter:
    """The files that one attempt writes."""

    def __init__(self, destination: Destination, part: int) -> None:
        self._storage: FileSystemStorage
        self._storage, self._location = storage_at(destination.uri)
        self._destination, self._part = destination, part
        self._attempt = new_id()[:12]
        self._written: list[StateFile] = []

    def write(self, state: StateSnapshot, table: pa.Table) -> tuple[StateFile, ...]:
        """A table of a state, sorted by key group where it has any."""
        files = write_state(
            self._storage, self._location, self._destination.operator, state.name, 0, table, FileFormat.PARQUET,
            first_part=len(self._written), bytes_per_file=self._destination.bytes_per_file,
            attempt=f"{self._part}-{self._attempt}",
        )  # fmt: skip
        self._written += files
        if self._destination.verify:
            self._verify(state, files, table)
        return files

    def _verify(self, state: StateSnapshot, files: tuple[StateFile, ...], table: pa.Table) -> None:
        """Reads the files as a restore does, with their checksums, and compares them with their rows."""
        start = 0
        for file in files:
            where, wanted = file_name(self._location, file), table.slice(start, file.rows)
            found = decode_table(fetch(self._storage, self._location, file), file, where)
            if not found.equals(wanted) and not same_rows(
                check_table(found, state, where), check_table(wanted, state, where)
            ):
                raise SnapshotError(where, "does not hold the rows that were written to it: write the savepoint again")
            start += file.rows

    @contextlib.contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Deletes what was written when something fails meanwhile."""
        try:
            yield
        except BaseException:
            with contextlib.suppress(SnapshotError):
                self._storage.delete_files(f"{self._location}/{quote(file.path)}" for file in self._written)
            raise


def write_part(
    batches: Iterable[pa.RecordBatch], state: StateSnapshot, destination: Destination, part: int,
    rule: Rule = KeepOnConflict.NEITHER,
) -> PartReport:  # fmt: skip
    """Writes the rows that came to one part."""
    writer = PartWriter(destination, part)
    files: tuple[StateFile, ...] = ()
    types = column_types(state)
    try:
        with writer.all_or_nothing():
            for table in sorted_rows(opened(batches), types, destination.in_memory):
                kept = without_conflicts(table, state, rule)
                kept = kept.drop_columns(SIDE) if SIDE in kept.column_names else kept
                files += writer.write(state, kept if state.kind.keyed else _in_order(kept))
    except ROW_FAULTS as error:
        return PartReport(fault=str(error))
    return PartReport(((state, files),))


def _in_order(table: pa.Table) -> pa.Table:
    """Elements in the order of their positions, which are numbered again from 0."""
    import numpy as np
    import pyarrow as pa

    if POSITION not in table.column_names:
        return table
    table = table.sort_by(POSITION)
    return table.set_column(table.column_names.index(POSITION), POSITION, pa.array(np.arange(table.num_rows)))
