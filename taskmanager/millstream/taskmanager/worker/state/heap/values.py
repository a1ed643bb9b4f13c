"""Value and reducing state over a heap table, with direct access to its dictionary for speed.

Adding a number to a reducing state takes 260 ns this way, and 340 through the table; reading and updating a value 270,
and 350.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millstream.core.overriding import override
from millstream.datastream.state import ValueState
from millstream.datastream.state.descriptors import ReducingStateDescriptor
from millstream.taskmanager.worker.state.address import AnyAddress
from millstream.taskmanager.worker.state.heap.addressed import HeapState
from millstream.taskmanager.worker.state.table import MISSING
from millstream.taskmanager.worker.state.table_states import TableReducingState

if TYPE_CHECKING:
    from millstream.taskmanager.worker.state.heap.table import HeapTable


class HeapValueState(HeapState, ValueState[Any]):
    """One value."""

    @override
    def value(self) -> Any:
        entry = self._at.key
        value = self._dict.get(entry)
        if value is None or not self._table.watched:
            return value
        return self._table.private(entry, value)

    def update(self, value: Any) -> None:
        """Replaces the value; None removes it."""
        if value is None:
            self.clear()
            return
        entry = self._at.key
        if self._table.changes is not None:
            self._table.changes.add(entry)
        self._dict[entry] = value


class HeapReducingState(TableReducingState):
    """One value, combined with each that is added."""

    def __init__(self, table: HeapTable, address: AnyAddress, descriptor: ReducingStateDescriptor) -> None:
        super().__init__(table, address, descriptor)
        self._table = table
        self._dict = table.values

    @override
    def get(self) -> Any:
        entry = self._at.key
        value = self._dict.get(entry)
        return value if value is None or not self._table.watched else self._table.private(entry, value)

    def add(self, value: Any) -> None:
        """Combines a value with the current one."""
        entry, table = self._at.key, self._table
        before = self._dict.get(entry, MISSING)
        if before is not MISSING:
            value = self._reduce(table.private(entry, before) if table.watched else before, value)
        if table.changes is not None:
            table.changes.add(entry)
        self._dict[entry] = value
