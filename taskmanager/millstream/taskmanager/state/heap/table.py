"""One state on the heap: a dictionary from entry (the key, or key and namespace) to what the state keeps of it.

The dictionary is the same object for as long as the table lives, so state objects hold it directly. A capture takes a
shallow copy of it. From then on until the capture is released, whatever both hold is copied before it is changed or
handed out to someone who could change it; which is so exactly when the capture's entry is the same object. List and
map state count as changeable as a whole: copying one copies its elements too, unless they cannot be changed.

With a time-to-live, `expires` runs parallel to `values`: a deadline, a list of them, or a map of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import compress, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from millstream.core.copying import ATOMIC, is_immutable, is_immutable_type, is_plain, private_copy
from millstream.core.handover import Handover
from millstream.core.key_values import PLAIN
from millstream.core.snapshot.model import StateKind, TtlSettings
from millstream.core.snapshot.restore import Rows
from millstream.taskmanager.state.captured import StateDeclaration
from millstream.taskmanager.state.dirty import DirtyKeyGroups
from millstream.taskmanager.state.heap.captured import GroupColumn, HeapCapture
from millstream.taskmanager.state.heap.expiry import Expiry
from millstream.taskmanager.state.key_group_index import KeyGroupIndex
from millstream.taskmanager.state.restored_rows import deadlines_of, owned_rows

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MISSING: Any = object()


class HeapTable:
    """The entries of one state. Owned by the task's thread."""

    def __init__(
        self, declaration: StateDeclaration, index: KeyGroupIndex, expiry: Expiry | None = None, tracked: bool = False
    ) -> None:
        self.declaration = declaration
        self.values: dict[Any, Any] = {}
        self.expiry = expiry
        self.expires: dict[Any, Any] = {}
        self.dirty = DirtyKeyGroups(index, itemgetter(0) if declaration.namespaced else None) if tracked else None
        self.watched = False
        self._index = index
        self._captures: tuple[HeapCapture, ...] = ()
        self._deletions = 0
        self._groups = GroupColumn()
        kind = declaration.types.value
        self._changeable = kind is None or not is_immutable_type(kind)
        self._watch()

    # Changing entries

    def drop(self, entry: Any) -> None:
        """Removes an entry."""
        if entry in self.values:  # not `pop`, which does not hash the entry when the dictionary is empty
            del self.values[entry]
            self._deletions += 1
            if self.expiry is not None:
                del self.expires[entry]
            if self.dirty is not None:
                self.dirty.add(entry)

    def private(self, entry: Any, value: Any) -> Any:
        """An entry's value as it may be handed out: a copy, which is the value from now on, if a capture has it.

        Call it only when `watched`.
        """
        if is_immutable(value):
            return value
        if self.dirty is not None:
            self.dirty.add(entry)
        if self._captures and self._is_captured(entry, value):
            return self._copy(entry, value)
        return value

    def own(self, entry: Any, container: Any) -> Any:
        """An entry's list or map, to be changed: a copy, which is the entry's from now on, if a capture has it."""
        if self._captures and self._is_captured(entry, container):
            return self._copy(entry, container)
        return container

    def _copy(self, entry: Any, value: Any) -> Any:
        copied = self.values[entry] = private_copy(value) if self._changeable else value.copy()
        if self.expiry is not None and self.declaration.kind in (StateKind.LIST, StateKind.MAP):
            self.expires[entry] = self.expires[entry].copy()
        return copied

    def clean(self, now: int) -> None:
        """Looks at the next few entries and removes what has expired of them."""
        assert self.expiry is not None
        for entry in self.expiry.next_to_clean(self.expires):
            if entry in self.values:
                self.prune(entry, now)

    def prune(self, entry: Any, now: int) -> None:
        """Removes what has expired of an entry."""
        deadlines = self.expires[entry]
        match self.declaration.kind:
            case StateKind.LIST:
                if min(deadlines) <= now:
                    alive = [deadline > now for deadline in deadlines]
                    values = self.own(entry, self.values[entry])
                    values[:] = compress(values, alive)
                    self.expires[entry] = list(compress(deadlines, alive))
                    self._pruned(entry)
            case StateKind.MAP:
                expired = [key for key, deadline in deadlines.items() if deadline <= now]
                if expired:
                    values = self.own(entry, self.values[entry])
                    for key in expired:
                        del values[key], self.expires[entry][key]
                    self._pruned(entry)
            case _:
                if deadlines <= now:
                    self.drop(entry)

    def _pruned(self, entry: Any) -> None:
        if not self.values[entry]:
            self.drop(entry)
        elif self.dirty is not None:
            self.dirty.add(entry)

    # Batches

    def fold(
        self, keys: Sequence[Any], records: Iterator[Any], reduce: Callable[[Any, Any], Any],
        handover: Handover | None = None,
    ) -> list[Any]:  # fmt: skip
        """Folds each record into its key's value, in order; answers the new value after each record."""
        if self.dirty is not None:
            self.dirty.add_all(keys)
        self.forget_released()
        if self.expiry is not None or (handover is not None and self.watched):
            return self._fold_with_care(keys, records, reduce, handover)
        if handover is not None:
            return self._fold_apart(keys, records, reduce, handover)
        if self._captures and self._changeable:
            return self._fold_watched(keys, records, reduce)
        values, plain, canonical = self.values, PLAIN, self._index.canonical
        results: list[Any] = []
        append = results.append
        for key, record in zip(keys, records, strict=False):
            if key in values:
                record = reduce(values[key], record)
            elif type(key) not in plain:
                key = canonical(key)
                if key in values:
                    record = reduce(values[key], record)
            values[key] = record
            append(record)
        return results

    def _fold_watched(
        self, keys: Sequence[Any], records: Iterator[Any], reduce: Callable[[Any, Any], Any]
    ) -> list[Any]:
        """The same, with the test for tuples of plain values inside of the loop: it costs a third of the call."""
        values, atomic, private, canonical = self.values, ATOMIC, self.private, self._index.canonical
        results: list[Any] = []
        append = results.append
        for key, record in zip(keys, records, strict=False):
            if key not in values and type(key) not in PLAIN:
                key = canonical(key)
            if key in values:
                before = values[key]
                for item in before if type(before) is tuple else (before,):
                    if type(item) not in atomic:
                        before = private(key, before)
                        break
                record = reduce(before, record)
            values[key] = record
            append(record)
        return results

    def _fold_apart(
        self, keys: Sequence[Any], records: Iterator[Any], reduce: Callable[[Any, Any], Any], handover: Handover
    ) -> list[Any]:
        """The same for values that are copied, if they can be changed."""
        handover.plain = True
        values, atomic, plain, canonical = self.values, ATOMIC, PLAIN, self._index.canonical
        results: list[Any] = []
        append = results.append
        for key, record in zip(keys, records, strict=False):
            if key in values:
                record = reduce(values[key], record)
            elif type(key) not in plain:
                key = canonical(key)
                if key in values:
                    record = reduce(values[key], record)
            if type(record) is tuple:
                if len(record) == 2:  # faster than the loop
                    unchangeable = type(record[0]) in atomic and type(record[1]) in atomic
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
            append(record)
        return results

    def _fold_with_care(
        self, keys: Sequence[Any], records: Iterator[Any], reduce: Callable[[Any, Any], Any], handover: Handover | None
    ) -> list[Any]:
        """The same for values that expire, and for values that are copied while a capture shares them."""
        values, expires, expiry = self.values, self.expires, self.expiry
        if handover is not None:
            handover.plain = True
        results: list[Any] = []
        for key, record in zip(keys, records, strict=False):
            if key not in values and type(key) not in PLAIN:
                key = self._index.canonical(key)
            if expiry is not None and key in values and expires[key] <= expiry.now() and not expiry.answers_expired:
                self.drop(key)
            is_first = key not in values
            if not is_first:
                record = reduce(self.private(key, values[key]) if self.watched else values[key], record)
            kept = record
            if handover is not None and not is_plain(record):
                kept = handover.kept(record)
                record = record if is_first else handover.kept(record)  # the first is the operator's own
            values[key] = kept
            if expiry is not None:
                expires[key] = expiry.now() + expiry.ttl_ms
            results.append(record)
        return results

    def read_column(self, keys: Any, default: float = 0, dtype: Any = "float64") -> npt.NDArray[Any]:
        """The numbers of many keys as an array; `default` for keys that have none."""
        import numpy as np

        wanted = self._index.canonical_keys(_key_list(keys))
        if self.expiry is None:
            return np.fromiter(map(self.values.get, wanted, repeat(default)), dtype, len(wanted))
        now = self.expiry.now()
        if self.expiry.reads_extend:
            deadline = now + self.expiry.ttl_ms
            extended = [key for key in wanted if self.expires.get(key, 0) > now]
            self.expires.update(zip(extended, repeat(deadline)))
            if self.dirty is not None:
                self.dirty.add_all(extended)
        expires, values = self.expires, self.values
        found = (values[key] if expires.get(key, 0) > now else default for key in wanted)
        return np.fromiter(found, dtype, len(wanted))

    def write_column(self, keys: Any, numbers: npt.NDArray[Any]) -> None:
        """Sets the numbers of many keys; the last one counts for a key that is there twice."""
        written = self._index.canonical_keys(_key_list(keys))
        self.values.update(zip(written, numbers.tolist(), strict=True))
        if self.expiry is not None:
            self.expires.update(zip(written, repeat(self.expiry.now() + self.expiry.ttl_ms)))
        if self.dirty is not None:
            self.dirty.add_all(written)

    # Captures

    def capture(self, checkpoint_id: int, incremental: bool) -> HeapCapture:
        """The entries as they are now. Incremental: together with what was touched since the last one completed."""
        base: int | None = None
        dirty_groups: frozenset[int] | None = None
        if incremental and self.dirty is not None:
            base, dirty_groups = self.dirty.close_interval(checkpoint_id)
        deletions, groups, index = self._deletions, self._groups, self._index

        def key_groups(keys: list[Any]) -> npt.NDArray[np.int32]:
            return groups.of(keys, deletions, index)

        captured = HeapCapture(
            self.declaration,
            self.values.copy(),
            None if self.expiry is None else self.expires.copy(),
            key_groups,
            base,
            dirty_groups,
            self.expiry.now() if self.expiry is not None and self.expiry.in_snapshots else None,
        )
        self._captures = (*self._captures, captured)
        self.forget_released()
        self._watch()
        return captured

    def confirm(self, checkpoint_id: int) -> None:
        """The checkpoint is complete: incremental ones can build upon it."""
        if self.dirty is not None:
            self.dirty.confirm(checkpoint_id)

    def load(self, rows: Rows, stored_ttl: TtlSettings | None = None) -> None:
        """Takes over rows of a snapshot, with the time-to-live that they had: those in the key groups owned here."""
        chosen = owned_rows(rows, self._index)
        entries = self._index.canonical_keys(rows.keys)
        if self.declaration.namespaced:
            entries = list(zip(entries, rows.namespaces, strict=True))
        expiry = self.expiry
        deadlines = None if expiry is None else deadlines_of(rows, stored_ttl, expiry.ttl_ms, expiry.now())
        match self.declaration.kind:
            case StateKind.LIST:
                for row in sorted(chosen, key=rows.detail.__getitem__):
                    self.values.setdefault(entries[row], []).append(rows.content[row])
                    if deadlines is not None:
                        self.expires.setdefault(entries[row], []).append(deadlines[row])
            case StateKind.MAP:
                for row in chosen:
                    self.values.setdefault(entries[row], {})[rows.detail[row]] = rows.content[row]
                    if deadlines is not None:
                        self.expires.setdefault(entries[row], {})[rows.detail[row]] = deadlines[row]
            case _:
                for target, column in ((self.values, rows.content), (self.expires, deadlines)):
                    if column is None:
                        continue
                    if isinstance(chosen, range):
                        target.update(zip(entries, column, strict=True))
                    else:
                        target.update((entries[row], column[row]) for row in chosen)

    def forget_released(self) -> None:
        """Stops watching for captures that were released, on whatever thread; call it now and then."""
        if self._captures and not all(captured.entries for captured in self._captures):
            self._captures = tuple(captured for captured in self._captures if captured.entries)
            self._watch()

    def _is_captured(self, entry: Any, value: Any) -> bool:
        return any(captured.entries.get(entry) is value for captured in self._captures)

    def _watch(self) -> None:
        self.watched = self._changeable and (bool(self._captures) or self.dirty is not None)


def _key_list(keys: Any) -> list[Any]:
    if isinstance(keys, list):
        return keys
    for method in ("to_pylist", "tolist"):  # Arrow arrays, NumPy arrays
        if hasattr(keys, method):
            return getattr(keys, method)()  # type: ignore[no-any-return]  # both answer lists
    return list(keys)
