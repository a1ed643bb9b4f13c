"""State objects over a heap table, for state that does not expire."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from millstream.datastream.state import (
    AggregatingState,
    BroadcastState,
    ListState,
    MapState,
    ReducingState,
    State,
    ValueState,
)
from millstream.datastream.state_descriptors import AggregatingStateDescriptor, ReducingStateDescriptor
from millstream.taskmanager.state.address import AnyAddress, NamespacedAddress
from millstream.taskmanager.state.heap.table import MISSING, HeapTable


class HeapState(State):
    """The table, and which of its entries is meant."""

    def __init__(self, table: HeapTable, address: AnyAddress) -> None:
        self._table = table
        self._entries = table.values
        self._at = address

    def set_namespace(self, namespace: Any) -> None:
        """Which namespace is meant from now on; only for state that was asked for with a type of namespaces."""
        assert isinstance(self._at, NamespacedAddress)
        self._at.namespace = namespace

    def clear(self) -> None:
        """Removes the entry."""
        self._table.drop(self._at.key)

    def _changed(self, entry: Any) -> None:
        if self._table.dirty is not None:
            self._table.dirty.add(entry)


class HeapValueState(HeapState, ValueState[Any]):
    """One value."""

    def value(self) -> Any:
        """The value, or None."""
        entry = self._at.key
        value = self._entries.get(entry)
        if value is None or not self._table.watched:
            return value
        return self._table.private(entry, value)

    def update(self, value: Any) -> None:
        """Replaces the value; None removes it."""
        if value is None:
            self.clear()
            return
        entry = self._at.key
        self._entries[entry] = value
        if self._table.dirty is not None:
            self._table.dirty.add(entry)


class HeapReducingState(HeapState, ReducingState[Any]):
    """One value, combined with each that is added."""

    def __init__(self, table: HeapTable, address: AnyAddress, descriptor: ReducingStateDescriptor) -> None:
        super().__init__(table, address)
        self._reduce = descriptor.reduce

    def get(self) -> Any:
        """The value, or None."""
        entry = self._at.key
        value = self._entries.get(entry)
        return value if value is None or not self._table.watched else self._table.private(entry, value)

    def add(self, value: Any) -> None:
        """Combines a value with the one so far."""
        entry = self._at.key
        before = self._entries.get(entry, MISSING)
        if before is not MISSING:
            value = self._reduce(self._table.private(entry, before) if self._table.watched else before, value)
        self._entries[entry] = value
        self._changed(entry)


class HeapAggregatingState(HeapState, AggregatingState[Any, Any]):
    """An accumulator."""

    def __init__(self, table: HeapTable, address: AnyAddress, descriptor: AggregatingStateDescriptor) -> None:
        super().__init__(table, address)
        self._function = descriptor.agg_function

    def get(self) -> Any:
        """The accumulator's result; None when nothing was added."""
        accumulator = self._accumulator(self._at.key)
        return None if accumulator is MISSING else self._function.get_result(accumulator)

    def add(self, value: Any) -> None:
        """Adds a value to the accumulator."""
        entry = self._at.key
        accumulator = self._accumulator(entry)
        if accumulator is MISSING:
            accumulator = self._function.create_accumulator()
        self._entries[entry] = self._function.add(value, accumulator)
        self._changed(entry)

    def _accumulator(self, entry: Any) -> Any:
        accumulator = self._entries.get(entry, MISSING)
        if accumulator is MISSING or not self._table.watched:
            return accumulator
        return self._table.private(entry, accumulator)


class HeapListState(HeapState, ListState[Any]):
    """A list for each entry; an empty one is no entry."""

    def get(self) -> list[Any]:
        """A new list of the elements."""
        entry = self._at.key
        elements = self._entries.get(entry)
        if elements is None:
            return []
        if self._table.watched:
            elements = self._table.private(entry, elements)
        return list(elements)

    def add(self, value: Any) -> None:
        """Adds an element."""
        entry = self._at.key
        elements = self._entries.get(entry)
        if elements is None:
            self._entries[entry] = [value]
        else:
            self._table.own(entry, elements).append(value)
        self._changed(entry)

    def add_all(self, values: Iterable[Any]) -> None:
        """Adds elements."""
        added = list(values)  # all of them or none: going through them may fail
        entry = self._at.key
        elements = self._entries.get(entry)
        if elements is None:
            self.update(added)
            return
        self._table.own(entry, elements).extend(added)
        self._changed(entry)

    def update(self, values: Iterable[Any]) -> None:
        """Replaces all elements."""
        elements = list(values)
        if not elements:
            self.clear()
            return
        entry = self._at.key
        self._entries[entry] = elements
        self._changed(entry)


class HeapMapState(HeapState, MapState[Any, Any]):
    """A map for each entry; an empty one is no entry."""

    def _map(self) -> dict[Any, Any]:
        """To read from."""
        entry = self._at.key
        found: dict[Any, Any] = self._entries.get(entry, {})
        if found and self._table.watched:
            found = self._table.private(entry, found)
        return found

    def get(self, key: Any) -> Any:
        """The key's value, or None."""
        return self._map().get(key)

    def contains(self, key: Any) -> bool:
        """Whether the map has the key."""
        return key in self._entries.get(self._at.key, ())

    def items(self) -> list[tuple[Any, Any]]:
        """Keys with their values."""
        return list(self._map().items())

    def keys(self) -> list[Any]:
        """The keys."""
        return list(self._entries.get(self._at.key, ()))

    def values(self) -> list[Any]:
        """The values."""
        return list(self._map().values())

    def is_empty(self) -> bool:
        """Whether there are no entries."""
        return self._at.key not in self._entries

    def put(self, key: Any, value: Any) -> None:
        """Sets a key's value."""
        entry = self._at.key
        found = self._entries.get(entry)
        if found is None:
            self._entries[entry] = {key: value}
        else:
            self._table.own(entry, found)[key] = value
        self._changed(entry)

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        """Sets the values of several keys."""
        if not dict_value:
            return
        entry = self._at.key
        found = self._entries.get(entry)
        if found is None:
            self._entries[entry] = dict(dict_value)
        else:
            self._table.own(entry, found).update(dict_value)
        self._changed(entry)

    def remove(self, key: Any) -> None:
        """Removes a key."""
        entry = self._at.key
        found = self._entries.get(entry)
        if found is None or key not in found:
            return
        if len(found) == 1:
            self._table.drop(entry)
            return
        del self._table.own(entry, found)[key]
        self._changed(entry)


class HeapBroadcastState(HeapMapState, BroadcastState[Any, Any]):
    """The one map of a broadcast state."""
