"""Sliding windows without combining all of their panes each time.

For the panes of one window, the combination of each pane with all later ones is kept: the suffixes. Panes after that
window are combined as later windows reach them. So a window consists of one suffix and one more table. When all
suffixes are used up, they are rebuilt from the panes, from the last to the first: each pane is combined about three
times in total, however many windows contain it. Rows that arrive late in a pane are kept separately until then.

This pays off only if panes have mostly the same keys. If a suffix grows to many times the size of a pane, suffixes are
not used, and windows combine their panes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from millstream.taskmanager.worker.operators.columns.partials import Partials

if TYPE_CHECKING:
    import pyarrow as pa

_GROWTH = 4  # the largest number of rows of a suffix, as a multiple of the largest pane
_MOST_LATE = 64  # tables: with more, it is cheaper to combine them with their panes

PaneTables = tuple[int, list["pa.Table"]]
"""The start of a pane, and its rows."""


class Suffixes:
    """The suffixes of one part of the rows."""

    def __init__(self, partials: Partials, part: int) -> None:
        self._partials = partials
        self._part = part
        self._suffixes: dict[int, pa.Table] = {}
        self._until = 0  # the end of the window that they were made for
        self._behind: list[pa.Table] = []  # at most one table: all panes after that
        self._reached = 0  # the end of the last window
        self._late: list[tuple[int, pa.Table]] = []
        self._most = 0  # rows
        self._pause = 0  # windows for which suffixes are not tried again

    def changed(self, pane: int, rows: pa.Table) -> None:
        """Adds rows to a pane."""
        if self._suffixes and pane < self._reached:
            self._late.append((pane, rows))
            if len(self._late) > _MOST_LATE:
                self.clear()

    def clear(self) -> None:
        """Removes everything; the next window starts over."""
        self._suffixes, self._behind, self._late = {}, [], []

    def tables(self, start: int, end: int, panes: Sequence[PaneTables]) -> list[pa.Table]:
        """Tables with all rows of a window; `panes` are those of its panes that have rows."""
        if not panes:
            return []
        if self._pause:
            self._pause -= 1
        elif not self._suffixes or start >= self._until:
            self._make(end, panes)
        elif end >= self._reached:
            self._reach(end, panes)
        if not self._suffixes or end < self._reached:  # or it has fired before, and fires again
            return [table for _, tables in panes for table in tables]
        suffix = next((self._suffixes[pane] for pane, _ in panes if pane in self._suffixes), None)
        late = [rows for pane, rows in self._late if pane >= start]
        return [*([] if suffix is None else [suffix]), *self._behind, *late]

    def _make(self, end: int, panes: Sequence[PaneTables]) -> None:
        self.clear()
        self._most = _GROWTH * max(sum(table.num_rows for table in tables) for _, tables in panes)
        self._until = self._reached = end
        later: list[pa.Table] = []
        for pane, tables in reversed(panes):
            later = [self._combined([*tables, *later])]
            self._suffixes[pane] = later[0]
            if self._is_too_large(later[0], len(panes)):
                return

    def _reach(self, end: int, panes: Sequence[PaneTables]) -> None:
        new = [table for pane, tables in panes if pane >= self._reached for table in tables]
        self._reached = end
        if new:
            self._behind = [self._combined([*new, *self._behind])]
            self._is_too_large(self._behind[0], len(panes))

    def _is_too_large(self, table: pa.Table, pause: int) -> bool:
        if table.num_rows <= self._most:
            return False
        self.clear()
        self._pause = pause
        return True

    def _combined(self, tables: list[pa.Table]) -> pa.Table:
        return self._partials.compacted(self._part, tables, self._partials.key_names)
