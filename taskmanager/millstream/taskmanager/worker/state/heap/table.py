"""One state on the heap: a dictionary from entry (the key, or key and namespace) to its contents.

The dictionary is the same object for as long as the table lives, so state objects hold it directly. A capture lists its
entries and values. From then on until the capture is released, values that both share are copied before they are
changed or returned to a caller that could change them; a value is shared exactly if the capture's value of the entry is
the same object, so before an entry is changed, the capture is given the value that it has of it. Values of immutable
types need none of this. List and map state count as mutable as a whole: copying one copies its elements too, unless
they are immutable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice, repeat
from operator import is_, itemgetter
from typing import TYPE_CHECKING, Any, NoReturn

from millstream.core.keys.key_values import PLAIN
from millstream.core.records.copying import ATOMIC, is_immutable, is_immutable_type, private_copy
from millstream.core.records.handover import Handover
from millstream.core.snapshot.metadata.model import StateKind
from millstream.core.snapshot.tables.restore import Rows
from millstream.taskmanager.worker.state.address import AnyAddress
from millstream.taskmanager.worker.state.capturing.captured import RestoredFile, StateDeclaration
from millstream.taskmanager.worker.state.capturing.dirty import DirtyKeyGroups
from millstream.taskmanager.worker.state.capturing.restored_rows import owned_rows, refuse_native
from millstream.taskmanager.worker.state.declarations import check_namespaces
from millstream.taskmanager.worker.state.expiring import Expiry, unexpired
from millstream.taskmanager.worker.state.heap.captured import GroupColumn, HeapCapture
from millstream.taskmanager.worker.state.heap.lists import HeapListState
from millstream.taskmanager.worker.state.heap.maps import HeapMapState
from millstream.taskmanager.worker.state.key_group_index import KeyGroupIndex
from millstream.taskmanager.worker.state.table import MISSING, taken_one_after_another

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class HeapTable:
    """The entries of one state. Owned by the task's thread."""

    def __init__(
        self, declaration: StateDeclaration, index: KeyGroupIndex, expiry: Expiry | None = None, tracked: bool = False
    ) -> None:
        self.declaration = declaration
        self.values: dict[Any, Any] = {}
        self.expiry = expiry
        self.watched = False
        self.changes: Changes | DirtyKeyGroups | None = None
        """Is given each entry before it is changed, if something depends on it."""
        self._dirty = DirtyKeyGroups(index, itemgetter(0) if declaration.namespaced else None) if tracked else None
        self._index = index
        self._captures: tuple[HeapCapture, ...] = ()
        self._deletions = 0
        self._groups = GroupColumn()
        self._round: Iterator[Any] = iter(())
        self._unexpired = unexpired(declaration.kind)
        self._changeable = not is_immutable_type(declaration.kept_type)
        self._has_containers = declaration.kind in (StateKind.LIST, StateKind.MAP)
        self._watch()

    def list_state(self, address: AnyAddress) -> HeapListState:
        """The lists of the entries."""
        return HeapListState(self, address)

    def map_state(self, address: AnyAddress) -> HeapMapState:
        """The maps of the entries."""
        return HeapMapState(self, address)

    # Single entries

    def get(self, entry: Any) -> Any:
        """The entry's value, or MISSING."""
        value = self.values.get(entry, MISSING)
        return value if not self.watched or value is MISSING else self.private(entry, value)

    def put(self, entry: Any, value: Any) -> None:
        """Sets the entry's value."""
        if self.changes is not None:
            self.changes.add(entry)
        self.values[entry] = value

    def remove(self, entry: Any) -> None:
        """Removes an entry."""
        if entry in self.values:  # not `pop`, which does not hash the entry if the dictionary is empty
            if self.changes is not None:
                self.changes.add(entry)
            del self.values[entry]
            self._deletions += 1

    def private(self, entry: Any, value: Any) -> Any:
        """An entry's value for a caller that may change it: if a capture shares it, a copy, which replaces it.

        Call it only if `watched`.
        """
        if is_immutable(value):
            return value
        if self.changes is not None:
            self.changes.add(entry)
        return self.own(entry, value)

    def own(self, entry: Any, value: Any) -> Any:
        """An entry's contents, to be changed: a copy, which replaces them, if a capture shares them.

        `changes` has got the entry before.
        """
        if self._captures and any(captured.replaced.get(entry) is value for captured in self._captures):
            value = self.values[entry] = private_copy(value) if self._changeable else value.copy()
        return value

    def __len__(self) -> int:
        return len(self.values)

    def entries(self) -> list[Any]:
        """All entries."""
        return list(self.values)

    def sweep(self, entries: int, now: int) -> None:
        """Removes the expired ones of the next few entries."""
        values = self.values
        looked_at = list(islice(self._round, entries))
        if not looked_at:
            self._round = iter(list(values))
            looked_at = list(islice(self._round, entries))
        alive_of = self._unexpired
        for entry in looked_at:
            value = values.get(entry)  # it may have been removed
            if value is not None and (alive := alive_of(value, now)) is not value:
                if alive is None:
                    self.remove(entry)
                else:
                    self.put(entry, alive)

    # Batches

    def get_all(self, keys: Collection[Any], namespaces: Iterable[Any] | None = None) -> list[Any]:
        """The values of many entries, MISSING where there is none."""
        if self.watched:
            return list(map(self.get, self._entries(keys, namespaces)))
        return list(map(self.values.get, self._entries(keys, namespaces), repeat(MISSING)))

    def put_all(self, keys: Collection[Any], values: Iterable[Any], namespaces: Iterable[Any] | None = None) -> None:
        """Sets the values of many entries; MISSING removes."""
        entries = self._entries(keys, namespaces)
        written = list(values)
        if self.changes is not None:
            self.changes.add_all(entries)
        if not all(map(is_, written, repeat(MISSING))):
            self.values.update(zip(entries, written, strict=True))
            if not any(map(is_, written, repeat(MISSING))):
                return
            entries = [entry for entry in entries if self.values.get(entry) is MISSING]
        before, pop = len(self.values), self.values.pop
        for entry in entries:
            pop(entry, None)
        self._deletions += before != len(self.values)

    def take_all(self, keys: Collection[Any], namespaces: Iterable[Any] | None = None) -> list[Any]:
        """Removes many entries; returns their values. Each is looked up once, unless a capture may share it."""
        if self.watched:
            return taken_one_after_another(self, keys, namespaces)
        entries, before = self._entries(keys, namespaces), len(self.values)
        if self.changes is not None:
            self.changes.add_all(entries)
        found = list(map(self.values.pop, entries, repeat(MISSING)))
        self._deletions += before != len(self.values)
        return found

    def _entries(self, keys: Collection[Any], namespaces: Iterable[Any] | None) -> list[Any]:
        check_namespaces(self.declaration, namespaces is not None)
        canonical = self._index.canonical_keys(keys if isinstance(keys, list) else list(keys))
        return canonical if namespaces is None else list(zip(canonical, namespaces, strict=True))

    def fold(
        self, keys: Sequence[Any], records: Iterator[Any], reduce: Callable[[Any, Any], Any],
        handover: Handover | None = None, *, namespaces: Iterable[Any] | None = None,
        first: Callable[[Any], Any] | None = None,
    ) -> list[Any]:  # fmt: skip
        """Folds each record into its entry's value, in order; returns the new value after each record."""
        canonical: Callable[[Any], Any] = self._index.canonical
        if namespaces is not None or self.declaration.namespaced:
            keys, canonical = self._entries(keys, namespaces), _itself
        self.forget_released()
        if self._captures and self._changeable:
            keys = self._index.canonical_keys(list(keys)) if namespaces is None else keys
        if self.changes is not None:
            try:
                self.changes.add_all(keys)
            except TypeError:  # a list
                keys = list(map(canonical, keys))
                self.changes.add_all(keys)
        if handover is not None:
            return self._fold_apart(keys, records, reduce, canonical, first, handover)
        if self._captures and self._changeable:
            return self._fold_watched(keys, records, reduce, canonical, first)
        values, plain = self.values, PLAIN
        results: list[Any] = []
        for key, record in zip(keys, records, strict=False):
            try:
                is_known = key in values or (type(key) not in plain and (key := canonical(key)) in values)
            except TypeError:  # a list: trying costs nothing
                is_known = (key := canonical(key)) in values
            if is_known:
                record = reduce(values[key], record)
            elif first is not None:
                record = first(record)
            values[key] = record
            results.append(record)
        return results

    def _fold_watched(
        self, keys: Sequence[Any], records: Iterator[Any], reduce: Callable[[Any, Any], Any],
        canonical: Callable[[Any], Any], first: Callable[[Any], Any] | None,
    ) -> list[Any]:  # fmt: skip
        """The same, with the test for tuples of plain values inlined in the loop: a call would cost a third more."""
        values, atomic, private = self.values, ATOMIC, self.private
        results: list[Any] = []
        for key, record in zip(keys, records, strict=False):
            try:
                if key not in values and type(key) not in PLAIN:
                    key = canonical(key)
            except TypeError:  # a list
                key = canonical(key)
            if key in values:
                before = values[key]
                for item in before if type(before) is tuple else (before,):
                    if type(item) not in atomic:
                        before = private(key, before)
                        break
                record = reduce(before, record)
            elif first is not None:
                record = first(record)
            values[key] = record
            results.append(record)
        return results

    def _fold_apart(
        self, keys: Sequence[Any], records: Iterator[Any], reduce: Callable[[Any, Any], Any],
        canonical: Callable[[Any], Any], first: Callable[[Any], Any] | None, handover: Handover,
    ) -> list[Any]:  # fmt: skip
        """The same for values that are copied, if they are mutable."""
        handover.plain = True
        values, atomic, plain, watched = self.values, ATOMIC, PLAIN, self.watched
        results: list[Any] = []
        for key, record in zip(keys, records, strict=False):
            try:
                is_known = key in values or (type(key) not in plain and (key := canonical(key)) in values)
            except TypeError:  # a list: trying costs nothing
                is_known = (key := canonical(key)) in values
            if is_known:
                record = reduce(self.private(key, values[key]) if watched else values[key], record)
            elif first is not None:
                record = first(record)
            if type(record) is tuple:
                if len(record) == 2:  # faster than the loop
                    one, other = record
                    unchangeable = type(one) in atomic and type(other) in atomic
                else:
                    unchangeable = True
                    for item in record:
                        if type(item) not in atomic:
                            unchangeable = False
                            break
            else:
                unchangeable = type(record) in atomic
            if unchangeable:
                values[key] = record
            else:
                values[key] = handover.kept(record)
                record = handover.kept(record)
            results.append(record)
        return results

    # Captures

    def capture(self, checkpoint_id: int, incremental: bool) -> HeapCapture:
        """Captures the entries. If incremental: with what was modified since the last one completed."""
        base: int | None = None
        dirty_groups: frozenset[int] | None = None
        if incremental and self._dirty is not None:
            base, dirty_groups = self._dirty.close_interval(checkpoint_id)
        deletions, groups, index, namespaced = self._deletions, self._groups, self._index, self.declaration.namespaced

        def key_groups(entries: list[Any]) -> npt.NDArray[np.uint16]:
            return groups.of(entries, namespaced, deletions, index)

        captured = HeapCapture(
            self.declaration,
            self.values,
            self._index,
            key_groups,
            base,
            dirty_groups,
            self.expiry.now() if self.expiry is not None and self.expiry.in_snapshots else None,
        )
        if self.values:
            self._captures = (*self._captures, captured)
        self.forget_released()
        self._watch()
        return captured

    def confirm(self, checkpoint_id: int) -> None:
        """The checkpoint has completed: incremental ones can build upon it."""
        if self._dirty is not None:
            self._dirty.confirm(checkpoint_id)

    def load(self, parts: Iterable[Rows]) -> None:
        """Adds the rows of a snapshot in the key groups that this subtask owns."""
        positions: dict[Any, list[int]] = {}  # of lists whose elements do not come in order
        for rows in parts:
            chosen = owned_rows(rows, self._index)
            entries = self._index.canonical_keys(rows.keys)
            if self.declaration.namespaced:
                entries = list(zip(entries, rows.namespaces, strict=True))
            match self.declaration.kind:
                case StateKind.LIST:
                    self._load_elements(rows, entries, chosen, positions)
                case StateKind.MAP:
                    for row in chosen:
                        self.values.setdefault(entries[row], {})[rows.detail[row]] = rows.content[row]
                case _ if isinstance(chosen, range):
                    self.values.update(zip(entries, rows.content, strict=True))
                case _:
                    self.values.update((entries[row], rows.content[row]) for row in chosen)
        for entry, found in positions.items():
            elements = self.values[entry]
            self.values[entry] = [elements[number] for number in sorted(range(len(found)), key=found.__getitem__)]

    def _load_elements(
        self, rows: Rows, entries: list[Any], chosen: Iterable[int], positions: dict[Any, list[int]]
    ) -> None:
        for row in sorted(chosen, key=rows.detail.__getitem__):
            entry, position = entries[row], rows.detail[row]
            elements = self.values.setdefault(entry, [])
            if entry in positions:
                positions[entry].append(position)
            elif position != len(elements):
                positions[entry] = [*range(len(elements)), position]
            elements.append(rows.content[row])

    def load_native(self, file: RestoredFile) -> NoReturn:
        """Raises: the heap has no native format."""
        refuse_native(self.declaration, file)

    def forget_released(self) -> None:
        """Stops copying for captures that were released on other threads; called from time to time."""
        if self._captures and any(captured.is_released for captured in self._captures):
            self._captures = tuple(captured for captured in self._captures if not captured.is_released)
            self._watch()

    def _watch(self) -> None:
        shares = (self._changeable or self._has_containers) and bool(self._captures)
        self.watched = self._changeable and (shares or self._dirty is not None)
        self.changes = Changes(self.values, self._captures, self._dirty) if shares else self._dirty


class Changes:
    """Gives captures the values that they have of entries which are about to be changed."""

    def __init__(self, values: dict[Any, Any], captures: tuple[HeapCapture, ...], dirty: DirtyKeyGroups | None) -> None:
        self._values, self._captures, self._dirty = values, captures, dirty

    def add(self, entry: Any) -> None:
        """An entry is about to be changed."""
        if self._dirty is not None:
            self._dirty.add(entry)
        for captured in self._captures:
            captured.replaced.setdefault(entry, self._values.get(entry, MISSING))

    def add_all(self, entries: Collection[Any]) -> None:
        """Entries are about to be changed."""
        if self._dirty is not None:
            self._dirty.add_all(entries)
        for captured in self._captures:
            known = captured.replaced
            new = [entry for entry in entries if entry not in known]
            known.update(zip(new, map(self._values.get, new, repeat(MISSING)), strict=True))


def _itself(entry: Any) -> Any:
    return entry
