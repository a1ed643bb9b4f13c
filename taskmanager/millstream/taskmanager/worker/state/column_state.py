"""State that its operator keeps as Arrow columns: its representation in a backend, for captures and restores.

Columns are immutable, so a capture only references the current ones; they are converted to rows on the writer's thread,
mostly inside of Arrow, which does not need the interpreter lock. Every capture contains everything.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec import Struct

from millstream.core.snapshot.tables.table import column_of_keys, key_groups_of, map_entry_table, value_table
from millstream.taskmanager.worker.state.capturing.arrow_tables import parts_by_key_group
from millstream.taskmanager.worker.state.capturing.captured import RestoredFile, StateDeclaration, Work
from millstream.taskmanager.worker.state.capturing.key_group_order import KeyGroupOrder
from millstream.taskmanager.worker.state.capturing.restored_rows import refuse_native
from millstream.taskmanager.worker.state.key_group_index import KeyGroupIndex

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

_STEP = 64 * 1024  # rows: hashing keys that are not integers needs the interpreter lock, for some 30 ms at a time


class KeyedColumns(Struct, frozen=True):
    """Rows of a state as parallel columns: each an Arrow array of the declared type, or a list of Python values."""

    keys: Any
    namespaces: Any
    values: Any
    map_keys: Any = None  # of map state, whose rows are its entries

    def take(self, numbers: npt.NDArray[np.uint32]) -> KeyedColumns:
        """The rows of these numbers."""
        columns = (self.keys, self.namespaces, self.values, self.map_keys)
        return KeyedColumns(*(None if column is None else _taken(column, numbers) for column in columns))


Freeze = Callable[[], Callable[[], KeyedColumns]]


class ColumnState:
    """What a backend has in place of a table."""

    def __init__(self, declaration: StateDeclaration, index: KeyGroupIndex, freeze: Freeze) -> None:
        self.declaration = declaration
        self.expiry = None
        self._index = index
        self._freeze = freeze

    def load_native(self, file: RestoredFile) -> NoReturn:
        """Raises: no backend has a native format for columns."""
        refuse_native(self.declaration, file)

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
        self._sorted: _SortedColumns | None = None

    def parts(self, key_groups: Collection[int] | None = None, work: Work = nullcontext) -> Iterator[pa.Table]:
        """The rows of some key groups, or of all."""
        rows = self._rows(work)

        def convert(numbers: npt.NDArray[np.uint32]) -> pa.Table:
            types, chosen, groups = self.declaration.types, rows.columns.take(numbers), rows.groups[numbers]
            shared: Any = {"namespaces": chosen.namespaces, "key_groups": groups}
            if chosen.map_keys is None:
                return value_table(chosen.keys, chosen.values, types, self._max_parallelism, **shared)
            return map_entry_table(chosen.keys, chosen.map_keys, chosen.values, types, self._max_parallelism, **shared)

        return parts_by_key_group(rows.order, key_groups, convert, work)

    def entries(self, key_groups: Collection[int], work: Work = nullcontext) -> int:
        """How many rows some key groups have."""
        return self._rows(work).order.count(key_groups)

    def _rows(self, work: Work) -> _SortedColumns:
        if self._make is None:
            raise RuntimeError("the capture has been released")
        if self._sorted is None:
            self._sorted = _SortedColumns(self._make(), self.declaration, self._max_parallelism, work)
        return self._sorted

    def native_files(self) -> None:
        """None: there are no native files."""

    def release(self) -> None:
        """Releases the columns."""
        self._make = self._sorted = None


class _SortedColumns:
    """The rows of a capture, and their order by key group."""

    def __init__(self, columns: KeyedColumns, declaration: StateDeclaration, max_parallelism: int, work: Work) -> None:
        import numpy as np

        self.columns = columns
        found = [np.empty(0, np.uint16)]
        for start in range(0, len(columns.keys), _STEP):
            with work():
                keys = columns.keys[start : start + _STEP]
                array, kind = column_of_keys(keys, declaration.types)
                found.append(key_groups_of(keys, array, kind, max_parallelism).astype(np.uint16))
        self.groups = np.concatenate(found)
        self.order = KeyGroupOrder(self.groups, max_parallelism)


def _taken(column: Any, numbers: npt.NDArray[np.uint32]) -> Any:
    import pyarrow as pa

    if isinstance(column, list):
        return [column[number] for number in numbers.tolist()]
    return column.take(pa.array(numbers))
