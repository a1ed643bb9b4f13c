"""The rows of a table of columns at the moment of a capture.

A capture copies nothing but the key group of each slot. Before the table changes a row that a capture has, it keeps the
row aside for it; the other rows are read from the table itself. The reader and the table's owner take turns by a lock,
which the reader holds for some thousand rows at a time, and the owner does not need as long as there is no capture.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, NamedTuple

from millstream.taskmanager.worker.state.capturing.captured import StateDeclaration, Work
from millstream.taskmanager.worker.state.capturing.key_group_order import KeyGroupOrder
from millstream.taskmanager.worker.state.capturing.owned_groups import check_owned
from millstream.taskmanager.worker.state.key_group_index import KeyGroupIndex
from millstream.taskmanager.worker.state.stored_rows import stored_table

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from millstream.taskmanager.worker.state.heap.columns.table import HeapColumnTable

    Slots = npt.NDArray[np.int64]

FREE = 0xFFFF
"""In place of the key group of a slot that is not in use."""
_STEP = 16 * 1024  # rows


class Part(NamedTuple):
    """Rows, ordered by key group."""

    rows: pa.Table
    groups: npt.NDArray[np.uint16]
    deadlines: Slots | None


class HeapColumnCapture:
    """Implements `CapturedTable`."""

    def __init__(
        self, table: HeapColumnTable, lock: threading.Lock, index: KeyGroupIndex, groups: npt.NDArray[np.uint16],
        base: int | None, dirty_groups: frozenset[int] | None, drop_expired_at: int | None,
    ) -> None:  # fmt: skip
        self.declaration: StateDeclaration = table.declaration
        self.base, self.dirty_groups = base, dirty_groups
        self.is_released = False
        self._table: HeapColumnTable | None = table
        self._lock, self._index = lock, index
        self._groups = groups  # by slot
        self._drop_expired_at = drop_expired_at
        self._order: KeyGroupOrder | None = None
        self._captured: npt.NDArray[np.uint32] = groups[:0].astype("u4")  # the slots that are in use
        self._kept: list[tuple[pa.Table, Slots | None]] = []
        self._kept_rows = 0
        self._kept_at: Slots | None = None  # by slot: the number of the kept row, or -1

    # For the table

    def keep(self, slots: Slots) -> None:
        """Keeps the rows of slots, which are about to change, as far as they were captured and are not kept yet."""
        import numpy as np

        table = self._table
        if table is None:
            return
        if self._kept_at is None:
            self._kept_at = np.full(len(self._groups), -1, np.int64)
        slots = slots[slots < len(self._groups)]
        slots = np.unique(slots[(self._groups[slots] != FREE) & (self._kept_at[slots] < 0)])
        if len(slots):
            self._kept.append((table.rows_at(slots), table.deadlines_at(slots)))
            self._kept_at[slots] = np.arange(self._kept_rows, self._kept_rows + len(slots))
            self._kept_rows += len(slots)

    # For readers

    def rows(self, key_groups: Collection[int] | None = None, work: Work = nullcontext) -> Iterator[Part]:
        """The rows of some key groups, or of all, in parts of bounded size ordered by key group."""
        for slots in self._sorted(work).parts(key_groups, _STEP):
            with work():
                part = self._unexpired(self._read(self._captured[slots]))
            yield part

    def parts(self, key_groups: Collection[int] | None = None, work: Work = nullcontext) -> Iterator[pa.Table]:
        """The same in the columns of the snapshot format; without an argument, of the key groups to write."""
        wanted = self.dirty_groups if key_groups is None else key_groups
        part = None
        for part in self.rows(wanted, work):
            with work():
                yield self._stored(part)
        if part is None:
            yield self._stored(self._read(self._captured[:0]))

    def entries(self, key_groups: Collection[int], work: Work = nullcontext) -> int:
        """How many rows some key groups have."""
        return self._sorted(work).count(key_groups)

    def _sorted(self, work: Work) -> KeyGroupOrder:
        if self._order is None:
            import numpy as np

            with work():
                self._captured = np.flatnonzero(self._groups != FREE).astype(np.uint32)
                found = self._groups[self._captured]
                check_owned(self._index.owned, found)
                self._order = KeyGroupOrder(found, self._index.max_parallelism)
        return self._order

    def native_files(self) -> None:
        """None: there are no native files."""

    def release(self) -> None:
        """Releases the rows; may be called twice, and on any thread."""
        self.is_released = True
        with self._lock:
            self._table, self._kept, self._kept_at = None, [], None
            self._order, self._captured = None, self._captured[:0]

    def _read(self, chosen: npt.NDArray[np.uint32]) -> Part:
        import numpy as np
        import pyarrow as pa

        slots = chosen.astype(np.int64)

        with self._lock:
            table = self._table
            if table is None:
                raise RuntimeError("the capture has been released")
            kept_at = np.full(len(slots), -1, np.int64) if self._kept_at is None else self._kept_at[slots]
            kept = kept_at >= 0
            rows, deadlines = table.rows_at(slots[~kept]), table.deadlines_at(slots[~kept])
            if kept.any():
                self._kept = [self._all_kept()]
                ((all_kept, all_deadlines),) = self._kept
                aside = all_kept.take(pa.array(kept_at[kept]))
                place = np.empty(len(slots), np.int64)
                place[~kept], place[kept] = np.arange((~kept).sum()), np.arange((~kept).sum(), len(slots))
                rows = pa.concat_tables([rows, aside]).combine_chunks().take(pa.array(place))
                if deadlines is not None and all_deadlines is not None:
                    deadlines = np.concatenate([deadlines, all_deadlines[kept_at[kept]]])[place]
        return Part(rows, self._groups[slots], deadlines)

    def _all_kept(self) -> tuple[pa.Table, Slots | None]:
        """All rows that were kept, as one table."""
        import numpy as np
        import pyarrow as pa

        if len(self._kept) == 1:
            return self._kept[0]
        deadlines = [of for _, of in self._kept if of is not None]
        rows = pa.concat_tables([part for part, _ in self._kept]).combine_chunks()
        return rows, np.concatenate(deadlines) if deadlines else None

    def _unexpired(self, part: Part) -> Part:
        import pyarrow as pa

        if self._drop_expired_at is None or part.deadlines is None:
            return part
        alive = part.deadlines > self._drop_expired_at
        if alive.all():
            return part
        return Part(part.rows.filter(pa.array(alive)), part.groups[alive], part.deadlines[alive])

    def _stored(self, part: Part) -> pa.Table:
        import pyarrow as pa

        table = self._table
        if table is None:
            raise RuntimeError("the capture has been released")
        deadlines = None if part.deadlines is None else pa.array(part.deadlines)
        return stored_table(
            self.declaration, table.layout, part.rows, self._index.max_parallelism, part.groups, deadlines
        )
