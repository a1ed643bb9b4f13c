"""A state backend that keeps only bytes, in one ordered key space as RocksDB does.

It shows what the interface requires of a backend that serialises, no more: it is slow. The key of a row consists of the
state's name, its key group, its key, its namespace, and then its position in a list or its key in a map; so entries and
key groups are found by their prefix.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from bytes_columns import BytesColumnTable
from bytes_rows import CapturedBytes, StoredRows
from ordered_bytes import OrderedBytes, ValueCodec, key_bytes, unframed

from millstream.core.clock import Clock
from millstream.core.records.handover import Handover
from millstream.core.records.types import TypeInformation
from millstream.core.snapshot.metadata.model import StateKind
from millstream.core.snapshot.tables.restore import Rows
from millstream.datastream.state import MapState
from millstream.taskmanager.worker.state.address import Address, AnyAddress
from millstream.taskmanager.worker.state.capturing.arrow_tables import StateRows
from millstream.taskmanager.worker.state.capturing.captured import CapturedKeyedState, StateDeclaration
from millstream.taskmanager.worker.state.capturing.restored_rows import owned_rows
from millstream.taskmanager.worker.state.column_table import RowLayout
from millstream.taskmanager.worker.state.declarations import check_namespaces
from millstream.taskmanager.worker.state.expiring import Expiry, unexpired
from millstream.taskmanager.worker.state.heap import HeapOperatorStateBackend
from millstream.taskmanager.worker.state.key_group_index import KeyGroupIndex
from millstream.taskmanager.worker.state.keyed_tables import KeyedTables
from millstream.taskmanager.worker.state.table import MISSING, taken_one_after_another
from millstream.taskmanager.worker.state.table_states import AddressedState, MergingListState
from millstream.taskmanager.worker.state.timers import DueTimers, TimeDomain, Timer

# Tables


class BytesTable(StoredRows):
    """The rows of one state."""

    def __init__(
        self, declaration: StateDeclaration, index: KeyGroupIndex, expiry: Expiry | None, store: OrderedBytes
    ) -> None:
        super().__init__(declaration, index, store)
        self.expiry = expiry
        self._values = ValueCodec(declaration.kept_type)

    def row(self, entry: Any) -> bytes:
        hash(entry)  # raises if there is no current key
        return self.place(entry)

    def map_row(self, entry: Any, map_key: Any) -> bytes:
        return self.row(entry) + key_bytes(map_key, self.declaration.types.map_key)

    def read(self, row: bytes) -> Any:
        data = self.store.get(row)
        return MISSING if data is None else self._values.decode(data)

    def write(self, row: bytes, value: Any) -> None:
        self.store.put(row, self._values.encode(value))

    def delete(self, row: bytes) -> None:
        for rest, _ in list(self.store.scan(row)):
            self.store.delete(row + rest)

    def scan(self, entry: Any) -> list[tuple[bytes, Any]]:
        """An entry's rows: what follows the entry in their keys, and the values."""
        return [(rest, self._values.decode(data)) for rest, data in self.store.scan(self.row(entry))]

    def append(self, entry: Any, value: Any) -> None:
        row = self.row(entry)
        last = max((int.from_bytes(rest, "big") for rest, _ in self.store.scan(row)), default=-1)
        self.write(row + (last + 1).to_bytes(8, "big"), value)

    def get(self, entry: Any) -> Any:
        return self.read(self.row(entry))

    def put(self, entry: Any, value: Any) -> None:
        self.write(self.row(entry), value)

    def remove(self, entry: Any) -> None:
        self.delete(self.row(entry))

    def get_all(self, keys: Collection[Any], namespaces: Iterable[Any] | None = None) -> list[Any]:
        return list(map(self.get, _entries(self.declaration, keys, namespaces)))

    def put_all(self, keys: Collection[Any], values: Iterable[Any], namespaces: Iterable[Any] | None = None) -> None:
        for entry, value in zip(_entries(self.declaration, keys, namespaces), values, strict=True):
            if value is MISSING:
                self.remove(entry)
            else:
                self.put(entry, value)

    def take_all(self, keys: Collection[Any], namespaces: Iterable[Any] | None = None) -> list[Any]:
        return taken_one_after_another(self, keys, namespaces)

    def fold(
        self, keys: Sequence[Any], records: Iterator[Any], reduce: Callable[[Any, Any], Any],
        handover: Handover | None = None, *, namespaces: Iterable[Any] | None = None,
        first: Callable[[Any], Any] | None = None,
    ) -> list[Any]:  # fmt: skip
        results: list[Any] = []
        for entry, record in zip(_entries(self.declaration, keys, namespaces), records, strict=False):
            before = self.get(entry)
            if before is not MISSING:
                record = reduce(before, record)
            elif first is not None:
                record = first(record)
            self.put(entry, record)
            results.append(record if handover is None else handover.kept(record))
        return results

    def list_state(self, address: AnyAddress) -> BytesListState:
        return BytesListState(self, address)

    def map_state(self, address: AnyAddress) -> BytesMapState:
        return BytesMapState(self, address)

    def __len__(self) -> int:
        return len(self.entries())

    def entries(self) -> list[Any]:
        found: dict[bytes, Any] = {}
        for row, _ in self.store.scan(self.prefix):
            key, rest = unframed(row[2:])
            namespace, rest = unframed(rest) if self.declaration.namespaced else (b"", rest)
            found[key + namespace] = (pickle.loads(key), pickle.loads(namespace)) if namespace else pickle.loads(key)
        return list(found.values())

    def sweep(self, entries: int, now: int) -> None:
        """Does nothing: like RocksDB, it would drop expired values in compactions."""

    def load(self, parts: Iterable[Rows]) -> None:
        for rows in parts:
            self._load(rows)

    def _load(self, rows: Rows) -> None:
        for row in owned_rows(rows, self.index):
            entry = (rows.keys[row], rows.namespaces[row]) if self.declaration.namespaced else rows.keys[row]
            match self.declaration.kind:
                case StateKind.LIST:
                    self.write(self.row(entry) + rows.detail[row].to_bytes(8, "big"), rows.content[row])
                case StateKind.MAP:
                    self.write(self.map_row(entry, rows.detail[row]), rows.content[row])
                case _:
                    self.put(entry, rows.content[row])

    def capture(self, store: OrderedBytes, base: int | None) -> BytesCapture:
        drops = self.expiry is not None and self.expiry.in_snapshots
        now = self.expiry.now() if self.expiry is not None and drops else None
        return BytesCapture(
            self.declaration, store, self.prefix, self.index, base, values=self._values, drop_expired_at=now
        )


def _entries(declaration: StateDeclaration, keys: Collection[Any], namespaces: Iterable[Any] | None) -> Collection[Any]:
    check_namespaces(declaration, namespaces is not None)
    return keys if namespaces is None else list(zip(keys, namespaces, strict=True))


class BytesCapture(CapturedBytes):
    def __init__(self, *rest: Any, values: ValueCodec, drop_expired_at: int | None) -> None:
        super().__init__(*rest)
        self._values = values
        self._drop_expired_at = drop_expired_at

    def _rows(self, group: int, rows: list[tuple[bytes, bytes]]) -> StateRows:
        found: dict[tuple[bytes, bytes], Any] = {}
        for row, data in rows:
            key, rest = unframed(row)
            namespace, rest = unframed(rest) if self.declaration.namespaced else (b"", rest)
            value = self._values.decode(data)
            match self.declaration.kind:
                case StateKind.LIST:
                    found.setdefault((key, namespace), []).append(value)
                case StateKind.MAP:
                    found.setdefault((key, namespace), {})[pickle.loads(rest)] = value
                case _:
                    found[key, namespace] = value
        if self._drop_expired_at is not None:
            alive_of, now = unexpired(self.declaration.kind), self._drop_expired_at
            left = {entry: alive_of(value, now) for entry, value in found.items()}
            found = {entry: value for entry, value in left.items() if value is not None}
        keys = [pickle.loads(key) for key, _ in found]
        namespaces = [pickle.loads(namespace) for _, namespace in found] if self.declaration.namespaced else None
        return StateRows(list(found.values()), keys, namespaces, np.full(len(found), group, np.int32))


# Lists and maps; everything else works over any table


class BytesState(AddressedState):
    """A table, and the address of the current entry."""

    def __init__(self, table: BytesTable, address: AnyAddress) -> None:
        super().__init__(address)
        self.table = table

    def clear(self) -> None:
        self.table.remove(self._at.key)


class BytesListState(BytesState, MergingListState):
    def get(self) -> list[Any]:
        return [value for _, value in self.table.scan(self._at.key)]

    def add(self, value: Any) -> None:
        self.table.append(self._at.key, value)

    def add_all(self, values: Iterable[Any]) -> None:
        for value in list(values):
            self.add(value)

    def update(self, values: Iterable[Any]) -> None:
        elements = list(values)
        self.clear()
        self.add_all(elements)


class BytesMapState(BytesState, MapState[Any, Any]):
    def get(self, key: Any) -> Any:
        value = self.table.read(self.table.map_row(self._at.key, key))
        return None if value is MISSING else value

    def contains(self, key: Any) -> bool:
        return self.table.read(self.table.map_row(self._at.key, key)) is not MISSING

    def items(self) -> list[tuple[Any, Any]]:
        return [(pickle.loads(row), value) for row, value in self.table.scan(self._at.key)]

    def keys(self) -> list[Any]:
        return [key for key, _ in self.items()]

    def values(self) -> list[Any]:
        return [value for _, value in self.items()]

    def is_empty(self) -> bool:
        return not self.items()

    def put(self, key: Any, value: Any) -> None:
        self.table.write(self.table.map_row(self._at.key, key), value)

    def put_all(self, dict_value: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        for key, value in dict(dict_value).items():
            self.put(key, value)

    def remove(self, key: Any) -> None:
        self.table.delete(self.table.map_row(self._at.key, key))


# Timers


class BytesTimers(StoredRows):
    """A row per timer, under the name, the key group, the domain and the time.

    So the first of each key group is found directly.
    """

    def __init__(
        self, declaration: StateDeclaration, index: KeyGroupIndex, address: Address, store: OrderedBytes
    ) -> None:
        super().__init__(declaration, index, store)
        self.address = address
        self.event, self.processing = (BytesTimerQueue(self, domain) for domain in TimeDomain)

    def load(self, parts: Iterable[Rows]) -> None:
        for rows in parts:
            self._load(rows)

    def _load(self, rows: Rows) -> None:
        for row in owned_rows(rows, self.index):
            queue = self.event if rows.detail[row] == "event" else self.processing
            namespaces = rows.namespaces[row : row + 1] if self.declaration.namespaced else None
            queue.register_all([rows.content[row]], [rows.keys[row]], namespaces)

    def __len__(self) -> int:
        return sum(1 for _ in self.store.scan(self.prefix))

    def capture(self, store: OrderedBytes, base: int | None) -> BytesTimerCapture:
        return BytesTimerCapture(self.declaration, store, self.prefix, self.index, base)


class BytesTimerQueue:
    def __init__(self, timers: BytesTimers, domain: TimeDomain) -> None:
        self._timers, self._domain = timers, domain.value[:1].encode()

    def register(self, timestamp: int, namespace: Any = None) -> None:
        self.register_all(*self._one(timestamp, namespace))

    def delete(self, timestamp: int, namespace: Any = None) -> None:
        self.delete_all(*self._one(timestamp, namespace))

    def _one(self, timestamp: int, namespace: Any) -> tuple[Any, ...]:
        key = self._timers.address.key
        hash(key)  # raises if there is no current key
        return [timestamp], [key], [namespace] if self._timers.declaration.namespaced else None

    def register_all(
        self, timestamps: Iterable[int], keys: Collection[Any], namespaces: Iterable[Any] | None = None
    ) -> None:
        for row in self._rows(timestamps, keys, namespaces):
            self._timers.store.put(row, b"")

    def delete_all(
        self, timestamps: Iterable[int], keys: Collection[Any], namespaces: Iterable[Any] | None = None
    ) -> None:
        for row in self._rows(timestamps, keys, namespaces):
            self._timers.store.delete(row)

    def next_timestamp(self) -> int | None:
        return min((row.timestamp for row in self._firsts()), default=None)

    def owners(self, most: int) -> int:
        found: set[bytes] = set()
        for group in self._timers.index.owned:
            rows = self._timers.store.scan(self._timers.prefix + group.to_bytes(2, "big") + self._domain)
            found |= {row[8:] for row, _ in rows}
        return min(len(found), most)

    def due(self, until: int) -> Iterator[Timer]:
        while (first := min(self._firsts(), default=None, key=lambda row: row.timestamp)) and first.timestamp <= until:
            self._timers.store.delete(first.row)
            yield Timer(first.timestamp, *first.entry)

    def take_due(self, until: int) -> DueTimers | None:
        timestamp = self.next_timestamp()
        if timestamp is None or timestamp > until:
            return None
        entries = [timer[1:] for timer in self.due(timestamp)]
        namespaces = [namespace for _, namespace in entries] if self._timers.declaration.namespaced else None
        return DueTimers(timestamp, [entry[0] for entry in entries], namespaces)

    def _rows(
        self, timestamps: Iterable[int], keys: Collection[Any], namespaces: Iterable[Any] | None
    ) -> Iterator[bytes]:
        entries = _entries(self._timers.declaration, keys, namespaces)
        for timestamp, entry in zip(timestamps, entries, strict=True):
            yield self._timers.place(entry, self._domain + (timestamp + (1 << 63)).to_bytes(8, "big"))

    def _firsts(self) -> Iterator[TimerRow]:
        for group in self._timers.index.owned:
            prefix = self._timers.prefix + group.to_bytes(2, "big") + self._domain
            for row, _ in self._timers.store.scan(prefix):
                yield TimerRow.of(prefix, row, self._timers.declaration.namespaced)
                break


class TimerRow(NamedTuple):
    row: bytes
    timestamp: int
    entry: tuple[Any, ...]

    @staticmethod
    def of(prefix: bytes, row: bytes, namespaced: bool) -> TimerRow:
        key, rest = unframed(row[8:])
        entry = (pickle.loads(key),) + ((pickle.loads(unframed(rest)[0]),) if namespaced else ())
        return TimerRow(prefix + row, int.from_bytes(row[:8], "big") - (1 << 63), entry)


class BytesTimerCapture(CapturedBytes):
    def _rows(self, group: int, rows: list[tuple[bytes, bytes]]) -> StateRows:
        times: list[tuple[int, str]] = []
        entries: list[tuple[Any, ...]] = []
        for row, _ in rows:
            timer = TimerRow.of(b"", row[1:], self.declaration.namespaced)
            times.append((timer.timestamp, "event" if row[:1] == b"e" else "processing"))
            entries.append(timer.entry)
        namespaces = [entry[1] for entry in entries] if self.declaration.namespaced else None
        return StateRows(times, [entry[0] for entry in entries], namespaces, np.full(len(entries), group, np.int32))


# Backends


class BytesKeyedStateBackend(KeyedTables[BytesTable, BytesTimers]):
    """All states of one operator in one store."""

    def __init__(self, operator_name: str, key_type: TypeInformation, index: KeyGroupIndex, clock: Clock) -> None:
        super().__init__(operator_name, key_type, index, clock)
        self._store = OrderedBytes()
        self._confirmed: int | None = None

    def new_table(self, declaration: StateDeclaration, expiry: Expiry | None) -> BytesTable:
        return BytesTable(declaration, self._index, expiry, self._store)

    def new_column_table(
        self, declaration: StateDeclaration, layout: RowLayout, expiry: Expiry | None
    ) -> BytesColumnTable:
        return BytesColumnTable(declaration, layout, self._index, expiry, self._store)

    def new_timers(self, declaration: StateDeclaration) -> BytesTimers:
        return BytesTimers(declaration, self._index, self._address, self._store)

    def capture(self, checkpoint_id: int, incremental: bool = False) -> CapturedKeyedState:
        tables = self._tables.all()
        store = self._store.snapshot()
        states = tuple(table.capture(store, self._confirmed if incremental else None) for table in tables)
        return CapturedKeyedState(checkpoint_id, self._index.max_parallelism, self._index.owned, states)

    def confirm(self, checkpoint_id: int) -> None:
        self._confirmed = checkpoint_id

    def close(self) -> None:
        super().close()
        self._store.closed = True


class BytesStateBackend:
    """Creates them. State without keys is on the heap, as with RocksDB."""

    def keyed_backend(
        self, operator_name: str, key_type: TypeInformation, index: KeyGroupIndex, clock: Clock
    ) -> BytesKeyedStateBackend:
        return BytesKeyedStateBackend(operator_name, key_type, index, clock)

    def operator_backend(self, operator_name: str) -> HeapOperatorStateBackend:
        return HeapOperatorStateBackend(operator_name)
