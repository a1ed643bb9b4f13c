"""What keyed backends have in common: the current key, states and timers by name, and restored state.

A backend defines how to create an empty table and empty timers, and how to capture them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from millstream.core.clock import Clock
from millstream.core.keys.key_values import PLAIN
from millstream.core.records.types import TypeInformation
from millstream.core.snapshot.metadata.model import StateKind, TtlSettings
from millstream.core.snapshot.tables.table import StateTypes
from millstream.datastream.state import State
from millstream.datastream.state.descriptors import StateDescriptor
from millstream.datastream.state.ttl import StateTtlConfig
from millstream.taskmanager.worker.state.address import NO_KEY, Address, AnyAddress, NamespacedAddress
from millstream.taskmanager.worker.state.capturing.captured import (
    CapturedKeyedState,
    RestoredFile,
    RestoredState,
    StateDeclaration,
)
from millstream.taskmanager.worker.state.column_state import ColumnState, Freeze
from millstream.taskmanager.worker.state.column_table import ColumnTable, RowLayout
from millstream.taskmanager.worker.state.declarations import declare_keyed, ttl_settings
from millstream.taskmanager.worker.state.expiring import ExpiringTable, Expiry, expiring_state
from millstream.taskmanager.worker.state.key_group_index import KeyGroupIndex
from millstream.taskmanager.worker.state.named_tables import LoadedTable, NamedTables
from millstream.taskmanager.worker.state.table import StateTable, ValueTable
from millstream.taskmanager.worker.state.table_states import state_object
from millstream.taskmanager.worker.state.timers import Timers

if TYPE_CHECKING:
    import pyarrow as pa


class BackendTable(StateTable, LoadedTable, Protocol):
    """A backend's table."""

    @property
    def expiry(self) -> Expiry | None:
        """The time-to-live, if the state has one."""


class BackendColumnTable(ColumnTable, Protocol):
    """A backend's table of columns."""

    def load_native(self, file: RestoredFile) -> None:
        """Adds a file of the backend's own format; raises if it is in another."""

    def restore(self, stored: pa.Table, ttl: TtlSettings | None) -> None:
        """Adds rows of a snapshot, as far as they are in the key groups of this subtask.

        They were stored with this time-to-live.
        """


class BackendTimers(Timers, LoadedTable, Protocol):
    """A backend's timers."""


T = TypeVar("T", bound=BackendTable)
Q = TypeVar("Q", bound=BackendTimers)


class KeyedTables(ABC, Generic[T, Q]):
    """The keyed state of one operator in one subtask, except for its tables: see `backend.KeyedStateBackend`."""

    def __init__(self, operator_name: str, key_type: TypeInformation, index: KeyGroupIndex, clock: Clock) -> None:
        self._key_type = key_type
        self._index = index
        self._clock = clock
        self._address = Address()
        self._tables: NamedTables[T | Q] = NamedTables(operator_name, self._empty, clock)
        self._swept_every_record: list[tuple[T, int]] = []
        self._columns: set[str] = set()
        self._column_tables: set[str] = set()

    # Implemented by each backend

    @abstractmethod
    def new_table(self, declaration: StateDeclaration, expiry: Expiry | None) -> T:
        """An empty table."""

    @abstractmethod
    def new_column_table(
        self, declaration: StateDeclaration, layout: RowLayout, expiry: Expiry | None
    ) -> BackendColumnTable:
        """An empty table of columns."""

    @abstractmethod
    def new_timers(self, declaration: StateDeclaration) -> Q:
        """Creates a store without timers."""

    @abstractmethod
    def capture(self, checkpoint_id: int, incremental: bool = False) -> CapturedKeyedState:
        """Captures all state."""

    @abstractmethod
    def confirm(self, checkpoint_id: int) -> None:
        """The checkpoint has completed: incremental ones can build upon it."""

    def lasting_state(self, table: T, address: AnyAddress, descriptor: StateDescriptor) -> State:
        """The object for a state without time-to-live; a backend may have a faster one."""
        return state_object(table, address, descriptor)

    # Common to all backends

    def set_current_key(self, key: Any) -> None:
        """Sets the key to which all keyed state is scoped."""
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
        if self._swept_every_record:
            for table, entries in self._swept_every_record:
                table.sweep(entries, self._clock.now_ms())

    def get_current_key(self) -> Any:
        """The current key; raises if there is none."""
        if self._address.key is NO_KEY:
            hash(NO_KEY)
        return self._address.key

    def clear_current_key(self) -> None:
        """Clears the current key: using keyed state raises. Operators call it after each batch."""
        self._address.key = NO_KEY

    def state(self, descriptor: StateDescriptor, namespace_type: TypeInformation | None = None) -> State:
        """The state of a descriptor, with the same data for each call."""
        declaration = declare_keyed(descriptor, self._key_type, namespace_type)
        table = self._table(declaration, descriptor.ttl, descriptor)
        address: AnyAddress = self._address if namespace_type is None else NamespacedAddress(self._address)
        if table.expiry is not None:
            return expiring_state(table, address, descriptor, table.expiry)
        return self.lasting_state(table, address, descriptor)

    def table(
        self, name: str, value_type: TypeInformation, kind: StateKind = StateKind.REDUCING,
        namespace_type: TypeInformation | None = None, ttl: StateTtlConfig | None = None,
    ) -> ValueTable:  # fmt: skip
        """A state with one value per entry, for operators that process batches."""
        types = StateTypes(self._key_type, value_type, namespace_type)
        table = self._table(StateDeclaration(name, kind, types, ttl_settings(ttl)), ttl)
        return table if table.expiry is None else ExpiringTable(table, table.expiry)

    def entries(self, name: str) -> list[Any]:
        """All keys that have an entry in a state, or pairs of key and namespace."""
        return cast(T, self._tables.declared[name]).entries()

    def entry_counts(self) -> dict[str, int]:
        """The number of entries of each requested state, except for those that are kept as columns."""
        return {name: len(table) for name, table in self._tables.declared.items() if name not in self._columns}

    def forget_all(self) -> None:
        """Removes all entries of all states, except timers and states that are kept as columns."""
        for name, table in self._tables.declared.items():
            is_column = name in self._columns or name in self._column_tables
            if table.declaration.kind is not StateKind.TIMERS and not is_column:
                of_entries = cast(T, table)
                for entry in of_entries.entries():
                    of_entries.remove(entry)

    def timers(self, name: str, namespace_type: TypeInformation | None = None) -> Q:
        """The timers of this name, the same for each call."""
        types = StateTypes(self._key_type, namespace=namespace_type)
        return cast(Q, self._tables.declare(StateDeclaration(name, StateKind.TIMERS, types), None))

    def columns(
        self, name: str, types: StateTypes, freeze: Freeze, kind: StateKind = StateKind.AGGREGATING
    ) -> list[pa.Table]:
        """A state that its operator keeps as columns in memory, whichever backend keeps the others."""
        declaration = StateDeclaration(name, kind, types)
        state: Any = ColumnState(declaration, self._index, freeze)
        self._columns.add(name)
        return self._tables.declare_columns(declaration, state)

    def column_table(
        self, name: str, types: StateTypes, layout: RowLayout, kind: StateKind = StateKind.AGGREGATING,
        ttl: StateTtlConfig | None = None,
    ) -> ColumnTable:  # fmt: skip
        """A state whose rows are columns."""
        declaration = StateDeclaration(name, kind, types, ttl_settings(ttl))
        table: Any = self.new_column_table(declaration, layout, None if ttl is None else Expiry(ttl, self._clock))
        self._column_tables.add(name)
        for stored, rows in self._tables.declare_stored(declaration, table):
            table.restore(rows, stored.ttl)
        return cast(ColumnTable, table)

    def restore(self, states: Iterable[RestoredState]) -> None:
        """Adds restored state; its rows are read when the program requests it."""
        self._tables.restore(states)

    def hold_restored(self) -> None:
        """Reads the state that was not requested so far into memory."""
        self._tables.hold_restored()

    def close(self) -> None:
        """Releases everything; captures keep what they share with it."""
        self._address.key = NO_KEY
        self._tables.clear()
        self._swept_every_record.clear()

    def _table(
        self, declaration: StateDeclaration, ttl: StateTtlConfig | None, descriptor: StateDescriptor | None = None
    ) -> T:
        is_new = declaration.name not in self._tables.declared
        table = cast(T, self._tables.declare(declaration, ttl, descriptor))
        if is_new and table.expiry is not None and table.expiry.every_record:
            self._swept_every_record.append((table, table.expiry.swept))
        return table

    def _empty(self, declaration: StateDeclaration, ttl: StateTtlConfig | None) -> T | Q:
        if declaration.kind is StateKind.TIMERS:
            return self.new_timers(declaration)
        return self.new_table(declaration, None if ttl is None else Expiry(ttl, self._clock))
