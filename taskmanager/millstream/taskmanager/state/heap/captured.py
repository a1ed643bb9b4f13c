"""What a capture of a heap table holds: a shallow copy of its dictionary, and how the writer reads it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable
from itertools import compress, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from millstream.core.snapshot.model import StateKind
from millstream.taskmanager.state.captured import StateDeclaration, StateRows
from millstream.taskmanager.state.key_group_index import KeyGroupIndex

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_AT_ONCE = 16_384  # keys: whatever is done with them holds the interpreter lock, which the task needs too


class GroupColumn:
    """The key groups of a table's entries, in their order, kept from one capture to the next.

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
    """The entries of one table at the moment of the capture. Only its owner's thread makes it; any may read it."""

    def __init__(
        self,
        declaration: StateDeclaration,
        entries: dict[Any, Any],
        expires: dict[Any, Any] | None,
        groups: Callable[[list[Any]], npt.NDArray[np.int32]],
        base: int | None = None,
        dirty_groups: frozenset[int] | None = None,
        drop_expired_at: int | None = None,
    ) -> None:
        self.declaration = declaration
        self.base = base
        self.dirty_groups = dirty_groups
        self.entries = entries
        self._expires = expires
        self._groups = groups
        self._drop_expired_at = drop_expired_at

    def rows(self, key_groups: Collection[int] | None = None) -> StateRows:
        """The entries of some key groups; without any given, of those to hand over. For the writer's thread."""
        import numpy as np

        wanted = self.dirty_groups if key_groups is None else key_groups
        entries = _listed(self.entries)
        values = _listed(self.entries.values())
        expires = None if self._expires is None else [self._expires[entry] for entry in entries]
        keys = list(map(itemgetter(0), entries)) if self.declaration.namespaced else entries
        groups = self._groups(keys)
        if wanted is not None:
            mask = np.isin(groups, np.fromiter(wanted, np.int32, len(wanted)))
            groups = groups[mask]
            chosen = mask.tolist()
            entries, keys, values = (list(compress(column, chosen)) for column in (entries, keys, values))
            expires = None if expires is None else list(compress(expires, chosen))
        namespaces = list(map(itemgetter(1), entries)) if self.declaration.namespaced else None
        rows = StateRows(values, keys, namespaces, expires, groups)
        return rows if self._drop_expired_at is None else _unexpired(rows, self.declaration.kind, self._drop_expired_at)

    def release(self) -> None:
        """Lets go of the entries, one by one: half a million at once would hold the interpreter lock for 40 ms."""
        entries, expires, self.entries, self._expires = self.entries, self._expires, {}, None
        for column in (entries, expires or {}):
            with contextlib.suppress(KeyError):
                while True:
                    column.popitem()


def _listed(items: Iterable[Any]) -> list[Any]:
    """A list, made in steps: in one, half a million items would hold the interpreter lock for 25 ms."""
    listed: list[Any] = []
    remaining = iter(items)
    while step := list(islice(remaining, _AT_ONCE)):
        listed += step
    return listed


def _unexpired(rows: StateRows, kind: StateKind, now: int) -> StateRows:
    """Without the entries, elements and map entries that have expired."""
    if rows.expires_at is None:
        return rows
    values, expires, kept = [], [], []
    for value, deadlines in zip(rows.values, rows.expires_at, strict=True):
        if kind is StateKind.LIST:
            alive = [deadline > now for deadline in deadlines]
            value, deadlines = list(compress(value, alive)), list(compress(deadlines, alive))
        elif kind is StateKind.MAP:
            deadlines = {key: deadline for key, deadline in deadlines.items() if deadline > now}
            value = {key: value[key] for key in deadlines}
        keep = bool(value) if kind in (StateKind.LIST, StateKind.MAP) else deadlines > now
        kept.append(keep)
        if keep:
            values.append(value)
            expires.append(deadlines)
    return StateRows(
        values,
        list(compress(rows.keys, kept)),
        None if rows.namespaces is None else list(compress(rows.namespaces, kept)),
        expires,
        rows.key_groups[kept],
    )
