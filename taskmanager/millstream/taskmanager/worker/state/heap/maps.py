"""Map state over a heap table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from millstream.core.overriding import override
from millstream.datastream.state import BroadcastState, MapState
from millstream.taskmanager.worker.state.heap.addressed import HeapState


class HeapMapState(HeapState, MapState[Any, Any]):
    """A map for each entry; an empty one is no entry."""

    def _map(self) -> dict[Any, Any]:
        """The current map, for reading."""
        entry = self._at.key
        found: dict[Any, Any] = self._dict.get(entry, {})
        if found and self._table.watched:
            found = self._table.private(entry, found)
        return found

    @override
    def get(self, key: Any) -> Any:
        return self._map().get(key)

    def contains(self, key: Any) -> bool:
        """Whether the map has the key."""
        return key in self._dict.get(self._at.key, ())

    @override
    def items(self) -> list[tuple[Any, Any]]:
        return list(self._map().items())

    @override
    def keys(self) -> list[Any]:
        return list(self._dict.get(self._at.key, ()))

    @override
    def values(self) -> list[Any]:
        return list(self._map().values())

    def is_empty(self) -> bool:
        """Whether there are no entries."""
        return self._at.key not in self._dict

    @override
    def put(self, key: Any, value: Any) -> None:
        entry = self._at.key
        found = self._dict.get(entry)
        self._changing(entry)
        if found is None:
            self._dict[entry] = {key: value}
        else:
            self._table.own(entry, found)[key] = value

    def put_all(self, dict_value: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        """Sets the values of several keys."""
        values = dict(dict_value)
        if not values:
            return
        entry = self._at.key
        found = self._dict.get(entry)
        self._changing(entry)
        if found is None:
            self._dict[entry] = values
        else:
            self._table.own(entry, found).update(values)

    @override
    def remove(self, key: Any) -> None:
        entry = self._at.key
        found = self._dict.get(entry)
        if found is None or key not in found:
            return
        if len(found) == 1:
            self._table.remove(entry)
            return
        self._changing(entry)
        del self._table.own(entry, found)[key]


class HeapBroadcastState(HeapMapState, BroadcastState[Any, Any]):
    """The one map of a broadcast state."""
