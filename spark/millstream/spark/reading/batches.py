"""The rows of one state file as record batches for Spark, a part of the file at a time.

The file is compared with its checksum before anything in it is read; then its columns, types, rows and key groups
with what the metadata promises. Only the parts that hold wanted key groups are decoded, and only the wanted columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from millstream.core.snapshot.errors import SnapshotError, one_line
from millstream.core.snapshot.metadata.model import StateFile, StateSnapshot
from millstream.core.snapshot.tables.parts import FileParts, open_parts
from millstream.core.snapshot.tables.restore import check_table, select_key_groups
from millstream.core.snapshot.tables.table import KEY_GROUP

if TYPE_CHECKING:
    import pyarrow as pa


def checked_parts(data: Any, file: StateFile, state: StateSnapshot, where: str) -> FileParts:
    """The parts of a verified file that has the columns, and as many rows, as the metadata lists."""
    parts: FileParts = _read(where, lambda: open_parts(data, file, where))
    check_table(parts.schema.empty_table(), state, where)
    if (rows := _read(where, lambda: parts.rows)) != file.rows:
        raise SnapshotError(where, f"has {rows} rows, and the metadata lists {file.rows}")
    return parts


def tables_of(
    parts: FileParts, numbers: range, file: StateFile, state: StateSnapshot, where: str,
    columns: Sequence[str], key_groups: Sequence[range] | None,
) -> Iterator[pa.Table]:  # fmt: skip
    """The checked rows of some parts of a file, those in the wanted key groups, with the wanted columns.

    Keyed state has its key groups as a column, whether that is wanted or not.
    """
    owned = file.key_groups
    counted = [KEY_GROUP] if owned is not None else [] if columns else parts.schema.names[:1]
    names = list(dict.fromkeys((*columns, *counted)))
    ranges = None if key_groups is None else _read(where, lambda: parts.ranges)
    for number in numbers:
        held = None if ranges is None else ranges[number]
        if held is not None and key_groups is not None and not _meets(held, key_groups):
            continue
        table = _read(where, lambda number=number: _valid(parts.read([number], names)))
        if owned is not None and table.num_rows:
            table = select_key_groups(table, None, where)  # refuses rows that are not sorted
            first, last = table.column(KEY_GROUP)[0].as_py(), table.column(KEY_GROUP)[-1].as_py()
            if first < owned.start or last >= owned.stop:
                raise SnapshotError(
                    where,
                    f"holds the key groups {first} to {last}, and the metadata promises only {owned.start} to "
                    f"{owned.stop - 1}",
                )
            table = select_key_groups(table, key_groups, where)
        if table.num_rows:
            yield check_table(table, state, where, pruned=True)


def _valid(table: pa.Table) -> pa.Table:
    table.validate(full=True)  # offsets and text that do not fit crash Arrow's kernels later
    return table


def _meets(held: tuple[int, int], wanted: Sequence[range]) -> bool:
    return any(held[0] < part.stop and part.start < held[1] for part in wanted)


def _read(where: str, read: Any) -> Any:
    import pyarrow as pa

    try:
        return read()
    except (pa.ArrowException, OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise SnapshotError(where, f"cannot be read: {one_line(error)}") from error
