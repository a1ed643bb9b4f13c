"""Tumbling and sliding windows by panes: intervals that each window contains either completely or not at all.

A record is kept once, in its pane, however many windows contain it. New rows are buffered, whatever their panes, until
there are enough to be worth grouping; the result is added to the panes, and grouped again when a pane has doubled. A
window that ends combines its panes, for all keys at once. A pane is removed with its last window.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from millstream.core.jobs.progress import COUNTED_OF_ALL_KEYS, TimedKind
from millstream.core.records.batches import MIN_TIMESTAMP
from millstream.taskmanager.worker.operators.columns.partials import Partials
from millstream.taskmanager.worker.operators.windows.columns.fired import END, FIRED, START, Frozen, Waiting
from millstream.taskmanager.worker.operators.windows.columns.pane import AT_LEAST, FEW, Pane, by_start
from millstream.taskmanager.worker.operators.windows.columns.suffixes import Suffixes
from millstream.taskmanager.worker.operators.windows.columns.times import PaneTimes

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

_SKIPPED = 8  # how often it is skipped then, before it is tried again
_MARK = "mark"


class PaneWindows:
    """Windows of one size, one starting at each slide. See `ColumnWindows`."""

    def __init__(self, size: int, slide: int, offset: int, lateness: int, partials: Partials) -> None:
        self._times = PaneTimes(size, slide, offset, lateness)
        self._partials = partials
        self._parts = 1 + len(partials.distinct)
        self._panes: dict[int, Pane] = {}
        self._starts: list[int] = []  # the starts of the panes, in order
        self._waiting: list[list[pa.Table]] = [[] for _ in range(self._parts)]
        self._waiting_rows = 0
        self._waiting_since: int | None = None  # the first pane among them
        self._ungrouped = 0  # how many more times grouping is skipped
        self._watermark = MIN_TIMESTAMP
        self._has_restored = False
        self._suffixes = [Suffixes(partials, part) for part in range(self._parts)]

    # Records

    def late(self, data: pa.RecordBatch, times: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
        """The records whose last window was removed."""
        return self._times.late(times, self._watermark)

    def take(self, data: pa.RecordBatch, times: npt.NDArray[Any], first: int) -> Iterator[pa.Table]:
        """Buffers records; windows that had fired fire again at once."""
        import numpy as np
        import pyarrow as pa

        if self._times.has_gaps and (between := self._times.is_between(times)).any():
            data, times = data.filter(pa.array(~between)), times[~between]
            if not len(times):
                return
        low, high = int(times.min()), int(times.max())
        pane_of = self._times.pane_of
        earliest = pane_of(low)
        panes = np.full(len(times), earliest) if earliest == pane_of(high) else pane_of(times)
        tables = self._partials.of_records(data, first, {START: pa.array(panes)})
        for waiting, table in zip(self._waiting, tables, strict=True):
            waiting.append(table)
        self._waiting_rows += len(times)
        self._waiting_since = earliest if self._waiting_since is None else min(self._waiting_since, earliest)
        if self._waiting_rows >= AT_LEAST:
            self._settle()
        if low <= self._watermark:
            late = times <= self._watermark
            yield from self._fire_again(tables[0].filter(pa.array(late)).select([START, *self._partials.key_names]))

    def _fire_again(self, touched: pa.Table) -> Iterator[pa.Table]:
        """Fires windows again that have fired and were not removed, for the keys of late records."""
        import pyarrow.compute as pc

        panes = pc.unique(touched.column(START)).to_pylist()
        windows = {start for pane in panes for start in self._times.fired(pane, self._watermark)}
        if windows:
            self._settle()
        for start in sorted(windows):
            column = touched.column(START)
            inside = pc.and_(pc.greater_equal(column, start), pc.less(column, start + self._times.size))
            fired = self._fire(start, touched.filter(inside).drop_columns(START))
            if fired is not None:
                yield fired

    def _settle(self) -> None:
        """Moves the buffered rows to their panes."""
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
                if part == 0 and table.num_rows > FEW * before:
                    self._ungrouped = _SKIPPED
            self._spread(part, table)
            waiting.clear()
        self._waiting_rows, self._waiting_since = 0, None

    def _spread(self, part: int, table: pa.Table) -> None:
        for start, rows in by_start(table):
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
        """Fires the windows that have ended."""
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
        """The end of the first window that has not fired."""
        return self._next_after(self._watermark)

    def waiting(self) -> Waiting:
        """The windows with rows that have not ended, each counted once for all keys."""
        import numpy as np

        first = bisect_right(self._starts, self._watermark - self._times.size)  # those before it have fired
        panes = self._starts[first : first + COUNTED_OF_ALL_KEYS]
        if self._waiting_rows:
            waiting = np.unique(np.concatenate([table.column(START).to_numpy() for table in self._waiting[0]]))
            panes = sorted({*panes, *waiting[:COUNTED_OF_ALL_KEYS].tolist()})[:COUNTED_OF_ALL_KEYS]
        count, end = self._times.unfired(panes, self._watermark)
        return TimedKind.WINDOWS_OF_ALL_KEYS, count, end

    def _next_after(self, time: int) -> int | None:
        """The end of the first window after a time that may contain any row."""
        first_end = self._times.first_end
        ends = [first_end(start, time) for start in (self._waiting_since, *self._starts[:1]) if start is not None]
        return min(ends, default=None)

    def _due(self, after: int, until: int) -> Iterator[int]:
        """The starts of windows with rows that end after one time and by another."""
        starts, times = self._starts, self._times
        end = times.first_end(starts[0], after)
        while end - 1 <= until:
            number = bisect_left(starts, end - times.size)
            if number == len(starts):
                return
            if starts[number] < end:
                yield end - times.size
                end += times.slide
            else:
                end = max(end + times.slide, times.first_start(starts[number]) + times.size)

    def _fire(self, start: int, touched: pa.Table | None = None) -> pa.Table | None:
        """The result of a window: for all keys, or for those that were touched."""
        import pyarrow as pa

        partials, end = self._partials, start + self._times.size
        groups = partials.key_names
        tables, restored = self._contents(0, start, end, touched)
        marks = [] if touched is None else [touched]
        if touched is None and any(fired >= end - 1 for fired, _ in restored):
            # Others have fired before the restore; a key with new records is fired completely.
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
        """Tables with all rows of some panes, and restored tables; at least those of touched keys, if given."""
        panes = self._starts[bisect_left(self._starts, start) : bisect_left(self._starts, end)]
        restored: list[tuple[int, pa.Table]] = []
        if self._has_restored:
            of_panes = [stored for pane in panes for stored in self._panes[pane].restored]
            restored = [(fired, table) for fired, of, table in of_panes if of == part]
        if not restored and self._times.size > 4 * self._times.slide:
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
        """Removes panes whose last window was removed, and what need not be kept separate any more."""
        number = 0
        while number < len(self._starts) and self._times.is_gone(self._starts[number], self._watermark):
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

    def freeze(self) -> Frozen:
        """Keeps references to all tables; they are combined by start and key where needed."""
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
        return table.append_column(END, pa.array(self._times.pane_ends(table.column(START).to_numpy())))

    def restore(self, part: int, table: pa.Table) -> None:
        """Restores rows by start; those that have fired stay separate until the watermark passes them again."""
        import pyarrow.compute as pc

        table = table.drop_columns(END)
        for fired in pc.unique(table.column(FIRED)).to_pylist() if part == 0 else (MIN_TIMESTAMP,):
            rows = table
            if part == 0:
                rows = table.filter(pc.equal(table.column(FIRED), fired)).drop_columns(FIRED)
            for start, those in by_start(rows):
                if fired == MIN_TIMESTAMP:
                    self._pane(start).add(part, those)
                else:
                    self._pane(start).restored.append((fired, part, those))
                    self._has_restored = True
