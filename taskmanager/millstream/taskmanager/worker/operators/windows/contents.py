"""What a window keeps of its records, by key and namespace, in keyed state.

The key is always the one at hand; a namespace stands for a window, and after sessions were merged for the one whose
state they share. Batches name many windows at once where contents are one value each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, assert_never

from millstream.core.jobs.plan.window_plan import Aggregated, Buffered, Contents, Reduced, Tagged
from millstream.core.records.adoption import adopter
from millstream.core.records.types import BOOLEAN, LONG, ListType, TupleType, TypeInformation
from millstream.core.snapshot.metadata.model import StateKind
from millstream.datastream.functions import TaggedUnion, as_callable
from millstream.datastream.state import ListStateDescriptor
from millstream.taskmanager.worker.state.backend import KeyedStateBackend
from millstream.taskmanager.worker.state.table import MISSING, ValueTable

NAME = "window-contents"


class WindowContents(ABC):
    """Of all windows of an operator."""

    @abstractmethod
    def add(self, window: Any, record: Any, timestamp: int) -> None:
        """A record comes into a window."""

    @abstractmethod
    def elements(self, window: Any) -> list[Any] | None:
        """What its function gets; None for a window that holds nothing."""

    @abstractmethod
    def clear(self, window: Any) -> None:
        """Nothing is kept of it any more."""

    @abstractmethod
    def merge(self, target: Any, sources: Iterable[Any]) -> None:
        """What some windows hold becomes part of another."""


class BufferedContents(WindowContents):
    """All records; with `stamped`, which evictors need, each with its timestamp."""

    def __init__(
        self, record_type: TypeInformation, backend: KeyedStateBackend, space: TypeInformation, stamped: bool = False
    ) -> None:
        self._stamped = stamped
        kept = TupleType((record_type, LONG)) if stamped else record_type
        self._state: Any = backend.state(ListStateDescriptor(NAME, kept), space)

    def add(self, window: Any, record: Any, timestamp: int) -> None:
        """Behind those that came before."""
        self._state.set_namespace(window)
        self._state.add((record, timestamp) if self._stamped else record)

    def elements(self, window: Any) -> list[Any] | None:
        """In the order in which they came."""
        self._state.set_namespace(window)
        return self._state.get() or None

    def replace(self, window: Any, elements: Sequence[Any]) -> None:
        """What an evictor has left."""
        self._state.set_namespace(window)
        self._state.update(elements)

    def clear(self, window: Any) -> None:
        """Forgets the records."""
        self._state.set_namespace(window)
        self._state.clear()

    def merge(self, target: Any, sources: Iterable[Any]) -> None:
        """In the order of the windows."""
        self._state.merge_namespaces(target, sources)


class TaggedContents(BufferedContents):
    """All records of two streams, for an evictor: as plain tuples in state, and as `TaggedUnion` where it sees them."""

    def __init__(self, spec: Tagged, backend: KeyedStateBackend, space: TypeInformation) -> None:
        super().__init__(_union(spec), backend, space, stamped=True)

    def add(self, window: Any, record: TaggedUnion, timestamp: int) -> None:
        """Behind those that came before."""
        super().add(window, tuple(record), timestamp)

    def elements(self, window: Any) -> list[Any] | None:
        """In the order in which they came."""
        found = super().elements(window)
        return [(TaggedUnion(*record), time) for record, time in found] if found else found

    def replace(self, window: Any, elements: Sequence[Any]) -> None:
        """What an evictor has left."""
        super().replace(window, [(tuple(record), time) for record, time in elements])


class SingleContents(WindowContents):
    """One value for each window, which records are folded into."""

    def __init__(
        self,
        table: ValueTable,
        backend: KeyedStateBackend,
        first: Callable[[Any], Any],
        fold: Callable[[Any, Any], Any],
        both: Callable[[Any, Any], Any],
        result: Callable[[Any], Any] | None = None,
    ) -> None:
        self.table = table
        self.first = first
        self.fold = fold
        self.result = result
        self._both = both
        self._key = backend.get_current_key

    def add(self, window: Any, record: Any, timestamp: int) -> None:
        """Folds it into the window's value."""
        entry = (self._key(), window)
        before = self.table.get(entry)
        self.table.put(entry, self.first(record) if before is MISSING else self.fold(before, record))

    def elements(self, window: Any) -> list[Any] | None:
        """The one result."""
        value = self.table.get((self._key(), window))
        if value is MISSING:
            return None
        return [value if self.result is None else self.result(value)]

    def clear(self, window: Any) -> None:
        """Forgets the value."""
        self.table.remove((self._key(), window))

    def merge(self, target: Any, sources: Iterable[Any]) -> None:
        """One value of all."""
        key = self._key()
        merged = self.table.get((key, target))
        for window in sources:
            value = self.table.get((key, window))
            self.table.remove((key, window))
            if value is not MISSING:
                merged = value if merged is MISSING else self._both(merged, value)
        if merged is not MISSING:
            self.table.put((key, target), merged)


def make_contents(
    spec: Contents, backend: KeyedStateBackend, space: TypeInformation, evicts: bool
) -> BufferedContents | SingleContents:
    """As the specification wants them."""
    match spec:
        case Buffered():
            return BufferedContents(spec.type, backend, space, evicts)
        case Tagged() if evicts:
            return TaggedContents(spec, backend, space)
        case Tagged():
            table = backend.table(NAME, ListType(_union(spec)), StateKind.VALUE, space)
            return SingleContents(table, backend, lambda record: [tuple(record)], _appended, _extended)
        case Reduced(function, kind):
            reduce = _adopting(as_callable(function, "reduce"), kind)
            table = backend.table(NAME, kind, StateKind.REDUCING, space)
            return SingleContents(table, backend, lambda record: record, reduce, reduce)
        case Aggregated(function, kind):
            table = backend.table(NAME, kind, StateKind.AGGREGATING, space)
            add, create, adopt = function.add, function.create_accumulator, adopter(kind)

            def first(record: Any) -> Any:
                return fold(create(), record)

            def fold(accumulator: Any, record: Any) -> Any:
                added = add(record, accumulator)
                return added if adopt is None else adopt(added)

            return SingleContents(table, backend, first, fold, _adopting(function.merge, kind), function.get_result)
        case _:
            assert_never(spec)


def _union(spec: Tagged) -> TypeInformation:
    return TupleType((spec.first, spec.second, BOOLEAN), ("one", "two", "from_second"))


def _appended(records: list[Any], record: TaggedUnion) -> list[Any]:
    records.append(tuple(record))
    return records


def _extended(records: list[Any], others: list[Any]) -> list[Any]:
    return records + others


def _adopting(call: Callable[[Any, Any], Any], kind: TypeInformation) -> Callable[[Any, Any], Any]:
    """The function, with results that are what their declared type makes of them."""
    adopt = adopter(kind)
    return call if adopt is None else lambda old, new: adopt(call(old, new))
