"""Tracks which key groups of a state were modified since the last checkpoint that an incremental one can build upon.

Modified keys are collected in a set, which is converted into key groups when it has grown, so its size is bounded and a
capture is cheap. A checkpoint that was captured, but never completed, cannot be built upon: what was modified before it
counts for the next one again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from millstream.taskmanager.worker.state.key_group_index import KeyGroupIndex

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_GATHERED = 8192  # keys; hashing them takes some milliseconds
_REMEMBERED = 64  # checkpoints without a notification; earlier ones cannot be built upon any more


class DirtyKeyGroups:
    """The modified key groups of one state. `key_of` extracts the key of an entry, if entries are not just keys."""

    def __init__(self, index: KeyGroupIndex, key_of: Callable[[Any], Any] | None = None) -> None:
        self._index = index
        self._key_of = key_of
        self._entries: set[Any] = set()
        self._groups: set[int] = set()
        self._all = False
        self._intervals: list[tuple[int, frozenset[int]]] = []
        self._base: int | None = None

    def add(self, entry: Any) -> None:
        """An entry was modified."""
        if not self._all:
            self._entries.add(entry)
            if len(self._entries) > _GATHERED:
                self._gather()

    def add_all(self, entries: Iterable[Any]) -> None:
        """Entries were modified."""
        if not self._all:
            self._entries.update(entries)
            if len(self._entries) > _GATHERED:
                self._gather()

    def add_groups(self, groups: npt.NDArray[np.uint16]) -> None:
        """Entries of these key groups were modified."""
        if not self._all:
            import numpy as np

            touched = np.zeros(self._index.max_parallelism, np.bool_)
            touched[groups] = True
            self._groups.update(np.flatnonzero(touched).tolist())
            self._all = len(self._groups) >= len(self._index.owned)

    def close_interval(self, checkpoint_id: int) -> tuple[int | None, frozenset[int] | None]:
        """The base of a checkpoint, and the key groups modified since, which the checkpoint has to contain.

        None: all.
        """
        self._gather()
        self._intervals.append((checkpoint_id, frozenset(self._groups)))
        self._groups, self._all = set(), False
        if len(self._intervals) > _REMEMBERED:
            (_, oldest), (number, groups), *newer = self._intervals
            self._intervals = [(number, oldest | groups), *newer]
        if self._base is None:
            return None, None
        return self._base, frozenset().union(*(groups for _, groups in self._intervals))

    def confirm(self, checkpoint_id: int) -> None:
        """The checkpoint has completed: later ones can build upon it. Unknown ids are ignored."""
        ids = [known for known, _ in self._intervals]
        if checkpoint_id in ids:
            del self._intervals[: ids.index(checkpoint_id) + 1]
            self._base = checkpoint_id

    def _gather(self) -> None:
        entries, self._entries = self._entries, set()
        if entries:
            keys = list(entries) if self._key_of is None else list(map(self._key_of, entries))
            self._groups.update(self._index.column(keys).tolist())
            self._all = len(self._groups) >= len(self._index.owned)
