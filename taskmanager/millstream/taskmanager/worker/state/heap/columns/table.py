"""A table of columns on the heap: see `ColumnTable`.

An index gives each row a slot; each column of values is a buffer by slot, and the columns of the address are in the
index. With columns below the key there is an index of keys as well, whose slots take the place of the key's columns in
the address of a row, and a chain of each key's rows.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NoReturn

from millstream.core.keys.grouped_columns import GroupedColumn
from millstream.core.records.types import LONG
from millstream.core.snapshot.metadata.model import TtlSettings
from millstream.datastream.state import StateAccessError
from millstream.taskmanager.worker.state.capturing.captured import RestoredFile, StateDeclaration
from millstream.taskmanager.worker.state.capturing.dirty import DirtyKeyGroups
from millstream.taskmanager.worker.state.capturing.restored_rows import deadlines_of, refuse_native
from millstream.taskmanager.worker.state.column_table import Named, RowLayout
from millstream.taskmanager.worker.state.expiring import Expiry
from millstream.taskmanager.worker.state.heap.columns.buffers import Buffer, buffer_of, first_occurrences, resized
from millstream.taskmanager.worker.state.heap.columns.capture import FREE, HeapColumnCapture
from millstream.taskmanager.worker.state.heap.columns.chains import Chains
from millstream.taskmanager.worker.state.heap.columns.row_index import RowIndex
from millstream.taskmanager.worker.state.key_group_index import KeyGroupIndex
from millstream.taskmanager.worker.state.stored_rows import key_groups_of_rows, restored_rows, whole

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Slots = npt.NDArray[np.int64]


class HeapColumnTable:
    """Implements `ColumnTable`. Captures read it on other threads, under its lock."""

    def __init__(
        self, declaration: StateDeclaration, layout: RowLayout, index: KeyGroupIndex, expiry: Expiry | None,
        incremental: bool = False,
    ) -> None:  # fmt: skip
        import numpy as np

        self.declaration, self.layout, self.expiry = declaration, layout, expiry
        self._index = index
        self._types = {named[0]: _grouped_type(named) for named in layout.address}
        self._types |= {named[0]: _arrow_type(named) for named in layout.values}
        self._keys = RowIndex([self._types[name] for name, _ in layout.key])
        self._rows, self._chains = self._keys, None
        if layout.below:
            below = [self._types[name] for name, _ in layout.below]
            self._rows, self._chains = RowIndex([LONG.arrow_type(), *below]), Chains()
        self._values: list[Buffer] = [buffer_of(self._types[name]) for name, _ in layout.values]
        self._groups: npt.NDArray[np.uint16] = np.full(16, FREE, np.uint16)  # by slot of a row
        self._deadlines: Slots = np.zeros(0, np.int64)
        self._dirty = DirtyKeyGroups(index) if incremental else None
        self._captures: list[HeapColumnCapture] = []
        self._lock = threading.Lock()
        self._swept = 0  # the slot at which sweeping goes on

    def __len__(self) -> int:
        return len(self._rows)

    # Access

    def find(self, addresses: pa.Table) -> tuple[npt.NDArray[np.bool_], pa.Table]:
        """See `ColumnTable`."""
        import numpy as np
        import pyarrow as pa

        slots = self._find(addresses)
        there, expired = slots >= 0, np.zeros(0, np.int64)
        if self.expiry is not None:
            visible, expired = self._read(slots[there])
            there[there] = visible
        places = np.cumsum(there) - 1
        columns = [column.take(pa.array(places, mask=~there)) for column in self._values_at(slots[there])]
        self._drop(expired)
        self._sweep()
        return there, pa.table(columns, [name for name, _ in self.layout.values])

    def of_keys(self, keys: pa.Table) -> pa.Table:
        """See `ColumnTable`."""
        owners = self._keys.find(self._columns(keys, self.layout.key))
        slots = owners[owners >= 0]
        slots = slots[first_occurrences(slots)]
        slots = slots if self._chains is None else self._chains.rows(slots)
        visible, expired = self._read(slots)
        found = self.rows_at(slots[visible])
        self._drop(expired)
        self._sweep()
        return found

    def put(self, rows: pa.Table) -> None:
        """See `ColumnTable`."""
        import numpy as np

        if rows.num_rows:
            deadlines = np.zeros(0, np.int64)
            if self.expiry is not None:
                deadlines = np.full(rows.num_rows, self.expiry.now() + self.expiry.ttl_ms, np.int64)
            self._put(rows, deadlines)
            self._sweep()

    def remove(self, addresses: pa.Table) -> npt.NDArray[np.bool_]:
        """See `ColumnTable`."""
        slots = self._find(addresses)
        removed = slots >= 0
        removed[removed] = first_occurrences(slots[removed])
        gone = slots[removed]
        if self.expiry is not None:
            removed[removed] = self._deadlines[gone] > self.expiry.now()
        self._drop(gone)
        self._sweep()
        return removed

    def scan(self, key_groups: range | None = None) -> Generator[pa.Table]:
        """See `ColumnTable`."""
        hides = self.expiry is not None and not self.expiry.answers_expired
        capture = self._captured(None, None, self.expiry.now() if self.expiry is not None and hides else None)
        try:
            for part in capture.rows(key_groups):
                yield part.rows
        finally:
            capture.release()

    # What captures read, under the lock

    def rows_at(self, slots: Slots) -> pa.Table:
        """Addresses and values."""
        import pyarrow as pa

        columns = self._rows.columns(slots)
        if self._chains is not None:
            columns = [*self._keys.columns(columns[0].to_numpy()), *columns[1:]]
        names = [name for name, _ in (*self.layout.address, *self.layout.values)]
        return pa.table([*columns, *self._values_at(slots)], names)

    def deadlines_at(self, slots: Slots) -> Slots | None:
        """When the rows expire, if they do."""
        return None if self.expiry is None else self._deadlines[slots]

    # Captures

    def capture(self, checkpoint_id: int, incremental: bool = False) -> HeapColumnCapture:
        """Captures all rows: what is changed later is kept aside for the capture."""
        base, groups = None, None
        if incremental and self._dirty is not None:
            base, groups = self._dirty.close_interval(checkpoint_id)
        drops = self.expiry is not None and self.expiry.in_snapshots
        return self._captured(base, groups, self.expiry.now() if self.expiry is not None and drops else None)

    def confirm(self, checkpoint_id: int) -> None:
        """The checkpoint has completed: incremental ones can build upon it."""
        if self._dirty is not None:
            self._dirty.confirm(checkpoint_id)

    def forget_released(self) -> None:
        """Forgets the captures that were released."""
        if self._captures:
            self._captures = [capture for capture in self._captures if not capture.is_released]

    def _captured(
        self, base: int | None, groups: frozenset[int] | None, drop_expired_at: int | None
    ) -> HeapColumnCapture:
        self.forget_released()
        groups_now = self._groups[: self._rows.bound].copy()
        capture = HeapColumnCapture(self, self._lock, self._index, groups_now, base, groups, drop_expired_at)
        self._captures.append(capture)
        return capture

    # Restored state

    def restore(self, stored: pa.Table, ttl: TtlSettings | None) -> None:
        """Adds rows of a snapshot that are in the key groups of this subtask, which were stored with this setting."""
        import numpy as np

        rows, deadlines = restored_rows(self.declaration, self.layout, stored)
        if rows.num_rows:
            expires = np.zeros(0, np.int64)
            if self.expiry is not None:
                given = None if deadlines is None else deadlines.to_pylist()
                expires = np.array(deadlines_of(given, rows.num_rows, ttl, self.expiry.ttl_ms, self.expiry.now()))
            self._put(rows, expires, check_owner=True)

    def load_native(self, file: RestoredFile) -> NoReturn:
        """Raises: there is no native format."""
        refuse_native(self.declaration, file)

    # Slots

    def _find(self, addresses: pa.Table) -> Slots:
        import numpy as np
        import pyarrow as pa

        owners = self._keys.find(self._columns(addresses, self.layout.key))
        if self._chains is None:
            return owners
        slots = self._rows.find([pa.array(owners), *self._columns(addresses, self.layout.below)])
        return np.where(owners < 0, -1, slots)

    def _put(self, rows: pa.Table, deadlines: Slots, check_owner: bool = False) -> None:
        import pyarrow as pa

        keys = self._columns(rows, self.layout.key)
        most = self._index.max_parallelism
        if check_owner:
            groups, owned = key_groups_of_rows(self.layout, keys, most), self._index.owned
            mine = (groups >= owned.start) & (groups < owned.stop)
            if not mine.all():
                chosen = pa.array(mine)
                self._put(rows.filter(chosen), deadlines[mine[: len(deadlines)]])
                return
        if not rows.num_rows:
            return
        values = self._columns(rows, self.layout.values)
        with self._guarded():
            owners, slots, fresh = self._enter_rows(keys, rows)
            self._keep(slots)
            if len(fresh):
                self._groups = resized(self._groups, self._rows.bound, FREE)
                chosen = pa.array(fresh)
                groups = key_groups_of_rows(self.layout, [key.take(chosen) for key in keys], most)
                self._groups[slots[fresh]] = groups
                if self._chains is not None:
                    self._chains.add(owners[fresh], slots[fresh])
            for buffer, column in zip(self._values, values, strict=True):
                buffer.put(slots, column)
            if self.expiry is not None:
                self._deadlines = resized(self._deadlines, self._rows.bound)
                self._deadlines[slots] = deadlines
            if len(rows) > len(fresh):
                self._compact()
        self._mark(slots)

    def _enter_rows(self, keys: Sequence[Any], rows: pa.Table) -> tuple[Slots, Slots, Slots]:
        """The slots of keys and of rows, which are added; and which rows were."""
        import pyarrow as pa

        owners = self._keys.slots(keys)
        if self._chains is None:
            return owners.slots, owners.slots, owners.rows
        added = self._rows.slots([pa.array(owners.slots), *self._columns(rows, self.layout.below)])
        return owners.slots, added.slots, added.rows

    def _drop(self, slots: Slots) -> None:
        """Removes the rows of different slots."""
        if not len(slots):
            return
        self._mark(slots)
        with self._guarded():
            self._keep(slots)
            self._groups[slots] = FREE
            self._rows.remove(slots)
            if self._chains is not None:
                self._keys.remove(self._chains.remove(slots))
            self._compact()

    def _compact(self) -> None:
        for buffer in self._values:
            if buffer.is_wasteful(len(self._rows)):
                buffer.compact(self._used())

    def _used(self) -> Slots:
        import numpy as np

        return np.flatnonzero(self._groups != FREE)

    def _values_at(self, slots: Slots) -> list[Any]:
        return [buffer.take(slots) for buffer in self._values]

    def _columns(self, rows: pa.Table, named: Sequence[Named]) -> list[Any]:
        return [whole(rows, name).cast(self._types[name]) for name, _ in named]

    # Changes

    def _guarded(self) -> AbstractContextManager[Any]:
        """Holds the lock if there is a capture, which another thread may be reading."""
        self.forget_released()
        return self._lock if self._captures else nullcontext()

    def _keep(self, slots: Slots) -> None:
        for capture in self._captures:
            capture.keep(slots)

    def _mark(self, slots: Slots) -> None:
        if self._dirty is not None:
            self._dirty.add_groups(self._groups[slots])

    # Time-to-live

    def _sweep(self) -> None:
        """Removes the expired ones of the next few slots; repeated calls visit all."""
        if self.expiry is not None and self.expiry.swept and len(self._rows):
            import numpy as np

            start = self._swept if self._swept < self._rows.bound else 0
            end = min(start + self.expiry.swept, self._rows.bound)
            slots = np.arange(start, end)
            slots = slots[self._groups[slots] != FREE]
            self._drop(slots[self._deadlines[slots] <= self.expiry.now()])
            self._swept = end

    def _read(self, slots: Slots) -> tuple[npt.NDArray[np.bool_], Slots]:
        """Which of the rows are visible, and the slots of those that have expired; the others may live longer."""
        import numpy as np

        if self.expiry is None:
            return np.ones(len(slots), np.bool_), np.empty(0, np.int64)
        now = self.expiry.now()
        alive = self._deadlines[slots] > now
        if self.expiry.reads_extend:
            extended = slots[alive]
            with self._guarded():
                self._keep(extended)
                self._deadlines[extended] = now + self.expiry.ttl_ms
            self._mark(extended)
        visible = np.ones(len(slots), np.bool_) if self.expiry.answers_expired else alive
        return visible, np.unique(slots[~alive])


def _grouped_type(named: Named) -> Any:
    """The type in which a column of an address is grouped."""
    import pyarrow as pa

    return GroupedColumn(named[1]).encode(pa.array([], _arrow_type(named))).type


def _arrow_type(named: Named) -> Any:
    kind = named[1].arrow_type()
    if kind is None:
        raise StateAccessError(f"column '{named[0]}' of type {named[1].describe()} cannot be kept as a column")
    return kind
