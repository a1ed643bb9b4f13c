"""Captures of heap tables: their entries and values as two lists, and how the writer reads them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from contextlib import nullcontext
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from millstream.core.snapshot.metadata.model import StateKind
from millstream.taskmanager.worker.state.capturing.arrow_tables import (
    StateRows,
    keyed_table,
    parts_by_key_group,
)
from millstream.taskmanager.worker.state.capturing.captured import StateDeclaration, Work
from millstream.taskmanager.worker.state.capturing.key_group_order import KeyGroupOrder
from millstream.taskmanager.worker.state.capturing.owned_groups import check_owned
from millstream.taskmanager.worker.state.expiring import unexpired
from millstream.taskmanager.worker.state.key_group_index import KeyGroupIndex

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

_AT_ONCE = 16_384  # entries: processing them holds the interpreter lock, which the task needs too


def key_groups_of(
    entries: list[Any], namespaced: bool, index: KeyGroupIndex, start: int = 0
) -> Iterator[npt.NDArray[np.uint16]]:
    """The key groups of the entries from one on, some at a time."""
    import numpy as np

    for first in range(start, len(entries), _AT_ONCE):
        some = entries[first : first + _AT_ONCE]
        yield index.column(list(map(itemgetter(0), some)) if namespaced else some).astype(np.uint16)


class GroupColumn:
    """The key groups of a table's entries, in their order, cached between captures.

    A dictionary keeps its order and grows at its end, so only new entries have to be hashed, until one is deleted.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: tuple[int, Any] | None = None

    def of(self, entries: list[Any], namespaced: bool, deletions: int, index: KeyGroupIndex) -> npt.NDArray[np.uint16]:
        """The key groups of all entries, where `deletions` counts how often the table lost one."""
        import numpy as np

        known = self._known
        is_usable = known is not None and known[0] == deletions and len(known[1]) <= len(entries)
        parts = [known[1]] if known is not None and is_usable else []
        parts += key_groups_of(entries, namespaced, index, sum(map(len, parts)))
        groups = parts[0] if len(parts) == 1 else np.concatenate(parts or [np.empty(0, np.uint16)])
        self._known = (deletions, groups)
        return groups


def picked(items: list[Any], numbers: list[int]) -> list[Any]:
    """The items of these numbers, which are anywhere in memory: in half the time of a loop."""
    return list(itemgetter(*numbers)(items)) if len(numbers) > 1 else [items[number] for number in numbers]


def released_in_steps(items: list[Any]) -> None:
    """Empties a list: half a million items at once would hold the interpreter lock for 40 ms."""
    while items:
        del items[-_AT_ONCE:]


class HeapCapture:
    """The entries of one table at the moment of the capture. Created by the owner's thread; read by any.

    Lists take 16 bytes an entry, where a copy of the dictionary takes 56, and no longer to make. `replaced` is of the
    owner's thread: the values that the capture has of entries that were changed since.
    """

    def __init__(
        self,
        declaration: StateDeclaration,
        contents: dict[Any, Any],
        index: KeyGroupIndex,
        groups: Callable[[list[Any]], npt.NDArray[np.uint16]],
        base: int | None = None,
        dirty_groups: frozenset[int] | None = None,
        drop_expired_at: int | None = None,
    ) -> None:
        self.declaration = declaration
        self.base = base
        self.dirty_groups = dirty_groups
        self.replaced: dict[Any, Any] = {}
        self.is_released = False
        self._entries, self._values = list(contents), list(contents.values())
        self._index = index
        self._groups = groups
        self._order: KeyGroupOrder | None = None
        self._found: Any = None  # the key groups of all entries
        self._drop_expired_at = drop_expired_at

    def parts(self, key_groups: Collection[int] | None = None, work: Work = nullcontext) -> Iterator[pa.Table]:
        """The rows of some key groups; without an argument, of those to write."""
        wanted = self.dirty_groups if key_groups is None else key_groups
        return parts_by_key_group(self._sorted(work), wanted, self._table, work)

    def entries(self, key_groups: Collection[int], work: Work = nullcontext) -> int:
        """How many entries some key groups have."""
        return self._sorted(work).count(key_groups)

    def _sorted(self, work: Work) -> KeyGroupOrder:
        if self._order is None:
            with work():
                self._found = self._groups(self._entries)
                keys = map(itemgetter(0), self._entries) if self.declaration.namespaced else self._entries
                check_owned(self._index.owned, self._found, keys)
                self._order = KeyGroupOrder(self._found, self._index.max_parallelism)
        return self._order

    def _table(self, numbers: npt.NDArray[np.uint32]) -> pa.Table:
        entries, values, chosen = self._entries, self._values, numbers.tolist()
        keys, namespaces = picked(entries, chosen), None
        if self.declaration.namespaced:
            keys, namespaces = list(map(itemgetter(0), keys)), list(map(itemgetter(1), keys))
        rows = StateRows(picked(values, chosen), keys, namespaces, self._found[numbers])
        if self._drop_expired_at is not None:
            rows = _unexpired(rows, self.declaration.kind, self._drop_expired_at)
        return keyed_table(self.declaration, rows, self._index.max_parallelism)

    def native_files(self) -> None:
        """None: values are Python objects."""

    def release(self) -> None:
        """Releases the entries."""
        self.is_released = True
        self._order = self._found = None
        released_in_steps(self._entries)
        released_in_steps(self._values)
        with contextlib.suppress(KeyError):
            while True:
                self.replaced.popitem()


def _unexpired(rows: StateRows, kind: StateKind, now: int) -> StateRows:
    """Removes the entries, elements and map entries that have expired."""
    import numpy as np

    alive_of = unexpired(kind)
    values = [alive_of(value, now) for value in rows.values]
    left = StateRows(values, rows.keys, rows.namespaces, rows.key_groups)
    return left.where(np.fromiter((value is not None for value in values), np.bool_, len(values)))
