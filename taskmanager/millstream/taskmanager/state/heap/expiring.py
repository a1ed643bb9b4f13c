"""State objects over a heap table, for state that expires.

What has expired is removed when it is read; with the visibility that allows it, it is answered that one time. Each
access also cleans up a few other entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import compress, repeat
from typing import Any

from millstream.datastream.state import AggregatingState, ListState, MapState, ReducingState, ValueState
from millstream.datastream.state_descriptors import AggregatingStateDescriptor, ReducingStateDescriptor
from millstream.taskmanager.state.address import AnyAddress
from millstream.taskmanager.state.heap.expiry import Expiry
from millstream.taskmanager.state.heap.plain import HeapState
from millstream.taskmanager.state.heap.table import MISSING, HeapTable


class ExpiringState(HeapState):
    """With the table's deadlines."""

    def __init__(self, table: HeapTable, address: AnyAddress) -> None:
        super().__init__(table, address)
        assert table.expiry is not None
        self._expiry: Expiry = table.expiry
        self._expires = table.expires

    def _enter(self) -> tuple[Any, int]:
        """The entry at hand and the time; cleans up on the way."""
        now = self._expiry.now()
        self._table.clean(now)
        return self._at.key, now

    def _private(self, entry: Any, value: Any) -> Any:
        return self._table.private(entry, value) if self._table.watched else value

    def _single(self, entry: Any, now: int) -> Any:
        """The one value of an entry, as a read answers it."""
        value = self._entries.get(entry, MISSING)
        if value is MISSING:
            return MISSING
        value = self._private(entry, value)
        if self._expires[entry] <= now:
            self._table.drop(entry)
            return value if self._expiry.answers_expired else MISSING
        if self._expiry.reads_extend:
            self._expires[entry] = now + self._expiry.ttl_ms
            self._changed(entry)
        return value

    def _set(self, entry: Any, value: Any, now: int) -> None:
        self._entries[entry] = value
        self._expires[entry] = now + self._expiry.ttl_ms
        self._changed(entry)


class ExpiringValueState(ExpiringState, ValueState[Any]):
    """One value."""

    def value(self) -> Any:
        """The value, or None."""
        value = self._single(*self._enter())
        return None if value is MISSING else value

    def update(self, value: Any) -> None:
        """Replaces the value; None removes it."""
        entry, now = self._enter()
        if value is None:
            self._table.drop(entry)
        else:
            self._set(entry, value, now)


class ExpiringReducingState(ExpiringState, ReducingState[Any]):
    """One value, combined with each that is added."""

    def __init__(self, table: HeapTable, address: AnyAddress, descriptor: ReducingStateDescriptor) -> None:
        super().__init__(table, address)
        self._reduce = descriptor.reduce

    def get(self) -> Any:
        """The value, or None."""
        value = self._single(*self._enter())
        return None if value is MISSING else value

    def add(self, value: Any) -> None:
        """Combines a value with the one so far, unless that has expired."""
        entry, now = self._enter()
        before = self._single(entry, now)
        self._set(entry, value if before is MISSING else self._reduce(before, value), now)


class ExpiringAggregatingState(ExpiringState, AggregatingState[Any, Any]):
    """An accumulator."""

    def __init__(self, table: HeapTable, address: AnyAddress, descriptor: AggregatingStateDescriptor) -> None:
        super().__init__(table, address)
        self._function = descriptor.agg_function

    def get(self) -> Any:
        """The accumulator's result; None when nothing was added."""
        accumulator = self._single(*self._enter())
        return None if accumulator is MISSING else self._function.get_result(accumulator)

    def add(self, value: Any) -> None:
        """Adds a value to the accumulator, or to a new one when it has expired."""
        entry, now = self._enter()
        accumulator = self._single(entry, now)
        if accumulator is MISSING:
            accumulator = self._function.create_accumulator()
        self._set(entry, self._function.add(value, accumulator), now)


class ExpiringListState(ExpiringState, ListState[Any]):
    """A list whose elements expire each on its own."""

    def get(self) -> list[Any]:
        """A new list of the elements."""
        entry, now = self._enter()
        elements = self._entries.get(entry)
        if elements is None:
            return []
        answer = list(self._private(entry, elements))
        if not self._expiry.answers_expired:
            answer = list(compress(answer, [deadline > now for deadline in self._expires[entry]]))
        self._table.prune(entry, now)
        if self._expiry.reads_extend and entry in self._entries:
            self._expires[entry] = [now + self._expiry.ttl_ms] * len(self._entries[entry])
            self._changed(entry)
        return answer

    def add(self, value: Any) -> None:
        """Adds an element."""
        self.add_all((value,))

    def add_all(self, values: Iterable[Any]) -> None:
        """Adds elements."""
        entry, now = self._enter()
        added = list(values)
        elements = self._entries.get(entry)
        if elements is None:
            self._replace(entry, added, now)
            return
        self._table.own(entry, elements).extend(added)
        self._expires[entry].extend(repeat(now + self._expiry.ttl_ms, len(added)))
        self._changed(entry)

    def update(self, values: Iterable[Any]) -> None:
        """Replaces all elements."""
        entry, now = self._enter()
        self._replace(entry, list(values), now)

    def _replace(self, entry: Any, elements: list[Any], now: int) -> None:
        if not elements:
            self._table.drop(entry)
            return
        self._entries[entry] = elements
        self._expires[entry] = [now + self._expiry.ttl_ms] * len(elements)
        self._changed(entry)


class ExpiringMapState(ExpiringState, MapState[Any, Any]):
    """A map whose entries expire each on its own."""

    def get(self, key: Any) -> Any:
        """The key's value, or None."""
        entry, now = self._enter()
        value = self._read(entry, key, now)
        return None if value is MISSING else value

    def contains(self, key: Any) -> bool:
        """Whether the map has the key."""
        entry, now = self._enter()
        return self._read(entry, key, now) is not MISSING

    def items(self) -> list[tuple[Any, Any]]:
        """Keys with their values."""
        entry, now = self._enter()
        found = self._entries.get(entry)
        if found is None:
            return []
        deadlines = self._expires[entry]
        found = self._private(entry, found)
        everything = self._expiry.answers_expired
        answer = [(key, value) for key, value in found.items() if everything or deadlines[key] > now]
        self._table.prune(entry, now)
        if self._expiry.reads_extend and entry in self._entries:
            self._expires[entry] = dict.fromkeys(self._entries[entry], now + self._expiry.ttl_ms)
            self._changed(entry)
        return answer

    def keys(self) -> list[Any]:
        """The keys."""
        return [key for key, _ in self.items()]

    def values(self) -> list[Any]:
        """The values."""
        return [value for _, value in self.items()]

    def is_empty(self) -> bool:
        """Whether there are no entries."""
        return not self.items()

    def put(self, key: Any, value: Any) -> None:
        """Sets a key's value."""
        self.put_all({key: value})

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        """Sets the values of several keys."""
        entry, now = self._enter()
        if not dict_value:
            return
        found = self._entries.get(entry)
        if found is None:
            found, self._expires[entry] = {}, {}
            self._entries[entry] = found
        self._table.own(entry, found).update(dict_value)
        self._expires[entry].update(zip(dict_value, repeat(now + self._expiry.ttl_ms), strict=False))
        self._changed(entry)

    def remove(self, key: Any) -> None:
        """Removes a key."""
        entry, _ = self._enter()
        self._remove(entry, key)

    def _remove(self, entry: Any, key: Any) -> None:
        found = self._entries.get(entry)
        if found is None or key not in found:
            return
        if len(found) == 1:
            self._table.drop(entry)
            return
        del self._table.own(entry, found)[key]
        del self._expires[entry][key]
        self._changed(entry)

    def _read(self, entry: Any, key: Any, now: int) -> Any:
        found = self._entries.get(entry)
        if found is None or key not in found:
            return MISSING
        value = self._private(entry, found)[key]
        deadlines = self._expires[entry]
        if deadlines[key] <= now:
            self._remove(entry, key)
            return value if self._expiry.answers_expired else MISSING
        if self._expiry.reads_extend:
            self._table.own(entry, self._entries[entry])
            self._expires[entry][key] = now + self._expiry.ttl_ms
            self._changed(entry)
        return value
