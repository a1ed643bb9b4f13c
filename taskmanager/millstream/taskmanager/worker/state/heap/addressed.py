"""The base of state objects over a heap table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millstream.core.overriding import override
from millstream.taskmanager.worker.state.address import AnyAddress
from millstream.taskmanager.worker.state.table_states import AddressedState

if TYPE_CHECKING:
    from millstream.taskmanager.worker.state.heap.table import HeapTable


class HeapState(AddressedState):
    """A table, and the address of the current entry."""

    def __init__(self, table: HeapTable, address: AnyAddress) -> None:
        super().__init__(address)
        self._table = table
        self._dict = table.values

    @override
    def clear(self) -> None:
        self._table.remove(self._at.key)

    def _changing(self, entry: Any) -> None:
        """Called before an entry is changed."""
        if self._table.changes is not None:
            self._table.changes.add(entry)
