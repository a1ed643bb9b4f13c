"""State files: Arrow IPC with lz4 in checkpoints, Parquet in savepoints.

Rows are sorted by key group, and record batches and row groups end where a key group ends, so that a reader decodes
only those of the key groups it wants; only a key group that is large by itself is cut. A file is compared with its
checksum before anything in it is read. Both directions work part by part: what a writer or a reader has in memory is
one part, and what the storage has of one file. So a big state becomes several files, and a rescaled restore does not
even fetch those that it does not need.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

from millstream.core.snapshot.errors import SnapshotError, UnusableFileError, one_line
from millstream.core.snapshot.metadata.model import StateFile, StateSnapshot, is_uri
from millstream.core.snapshot.storage.storage import FileSource, FileTarget, StateWriter, WrittenFile
from millstream.core.snapshot.tables.encodings import encodings_of
from millstream.core.snapshot.tables.parts import ARROW, PARQUET, FileParts, native_suffix, open_parts
from millstream.core.snapshot.tables.restore import OWNER, check_keys, check_table, select_key_groups
from millstream.core.snapshot.tables.table import KEY_GROUP, key_groups_in

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_PER_BATCH = 64 * 1024
BYTES_PER_BATCH = 4 * 1024 * 1024
ROWS_PER_FILE = 4 * 1024 * 1024
BYTES_PER_FILE = 32 * 1024 * 1024
_BLOCK = 1024 * 1024


class FileFormat(Enum):
    """The encoding of a state file, which is also the suffix of its name."""

    ARROW = ARROW
    PARQUET = PARQUET


def write_state(
    storage: FileTarget,
    location: str,
    operator: str,
    state: str,
    subtask: int,
    table: pa.Table,
    format: FileFormat,
    *,
    key_groups: range | None = None,
    shared: bool = False,
    inline_below: int = 0,
    first_part: int = 0,
    rows_per_file: int = ROWS_PER_FILE,
    bytes_per_file: int = BYTES_PER_FILE,
    attempt: str = "",
) -> tuple[StateFile, ...]:
    """Writes a state of a subtask; nothing for an empty table. When it raises, nothing of it is left.

    `key_groups` is what the subtask owns; without it the files say what they hold. An `attempt` is part of the names
    of the files, where several may write the same part at a time.
    """
    return write_parts(
        storage, location, operator, state, subtask, [table], format, key_groups=key_groups, shared=shared,
        inline_below=inline_below, first_part=first_part, rows_per_file=rows_per_file, bytes_per_file=bytes_per_file,
        attempt=attempt,
    )  # fmt: skip


def write_parts(
    storage: FileTarget,
    location: str,
    operator: str,
    state: str,
    subtask: int,
    parts: Iterable[pa.Table],
    format: FileFormat,
    *,
    key_groups: range | None = None,
    shared: bool = False,
    inline_below: int = 0,
    first_part: int = 0,
    rows_per_file: int = ROWS_PER_FILE,
    bytes_per_file: int = BYTES_PER_FILE,
    attempt: str = "",
    work: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> tuple[StateFile, ...]:
    """The same for a state that comes in parts, which together are sorted by key group.

    One part is taken after the one before is encoded, each encoded inside of a `work()`. Where the types of the columns
    change, another file begins.
    """
    create = partial(
        storage.create_writer, location, operator, state, subtask,
        f"{attempt}.{format.value}" if attempt else format.value, shared=shared, inline_below=inline_below,
    )  # fmt: skip
    files = _StateFiles(lambda number: create(part=first_part + number), format, rows_per_file, bytes_per_file)
    try:
        for part in parts:
            with work():
                files.write(part)
        with work():
            files.close()
    except BaseException:
        _remove(storage, location, files.abort())
        raise
    return files.committed(subtask, key_groups)


class _StateFiles:
    """The files of one state, of which only the last is open."""

    def __init__(self, create: Callable[[int], StateWriter], format: FileFormat, rows: int, size: int) -> None:
        self._create, self._format = create, format
        self._most_rows, self._most_bytes = rows, size
        self._writer: StateWriter | None = None
        self._encoder: _Encoder | None = None
        self._rows = self._bytes = 0
        self._ends: tuple[int, int] | None = None
        self._written: list[tuple[WrittenFile, tuple[int, int] | None, int]] = []

    def write(self, part: pa.Table) -> None:
        """Appends rows, and begins another file where the open one is full."""
        rows, size = min(ROWS_PER_BATCH, self._most_rows), min(BYTES_PER_BATCH, self._most_bytes)
        for piece in _slices(part, rows, size):
            ends = _ends(piece) if KEY_GROUP in piece.column_names else None
            if self._encoder is not None and (self._is_full or not piece.schema.equals(self._encoder.schema)):
                self.close()
            if self._encoder is None:
                self._writer = self._create(len(self._written))
                self._encoder = _Encoder(self._writer, self._format, piece)
            self._encoder.write(piece)
            self._rows += piece.num_rows
            self._bytes += piece.nbytes
            self._ends = ends if ends is None or self._ends is None else (self._ends[0], ends[1])

    @property
    def _is_full(self) -> bool:
        return self._rows >= self._most_rows or self._bytes >= self._most_bytes

    def close(self) -> None:
        """Commits the open file, if there is one."""
        if self._encoder is None or self._writer is None:
            return
        self._encoder.close()
        self._written.append((self._writer.commit(), self._ends, self._rows))
        self._writer = self._encoder = self._ends = None
        self._rows = self._bytes = 0

    def abort(self) -> list[str]:
        """Deletes the open file; returns the paths of those that were committed."""
        if self._encoder is not None:
            self._encoder.abandon()
        if self._writer is not None:
            self._writer.abort()
        return [result.path for result, _, _ in self._written if result.inline is None]

    def committed(self, subtask: int, owned: range | None) -> tuple[StateFile, ...]:
        """All files. A single one has the key groups that the subtask owns; several, those of their rows."""
        files = []
        for result, ends, rows in self._written:
            start, end = ends or (None, None)
            if ends is not None and owned is not None and len(self._written) == 1:
                start, end = owned.start, owned.stop
            files.append(
                StateFile(result.path, subtask, start, end, rows, result.size, result.checksum, result.inline)
            )
        return tuple(files)


def write_native(
    storage: FileTarget,
    location: str,
    operator: str,
    state: str,
    subtask: int,
    path: str,
    format: str,
    *,
    key_groups: range,
    rows: int,
    shared: bool = False,
    inline_below: int = 0,
    part: int = 0,
) -> StateFile:
    """Stores a local file in a state backend's own format. When it raises, nothing of it is left."""
    writer = storage.create_writer(
        location, operator, state, subtask, native_suffix(format), part=part, shared=shared, inline_below=inline_below
    )
    try:
        with open(path, "rb") as content:
            while block := content.read(_BLOCK):
                writer.write(block)
        result = writer.commit()
    except BaseException:
        writer.abort()
        raise
    return StateFile(
        result.path, subtask, key_groups.start, key_groups.stop, rows, result.size, result.checksum, result.inline
    )


def _remove(storage: FileTarget, location: str, paths: list[str]) -> None:
    try:
        storage.delete_files([path if is_uri(path) else f"{location}/{path}" for path in paths])
    except SnapshotError:
        return  # the checkpoint's folder is deleted as a whole when it fails


def _slices(table: pa.Table, rows: int, size: int) -> Iterator[pa.Table]:
    """Parts of about so many rows, fewer if they are large, that end where a key group ends unless that is far away."""
    import numpy as np

    if not table.num_rows:
        return
    rows = max(1, min(rows, size * table.num_rows // max(table.nbytes, 1)))
    if KEY_GROUP not in table.column_names:
        for start in range(0, table.num_rows, rows):
            yield table.slice(start, rows)
        return
    groups = key_groups_in(table)
    ends = np.append(np.flatnonzero(groups[1:] != groups[:-1]) + 1, table.num_rows)
    start = 0
    while start < table.num_rows:
        end = int(ends[min(int(np.searchsorted(ends, start + rows)), len(ends) - 1)])
        end = end if end <= start + 2 * rows else start + rows
        yield table.slice(start, end - start)
        start = end


# Encoding


class _Encoder:
    """Encodes tables of one schema into one stream. The first decides how the columns of a Parquet file are encoded."""

    def __init__(self, sink: Any, format: FileFormat, first: pa.Table) -> None:
        import pyarrow as pa

        self.schema = first.schema
        self._format = format
        self._sink = _Sink(sink)
        self._output = pa.PythonFile(self._sink, mode="w")
        self._writer: Any
        if format is FileFormat.ARROW:
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            self._writer = pa.ipc.new_file(self._output, self.schema.remove_metadata(), options=options)
        else:
            self._writer = _parquet_writer(self._output, first)

    def write(self, table: pa.Table) -> None:
        """Appends a record batch, or a row group."""
        if self._format is FileFormat.ARROW:
            self._writer.write_batch(_one_batch(table))
        else:
            self._writer.write_table(table, row_group_size=table.num_rows)

    def close(self) -> None:
        """Completes the content; the stream remains open."""
        self._writer.close()
        self._output.close()

    def abandon(self) -> None:
        """Ends without writing anything more, which the libraries would do when they are collected."""
        self._sink.write = len
        with contextlib.suppress(Exception):
            self.close()


class _Sink:
    """A writer as pyarrow wants it: closing it does not end the writer."""

    closed = False

    def __init__(self, writer: Any) -> None:
        self.write = writer.write

    def flush(self) -> None:
        """The writer decides when it is durable."""

    def close(self) -> None:
        """The writer is committed or aborted by its owner."""
        self.closed = True


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays(
        [column.combine_chunks() for column in table.columns], schema=table.schema.remove_metadata()
    )


def _parquet_writer(output: Any, first: pa.Table) -> Any:
    import pyarrow.parquet as pq

    encodings = encodings_of(first)
    return pq.ParquetWriter(
        output, first.schema, compression="zstd", version="2.6", use_dictionary=encodings.repeated or False,
        column_encoding=dict.fromkeys(encodings.packed, "DELTA_BINARY_PACKED") or None,
    )  # fmt: skip


# Decoding


def read_state(
    storage: FileSource,
    location: str,
    state: StateSnapshot,
    file: StateFile,
    *,
    key_groups: Sequence[range] | None = None,
    max_parallelism: int | None = None,
) -> pa.Table:
    """The checked rows of one file in the wanted key groups; all of them without any given."""
    import pyarrow as pa

    data, where = fetch(storage, location, file), file_name(location, file)
    parts = read_parts(data, state, file, where, key_groups=key_groups, max_parallelism=max_parallelism)
    return pa.concat_tables(parts)


def read_parts(
    data: Any,
    state: StateSnapshot,
    file: StateFile,
    where: str,
    *,
    key_groups: Sequence[range] | None = None,
    max_parallelism: int | None = None,
) -> Iterator[pa.Table]:
    """The checked rows of a fetched file in the wanted key groups, part by part; at least one, which may be empty.

    With the max parallelism, each key is also checked to be in its key group and to be there once, before the first
    rows; worth it for savepoints, which others may have written.
    """
    try:
        parts = decode_parts(data, file, where, key_groups)
        first = check_table(next(parts), state, where)
        if max_parallelism is not None and state.kind.keyed:
            owners = decode_table(data, file, where, key_groups, OWNER)
            check_keys(check_table(owners, state, where, pruned=True), state, max_parallelism, where)
        yield first
        for part in parts:
            yield check_table(part, state, where)
    except SnapshotError as error:
        if isinstance(error.__cause__, MemoryError):  # there may be more another time
            raise
        raise UnusableFileError(error.path, error.reason) from error


def file_name(location: str, file: StateFile) -> str:
    """A file of a snapshot, as errors name it."""
    return file.path if file.shared else f"{location}/{file.path}"


def fetch(storage: FileSource, location: str, file: StateFile) -> Any:
    """The content of a file as a buffer, compared with its size and checksum."""
    import pyarrow as pa

    where = file_name(location, file)
    data = pa.py_buffer(file.inline) if file.inline is not None else storage.read_file(location, file.path)
    if data.size != file.size:
        raise UnusableFileError(where, f"is damaged: it has {data.size} bytes instead of {file.size}")
    if checksum_of(data) != file.checksum:
        raise UnusableFileError(where, "is damaged: its content does not match its checksum")
    return data


def checksum_of(data: Any) -> str:
    """The checksum of a file's content, as the metadata writes it."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def decode_table(
    data: Any, file: StateFile, where: str, key_groups: Iterable[range] | None = None,
    columns: Collection[str] | None = None,
) -> pa.Table:  # fmt: skip
    """The rows of a verified file in the wanted key groups, with the columns that it has of these, or with all."""
    import pyarrow as pa

    return pa.concat_tables(decode_parts(data, file, where, key_groups, columns))


def decode_parts(
    data: Any, file: StateFile, where: str, key_groups: Iterable[range] | None = None,
    columns: Collection[str] | None = None,
) -> Iterator[pa.Table]:  # fmt: skip
    """The same, one part of the file after the other; at least one, which may be empty."""
    owned = file.key_groups
    wanted = None if key_groups is None or owned is None else [r for r in key_groups if len(r)]
    parts: FileParts = _explained(where, lambda: open_parts(data, file, where))
    if (rows := _explained(where, lambda: parts.rows)) != file.rows:
        raise SnapshotError(where, f"has {rows} rows, and the metadata lists {file.rows}")
    names = parts.schema.names
    if owned is not None and KEY_GROUP not in names:
        raise SnapshotError(where, f"has no column {KEY_GROUP}")
    read = None if columns is None else [name for name in names if name in columns]
    last = given = 0
    for number in range(parts.count):
        held = None if wanted is None else _explained(where, lambda: parts.ranges)[number]
        if held is None or wanted is None or _meets(held, wanted):
            table = _explained(where, partial(_valid_part, parts, number, read))
            held = None
            if owned is not None:
                table = select_key_groups(table, None, where)  # refuses rows that are not sorted
                held = _ends(table) if table.num_rows else None
        else:
            table = None
        if held is not None and owned is not None:
            _check_range(held, owned, where)
            if held[0] < last:
                raise SnapshotError(where, f"is not sorted by {KEY_GROUP}")
            last = held[1] - 1
        if table is not None:
            yield table if owned is None else select_key_groups(table, wanted, where)
            given += 1
    if not given:
        yield _explained(where, lambda: parts.read([], read))


def _valid_part(parts: FileParts, number: int, columns: list[str] | None) -> pa.Table:
    table = parts.read([number], columns)
    table.validate(full=True)  # offsets and text that do not fit crash Arrow's kernels later
    return table


def _check_range(held: tuple[int, int], owned: range, where: str) -> None:
    if held[0] < owned.start or held[1] > owned.stop:
        raise SnapshotError(
            where,
            f"holds the key groups {held[0]} to {held[1] - 1}, and the metadata promises only {owned.start} to "
            f"{owned.stop - 1}",
        )


def _explained(where: str, read: Callable[[], Any]) -> Any:
    """Converts what Arrow finds wrong with a file."""
    import pyarrow as pa

    try:
        return read()
    except (pa.ArrowException, OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise SnapshotError(where, f"cannot be read: {one_line(error)}") from error


def _ends(table: pa.Table) -> tuple[int, int]:
    groups = table.column(KEY_GROUP)
    return groups[0].as_py(), groups[-1].as_py() + 1


def _meets(held: tuple[int, int], wanted: list[range]) -> bool:
    return any(held[0] < part.stop and part.start < held[1] for part in wanted)
