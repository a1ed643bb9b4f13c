"""The keyed state of one operator in one subtask, on the heap."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterable
from typing import Any

from millstream.core.clock import Clock, SystemClock
from millstream.core.key_groups import LOWEST_MAX_PARALLELISM
from millstream.core.snapshot.model import StateKind
from millstream.core.snapshot.table import StateTypes
from millstream.core.types import PICKLED, TypeInformation
from millstream.datastream.state import State
from millstream.datastream.state_descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
)
from millstream.datastream.state_ttl import StateTtlConfig
from millstream.taskmanager.state.captured import CapturedKeyedState, RestoredState, StateDeclaration
from millstream.taskmanager.state.declarations import (
    check_restored,
    check_same,
    declare_keyed,
    ttl_config,
    ttl_settings,
    undeclared_warning,
)
from millstream.taskmanager.state.heap import expiring, plain
from millstream.taskmanager.state.heap.address import NO_KEY, Address, AnyAddress, NamespacedAddress
from millstream.taskmanager.state.heap.expiry import Expiry
from millstream.taskmanager.state.heap.table import HeapTable
from millstream.taskmanager.state.key_group_index import KeyGroupIndex

log = logging.getLogger(__name__)


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
        self._operator_name = operator_name
        self._incremental = incremental
        self._address = Address()
        self._tables: dict[str, HeapTable] = {}
        self._restored: dict[str, list[RestoredState]] = {}
        self._kept: dict[str, HeapTable] = {}  # as stored: the program has not asked for them yet
        self._cleaned_every_record: list[HeapTable] = []

    def set_current_key(self, key: Any) -> None:
        """All keyed state is this key's from now on."""
        self._address.key = key
        for table in self._cleaned_every_record:
            table.clean(self._clock.now_ms())

    def get_current_key(self) -> Any:
        """The key that was set; an error when there is none."""
        if self._address.key is NO_KEY:
            hash(NO_KEY)
        return self._address.key

    def clear_current_key(self) -> None:
        """There is no key: using keyed state is an error. Operators call it after each batch."""
        self._address.key = NO_KEY
        for table in self._tables.values():
            table.forget_released()

    def state(self, descriptor: StateDescriptor, namespace_type: TypeInformation | None = None) -> State:
        """The state of a descriptor; the same data each time."""
        known = descriptor.name in self._tables
        table = self._table(declare_keyed(descriptor, self._key_type, namespace_type), descriptor.ttl)
        if descriptor.undeclared and not known:
            log.warning("%s", undeclared_warning(self._operator_name, descriptor))
        address: AnyAddress = self._address if namespace_type is None else NamespacedAddress(self._address)
        return _state_object(table, address, descriptor)

    def reducing_table(self, name: str, value_type: TypeInformation, ttl: StateTtlConfig | None = None) -> HeapTable:
        """The reducing state of this name, for operators that work in batches; the same one each time."""
        types = StateTypes(self._key_type, value_type)
        return self._table(StateDeclaration(name, StateKind.REDUCING, types, ttl_settings(ttl)), ttl)

    def capture(self, checkpoint_id: int, incremental: bool = False) -> CapturedKeyedState:
        """All state as it is now: a shallow copy of each table's dictionary."""
        for name, parts in self._restored.items():
            if name not in self._kept:
                stored = parts[0].declaration
                self._kept[name] = self._loaded(stored, ttl_config(stored.ttl), None)
        tables = (*self._tables.values(), *self._kept.values())
        states = tuple(table.capture(checkpoint_id, incremental) for table in tables)
        _age_for_the_garbage_collector()
        return CapturedKeyedState(checkpoint_id, self._index.max_parallelism, self._index.owned, states)

    def confirm(self, checkpoint_id: int) -> None:
        """The checkpoint is complete: incremental ones can build upon it."""
        for table in (*self._tables.values(), *self._kept.values()):
            table.confirm(checkpoint_id)

    def restore(self, states: Iterable[RestoredState]) -> None:
        """Takes over state; its rows are read when the program asks for it."""
        for part in states:
            self._restored.setdefault(part.declaration.name, []).append(part)

    def _table(self, declaration: StateDeclaration, ttl: StateTtlConfig | None) -> HeapTable:
        name = declaration.name
        if name in self._tables:
            check_same(self._tables[name].declaration, declaration)
            return self._tables[name]
        table = self._tables[name] = self._loaded(declaration, ttl, declaration.types)
        self._restored.pop(name, None)
        self._kept.pop(name, None)
        if table.expiry is not None and table.expiry.every_record:
            self._cleaned_every_record.append(table)
        return table

    def _loaded(self, declaration: StateDeclaration, ttl: StateTtlConfig | None, types: StateTypes | None) -> HeapTable:
        expiry = Expiry(ttl, self._clock) if ttl is not None else None
        table = HeapTable(declaration, self._index, expiry, self._incremental)
        for part in self._restored.get(declaration.name, ()):
            check_restored(part.declaration, declaration)
            table.load(part.rows(types), part.declaration.ttl)
        return table


def _age_for_the_garbage_collector() -> None:
    """Makes all objects old ones: the next collection of young ones would go through the captured dictionaries.

    A task replaces values that a capture holds, which looks like growth and sets a collection off: with half a million
    entries it took 70 ms, two thirds of all that a checkpoint may hold a task up.
    """
    gc.freeze()
    gc.unfreeze()


def _state_object(table: HeapTable, address: AnyAddress, descriptor: StateDescriptor) -> State:
    expires = table.expiry is not None
    match descriptor:
        case ReducingStateDescriptor():
            reducing = expiring.ExpiringReducingState if expires else plain.HeapReducingState
            return reducing(table, address, descriptor)
        case AggregatingStateDescriptor():
            aggregating = expiring.ExpiringAggregatingState if expires else plain.HeapAggregatingState
            return aggregating(table, address, descriptor)
        case ListStateDescriptor():
            return (expiring.ExpiringListState if expires else plain.HeapListState)(table, address)
        case MapStateDescriptor():
            return (expiring.ExpiringMapState if expires else plain.HeapMapState)(table, address)
        case _:
            return (expiring.ExpiringValueState if expires else plain.HeapValueState)(table, address)
