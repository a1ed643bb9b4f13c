"""Time-to-live for all backends: values are stored in pairs with their deadlines, which are handled here.

An expired value is removed when it is read; if the visibility allows it, it is returned that one time. Elements of a
list and entries of a map expire independently. Each access also has the backend clean up a few other entries.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

from millstream.core.clock import Clock
from millstream.core.overriding import override
from millstream.core.records.handover import Handover
from millstream.core.snapshot.metadata.model import StateKind
from millstream.datastream.state import ListState, MapState, State
from millstream.datastream.state.descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor
from millstream.datastream.state.ttl import StateTtlConfig, StateVisibility, UpdateType
from millstream.taskmanager.worker.state.address import AnyAddress
from millstream.taskmanager.worker.state.table import MISSING, StateTable, taken_one_after_another
from millstream.taskmanager.worker.state.table_states import AddressedState, single_value

Stamped = tuple[int, Any]


class Expiry:
    """The time-to-live of one state. A value has expired from its deadline on."""

    def __init__(self, config: StateTtlConfig, clock: Clock) -> None:
        self.ttl_ms = config.ttl_ms
        self.reads_extend = config.update_type is UpdateType.OnReadAndWrite
        self.answers_expired = config.state_visibility is StateVisibility.ReturnExpiredIfNotCleanedUp
        self.in_snapshots = config.cleanup_strategies.in_full_snapshot()
        incremental = config.cleanup_strategies.get_incremental_cleanup_strategy()
        self.swept = 0 if incremental is None else incremental.cleanup_size
        self.every_record = incremental is not None and incremental.every_record
        self.now = clock.now_ms


def unexpired(kind: StateKind) -> Callable[[Any, int], Any]:
    """Returns the unexpired part of an entry's stamped value, list or map: the same object if that is all of it.

    None: nothing.
    """
    return _UNEXPIRED.get(kind, _unexpired_value)


def _unexpired_value(value: Stamped, now: int) -> Stamped | None:
    return value if value[0] > now else None


def _unexpired_list(elements: list[Stamped], now: int) -> list[Stamped] | None:
    for pair in elements:
        if pair[0] <= now:
            return [pair for pair in elements if pair[0] > now] or None
    return elements


def _unexpired_map(entries: dict[Any, Stamped], now: int) -> dict[Any, Stamped] | None:
    for pair in entries.values():
        if pair[0] <= now:
            return {key: pair for key, pair in entries.items() if pair[0] > now} or None
    return entries


_UNEXPIRED: dict[StateKind, Callable[[Any, int], Any]] = {
    StateKind.LIST: _unexpired_list,
    StateKind.MAP: _unexpired_map,
}


def expiring_state(table: StateTable, address: AnyAddress, descriptor: StateDescriptor, expiry: Expiry) -> State:
    """The state object of a table whose values are stamped."""
    match descriptor:
        case ListStateDescriptor():
            return ExpiringListState(table, address, expiry)
        case MapStateDescriptor():
            return ExpiringMapState(table, address, expiry)
    return single_value(ExpiringTable(table, expiry), address, descriptor)


class ExpiringTable:
    """One value per entry, of a table that stores them stamped."""

    def __init__(self, table: StateTable, expiry: Expiry) -> None:
        self.declaration = table.declaration
        self._table = table
        self._expiry = expiry

    def get(self, entry: Any) -> Any:
        """The entry's value, unless it has expired."""
        expiry = self._expiry
        now = _enter(self._table, expiry)
        found = self._table.get(entry)
        if found is MISSING:
            return MISSING
        deadline, value = found
        if deadline <= now:
            self._table.remove(entry)
            return value if expiry.answers_expired else MISSING
        if expiry.reads_extend:
            self._table.put(entry, (now + expiry.ttl_ms, value))
        return value

    def put(self, entry: Any, value: Any) -> None:
        """Sets the entry's value; its lifetime starts."""
        self._table.put(entry, (_enter(self._table, self._expiry) + self._expiry.ttl_ms, value))

    def remove(self, entry: Any) -> None:
        """Removes the entry."""
        self._table.remove(entry)

    def get_all(self, keys: Collection[Any], namespaces: Iterable[Any] | None = None) -> list[Any]:
        """The values of many entries that have not expired."""
        expiry = self._expiry
        now = _enter(self._table, expiry)
        keys, namespaces = list(keys), None if namespaces is None else list(namespaces)
        found = self._table.get_all(keys, namespaces)
        if expiry.reads_extend:
            changed = [_extended(pair, now, expiry.ttl_ms) for pair in found]
        else:
            changed = [MISSING if pair is not MISSING and pair[0] <= now else pair for pair in found]
        rows = [row for row, pair in enumerate(found) if changed[row] is not pair]
        if rows:
            chosen = None if namespaces is None else [namespaces[row] for row in rows]
            self._table.put_all([keys[row] for row in rows], [changed[row] for row in rows], chosen)
        pairs = found if expiry.answers_expired else changed
        return [MISSING if pair is MISSING else pair[1] for pair in pairs]

    def put_all(self, keys: Collection[Any], values: Iterable[Any], namespaces: Iterable[Any] | None = None) -> None:
        """Sets the values of many entries; their lifetimes start."""
        deadline = _enter(self._table, self._expiry) + self._expiry.ttl_ms
        stamped = [value if value is MISSING else (deadline, value) for value in values]
        self._table.put_all(keys, stamped, namespaces)

    def take_all(self, keys: Collection[Any], namespaces: Iterable[Any] | None = None) -> list[Any]:
        """Removes many entries; returns the values that have not expired."""
        return taken_one_after_another(self, keys, namespaces)

    def fold(
        self, keys: Sequence[Any], records: Iterator[Any], reduce: Callable[[Any, Any], Any],
        handover: Handover | None = None, *, namespaces: Iterable[Any] | None = None,
        first: Callable[[Any], Any] | None = None,
    ) -> list[Any]:  # fmt: skip
        """Folds each record into its entry's value, which starts over if that has expired."""
        now, ttl_ms, answers_expired = self._expiry.now, self._expiry.ttl_ms, self._expiry.answers_expired

        def reduced(old: Stamped, new: Stamped) -> Stamped:
            if old[0] > new[0] - ttl_ms or answers_expired:
                return new[0], reduce(old[1], new[1])
            return new if first is None else (new[0], first(new[1]))

        def begun(new: Stamped) -> Stamped:
            return new[0], first(new[1])  # type: ignore[misc]  # only used when there is one

        stamped = ((now() + ttl_ms, record) for record in records)
        results = self._table.fold(
            keys, stamped, reduced, handover, namespaces=namespaces, first=None if first is None else begun
        )
        return [value for _, value in results]


def _enter(table: StateTable, expiry: Expiry) -> int:
    """Returns the time; also cleans up a few entries."""
    now = expiry.now()
    if expiry.swept:
        table.sweep(expiry.swept, now)
    return now


def _extended(pair: Any, now: int, ttl_ms: int) -> Any:
    if pair is MISSING:
        return pair
    return (now + ttl_ms, pair[1]) if pair[0] > now else MISSING


class ExpiringListState(AddressedState, ListState[Any]):
    """A list whose elements expire independently."""

    def __init__(self, table: StateTable, address: AnyAddress, expiry: Expiry) -> None:
        super().__init__(address)
        self._table, self._expiry = table, expiry
        self._list: Any = table.list_state(address)

    def get(self) -> list[Any]:
        """A new list of the elements."""
        now, expiry = _enter(self._table, self._expiry), self._expiry
        found: list[Stamped] = self._list.get()
        alive = [pair for pair in found if pair[0] > now]
        if alive and expiry.reads_extend:
            deadline = now + expiry.ttl_ms
            self._list.update([(deadline, value) for _, value in alive])
        elif len(alive) < len(found):
            self._list.update(alive)
        return [value for _, value in (found if expiry.answers_expired else alive)]

    @override
    def add(self, value: Any) -> None:
        self._list.add((_enter(self._table, self._expiry) + self._expiry.ttl_ms, value))

    @override
    def add_all(self, values: Iterable[Any]) -> None:
        self._list.add_all(self._stamped(values))

    @override
    def update(self, values: Iterable[Any]) -> None:
        self._list.update(self._stamped(values))

    @override
    def clear(self) -> None:
        self._list.clear()

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Appends the current key's elements in some namespaces to those in the target; no lifetime is extended."""
        self._list.merge_namespaces(target, sources)

    def _stamped(self, values: Iterable[Any]) -> list[Stamped]:
        deadline = _enter(self._table, self._expiry) + self._expiry.ttl_ms
        return list(zip(repeat(deadline), values, strict=False))


class ExpiringMapState(AddressedState, MapState[Any, Any]):
    """A map whose entries expire independently."""

    def __init__(self, table: StateTable, address: AnyAddress, expiry: Expiry) -> None:
        super().__init__(address)
        self._table, self._expiry = table, expiry
        self._map = table.map_state(address)

    @override
    def get(self, key: Any) -> Any:
        value = self._read(key)
        return None if value is MISSING else value

    def contains(self, key: Any) -> bool:
        """Whether the map has the key."""
        return self._read(key) is not MISSING

    @override
    def items(self) -> list[tuple[Any, Any]]:
        now, expiry = _enter(self._table, self._expiry), self._expiry
        found = list(self._map.items())
        alive = [item for item in found if item[1][0] > now]
        if len(alive) < len(found):
            for key, (deadline, _) in found:
                if deadline <= now:
                    self._map.remove(key)
        if alive and expiry.reads_extend:
            extended = now + expiry.ttl_ms
            self._map.put_all({key: (extended, value) for key, (_, value) in alive})
        return [(key, value) for key, (_, value) in (found if expiry.answers_expired else alive)]

    @override
    def keys(self) -> list[Any]:
        return [key for key, _ in self.items()]

    @override
    def values(self) -> list[Any]:
        return [value for _, value in self.items()]

    def is_empty(self) -> bool:
        """Whether there are no entries."""
        return not self.items()

    @override
    def put(self, key: Any, value: Any) -> None:
        self._map.put(key, (_enter(self._table, self._expiry) + self._expiry.ttl_ms, value))

    def put_all(self, dict_value: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        """Sets the values of several keys."""
        deadline = _enter(self._table, self._expiry) + self._expiry.ttl_ms
        self._map.put_all({key: (deadline, value) for key, value in dict(dict_value).items()})

    @override
    def remove(self, key: Any) -> None:
        self._map.remove(key)

    @override
    def clear(self) -> None:
        self._map.clear()

    def _read(self, key: Any) -> Any:
        now, expiry = _enter(self._table, self._expiry), self._expiry
        found = self._map.get(key)
        if found is None:
            return MISSING
        deadline, value = found
        if deadline <= now:
            self._map.remove(key)
            return value if expiry.answers_expired else MISSING
        if expiry.reads_extend:
            self._map.put(key, (now + expiry.ttl_ms, value))
        return value
