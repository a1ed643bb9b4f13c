"""The rows of one pane, grouped again whenever their number has grown much since the last grouping."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from millstream.taskmanager.worker.operators.columns.partials import Partials
from millstream.taskmanager.worker.operators.windows.columns.fired import START

if TYPE_CHECKING:
    import pyarrow as pa

AT_LEAST = 64 * 1024
"""Rows: with this many, grouping costs no more per row than with a million."""
FEW = 0.7
"""If grouping leaves more than this fraction of the rows, it is not worth it."""
_MANY = 1 << 20  # rows: some 20 MB


class Pane:
    """The rows of one pane: a list of tables for each part. `restored` rows have fired with windows up to a time."""

    __slots__ = ("_limits", "_partials", "_rows", "restored", "tables")

    def __init__(self, partials: Partials, parts: int) -> None:
        self._partials = partials
        self.tables: list[list[pa.Table]] = [[] for _ in range(parts)]
        self.restored: list[tuple[int, int, pa.Table]] = []  # until when they have fired, the part, the rows
        self._rows = [0] * parts
        self._limits = [AT_LEAST] * parts

    def add(self, part: int, table: pa.Table) -> None:
        """Adds rows."""
        self.tables[part].append(table)
        self._rows[part] += table.num_rows
        if self._rows[part] >= self._limits[part]:
            one = self._partials.compacted(part, self.tables[part], self._partials.key_names)
            before, rows = self._rows[part], one.num_rows
            self.tables[part], self._rows[part] = [one], rows
            if rows < FEW * before:
                self._limits[part] = max(AT_LEAST, 2 * rows)
            else:  # hardly any key is repeated: grouping saves nothing, and is done less often
                self._limits[part] = max(4 * rows, min(16 * rows, _MANY))


def by_start(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each start, without that column."""
    import numpy as np
    import pyarrow as pa

    if not table.num_rows:
        return
    starts = table.column(START).to_numpy()
    table = table.drop_columns(START)
    if starts[0] == starts[-1] and (starts == starts[0]).all():
        yield int(starts[0]), table
        return
    order = np.argsort(starts, kind="stable")
    starts, table = starts[order], table.take(pa.array(order))
    cuts = [0, *(np.flatnonzero(starts[1:] != starts[:-1]) + 1).tolist(), len(starts)]
    for begin, end in pairwise(cuts):
        yield int(starts[begin]), table.slice(begin, end - begin)
