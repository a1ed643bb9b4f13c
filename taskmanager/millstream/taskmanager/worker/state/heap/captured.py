"""Captures of heap tables: a shallow copy of the dictionary, and how the writer reads it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable
from contextlib import nullcontext
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from millstream.core.snapshot.metadata.model import StateKind
from millstream.taskmanager.worker.state.capturing.arrow_tables import StateRows, stepwise_table
from millstream.taskmanager.worker.state.capturing.captured import StateDeclaration, Work
from millstream.taskmanager.worker.state.capturing.owned_groups import check_owned
from millstream.taskmanager.worker.state.expiring import unexpired
from millstream.taskmanager.worker.state.key_group_index import KeyGroupIndex

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

_AT_ONCE = 16_384  # keys: processing them holds the interpreter lock, which the task needs too


class GroupColumn:
    """The key groups of a table's entries, in their order, cached between captures.

    A dictionary keeps its order and grows at its end, so only new entries have to be hashed, until one is deleted.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: tuple[int, Any] | None = None

    def of(self, keys: list[Any], deletions: int, index: KeyGroupIndex) -> npt.NDArray[np.int32]:
        """The key groups of all keys, where `deletions` counts how often the table lost an entry."""
        import numpy as np

        known = self._known
        is_usable = known is not None and known[0] == deletions and len(known[1]) <= len(keys)
        parts = [known[1]] if known is not None and is_usable else []
        for start in range(sum(map(len, parts)), len(keys), _AT_ONCE):
            parts.append(index.column(keys[start : start + _AT_ONCE]))
        groups = parts[0] if len(parts) == 1 else np.concatenate(parts or [np.empty(0, np.int32)])
        self._known = (deletions, groups)
        return groups


class HeapCapture:
    """The entries of one table at the moment of the capture. Created by the owner's thread; read by any."""

    def __init__(
        self,
        declaration: StateDeclaration,
        entries: dict[Any, Any],
        index: KeyGroupIndex,
        groups: Callable[[list[Any]], npt.NDArray[np.int32]],
        base: int | None = None,
        dirty_groups: frozenset[int] | None = None,
        drop_expired_at: int | None = None,
    ) -> None:
        self.declaration = declaration
        self.base = base
        self.dirty_groups = dirty_groups
        self.entries = entries
        self._index = index
        self._groups = groups
        self._drop_expired_at = drop_expired_at

    def table(self, key_groups: Collection[int] | None = None, work: Work = nullcontext) -> pa.Table:
        """The rows of some key groups; without an argument, of those to write."""
        with work():
            rows = self._rows(self.dirty_groups if key_groups is None else key_groups)
            check_owned(self._index.owned, rows.key_groups, rows.keys)
        return stepwise_table(self.declaration, rows, self._index.max_parallelism, work)

    def _rows(self, wanted: Collection[int] | None) -> StateRows:
        entries = _listed(self.entries)
        values = _listed(self.entries.values())
        keys, namespaces = entries, None
        if self.declaration.namespaced:
            keys, namespaces = list(map(itemgetter(0), entries)), list(map(itemgetter(1), entries))
        rows = StateRows(values, keys, namespaces, self._groups(keys))
        rows = rows if wanted is None else rows.of_groups(wanted)
        return rows if self._drop_expired_at is None else _unexpired(rows, self.declaration.kind, self._drop_expired_at)

    def native_files(self) -> None:
        """None: values are Python objects."""

    def release(self) -> None:
        """Releases the entries one by one: half a million at once would hold the interpreter lock for 40 ms."""
        entries, self.entries = self.entries, {}
        with contextlib.suppress(KeyError):
            while True:
                entries.popitem()


def _listed(items: Iterable[Any]) -> list[Any]:
    """Creates a list in steps: in one, half a million items would hold the interpreter lock for 25 ms."""
    listed: list[Any] = []
    remaining = iter(items)
    while step := list(islice(remaining, _AT_ONCE)):
        listed += step
    return listed


def _unexpired(rows: StateRows, kind: StateKind, now: int) -> StateRows:
    """Removes the entries, elements and map entries that have expired."""
    import numpy as np

    alive_of = unexpired(kind)
    values = [alive_of(value, now) for value in rows.values]
    left = StateRows(values, rows.keys, rows.namespaces, rows.key_groups)
    return left.where(np.fromiter((value is not None for value in values), np.bool_, len(values)))
