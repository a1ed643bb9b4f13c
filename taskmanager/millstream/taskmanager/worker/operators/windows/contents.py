"""The contents of windows, by key and namespace, in keyed state.

The key is always the current one; a namespace stands for a window, or after a merge of sessions for the one whose state
they share. If contents are single values, batches access many windows at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, assert_never

from millstream.core.jobs.plan.window_plan import Aggregated, Buffered, Contents, Reduced, Tagged
from millstream.core.overriding import override
from millstream.core.records.adoption import adopter
from millstream.core.records.types import BOOLEAN, LONG, ListType, TupleType, TypeInformation
from millstream.core.snapshot.metadata.model import StateKind
from millstream.datastream.functions import TaggedUnion, as_callable
from millstream.datastream.state import ListStateDescriptor
from millstream.taskmanager.worker.state.backend import KeyedStateBackend
from millstream.taskmanager.worker.state.table import MISSING, ValueTable

NAME = "window-contents"


class WindowContents(ABC):
    """The contents of all windows of an operator."""

    @abstractmethod
    def add(self, window: Any, record: Any, timestamp: int) -> None:
        """Adds a record to a window."""

    @abstractmethod
    def elements(self, window: Any) -> list[Any] | None:
        """The input of the window's function; None for an empty window."""

    @abstractmethod
    def clear(self, window: Any) -> None:
        """Removes the contents of a window."""

    @abstractmethod
    def merge(self, target: Any, sources: Iterable[Any]) -> None:
        """Merges the contents of windows into another."""


class BufferedContents(WindowContents):
    """All records; with `stamped`, which evictors need, each with its timestamp."""

    def __init__(
        self, record_type: TypeInformation, backend: KeyedStateBackend, space: TypeInformation, stamped: bool = False
    ) -> None:
        self._stamped = stamped
        kept = TupleType((record_type, LONG)) if stamped else record_type
        self._state: Any = backend.state(ListStateDescriptor(NAME, kept), space)

    @override
    def add(self, window: Any, record: Any, timestamp: int) -> None:
        self._state.set_namespace(window)
        self._state.add((record, timestamp) if self._stamped else record)

    def elements(self, window: Any) -> list[Any] | None:
        """The records in order of arrival."""
        self._state.set_namespace(window)
        return self._state.get() or None

    def replace(self, window: Any, elements: Sequence[Any]) -> None:
        """Replaces the contents by what an evictor has left."""
        self._state.set_namespace(window)
        self._state.update(elements)

    @override
    def clear(self, window: Any) -> None:
        self._state.set_namespace(window)
        self._state.clear()

    def merge(self, target: Any, sources: Iterable[Any]) -> None:
        """Merges in the order of the windows."""
        self._state.merge_namespaces(target, sources)


class TaggedContents(BufferedContents):
    """All records of two streams, for an evictor: plain tuples in state, and `TaggedUnion` for the evictor."""

    def __init__(self, spec: Tagged, backend: KeyedStateBackend, space: TypeInformation) -> None:
        super().__init__(_union(spec), backend, space, stamped=True)

    @override
    def add(self, window: Any, record: TaggedUnion, timestamp: int) -> None:
        super().add(window, tuple(record), timestamp)

    def elements(self, window: Any) -> list[Any] | None:
        """The records in order of arrival."""
        found = super().elements(window)
        return [(TaggedUnion(*record), time) for record, time in found] if found else found

    def replace(self, window: Any, elements: Sequence[Any]) -> None:
        """Replaces the contents by what an evictor has left."""
        super().replace(window, [(tuple(record), time) for record, time in elements])


class SingleContents(WindowContents):
    """One value per window, into which records are folded."""

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
        """Folds the record into the window's value."""
        entry = (self._key(), window)
        before = self.table.get(entry)
        self.table.put(entry, self.first(record) if before is MISSING else self.fold(before, record))

    def elements(self, window: Any) -> list[Any] | None:
        """The result, as the only element."""
        value = self.table.get((self._key(), window))
        if value is MISSING:
            return None
        return [value if self.result is None else self.result(value)]

    @override
    def clear(self, window: Any) -> None:
        self.table.remove((self._key(), window))

    def merge(self, target: Any, sources: Iterable[Any]) -> None:
        """Merges all values into one."""
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
    """Creates the contents that the specification requires."""
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
    """Wraps the function so that its results are converted to their declared type."""
    adopt = adopter(kind)
    return call if adopt is None else lambda old, new: adopt(call(old, new))
