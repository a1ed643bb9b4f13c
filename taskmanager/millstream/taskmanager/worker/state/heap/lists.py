"""List state over a heap table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from millstream.core.overriding import override
from millstream.taskmanager.worker.state.heap.addressed import HeapState
from millstream.taskmanager.worker.state.table_states import MergingListState


class HeapListState(HeapState, MergingListState):
    """A list for each entry; an empty one is no entry."""

    def get(self) -> list[Any]:
        """A new list of the elements."""
        entry = self._at.key
        elements = self._dict.get(entry)
        if elements is None:
            return []
        if self._table.watched:
            elements = self._table.private(entry, elements)
        return list(elements)

    @override
    def add(self, value: Any) -> None:
        entry = self._at.key
        elements = self._dict.get(entry)
        self._changing(entry)
        if elements is None:
            self._dict[entry] = [value]
        else:
            self._table.own(entry, elements).append(value)

    @override
    def add_all(self, values: Iterable[Any]) -> None:
        added = list(values)  # all of them or none: iterating over them may raise
        entry = self._at.key
        elements = self._dict.get(entry)
        if elements is None:
            self.update(added)
            return
        self._changing(entry)
        self._table.own(entry, elements).extend(added)

    @override
    def update(self, values: Iterable[Any]) -> None:
        elements = list(values)
        if not elements:
            self.clear()
            return
        entry = self._at.key
        self._changing(entry)
        self._dict[entry] = elements
