"""State files: Arrow IPC with lz4 in checkpoints, Parquet in savepoints.

Rows are sorted by key group, and record batches and row groups end where a key group ends, so that a reader decodes
only those of the key groups it wants; only a key group that is large by itself is cut. A file is compared with its
checksum before anything in it is read. A big state becomes several files, so that a rescaled restore does not even
fetch what it does not need, and no column in one comes near the 2 GiB that Arrow can address.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from millstream.core.snapshot.errors import SnapshotError, UnusableFileError, one_line
from millstream.core.snapshot.metadata.model import StateFile, StateSnapshot, is_uri
from millstream.core.snapshot.storage.storage import FileSource, FileTarget, StateWriter, WrittenFile
from millstream.core.snapshot.tables.encodings import encodings_of
from millstream.core.snapshot.tables.parts import ARROW, KEY_GROUPS_OF_BATCHES, PARQUET, native_suffix, open_parts
from millstream.core.snapshot.tables.restore import check_keys, check_table, select_key_groups
from millstream.core.snapshot.tables.table import KEY_GROUP, key_groups_in

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_PER_BATCH = 64 * 1024
BYTES_PER_BATCH = 128 * 1024 * 1024
ROWS_PER_FILE = 4 * 1024 * 1024
BYTES_PER_FILE = 512 * 1024 * 1024
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
    written: list[tuple[WrittenFile, StateFile]] = []
    writer: StateWriter | None = None
    slices = list(_slices(table, rows_per_file, bytes_per_file))
    try:
        for number, part in enumerate(slices):
            writer = storage.create_writer(
                location, operator, state, subtask, f"{attempt}.{format.value}" if attempt else format.value,
                part=first_part + number, shared=shared, inline_below=inline_below,
            )  # fmt: skip
            encode_table(part, writer, format)
            result = writer.commit()
            start, end = _key_groups(part, key_groups if len(slices) == 1 else None)
            file = StateFile(
                result.path, subtask, start, end, part.num_rows, result.size, result.checksum, result.inline
            )
            written.append((result, file))
    except BaseException:
        if writer is not None:
            writer.abort()
        _remove(storage, location, [result.path for result, _ in written if result.inline is None])
        raise
    return tuple(file for _, file in written)


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


def _key_groups(table: pa.Table, owned: range | None) -> tuple[int | None, int | None]:
    if KEY_GROUP not in table.column_names:
        return None, None
    if owned is not None:
        return owned.start, owned.stop
    return _ends(table)


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


def encode_table(table: pa.Table, sink: Any, format: FileFormat) -> None:
    """Writes one table into a stream."""
    import pyarrow as pa

    output = pa.PythonFile(_Sink(sink), mode="w")
    try:
        if format is FileFormat.ARROW:
            _encode_arrow(table, output)
        else:
            _encode_parquet(table, output)
    finally:
        output.close()


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


def _encode_arrow(table: pa.Table, output: Any) -> None:
    import pyarrow as pa

    parts = list(_slices(table, ROWS_PER_BATCH, BYTES_PER_BATCH))
    ranges = [(*_key_groups(part, None), part.num_rows) for part in parts]
    schema = table.schema.with_metadata({KEY_GROUPS_OF_BATCHES: json.dumps(ranges).encode()})
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_file(output, schema, options=options) as writer:
        for part in parts:
            writer.write_batch(_one_batch(part).replace_schema_metadata(schema.metadata))


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays(
        [column.combine_chunks() for column in table.columns], schema=table.schema.remove_metadata()
    )


def _encode_parquet(table: pa.Table, output: Any) -> None:
    import pyarrow.parquet as pq

    encodings = encodings_of(table)
    with pq.ParquetWriter(
        output, table.schema, compression="zstd", version="2.6", use_dictionary=encodings.repeated or False,
        column_encoding=dict.fromkeys(encodings.packed, "DELTA_BINARY_PACKED") or None,
    ) as writer:  # fmt: skip
        for part in _slices(table, ROWS_PER_BATCH, BYTES_PER_BATCH):
            writer.write_table(part, row_group_size=part.num_rows)


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
    """The checked rows of one file in the wanted key groups; all of them without any given.

    With the max parallelism, each key is also checked to be in its key group and to be there once; worth it for
    savepoints, which others may have written.
    """
    where, data = file_name(location, file), fetch(storage, location, file)
    try:
        table = check_table(decode_table(data, file, where, key_groups), state, where)
        if max_parallelism is not None:
            check_keys(table, state, max_parallelism, where)
    except SnapshotError as error:
        if isinstance(error.__cause__, MemoryError):  # there may be more another time
            raise
        raise UnusableFileError(error.path, error.reason) from error
    return table


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


def decode_table(data: Any, file: StateFile, where: str, key_groups: Iterable[range] | None = None) -> pa.Table:
    """The rows of a verified file in the wanted key groups."""
    import pyarrow as pa

    owned = file.key_groups
    wanted = None if key_groups is None or owned is None else [r for r in key_groups if len(r)]
    try:
        decoded = _decode(data, file, where, wanted)
        decoded.table.validate(full=True)  # offsets and text that do not fit crash Arrow's kernels later
    except (pa.ArrowException, OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise SnapshotError(where, f"cannot be read: {one_line(error)}") from error
    if decoded.rows != file.rows:
        raise SnapshotError(where, f"has {decoded.rows} rows, and the metadata lists {file.rows}")
    if owned is None:
        return decoded.table
    if KEY_GROUP not in decoded.table.column_names:
        raise SnapshotError(where, f"has no column {KEY_GROUP}")
    table = select_key_groups(decoded.table, None, where)
    held = [*decoded.skipped, *([_ends(table)] if table.num_rows else [])]
    if any(start < owned.start or end > owned.stop for start, end in held):
        start, end = min(start for start, _ in held), max(end for _, end in held)
        raise SnapshotError(
            where,
            f"holds the key groups {start} to {end - 1}, and the metadata promises only {owned.start} to "
            f"{owned.stop - 1}",
        )
    return select_key_groups(table, wanted, where)


class _Decoded(NamedTuple):
    """What was read of a file, all of its rows counted, and the key groups of the parts that were not read."""

    table: pa.Table
    rows: int
    skipped: list[tuple[int, int]]


def _ends(table: pa.Table) -> tuple[int, int]:
    groups = table.column(KEY_GROUP)
    return groups[0].as_py(), groups[-1].as_py() + 1


def _decode(data: Any, file: StateFile, where: str, wanted: list[range] | None) -> _Decoded:
    parts = open_parts(data, file, where)
    chosen = list(range(parts.count))
    if wanted is not None:
        chosen = [number for number, held in enumerate(parts.ranges) if held is None or _meets(held, wanted)]
    table = parts.read(chosen)
    if wanted is None or len(chosen) == parts.count:
        return _Decoded(table, table.num_rows, [])
    skipped = [held for held in parts.ranges if held is not None and not _meets(held, wanted)]
    return _Decoded(table, parts.rows, skipped)


def _meets(held: tuple[int, int], wanted: list[range]) -> bool:
    return any(held[0] < part.stop and part.start < held[1] for part in wanted)
