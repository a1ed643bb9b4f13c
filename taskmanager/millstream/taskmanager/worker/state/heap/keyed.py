"""The keyed state of one operator in one subtask, on the heap."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from millstream.core.clock import Clock, SystemClock
from millstream.core.keys.key_groups import LOWEST_MAX_PARALLELISM
from millstream.core.overriding import override
from millstream.core.records.types import PICKLED, TypeInformation
from millstream.datastream.state import State
from millstream.datastream.state.descriptors import ReducingStateDescriptor, StateDescriptor, ValueStateDescriptor
from millstream.taskmanager.worker.state.address import AnyAddress
from millstream.taskmanager.worker.state.capturing.captured import CapturedKeyedState, StateDeclaration
from millstream.taskmanager.worker.state.column_table import RowLayout
from millstream.taskmanager.worker.state.expiring import Expiry
from millstream.taskmanager.worker.state.heap.table import HeapTable
from millstream.taskmanager.worker.state.heap.timers import HeapTimers
from millstream.taskmanager.worker.state.heap.values import HeapReducingState, HeapValueState
from millstream.taskmanager.worker.state.key_group_index import KeyGroupIndex
from millstream.taskmanager.worker.state.keyed_tables import KeyedTables
from millstream.taskmanager.worker.state.table_states import state_object

if TYPE_CHECKING:
    from millstream.taskmanager.worker.state.heap.columns.table import HeapColumnTable


class HeapKeyedStateBackend(KeyedTables[HeapTable, HeapTimers]):
    """With `incremental`, it tracks which key groups are modified."""

    def __init__(
        self,
        operator_name: str = "operator",
        key_type: TypeInformation = PICKLED,
        index: KeyGroupIndex | None = None,
        clock: Clock | None = None,
        incremental: bool = False,
    ) -> None:
        index = KeyGroupIndex(LOWEST_MAX_PARALLELISM) if index is None else index
        super().__init__(operator_name, key_type, index, SystemClock() if clock is None else clock)
        self._incremental = incremental

    @override
    def new_table(self, declaration: StateDeclaration, expiry: Expiry | None) -> HeapTable:
        return HeapTable(declaration, self._index, expiry, self._incremental)

    @override
    def new_column_table(
        self, declaration: StateDeclaration, layout: RowLayout, expiry: Expiry | None
    ) -> HeapColumnTable:
        from millstream.taskmanager.worker.state.heap.columns.table import HeapColumnTable  # it loads NumPy

        return HeapColumnTable(declaration, layout, self._index, expiry, self._incremental)

    def new_timers(self, declaration: StateDeclaration) -> HeapTimers:
        """Creates a store without timers."""
        return HeapTimers(declaration, self._index, self._address, self._incremental)

    def lasting_state(self, table: HeapTable, address: AnyAddress, descriptor: StateDescriptor) -> State:
        """The object for a state without time-to-live; common kinds access the table's dictionary directly."""
        match descriptor:
            case ValueStateDescriptor():
                return HeapValueState(table, address)
            case ReducingStateDescriptor():
                return HeapReducingState(table, address, descriptor)
            case _:
                return state_object(table, address, descriptor)

    def clear_current_key(self) -> None:
        """Clears the current key; captures that were released meanwhile are forgotten."""
        super().clear_current_key()
        for table in self._tables.declared.values():
            table.forget_released()

    def capture(self, checkpoint_id: int, incremental: bool = False) -> CapturedKeyedState:
        """Captures all state: a shallow copy of each table's dictionary."""
        states = tuple(table.capture(checkpoint_id, incremental) for table in self._tables.all())
        _age_for_the_garbage_collector()
        return CapturedKeyedState(checkpoint_id, self._index.max_parallelism, self._index.owned, states)

    def confirm(self, checkpoint_id: int) -> None:
        """The checkpoint has completed: incremental ones can build upon it."""
        for table in self._tables.loaded():
            table.confirm(checkpoint_id)


def _age_for_the_garbage_collector() -> None:
    """Moves all objects to the oldest generation: the next young collection would traverse the captured dictionaries.

    A task replaces values that a capture holds, which the collector treats as growth: with half a million entries a
    collection took 70 ms, two thirds of all that a checkpoint may delay a task.
    """
    gc.freeze()
    gc.unfreeze()
