"""The keyed state of one operator in one subtask, on the heap."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from typing import Any

from millstream.core.clock import Clock, SystemClock
from millstream.core.key_groups import LOWEST_MAX_PARALLELISM
from millstream.core.key_values import PLAIN
from millstream.core.snapshot.model import StateKind
from millstream.core.snapshot.table import StateTypes
from millstream.core.types import PICKLED, TypeInformation
from millstream.datastream.state import State
from millstream.datastream.state_descriptors import ReducingStateDescriptor, StateDescriptor, ValueStateDescriptor
from millstream.datastream.state_ttl import StateTtlConfig
from millstream.taskmanager.state.address import NO_KEY, Address, AnyAddress, NamespacedAddress
from millstream.taskmanager.state.captured import CapturedKeyedState, RestoredState, StateDeclaration
from millstream.taskmanager.state.declarations import declare_keyed, ttl_settings
from millstream.taskmanager.state.expiring import ExpiringTable, Expiry, expiring_state
from millstream.taskmanager.state.heap.table import HeapTable
from millstream.taskmanager.state.heap.timers import HeapTimers
from millstream.taskmanager.state.heap.values import HeapReducingState, HeapValueState
from millstream.taskmanager.state.key_group_index import KeyGroupIndex
from millstream.taskmanager.state.named_tables import NamedTables
from millstream.taskmanager.state.table import ValueTable
from millstream.taskmanager.state.table_states import state_object


class HeapKeyedStateBackend:
    """Tables by name, and the current key."""

    def __init__(
        self,
        operator_name: str = "operator",
        key_type: TypeInformation = PICKLED,
        index: KeyGroupIndex | None = None,
        clock: Clock | None = None,
        incremental: bool = False,
    ) -> None:
        self._key_type = key_type
        self._index = KeyGroupIndex(LOWEST_MAX_PARALLELISM) if index is None else index
        self._clock = SystemClock() if clock is None else clock
        self._incremental = incremental
        self._address = Address()
        self._tables: NamedTables[HeapTable | HeapTimers] = NamedTables(operator_name, self._empty, self._clock)
        self._cleaned_every_record: list[HeapTable] = []

    def set_current_key(self, key: Any) -> None:
        """All keyed state is this key's from now on."""
        kind = type(key)
        if kind is not str and kind is not int and kind not in PLAIN:
            if kind is tuple:
                for part in key:
                    if type(part) not in PLAIN:
                        key = self._index.canonical(key)
                        break
            elif kind is not float or key != key:
                key = self._index.canonical(key)
        self._address.key = key
        if self._cleaned_every_record:
            for table in self._cleaned_every_record:
                assert table.expiry is not None
                table.sweep(table.expiry.swept, self._clock.now_ms())

    def get_current_key(self) -> Any:
        """The key that was set; an error when there is none."""
        if self._address.key is NO_KEY:
            hash(NO_KEY)
        return self._address.key

    def clear_current_key(self) -> None:
        """There is no key: using keyed state is an error. Operators call it after each batch."""
        self._address.key = NO_KEY
        for table in self._tables.declared.values():
            table.forget_released()

    def state(self, descriptor: StateDescriptor, namespace_type: TypeInformation | None = None) -> State:
        """The state of a descriptor; the same data each time."""
        declaration = declare_keyed(descriptor, self._key_type, namespace_type)
        table = self._table(declaration, descriptor.ttl, descriptor)
        address: AnyAddress = self._address if namespace_type is None else NamespacedAddress(self._address)
        return _state_object(table, address, descriptor)

    def table(
        self, name: str, value_type: TypeInformation, kind: StateKind = StateKind.REDUCING,
        namespace_type: TypeInformation | None = None, ttl: StateTtlConfig | None = None,
    ) -> ValueTable:  # fmt: skip
        """A state with one value for each entry, for operators that work in batches."""
        types = StateTypes(self._key_type, value_type, namespace_type)
        table = self._table(StateDeclaration(name, kind, types, ttl_settings(ttl)), ttl)
        return table if table.expiry is None else ExpiringTable(table, table.expiry)

    def timers(self, name: str, namespace_type: TypeInformation | None = None) -> HeapTimers:
        """The timers of this name; the same ones each time."""
        types = StateTypes(self._key_type, namespace=namespace_type)
        timers = self._tables.declare(StateDeclaration(name, StateKind.TIMERS, types), None)
        assert isinstance(timers, HeapTimers)
        return timers

    def capture(self, checkpoint_id: int, incremental: bool = False) -> CapturedKeyedState:
        """All state as it is now: a shallow copy of each table's dictionary."""
        states = tuple(table.capture(checkpoint_id, incremental) for table in self._tables.all())
        _age_for_the_garbage_collector()
        return CapturedKeyedState(checkpoint_id, self._index.max_parallelism, self._index.owned, states)

    def confirm(self, checkpoint_id: int) -> None:
        """The checkpoint is complete: incremental ones can build upon it."""
        for table in self._tables.loaded():
            table.confirm(checkpoint_id)

    def restore(self, states: Iterable[RestoredState]) -> None:
        """Takes over state; its rows are read when the program asks for it."""
        self._tables.restore(states)

    def close(self) -> None:
        """Lets go of everything; captures hold what they share with it."""
        self._address.key = NO_KEY
        self._tables.clear()
        self._cleaned_every_record.clear()

    def _table(
        self, declaration: StateDeclaration, ttl: StateTtlConfig | None, descriptor: StateDescriptor | None = None
    ) -> HeapTable:
        is_new = declaration.name not in self._tables.declared
        table = self._tables.declare(declaration, ttl, descriptor)
        assert isinstance(table, HeapTable)
        if is_new and table.expiry is not None and table.expiry.every_record:
            self._cleaned_every_record.append(table)
        return table

    def _empty(self, declaration: StateDeclaration, ttl: StateTtlConfig | None) -> HeapTable | HeapTimers:
        if declaration.kind is StateKind.TIMERS:
            return HeapTimers(declaration, self._index, self._address, self._incremental)
        expiry = Expiry(ttl, self._clock) if ttl is not None else None
        return HeapTable(declaration, self._index, expiry, self._incremental)


def _age_for_the_garbage_collector() -> None:
    """Makes all objects old ones: the next collection of young ones would go through the captured dictionaries.

    A task replaces values that a capture holds, which looks like growth and sets a collection off: with half a million
    entries it took 70 ms, two thirds of all that a checkpoint may hold a task up.
    """
    gc.freeze()
    gc.unfreeze()


def _state_object(table: HeapTable, address: AnyAddress, descriptor: StateDescriptor) -> State:
    if table.expiry is not None:
        return expiring_state(table, address, descriptor, table.expiry)
    match descriptor:
        case ValueStateDescriptor():
            return HeapValueState(table, address)
        case ReducingStateDescriptor():
            return HeapReducingState(table, address, descriptor)
        case _:
            return state_object(table, address, descriptor)
