"""Tumbling and sliding windows by panes: pieces of time that each window either contains as a whole or not at all.

A record is kept once, in its pane, however many windows it is in. New rows wait together, whatever their panes, until
there are enough to be worth grouping; what comes of them is added to the panes, and grouped again when a pane has
doubled. A window that ends combines its panes, for all keys at once. A pane is forgotten with its last window.

With a slide that does not divide the size there are two panes in each slide, since windows end between their starts.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from millstream.core.records.batches import MIN_TIMESTAMP
from millstream.taskmanager.worker.operators.windows.columns.fired import END, FIRED, START, Frozen
from millstream.taskmanager.worker.operators.windows.columns.partials import Partials
from millstream.taskmanager.worker.operators.windows.columns.suffixes import Suffixes

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

_AT_LEAST = 64 * 1024  # rows: from here on, grouping costs no more for each row than it does for a million
_MANY = 1 << 20  # rows: some 20 MB
_FEW = 0.7  # grouping that leaves more than this of its rows is not worth it
_SKIPPED = 8  # how often it is left out then, before it is tried again
_MARK = "mark"


class Pane:
    """The rows of one pane: a list of tables for each part. `restored` ones have fired with windows up to a time."""

    __slots__ = ("_limits", "_partials", "_rows", "restored", "tables")

    def __init__(self, partials: Partials, parts: int) -> None:
        self._partials = partials
        self.tables: list[list[pa.Table]] = [[] for _ in range(parts)]
        self.restored: list[tuple[int, int, pa.Table]] = []  # until when they have fired, the part, the rows
        self._rows = [0] * parts
        self._limits = [_AT_LEAST] * parts

    def add(self, part: int, table: pa.Table) -> None:
        """More rows."""
        self.tables[part].append(table)
        self._rows[part] += table.num_rows
        if self._rows[part] >= self._limits[part]:
            one = self._partials.compacted(part, self.tables[part], self._partials.key_names)
            before, rows = self._rows[part], one.num_rows
            self.tables[part], self._rows[part] = [one], rows
            if rows < _FEW * before:
                self._limits[part] = max(_AT_LEAST, 2 * rows)
            else:  # hardly a key comes twice: it saves nothing, and is done less often
                self._limits[part] = max(4 * rows, min(16 * rows, _MANY))


class PaneWindows:
    """Of one size, one beginning with each slide. See `ColumnWindows`."""

    def __init__(self, size: int, slide: int, offset: int, lateness: int, partials: Partials) -> None:
        self._size, self._slide, self._offset, self._lateness = size, slide, offset, lateness
        self._rest = size % slide  # a window that begins with a slide ends so long after the beginning of another
        self._partials = partials
        self._parts = 1 + len(partials.distinct)
        self._panes: dict[int, Pane] = {}
        self._starts: list[int] = []  # of the panes, in order
        self._waiting: list[list[pa.Table]] = [[] for _ in range(self._parts)]
        self._waiting_rows = 0
        self._waiting_since: int | None = None  # the first pane among them
        self._ungrouped = 0  # how many times grouping is left out yet
        self._watermark = MIN_TIMESTAMP
        self._has_restored = False
        self._suffixes = [Suffixes(partials, part) for part in range(self._parts)]

    # Time

    def _pane_of(self, time: Any) -> Any:
        """The start of a time's pane; of a column of times, all."""
        inside = (time - self._offset) % self._slide
        if not self._rest:
            return time - inside
        return time - inside + self._rest * (inside >= self._rest)

    def _last_start(self, pane: Any) -> Any:
        """Of the windows that a pane, or any time, is in."""
        return pane - (pane - self._offset) % self._slide

    def _first_start(self, pane: int) -> int:
        before = pane - self._size
        return before + self._slide - (before - self._offset) % self._slide

    def late(self, data: pa.RecordBatch, times: npt.NDArray[Any], watermark: int) -> npt.NDArray[Any] | None:
        """Those whose last window is gone."""
        gone = watermark - self._lateness + 1 - self._size  # a window that begins by then
        if self._size < self._slide or self._last_start(int(times.min())) <= gone:
            late = self._last_start(times) <= gone
            if self._size < self._slide:  # there is time between windows
                between = (times - self._offset) % self._slide >= self._size
                late = (late & ~between) | (between & (times + self._lateness <= watermark))
            return late if late.any() else None
        return None

    # Records

    def take(self, data: pa.RecordBatch, times: npt.NDArray[Any], first: int, watermark: int) -> Iterator[pa.Table]:
        """Adds them to what waits; windows that had fired fire again at once."""
        import numpy as np
        import pyarrow as pa

        if self._size < self._slide:
            inside = (times - self._offset) % self._slide < self._size
            if not inside.all():
                data, times = data.filter(pa.array(inside)), times[inside]
                if not len(times):
                    return
        low, high = int(times.min()), int(times.max())
        earliest = self._pane_of(low)
        panes = np.full(len(times), earliest) if earliest == self._pane_of(high) else self._pane_of(times)
        tables = self._partials.of_records(data, first, {START: pa.array(panes)})
        for waiting, table in zip(self._waiting, tables, strict=True):
            waiting.append(table)
        self._waiting_rows += len(times)
        self._waiting_since = earliest if self._waiting_since is None else min(self._waiting_since, earliest)
        if self._waiting_rows >= _AT_LEAST:
            self._settle()
        if low <= watermark:
            late = times <= watermark
            yield from self._fire_again(tables[0].filter(pa.array(late)).select([START, *self._partials.key_names]))

    def _fire_again(self, touched: pa.Table) -> Iterator[pa.Table]:
        """Windows that have fired and are not gone, for the keys that have come to them late."""
        import pyarrow.compute as pc

        panes = pc.unique(touched.column(START)).to_pylist()
        windows = {
            start
            for pane in panes
            for start in range(self._first_start(pane), pane + 1, self._slide)
            if start + self._size - 1 <= self._watermark < start + self._size - 1 + self._lateness
        }
        if windows:
            self._settle()
        for start in sorted(windows):
            column = touched.column(START)
            inside = pc.and_(pc.greater_equal(column, start), pc.less(column, start + self._size))
            fired = self._fire(start, touched.filter(inside).drop_columns(START))
            if fired is not None:
                yield fired

    def _settle(self) -> None:
        """All that waits goes to its panes."""
        import pyarrow as pa

        if not self._waiting_rows:
            return
        grouping = not self._ungrouped
        self._ungrouped = max(0, self._ungrouped - 1)
        for part, waiting in enumerate(self._waiting):
            table = pa.concat_tables(waiting)
            if grouping:
                before, table = (
                    table.num_rows,
                    self._partials.compacted(part, [table], [START, *self._partials.key_names]),
                )
                if part == 0 and table.num_rows > _FEW * before:
                    self._ungrouped = _SKIPPED
            self._spread(part, table)
            waiting.clear()
        self._waiting_rows, self._waiting_since = 0, None

    def _spread(self, part: int, table: pa.Table) -> None:
        for start, rows in _by_start(table):
            self._pane(start).add(part, rows)
            self._suffixes[part].changed(start, rows)

    def _pane(self, start: int) -> Pane:
        pane = self._panes.get(start)
        if pane is None:
            pane = self._panes[start] = Pane(self._partials, self._parts)
            insort(self._starts, start)
        return pane

    # Windows

    def advance(self, watermark: int) -> Iterator[pa.Table]:
        """Those that end by then."""
        before, self._watermark = self._watermark, watermark
        upcoming = self._next_after(before)
        if upcoming is None or upcoming - 1 > watermark:
            return
        self._settle()
        for start in self._due(before, watermark):
            fired = self._fire(start)
            if fired is not None:
                yield fired
        self._forget()

    def next_end(self) -> int | None:
        """Of the first window that has not fired."""
        return self._next_after(self._watermark)

    def _next_after(self, time: int) -> int | None:
        """The end of the first window behind a time that any row may be in."""
        ends = [self._first_end(start, time) for start in (self._waiting_since, *self._starts[:1]) if start is not None]
        return min(ends, default=None)

    def _first_end(self, pane: int, after: int) -> int:
        """Of windows that contain the pane, or come later, and do not end by a time."""
        following = after + 1 - self._size
        aligned = following + self._slide - (following - self._offset) % self._slide
        return max(self._first_start(pane), aligned) + self._size

    def _due(self, after: int, until: int) -> Iterator[int]:
        """The starts of windows with rows that end behind one time and by another."""
        starts = self._starts
        end = self._first_end(starts[0], after)
        while end - 1 <= until:
            number = bisect_left(starts, end - self._size)
            if number == len(starts):
                return
            if starts[number] < end:
                yield end - self._size
                end += self._slide
            else:
                end = max(end + self._slide, self._first_start(starts[number]) + self._size)

    def _fire(self, start: int, touched: pa.Table | None = None) -> pa.Table | None:
        """What a window has come to: for all keys, or for those that were touched."""
        import pyarrow as pa

        partials, end = self._partials, start + self._size
        groups = partials.key_names
        tables, restored = self._contents(0, start, end, touched)
        marks = [] if touched is None else [touched]
        if touched is None and any(fired >= end - 1 for fired, _ in restored):
            # Others have fired before the restore; of a key that came since, all is fired again.
            marks = [table.select(groups) for table in tables]
            marks += [table.select(groups) for fired, table in restored if fired < end - 1]
            if not marks:
                return None
        tables += [table for _, table in restored]
        if not tables:
            return None
        counted = []
        for number, distinct in enumerate(partials.distinct):
            values, stored = self._contents(number + 1, start, end, touched)
            values += [table for _, table in stored]
            if values:
                tables.append(partials.counted(number, values, groups))
                counted.append((distinct.name, "sum"))
        tables += [mark.append_column(_MARK, pa.repeat(1, mark.num_rows)) for mark in marks]
        result = partials.combined(tables, groups, [*counted, (_MARK, "max")] if marks else counted)
        if marks:
            result = result.filter(result.column(_MARK).is_valid()).drop_columns(_MARK)
        if not result.num_rows:
            return None
        result = result.append_column(START, pa.repeat(start, result.num_rows))
        return result.append_column(END, pa.repeat(end, result.num_rows))

    def _contents(
        self, part: int, start: int, end: int, touched: pa.Table | None
    ) -> tuple[list[pa.Table], list[tuple[int, pa.Table]]]:
        """Tables with all rows of some panes, and those that were restored; of touched keys at least, if there are."""
        panes = self._starts[bisect_left(self._starts, start) : bisect_left(self._starts, end)]
        restored: list[tuple[int, pa.Table]] = []
        if self._has_restored:
            of_panes = [stored for pane in panes for stored in self._panes[pane].restored]
            restored = [(fired, table) for fired, of, table in of_panes if of == part]
        if not restored and self._size > 4 * self._slide:
            filled = [(pane, tables) for pane in panes if (tables := self._panes[pane].tables[part])]
            tables = self._suffixes[part].tables(start, end, filled)
        else:
            tables = [table for pane in panes for table in self._panes[pane].tables[part]]
        if touched is None:
            return tables, restored
        return [self._like(table, touched) for table in tables], [(f, self._like(t, touched)) for f, t in restored]

    def _like(self, table: pa.Table, touched: pa.Table) -> pa.Table:
        """The rows that have the first column of their key in common with those that were touched."""
        import pyarrow.compute as pc

        name = self._partials.key_names[0]
        return table.filter(pc.is_in(table.column(name), value_set=touched.column(name).combine_chunks()))

    def _forget(self) -> None:
        """Panes whose last window is gone, and what is no longer to be told apart."""
        gone = self._watermark - self._lateness + 1 - self._size
        number = 0
        while number < len(self._starts) and self._last_start(self._starts[number]) <= gone:
            del self._panes[self._starts[number]]
            number += 1
        del self._starts[:number]
        if self._has_restored:
            for pane in self._panes.values():
                for fired, part, table in pane.restored:
                    if fired <= self._watermark:
                        pane.add(part, table)
                pane.restored = [stored for stored in pane.restored if stored[0] > self._watermark]
            self._has_restored = any(pane.restored for pane in self._panes.values())
            for suffixes in self._suffixes:
                suffixes.clear()

    # Snapshots

    def freeze(self, watermark: int) -> Frozen:
        """Holds all tables; they are made one by start and key where they are needed."""
        parts: list[list[tuple[int | None, int, pa.Table]]] = [
            [(None, self._watermark, table) for table in waiting] for waiting in self._waiting
        ]
        for start, pane in self._panes.items():
            for part, tables in enumerate(pane.tables):
                parts[part] += [(start, self._watermark, table) for table in tables]
            for fired, part, table in pane.restored:
                parts[part].append((start, fired, table))
        return lambda part: self._stored(part, parts[part])

    def _stored(self, part: int, kept: list[tuple[int | None, int, pa.Table]]) -> pa.Table | None:
        import pyarrow as pa

        partials, groups = self._partials, [START, *self._partials.key_names]
        placed = []
        for start, fired, table in kept:
            if start is not None:
                table = table.append_column(START, pa.repeat(start, table.num_rows))
            placed.append(table.append_column(FIRED, pa.repeat(fired, table.num_rows)))
        if not placed:
            return None
        if part:
            table = partials.different([table.drop_columns(FIRED) for table in placed], groups)
        else:
            table = partials.combined(placed, groups, [(FIRED, "min")])
        return table.append_column(END, pa.array(self._pane_ends(table.column(START).to_numpy())))

    def _pane_ends(self, starts: npt.NDArray[Any]) -> npt.NDArray[Any]:
        import numpy as np

        if not self._rest:
            return starts + self._slide
        return starts + np.where((starts - self._offset) % self._slide == 0, self._rest, self._slide - self._rest)

    def restore(self, part: int, table: pa.Table) -> None:
        """Rows by start; those that have fired stay apart until the watermark has come there again."""
        import pyarrow.compute as pc

        table = table.drop_columns(END)
        for fired in pc.unique(table.column(FIRED)).to_pylist() if part == 0 else (MIN_TIMESTAMP,):
            rows = table
            if part == 0:
                rows = table.filter(pc.equal(table.column(FIRED), fired)).drop_columns(FIRED)
            for start, those in _by_start(rows):
                if fired == MIN_TIMESTAMP:
                    self._pane(start).add(part, those)
                else:
                    self._pane(start).restored.append((fired, part, those))
                    self._has_restored = True


def _by_start(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each start, without it."""
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
