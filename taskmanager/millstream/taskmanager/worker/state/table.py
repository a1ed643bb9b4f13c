"""A backend's storage of one state, by entry: the key, or the pair of key and namespace (such as a window).

Everything else is implemented once on top of this: the objects that functions use (`table_states`), time-to-live
(`expiring`), merging namespaces. A backend may have faster objects of its own, as the heap does.

Batches address many entries at once, by parallel columns of keys and of namespaces, in any order and possibly with
duplicates. The table treats equal keys as identical.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, Protocol

from millstream.core.records.handover import Handover
from millstream.datastream.state import ListState, MapState
from millstream.taskmanager.worker.state.address import AnyAddress
from millstream.taskmanager.worker.state.capturing.captured import StateDeclaration

MISSING: Any = object()
"""The value of an entry that has none; None is a valid value."""


class ValueTable(Protocol):
    """One value per entry: value, reducing and aggregating state."""

    @property
    def declaration(self) -> StateDeclaration:
        """What the state is."""

    def get(self, entry: Any) -> Any:
        """The entry's value, or MISSING. The caller may change it."""

    def put(self, entry: Any, value: Any) -> None:
        """Sets the entry's value."""

    def remove(self, entry: Any) -> None:
        """Removes the entry, if it exists."""

    def get_all(self, keys: Collection[Any], namespaces: Iterable[Any] | None = None) -> list[Any]:
        """The values of many entries, MISSING where there is none."""

    def put_all(self, keys: Collection[Any], values: Iterable[Any], namespaces: Iterable[Any] | None = None) -> None:
        """Sets the values of many entries; MISSING removes. If an entry occurs twice, the last value counts."""

    def take_all(self, keys: Collection[Any], namespaces: Iterable[Any] | None = None) -> list[Any]:
        """Removes many entries; returns their values, MISSING where there is none. There are no duplicates."""

    def fold(
        self, keys: Sequence[Any], records: Iterator[Any], reduce: Callable[[Any, Any], Any],
        handover: Handover | None = None, *, namespaces: Iterable[Any] | None = None,
        first: Callable[[Any], Any] | None = None,
    ) -> list[Any]:  # fmt: skip
        """Folds each record into its entry's value, in order; returns the new value after each record.

        An entry's first value is the record itself, or the result of `first`. The arguments and results must not be
        changed. With a `handover`, the kept values share nothing with the results, nor with what `reduce` may hold, so
        that it and the caller may change them in place. If a function raises, the record that it failed on is the last
        one taken from `records`.
        """


def taken_one_after_another(
    table: ValueTable, keys: Collection[Any], namespaces: Iterable[Any] | None = None
) -> list[Any]:
    """What `take_all` does, for a table without a faster way."""
    of_keys, of_namespaces = list(keys), None if namespaces is None else list(namespaces)
    found = table.get_all(of_keys, of_namespaces)
    table.put_all(of_keys, repeat(MISSING, len(of_keys)), of_namespaces)
    return found


class StateTable(ValueTable, Protocol):
    """Adds lists and maps, and support for time-to-live.

    The values of a state with a time-to-live are pairs, their deadline first: `declaration.kept_type`. A backend keeps
    them like any other values.
    """

    def list_state(self, address: AnyAddress) -> ListState[Any]:
        """The lists of the entries, for list state; an empty list is no entry."""

    def map_state(self, address: AnyAddress) -> MapState[Any, Any]:
        """The maps of the entries, for map state; an empty map is no entry."""

    def entries(self) -> list[Any]:
        """All entries, in any order."""

    def sweep(self, entries: int, now: int) -> None:
        """Removes the expired ones of the next few entries; repeated calls visit all entries.

        A backend with its own cleanup, such as RocksDB in compactions, does nothing.
        """
