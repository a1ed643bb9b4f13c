"""The states of one operator by name: those that the program has declared, and those that it has not requested yet.

A restored state is read when the program declares it, as the types that it declares. Until then a capture contains it
as it was stored, so that nothing is lost if a program requests it later, or not at all. Owned by the task's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from millstream.core.clock import Clock
from millstream.core.snapshot.tables.restore import Rows
from millstream.core.snapshot.tables.table import StateTypes
from millstream.datastream.state import StateAccessError
from millstream.datastream.state.descriptors import StateDescriptor
from millstream.datastream.state.ttl import StateTtlConfig
from millstream.taskmanager.worker.state.capturing.captured import RestoredFile, RestoredState, StateDeclaration
from millstream.taskmanager.worker.state.capturing.restored_rows import stamped
from millstream.taskmanager.worker.state.declarations import (
    check_native,
    check_restored,
    check_same,
    ttl_config,
    undeclared_warning,
)

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)


class LoadedTable(Protocol):
    """A backend's table of one state."""

    @property
    def declaration(self) -> StateDeclaration:
        """What the state is."""

    def __len__(self) -> int:
        """The number of entries, possibly estimated: see `KeyedStateBackend.entry_counts`."""

    def load(self, parts: Iterable[Rows]) -> None:
        """Adds rows of a snapshot, with their deadlines if the state has a time-to-live.

        The elements of a list may come in any order, in one part or in several.
        """

    def load_native(self, file: RestoredFile) -> None:
        """Adds a file of the backend's own format; raises if it is in another."""


T = TypeVar("T", bound=LoadedTable)


class NamedTables(Generic[T]):
    """A table for each name. `make` creates an empty one."""

    def __init__(
        self, operator_name: str, make: Callable[[StateDeclaration, StateTtlConfig | None], T], clock: Clock
    ) -> None:
        self._operator_name = operator_name
        self._make = make
        self._clock = clock
        self._restored: dict[str, list[RestoredState]] = {}
        self._was_restored = False
        self._kept: dict[str, T] = {}  # as stored: the program has not requested them yet
        self.declared: dict[str, T] = {}

    def restore(self, states: Iterable[RestoredState]) -> None:
        """Adds parts of states, before any is declared."""
        for part in states:
            self._was_restored = True
            self._restored.setdefault(part.declaration.name, []).append(part)

    def declare(
        self, declaration: StateDeclaration, ttl: StateTtlConfig | None, descriptor: StateDescriptor | None = None
    ) -> T:
        """The table of a state, the same for each call.

        Warns once about a descriptor that does not declare its type.
        """
        name = declaration.name
        if name in self.declared:
            check_same(self.declared[name].declaration, declaration)
            return self.declared[name]
        table = self.declared[name] = self._loaded(declaration, ttl, declaration.types)
        self._restored.pop(name, None)
        self._kept.pop(name, None)
        if descriptor is not None and descriptor.undeclared:
            log.warning("%s", undeclared_warning(self._operator_name, descriptor))
        return table

    def declare_columns(self, declaration: StateDeclaration, table: T) -> list[pa.Table]:
        """Declares a state that is kept elsewhere, represented here by `table`; returns its restored columns."""
        return [stored for _, stored in self.declare_stored(declaration, table)]

    def declare_stored(self, declaration: StateDeclaration, table: T) -> Iterator[tuple[StateDeclaration, pa.Table]]:
        """Declares a state as `table`; returns its restored columns, each with the declaration that they had."""
        name = declaration.name
        if name in self.declared:
            raise StateAccessError(f"state '{name}' is declared twice, but its columns have one owner")
        self.declared[name] = table
        self._kept.pop(name, None)
        for part in self._restored.pop(name, ()):
            check_restored(part.declaration, declaration)
            for stored in part.tables(declaration.types):
                yield part.declaration, stored
            for file in part.native_files(declaration.types):
                check_native(part.declaration, declaration)
                table.load_native(file)

    def loaded(self) -> list[T]:
        """All tables that exist."""
        return [*self.declared.values(), *self._kept.values()]

    def all(self) -> list[T]:
        """All tables; states that were not requested are read for this."""
        for name, parts in self._restored.items():
            if name not in self._kept:
                stored = parts[0].declaration
                self._kept[name] = self._loaded(stored, ttl_config(stored.ttl), None)
        return self.loaded()

    def hold_restored(self) -> None:
        """Reads the states that were not requested so far into memory.

        Returns what reading took to the system: it would stay with the process otherwise.
        """
        for parts in self._restored.values():
            for part in parts:
                part.hold()
        if self._was_restored:
            import pyarrow as pa

            pa.default_memory_pool().release_unused()
            pa.system_memory_pool().release_unused()

    def clear(self) -> None:
        """Removes all tables."""
        for tables in (self.declared, self._kept, self._restored):
            tables.clear()

    def _loaded(self, declaration: StateDeclaration, ttl: StateTtlConfig | None, types: StateTypes | None) -> T:
        table = self._make(declaration, ttl)
        for part in self._restored.get(declaration.name, ()):
            check_restored(part.declaration, declaration)
            rows: Iterable[Rows] = part.rows(types)
            if (ttl_settings := declaration.ttl) is not None:
                stored, ttl_ms, now = part.declaration.ttl, ttl_settings.ttl_ms, self._clock.now_ms()
                rows = map(partial(stamped, stored_ttl=stored, ttl_ms=ttl_ms, now=now), rows)
            table.load(rows)
            for file in part.native_files(types):
                check_native(part.declaration, declaration)
                table.load_native(file)
        return table
