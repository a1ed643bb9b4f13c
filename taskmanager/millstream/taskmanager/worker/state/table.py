"""What a backend keeps of one state, by entry: the key, or the pair of key and namespace (such as a window).

Everything else is written once on top of this: the objects that functions use (`table_states`), time-to-live
(`expiring`), namespaces that merge. A backend may have quicker objects of its own, as the heap has.

Batches name many entries at once, by parallel columns of keys and of namespaces, in any order and any of them twice.
Keys come as they are; it is the table that takes equal keys for one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from millstream.core.records.handover import Handover
from millstream.datastream.state import ListState, MapState
from millstream.taskmanager.worker.state.address import AnyAddress
from millstream.taskmanager.worker.state.capturing.captured import StateDeclaration

if TYPE_CHECKING:
    import pyarrow as pa

MISSING: Any = object()
"""Stands for the value of an entry that has none: None is a value."""


class ValueTable(Protocol):
    """One value for each entry: value, reducing and aggregating state."""

    @property
    def declaration(self) -> StateDeclaration:
        """What the state is."""

    def get(self, entry: Any) -> Any:
        """The entry's value, or MISSING. The caller may change it."""

    def put(self, entry: Any, value: Any) -> None:
        """Sets the entry's value."""

    def remove(self, entry: Any) -> None:
        """Removes the entry; nothing happens when there is none."""

    def get_all(self, keys: Collection[Any], namespaces: Iterable[Any] | None = None) -> list[Any]:
        """The values of many entries, MISSING where there is none."""

    def put_all(self, keys: Collection[Any], values: Iterable[Any], namespaces: Iterable[Any] | None = None) -> None:
        """Sets the values of many entries; MISSING removes. The last one counts for an entry that is there twice."""

    def take_all(self, keys: Collection[Any], namespaces: Iterable[Any] | None = None) -> list[Any]:
        """Removes many entries; returns their values, MISSING where there is none. None of them is there twice."""

    def get_columns(self, keys: pa.Array, namespaces: pa.Array | None = None) -> pa.Array:
        """The values of many entries as a column of the declared type, null where there is none."""

    def put_columns(self, keys: pa.Array, values: pa.Array, namespaces: pa.Array | None = None) -> None:
        """Sets the values of many entries; null removes. The last one counts for an entry that is there twice."""

    def fold(
        self, keys: Sequence[Any], records: Iterator[Any], reduce: Callable[[Any, Any], Any],
        handover: Handover | None = None, *, namespaces: Iterable[Any] | None = None,
        first: Callable[[Any], Any] | None = None,
    ) -> list[Any]:  # fmt: skip
        """Folds each record into its entry's value, in order; returns the new value after each record.

        An entry's first value is the record itself, or what `first` makes of it. What is handed in and returned is
        not to be changed. With a `handover`, what is kept shares nothing with what is returned, nor with what `reduce`
        may hold, so that it and the caller may change them in place. When a function raises, the record
        that it failed on is the last one taken from `records`.
        """


class StateTable(ValueTable, Protocol):
    """With lists and maps, and what time-to-live needs.

    The values of a state with a time-to-live are pairs, their deadline first: `declaration.kept_type`. A backend keeps
    them like any other values.
    """

    def list_state(self, address: AnyAddress) -> ListState[Any]:
        """The lists of the entries, of which an empty one is none; for list state."""

    def map_state(self, address: AnyAddress) -> MapState[Any, Any]:
        """The maps of the entries, of which an empty one is none; for map state."""

    def entries(self) -> list[Any]:
        """All that there are, in any order."""

    def sweep(self, entries: int, now: int) -> None:
        """Removes what has expired of the next few entries; all of them have their turn over many calls.

        A backend that cleans up in its own way, as RocksDB does when it compacts, does nothing.
        """
