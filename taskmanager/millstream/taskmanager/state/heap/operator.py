"""The operator state of one operator in one subtask: each state is a table with one entry."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from millstream.core.snapshot.model import StateKind
from millstream.core.snapshot.restore import Rows
from millstream.core.snapshot.table import StateTypes
from millstream.datastream.state import BroadcastState, ListState, OperatorStateStore, descriptor_of
from millstream.datastream.state_descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor
from millstream.taskmanager.state.captured import (
    CapturedContents,
    CapturedOperatorState,
    RestoredState,
    StateDeclaration,
)
from millstream.taskmanager.state.copying import private_copy
from millstream.taskmanager.state.declarations import check_restored, check_same, declare_operator, undeclared_warning
from millstream.taskmanager.state.heap.address import Address
from millstream.taskmanager.state.heap.plain import HeapBroadcastState, HeapListState
from millstream.taskmanager.state.heap.table import HeapTable
from millstream.taskmanager.state.key_group_index import KeyGroupIndex

log = logging.getLogger(__name__)

_ENTRY = 0


class HeapOperatorStateBackend(OperatorStateStore):
    """Lists, union lists and broadcast maps by name."""

    def __init__(self, operator_name: str = "operator") -> None:
        self._operator_name = operator_name
        self._index = KeyGroupIndex(1)
        self._tables: dict[str, HeapTable] = {}
        self._restored: dict[str, list[RestoredState]] = {}

    @property
    def store(self) -> OperatorStateStore:
        """Where functions get their operator state: here."""
        return self

    def get_list_state(self, state_descriptor: ListStateDescriptor | str, element_type: Any = None) -> ListState[Any]:
        """A list whose elements are spread evenly over the subtasks when the parallelism changes."""
        descriptor = descriptor_of(ListStateDescriptor, state_descriptor, element_type)
        return HeapListState(self._declared(descriptor, StateKind.OPERATOR_LIST), Address(_ENTRY))

    def get_union_list_state(
        self, state_descriptor: ListStateDescriptor | str, element_type: Any = None
    ) -> ListState[Any]:
        """A list of which every subtask gets all elements of all subtasks on restore."""
        descriptor = descriptor_of(ListStateDescriptor, state_descriptor, element_type)
        return HeapListState(self._declared(descriptor, StateKind.OPERATOR_UNION), Address(_ENTRY))

    def get_broadcast_state(
        self, state_descriptor: MapStateDescriptor | str, key_type: Any = None, value_type: Any = None
    ) -> BroadcastState[Any, Any]:
        """A map that is the same on every subtask."""
        descriptor = descriptor_of(MapStateDescriptor, state_descriptor, key_type, value_type)
        return HeapBroadcastState(self._declared(descriptor, StateKind.BROADCAST), Address(_ENTRY))

    def capture(self, checkpoint_id: int) -> CapturedOperatorState:
        """All state as it is now, copied."""
        kept = [self._loaded(parts[0].declaration, None) for parts in self._restored.values()]
        tables = (*self._tables.values(), *kept)
        return CapturedOperatorState(checkpoint_id, [_captured(table) for table in tables])

    def restore(self, states: Iterable[RestoredState]) -> None:
        """Takes over state; its rows are read when the program asks for it."""
        for part in states:
            self._restored.setdefault(part.declaration.name, []).append(part)

    def _declared(self, descriptor: StateDescriptor, kind: StateKind) -> HeapTable:
        known = descriptor.name in self._tables
        table = self._table(declare_operator(descriptor, kind))
        if descriptor.undeclared and not known:
            log.warning("%s", undeclared_warning(self._operator_name, descriptor))
        return table

    def _table(self, declaration: StateDeclaration) -> HeapTable:
        name = declaration.name
        if name in self._tables:
            check_same(self._tables[name].declaration, declaration)
        else:
            self._tables[name] = self._loaded(declaration, declaration.types)
            self._restored.pop(name, None)
        return self._tables[name]

    def _loaded(self, declaration: StateDeclaration, types: StateTypes | None) -> HeapTable:
        table = HeapTable(declaration, self._index)
        for part in self._restored.get(declaration.name, ()):
            check_restored(part.declaration, declaration)
            _load(table, part.rows(types))
        return table


def _captured(table: HeapTable) -> CapturedContents:
    if table.declaration.kind is StateKind.BROADCAST:
        entries = table.values.get(_ENTRY, {})
        return CapturedContents(table.declaration, {key: private_copy(value) for key, value in entries.items()})
    return CapturedContents(table.declaration, list(map(private_copy, table.values.get(_ENTRY, ()))))


def _load(table: HeapTable, rows: Rows) -> None:
    if not rows.content:
        return
    if table.declaration.kind is StateKind.BROADCAST:
        table.values.setdefault(_ENTRY, {}).update(zip(rows.detail, rows.content, strict=True))
    else:
        table.values.setdefault(_ENTRY, []).extend(rows.content)
