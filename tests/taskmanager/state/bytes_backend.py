"""A state backend that keeps nothing but bytes, in one ordered space of keys as RocksDB has it.

It shows what the interface asks of a backend that serialises, no more: it is slow. A row lies under the state's
name, its key group, its key, its namespace, and then its position in a list or its key in a map; so entries and key
groups are found by their prefix. Before a row's value stands the time at which it expires.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from ordered_bytes import OrderedBytes, ValueCodec, framed, key_bytes, unframed

from millstream.core.clock import Clock
from millstream.core.handover import Handover
from millstream.core.snapshot.model import StateKind, TtlSettings
from millstream.core.snapshot.restore import Rows
from millstream.core.snapshot.table import StateTypes
from millstream.core.types import PICKLED, TypeInformation
from millstream.datastream.state import (
    AggregatingState,
    ListState,
    MapState,
    ReducingState,
    State,
    StateDescriptor,
    StateTtlConfig,
    ValueState,
)
from millstream.taskmanager.state.address import NO_KEY, Address, NamespacedAddress
from millstream.taskmanager.state.captured import CapturedKeyedState, RestoredState, StateDeclaration, StateRows
from millstream.taskmanager.state.declarations import declare_keyed, ttl_settings
from millstream.taskmanager.state.heap import HeapOperatorStateBackend
from millstream.taskmanager.state.heap.expiry import Expiry
from millstream.taskmanager.state.key_group_index import KeyGroupIndex
from millstream.taskmanager.state.named_tables import NamedTables
from millstream.taskmanager.state.restored_rows import deadlines_of, owned_rows

MISSING: Any = object()
NEVER = (1 << 63) - 1


# Tables


class BytesTable:
    """The rows of one state."""

    def __init__(
        self, declaration: StateDeclaration, index: KeyGroupIndex, expiry: Expiry | None, store: OrderedBytes
    ) -> None:
        self.declaration = declaration
        self.expiry = expiry
        self._index = index
        self._store = store
        self._prefix = framed(declaration.name.encode())
        self._values = ValueCodec(declaration.types.value or PICKLED)
        for row, _ in list(store.scan(self._prefix)):  # as stored, of a state that is asked for only now
            store.delete(self._prefix + row)

    def entry(self, address: Address | NamespacedAddress) -> bytes:
        """Where the rows of the key, or of key and namespace, lie."""
        hash(address.key)  # an error without a key
        return self.entry_of(*(address.key if isinstance(address, NamespacedAddress) else (address.key,)))

    def entry_of(self, key: Any, *namespace: Any) -> bytes:
        types = self.declaration.types
        places = zip((key, *namespace), (types.key, types.namespace), strict=False)
        group = self._index.of(key).to_bytes(2, "big")
        return self._prefix + group + b"".join(framed(key_bytes(part, kind)) for part, kind in places)

    def map_row(self, entry: bytes, map_key: Any) -> bytes:
        return entry + key_bytes(map_key, self.declaration.types.map_key)

    def read(self, row: bytes) -> Any:
        """A row's value, if it is there and may be seen; reading may make it live longer, or be its end."""
        data = self._store.get(row)
        if data is None:
            return MISSING
        value = self._values.decode(data[8:])
        if self.expiry is not None:
            if int.from_bytes(data[:8], "big") <= self.expiry.now():
                self._store.delete(row)
                return value if self.expiry.answers_expired else MISSING
            if self.expiry.reads_extend:
                self.write(row, value)
        return value

    def rows(self, entry: bytes) -> list[tuple[bytes, Any]]:
        """What may be seen of an entry's rows: what follows the entry in their keys, and the values."""
        found = [(row, self.read(entry + row)) for row, _ in list(self._store.scan(entry))]
        return [(row, value) for row, value in found if value is not MISSING]

    def write(self, row: bytes, value: Any, deadline: int | None = None) -> None:
        if deadline is None:
            deadline = NEVER if self.expiry is None else self.expiry.now() + self.expiry.ttl_ms
        self._store.put(row, deadline.to_bytes(8, "big") + self._values.encode(value))

    def append(self, entry: bytes, value: Any, deadline: int | None = None) -> None:
        last = max((int.from_bytes(row, "big") for row, _ in self._store.scan(entry)), default=-1)
        self.write(entry + (last + 1).to_bytes(8, "big"), value, deadline)

    def delete(self, entry: bytes) -> None:
        for row, _ in list(self._store.scan(entry)):
            self._store.delete(entry + row)

    def fold(
        self, keys: Sequence[Any], records: Iterator[Any], reduce: Callable[[Any, Any], Any],
        handover: Handover | None = None,
    ) -> list[Any]:  # fmt: skip
        results: list[Any] = []
        for key, record in zip(keys, records, strict=False):
            entry = self.entry_of(key)
            before = self.read(entry)
            result = record if before is MISSING else reduce(before, record)
            self.write(entry, result)
            results.append(result if handover is None else handover.kept(result))
        return results

    def read_column(self, keys: Any, default: float = 0, dtype: Any = "float64") -> npt.NDArray[Any]:
        found = (self.read(self.entry_of(key)) for key in _listed(keys))
        return np.array([default if number is MISSING else number for number in found], dtype)

    def write_column(self, keys: Any, numbers: npt.NDArray[Any]) -> None:
        for key, number in zip(_listed(keys), numbers.tolist(), strict=True):
            self.write(self.entry_of(key), number)

    def load(self, rows: Rows, stored_ttl: TtlSettings | None) -> None:
        chosen, expiry = owned_rows(rows, self._index), self.expiry
        deadlines = None if expiry is None else deadlines_of(rows, stored_ttl, expiry.ttl_ms, expiry.now())
        if self.declaration.kind is StateKind.LIST:
            chosen = sorted(chosen, key=rows.detail.__getitem__)
        for row in chosen:
            entry = self.entry_of(rows.keys[row], *(rows.namespaces[row : row + 1]))
            deadline = None if deadlines is None else deadlines[row]
            match self.declaration.kind:
                case StateKind.LIST:
                    self.append(entry, rows.content[row], deadline)
                case StateKind.MAP:
                    self.write(self.map_row(entry, rows.detail[row]), rows.content[row], deadline)
                case _:
                    self.write(entry, rows.content[row], deadline)

    def capture(self, store: OrderedBytes) -> BytesCapture:
        drops = self.expiry is not None and self.expiry.in_snapshots
        now = self.expiry.now() if self.expiry is not None and drops else None
        return BytesCapture(self.declaration, store, self._prefix, self._values, self._index.owned, now)


def _listed(keys: Any) -> list[Any]:
    return keys.to_pylist() if hasattr(keys, "to_pylist") else list(keys)


class BytesCapture:
    """The rows of one table in a snapshot of the store."""

    base: int | None = None
    dirty_groups: frozenset[int] | None = None

    def __init__(
        self, declaration: StateDeclaration, store: OrderedBytes, prefix: bytes, values: ValueCodec, owned: range,
        drop_expired_at: int | None,
    ) -> None:  # fmt: skip
        self.declaration = declaration
        self._store: OrderedBytes | None = store
        self._prefix, self._values, self._owned = prefix, values, owned
        self._drop_expired_at = drop_expired_at

    def rows(self, key_groups: Collection[int] | None = None) -> StateRows:
        found = StateRows([], [], [] if self.declaration.namespaced else None, [] if self.declaration.ttl else None)
        groups: list[int] = []
        entry = None
        for group in sorted(self._owned if key_groups is None else key_groups):
            for row, data in self._scan(group):
                key, rest = unframed(row)
                namespace, rest = unframed(rest) if self.declaration.namespaced else (b"", rest)
                if (group, key, namespace) != entry:
                    entry = group, key, namespace
                    self._begin(found, *entry)
                    groups.append(group)
                self._add(found, rest, data)
        return StateRows(found.values, found.keys, found.namespaces, found.expires_at, np.array(groups, np.int32))

    def _scan(self, group: int) -> Iterator[tuple[bytes, bytes]]:
        if self._store is not None:
            for row, data in self._store.scan(self._prefix + group.to_bytes(2, "big")):
                if self._drop_expired_at is None or int.from_bytes(data[:8], "big") > self._drop_expired_at:
                    yield row, data

    def _begin(self, found: StateRows, group: int, key: bytes, namespace: bytes) -> None:
        found.keys.append(pickle.loads(key))
        if found.namespaces is not None:
            found.namespaces.append(pickle.loads(namespace))
        for column in (found.values, found.expires_at):
            if column is not None:
                column.append([] if self.declaration.kind is StateKind.LIST else {})

    def _add(self, found: StateRows, rest: bytes, data: bytes) -> None:
        deadline, value = int.from_bytes(data[:8], "big"), self._values.decode(data[8:])
        for column, item in ((found.values, value), (found.expires_at, deadline)):
            if column is None:
                continue
            match self.declaration.kind:
                case StateKind.LIST:
                    column[-1].append(item)
                case StateKind.MAP:
                    column[-1][pickle.loads(rest)] = item
                case _:
                    column[-1] = item

    def release(self) -> None:
        self._store = None


# State objects


@dataclass
class BytesState(State):
    """The table, and which of its entries is meant."""

    table: BytesTable
    at: Address | NamespacedAddress
    descriptor: Any

    def set_namespace(self, namespace: Any) -> None:
        assert isinstance(self.at, NamespacedAddress)
        self.at.namespace = namespace

    @property
    def entry(self) -> bytes:
        return self.table.entry(self.at)

    def clear(self) -> None:
        self.table.delete(self.entry)


class BytesValueState(BytesState, ValueState[Any]):
    def value(self) -> Any:
        value = self.table.read(self.entry)
        return None if value is MISSING else value

    def update(self, value: Any) -> None:
        self.clear() if value is None else self.table.write(self.entry, value)


class BytesReducingState(BytesState, ReducingState[Any]):
    def get(self) -> Any:
        value = self.table.read(self.entry)
        return None if value is MISSING else value

    def add(self, value: Any) -> None:
        before = self.table.read(self.entry)
        self.table.write(self.entry, value if before is MISSING else self.descriptor.reduce(before, value))


class BytesAggregatingState(BytesState, AggregatingState[Any, Any]):
    def get(self) -> Any:
        accumulator = self.table.read(self.entry)
        return None if accumulator is MISSING else self.descriptor.agg_function.get_result(accumulator)

    def add(self, value: Any) -> None:
        function, accumulator = self.descriptor.agg_function, self.table.read(self.entry)
        if accumulator is MISSING:
            accumulator = function.create_accumulator()
        self.table.write(self.entry, function.add(value, accumulator))


class BytesListState(BytesState, ListState[Any]):
    def get(self) -> list[Any]:
        return [value for _, value in self.table.rows(self.entry)]

    def add(self, value: Any) -> None:
        self.table.append(self.entry, value)

    def add_all(self, values: Iterable[Any]) -> None:
        for value in list(values):
            self.add(value)

    def update(self, values: Iterable[Any]) -> None:
        elements = list(values)
        self.clear()
        self.add_all(elements)


class BytesMapState(BytesState, MapState[Any, Any]):
    def get(self, key: Any) -> Any:
        value = self.table.read(self.table.map_row(self.entry, key))
        return None if value is MISSING else value

    def contains(self, key: Any) -> bool:
        return self.table.read(self.table.map_row(self.entry, key)) is not MISSING

    def items(self) -> list[tuple[Any, Any]]:
        return [(pickle.loads(row), value) for row, value in self.table.rows(self.entry)]

    def keys(self) -> list[Any]:
        return [key for key, _ in self.items()]

    def values(self) -> list[Any]:
        return [value for _, value in self.items()]

    def is_empty(self) -> bool:
        return not self.items()

    def put(self, key: Any, value: Any) -> None:
        self.table.write(self.table.map_row(self.entry, key), value)

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        for key, value in dict_value.items():
            self.put(key, value)

    def remove(self, key: Any) -> None:
        self.table.delete(self.table.map_row(self.entry, key))


_STATES: dict[StateKind, type[BytesState]] = {
    StateKind.VALUE: BytesValueState, StateKind.REDUCING: BytesReducingState, StateKind.LIST: BytesListState,
    StateKind.AGGREGATING: BytesAggregatingState, StateKind.MAP: BytesMapState,
}  # fmt: skip


# Backends


class BytesKeyedStateBackend:
    """All states of one operator in one store."""

    def __init__(self, operator_name: str, key_type: TypeInformation, index: KeyGroupIndex, clock: Clock) -> None:
        self._key_type, self._index, self._clock = key_type, index, clock
        self._address = Address()
        self._store = OrderedBytes()
        self._tables = NamedTables(operator_name, self._empty)

    def set_current_key(self, key: Any) -> None:
        self._address.key = key

    def get_current_key(self) -> Any:
        if self._address.key is NO_KEY:
            hash(NO_KEY)
        return self._address.key

    def clear_current_key(self) -> None:
        self._address.key = NO_KEY

    def state(self, descriptor: StateDescriptor, namespace_type: TypeInformation | None = None) -> State:
        declaration = declare_keyed(descriptor, self._key_type, namespace_type)
        table = self._tables.declare(declaration, descriptor.ttl, descriptor)
        at = self._address if namespace_type is None else NamespacedAddress(self._address)
        return _STATES[declaration.kind](table, at, descriptor)

    def reducing_table(
        self, name: str, value_type: TypeInformation, ttl: StateTtlConfig | None = None
    ) -> BytesTable:
        types = StateTypes(self._key_type, value_type)
        return self._tables.declare(StateDeclaration(name, StateKind.REDUCING, types, ttl_settings(ttl)), ttl)

    def capture(self, checkpoint_id: int, incremental: bool = False) -> CapturedKeyedState:
        tables = self._tables.all()
        store = self._store.snapshot()
        states = tuple(table.capture(store) for table in tables)
        return CapturedKeyedState(checkpoint_id, self._index.max_parallelism, self._index.owned, states)

    def confirm(self, checkpoint_id: int) -> None:
        """Nothing builds upon it."""

    def restore(self, states: Iterable[RestoredState]) -> None:
        self._tables.restore(states)

    def close(self) -> None:
        self._address.key = NO_KEY
        self._store.closed = True

    def _empty(self, declaration: StateDeclaration, ttl: StateTtlConfig | None) -> BytesTable:
        return BytesTable(declaration, self._index, None if ttl is None else Expiry(ttl, self._clock), self._store)


class BytesStateBackend:
    """Makes them. State without keys is on the heap, as beside RocksDB."""

    def keyed_backend(
        self, operator_name: str, key_type: TypeInformation, index: KeyGroupIndex, clock: Clock
    ) -> BytesKeyedStateBackend:
        return BytesKeyedStateBackend(operator_name, key_type, index, clock)

    def operator_backend(self, operator_name: str) -> HeapOperatorStateBackend:
        return HeapOperatorStateBackend(operator_name)
