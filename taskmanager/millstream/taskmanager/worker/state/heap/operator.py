"""The operator state of one operator in one subtask: each state is a table with one entry."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from millstream.core.clock import SystemClock
from millstream.core.records.copying import private_copy
from millstream.core.snapshot.metadata.model import StateKind
from millstream.core.snapshot.tables.restore import Rows
from millstream.datastream.state import BroadcastState, ListState, OperatorStateStore
from millstream.datastream.state.descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor
from millstream.datastream.state.states import descriptor_of
from millstream.taskmanager.worker.state.address import Address
from millstream.taskmanager.worker.state.adopting import adopting
from millstream.taskmanager.worker.state.capturing.captured import (
    CapturedContents,
    CapturedOperatorState,
    RestoredState,
)
from millstream.taskmanager.worker.state.declarations import declare_operator
from millstream.taskmanager.worker.state.heap.lists import HeapListState
from millstream.taskmanager.worker.state.heap.maps import HeapBroadcastState
from millstream.taskmanager.worker.state.heap.table import HeapTable
from millstream.taskmanager.worker.state.key_group_index import KeyGroupIndex
from millstream.taskmanager.worker.state.named_tables import NamedTables

_ENTRY = 0


class _SubtaskTable(HeapTable):
    """A table with a single entry, and no key groups."""

    def load(self, parts: Iterable[Rows]) -> None:
        for rows in parts:
            if not rows.content:
                continue
            if self.declaration.kind is StateKind.BROADCAST:
                self.values.setdefault(_ENTRY, {}).update(zip(rows.detail, rows.content, strict=True))
            else:
                self.values.setdefault(_ENTRY, []).extend(rows.content)


class HeapOperatorStateBackend(OperatorStateStore):
    """Lists, union lists and broadcast maps by name."""

    def __init__(self, operator_name: str = "operator") -> None:
        index = KeyGroupIndex(1)
        self._tables = NamedTables(
            operator_name, lambda declaration, ttl: _SubtaskTable(declaration, index), SystemClock()
        )

    @property
    def store(self) -> OperatorStateStore:
        """The store of operator state: this object."""
        return self

    def get_list_state(self, state_descriptor: ListStateDescriptor | str, element_type: Any = None) -> ListState[Any]:
        """A list whose elements are distributed evenly over the subtasks when the parallelism changes."""
        descriptor = descriptor_of(ListStateDescriptor, state_descriptor, element_type)
        return self._list(descriptor, StateKind.OPERATOR_LIST)

    def get_union_list_state(
        self, state_descriptor: ListStateDescriptor | str, element_type: Any = None
    ) -> ListState[Any]:
        """A list of which every subtask gets the elements of all subtasks on restore."""
        descriptor = descriptor_of(ListStateDescriptor, state_descriptor, element_type)
        return self._list(descriptor, StateKind.OPERATOR_UNION)

    def get_broadcast_state(
        self, state_descriptor: MapStateDescriptor | str, key_type: Any = None, value_type: Any = None
    ) -> BroadcastState[Any, Any]:
        """A map that is identical on every subtask."""
        descriptor = descriptor_of(MapStateDescriptor, state_descriptor, key_type, value_type)
        state: BroadcastState[Any, Any] = adopting(
            descriptor, lambda d: HeapBroadcastState(self._declared(d, StateKind.BROADCAST), Address(_ENTRY))
        )
        return state

    def _list(self, descriptor: ListStateDescriptor, kind: StateKind) -> ListState[Any]:
        state: ListState[Any] = adopting(descriptor, lambda d: HeapListState(self._declared(d, kind), Address(_ENTRY)))
        return state

    def entry_counts(self) -> dict[str, int]:
        """The number of elements of each list, and of entries of each map."""
        return {name: len(table.values.get(_ENTRY, ())) for name, table in self._tables.declared.items()}

    def capture(self, checkpoint_id: int) -> CapturedOperatorState:
        """Captures all state as a copy."""
        return CapturedOperatorState(checkpoint_id, [_captured(table) for table in self._tables.all()])

    def restore(self, states: Iterable[RestoredState]) -> None:
        """Adds restored state; its rows are read when the program requests it."""
        self._tables.restore(states)

    def _declared(self, descriptor: StateDescriptor, kind: StateKind) -> HeapTable:
        return self._tables.declare(declare_operator(descriptor, kind), None, descriptor)


def _captured(table: HeapTable) -> CapturedContents:
    if table.declaration.kind is StateKind.BROADCAST:
        entries = table.values.get(_ENTRY, {})
        return CapturedContents(table.declaration, {key: private_copy(value) for key, value in entries.items()})
    return CapturedContents(table.declaration, list(map(private_copy, table.values.get(_ENTRY, ()))))
