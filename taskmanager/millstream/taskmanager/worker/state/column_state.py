"""State that its operator keeps as Arrow columns: its representation in a backend, for captures and restores.

Columns are immutable, so a capture only references the current ones; they are converted to rows on the writer's thread,
mostly inside of Arrow, which does not need the interpreter lock. Every capture contains everything.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec import Struct

from millstream.core.snapshot.tables.table import KEY_GROUP, map_entry_table, value_table
from millstream.taskmanager.worker.state.capturing.arrow_tables import in_order
from millstream.taskmanager.worker.state.capturing.captured import RestoredFile, StateDeclaration, Work
from millstream.taskmanager.worker.state.capturing.restored_rows import refuse_native
from millstream.taskmanager.worker.state.key_group_index import KeyGroupIndex

if TYPE_CHECKING:
    import pyarrow as pa

_STEP = 64 * 1024  # rows: hashing keys that are not integers needs the interpreter lock, for some 30 ms at a time


class KeyedColumns(Struct, frozen=True):
    """Rows of a state as parallel columns: each an Arrow array of the declared type, or a list of Python values."""

    keys: Any
    namespaces: Any
    values: Any
    map_keys: Any = None  # of map state, whose rows are its entries

    def part(self, start: int, end: int) -> KeyedColumns:
        """Some of the rows."""
        cut = slice(start, end)
        map_keys = None if self.map_keys is None else self.map_keys[cut]
        return KeyedColumns(self.keys[cut], self.namespaces[cut], self.values[cut], map_keys)


Freeze = Callable[[], Callable[[], KeyedColumns]]


class ColumnState:
    """What a backend has in place of a table."""

    def __init__(self, declaration: StateDeclaration, index: KeyGroupIndex, freeze: Freeze) -> None:
        self.declaration = declaration
        self.expiry = None
        self._index = index
        self._freeze = freeze

    def load_native(self, files: Sequence[RestoredFile]) -> NoReturn:
        """Raises: no backend has a native format for columns."""
        refuse_native(self.declaration, files)

    def capture(self, *_how: Any) -> ColumnCapture:
        """Captures all columns."""
        return ColumnCapture(self.declaration, self._index.max_parallelism, self._freeze())

    def confirm(self, checkpoint_id: int) -> None:
        """Does nothing: captures are never incremental."""

    def forget_released(self) -> None:
        """Does nothing: released captures need no cleanup."""


class ColumnCapture:
    """The columns at the moment of the capture."""

    base = None
    dirty_groups = None

    def __init__(self, declaration: StateDeclaration, max_parallelism: int, make: Callable[[], KeyedColumns]) -> None:
        self.declaration = declaration
        self._max_parallelism = max_parallelism
        self._make: Callable[[], KeyedColumns] | None = make

    def table(self, key_groups: Collection[int] | None = None, work: Work = nullcontext) -> pa.Table:
        """The rows of some key groups, or of all."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self._make is None:
            raise RuntimeError("the capture has been released")
        columns = self._make()
        tables = []
        for start in range(0, max(1, len(columns.keys)), _STEP):
            with work():
                tables.append(self._table(columns.part(start, start + _STEP)))
        with work():
            table = tables[0] if len(tables) == 1 else in_order(tables)
        if key_groups is None:
            return table
        return table.filter(pc.is_in(table.column(KEY_GROUP), pa.array(sorted(key_groups), pa.int32())))

    def _table(self, rows: KeyedColumns) -> pa.Table:
        types = self.declaration.types
        if rows.map_keys is None:
            return value_table(rows.keys, rows.values, types, self._max_parallelism, namespaces=rows.namespaces)
        return map_entry_table(
            rows.keys, rows.map_keys, rows.values, types, self._max_parallelism, namespaces=rows.namespaces
        )

    def native_files(self) -> None:
        """None: there are no native files."""

    def release(self) -> None:
        """Releases the columns."""
        self._make = None
