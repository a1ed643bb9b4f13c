"""Determines which intervals of a key overlap or touch: sorted by key and start, in one pass. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from millstream.taskmanager.worker.operators.windows.columns.fired import END, START

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa


def components(spans: Sequence[pa.Table], keys: Sequence[str]) -> tuple[list[npt.NDArray[Any]], pa.Table]:
    """The number of the session of each row of each table, and the sessions with start, end and key."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    table = pa.concat_tables(spans, promote_options="default")
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in (*keys, START)])
    ordered = table.take(order).combine_chunks()
    starts, ends = ordered.column(START).to_numpy(), ordered.column(END).to_numpy()
    begins = np.zeros(len(starts), np.bool_)
    begins[:1] = True
    for key in keys:
        begins[1:] |= _changes(ordered.column(key).combine_chunks())
    reach = _highest_so_far(ends, np.cumsum(begins) - 1)
    begins[1:] |= starts[1:] > reach[:-1]
    numbers = np.cumsum(begins) - 1
    of_rows = np.empty(len(numbers), np.int64)
    of_rows[order.to_numpy()] = numbers
    first = np.flatnonzero(begins)
    # Intervals are sorted by start, so the first start is the session's; the highest end need not be the last.
    session_ends = np.maximum.reduceat(ends, first) if len(first) else ends
    sessions = ordered.select(list(keys)).take(pa.array(first))
    sessions = sessions.add_column(0, END, pa.array(session_ends)).add_column(0, START, pa.array(starts[first]))
    cuts = np.cumsum([part.num_rows for part in spans])[:-1]
    return np.split(of_rows, cuts), sessions


def _changes(column: pa.Array) -> npt.NDArray[Any]:
    """Where a value differs from the one before it; null is a value."""
    import pyarrow.compute as pc

    after, before = column.slice(1), column.slice(0, max(0, len(column) - 1))
    changes = pc.not_equal(after, before).fill_null(False).to_numpy(zero_copy_only=False)
    if column.null_count:
        nulls = column.is_null().to_numpy(zero_copy_only=False)
        changes = changes | (nulls[1:] != nulls[:-1])
    return changes  # type: ignore[no-any-return]  # an array of truth values


def _highest_so_far(ends: npt.NDArray[Any], groups: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The highest end up to each row within its group; groups are numbered in order."""
    import numpy as np

    if not len(ends):
        return ends
    low, span = int(ends.min()), int(ends.max()) - int(ends.min()) + 1
    if span * (int(groups[-1]) + 1) < 1 << 62:
        lifted = groups * span
        return np.maximum.accumulate(ends - low + lifted) - lifted + low  # type: ignore[no-any-return]  # of int64
    values, ranks = np.unique(ends, return_inverse=True)
    lifted = groups * len(values)
    return values[np.maximum.accumulate(ranks + lifted) - lifted]  # type: ignore[no-any-return]  # of int64
