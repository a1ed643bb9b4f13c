"""The rows of one part, sorted by key group: in memory up to a limit, beyond it as sorted files beside.

A part may be larger than a task's memory: what has come is sorted and put on the local disk, and in the end all such
runs are read together, some key groups at a time. Within a key group rows are in the order in which Spark brought them.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from millstream.core.snapshot.tables.columns import from_array, to_array
from millstream.core.snapshot.tables.table import KEY_GROUP

if TYPE_CHECKING:
    import pyarrow as pa

IN_MEMORY = 256 * 1024 * 1024
"""How many bytes of rows are sorted at a time."""
_ROWS_PER_SLICE = 256  # from which on copying a slice is cheaper than to pick its rows


def sorted_rows(tables: Iterable[pa.Table], types: dict[str, Any], in_memory: int = IN_MEMORY) -> Iterator[pa.Table]:
    """All rows, in tables that end where a key group ends. `types` are those of the columns, by name."""
    with tempfile.TemporaryDirectory(prefix="millstream-write-") as folder:
        runs: list[pa.Table] = []
        held: list[pa.Table] = []
        size = 0
        with contextlib.ExitStack() as opened:
            for table in tables:
                held.append(table)
                size += table.nbytes
                if size >= in_memory:
                    runs.append(_spilled(_sorted(held, types), Path(folder, str(len(runs))), opened))
                    held, size = [], 0
            if not runs:
                if held:
                    yield _sorted(held, types)
                return
            if held:
                runs.append(_sorted(held, types))
            yield from _merged(runs, types, in_memory)


def _sorted(tables: list[pa.Table], types: dict[str, Any]) -> pa.Table:
    import numpy as np
    import pyarrow as pa

    if KEY_GROUP not in tables[0].column_names:
        return _joined(tables, types)
    of_each = [table.column(KEY_GROUP).to_numpy() for table in tables]
    different = np.unique(np.concatenate([np.unique(groups) for groups in of_each]))
    if len(different) * len(tables) * _ROWS_PER_SLICE <= sum(map(len, of_each)):  # copied by the slice, all are sorted
        ends = [np.searchsorted(groups, different, side="right").tolist() for groups in of_each]
        starts = [[0, *each] for each in ends]
        return _joined(
            [
                table.slice(start[number], end[number] - start[number])
                for number in range(len(different))
                for table, start, end in zip(tables, starts, ends, strict=True)
            ],
            types,
        )
    table = _joined(tables, types)
    groups = table.column(KEY_GROUP).to_numpy().astype(np.uint16)  # of 16 bits, NumPy sorts them in linear time
    return table.take(pa.array(np.argsort(groups, kind="stable")))


def _joined(tables: list[pa.Table], types: dict[str, Any]) -> pa.Table:
    """One table; columns whose type is not the same everywhere, as times in some zone, are made again."""
    import pyarrow as pa

    if all(table.schema == tables[0].schema for table in tables):
        return pa.concat_tables(tables).combine_chunks()
    arrays: dict[str, Any] = {}
    for name in tables[0].column_names:
        columns = [table.column(name) for table in tables]
        if all(column.type == columns[0].type for column in columns):
            arrays[name] = pa.chunked_array([chunk for column in columns for chunk in column.chunks], columns[0].type)
        else:
            values = [value for column in columns for value in from_array(column, types[name], name)]
            arrays[name] = to_array(values, types[name], name)
    return pa.table(arrays).combine_chunks()


def _spilled(table: pa.Table, path: Path, opened: contextlib.ExitStack) -> pa.Table:
    """The same table, in a file that is mapped into memory."""
    import pyarrow as pa

    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return pa.ipc.open_file(opened.enter_context(pa.memory_map(str(path)))).read_all()


def _merged(runs: list[pa.Table], types: dict[str, Any], in_memory: int) -> Iterator[pa.Table]:
    """Of all runs, some key groups at a time, which together are about as large as the limit."""
    import numpy as np

    groups = [run.column(KEY_GROUP).to_numpy() for run in runs] if KEY_GROUP in runs[0].column_names else []
    if not groups:
        yield _joined(runs, types)
        return
    total = sum(run.nbytes for run in runs)
    different = np.unique(np.concatenate([np.unique(of) for of in groups]))
    windows = min(len(different), -(-total // in_memory))
    for window in np.array_split(different, windows):
        start, end = int(window[0]), int(window[-1]) + 1
        bounds = [np.searchsorted(of, [start, end]).tolist() for of in groups]
        parts = [run.slice(first, past - first) for run, (first, past) in zip(runs, bounds, strict=True)]
        yield _sorted([part for part in parts if part.num_rows], types)
