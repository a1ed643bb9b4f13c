"""The rows of each key, as lists that are linked both ways: arrays by row, and by the slot of the key.

A batch is added or removed as a whole. Reading takes a step for each row of the key that has the most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.taskmanager.worker.state.heap.columns.buffers import first_occurrences, resized

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Slots = npt.NDArray[np.int64]

_NONE = -1


class Chains:
    """Rows are slots, as are their owners: the keys."""

    def __init__(self) -> None:
        import numpy as np

        self._first: Slots = np.full(16, _NONE, np.int64)  # by owner
        self._next: Slots = np.full(16, _NONE, np.int64)  # by row
        self._previous: Slots = np.full(16, _NONE, np.int64)
        self._owners: Slots = np.full(16, _NONE, np.int64)
        self._gone: npt.NDArray[np.bool_] = np.zeros(16, np.bool_)

    def add(self, owners: Slots, rows: Slots) -> None:
        """Adds different rows that have no owner, each with its owner."""
        import numpy as np

        if not len(rows):
            return
        self._first = resized(self._first, int(owners.max()) + 1, _NONE)
        bound = int(rows.max()) + 1
        self._next, self._previous = resized(self._next, bound, _NONE), resized(self._previous, bound, _NONE)
        self._owners, self._gone = resized(self._owners, bound, _NONE), resized(self._gone, bound, False)
        before = self._first[owners]
        self._first[owners] = rows
        if (self._first[owners] == rows).all():  # no owner gets more than one: nothing has to be sorted
            self._owners[rows], self._next[rows], self._previous[rows] = owners, before, _NONE
            self._previous[before[before >= 0]] = rows[before >= 0]
            return
        self._first[owners] = before
        order = np.argsort(owners, kind="stable")
        owners, rows = owners[order], rows[order]
        begins = np.empty(len(rows), np.bool_)
        begins[0] = True
        np.not_equal(owners[1:], owners[:-1], out=begins[1:])
        ends = np.append(begins[1:], True)
        self._owners[rows] = owners
        self._next[rows[~ends]] = rows[~begins]
        self._previous[rows[~begins]] = rows[~ends]
        heads = owners[begins]
        before = self._first[heads]
        self._next[rows[ends]] = before
        self._previous[before[before >= 0]] = rows[ends][before >= 0]
        self._previous[rows[begins]] = _NONE
        self._first[heads] = rows[begins]

    def remove(self, rows: Slots) -> Slots:
        """Removes different rows; returns the owners that have none any more."""
        self._gone[rows] = True
        after, before = self._remaining(self._next, rows), self._remaining(self._previous, rows)
        self._gone[rows] = False
        self._next[before[before >= 0]] = after[before >= 0]
        self._previous[after[after >= 0]] = before[after >= 0]
        owners = self._owners[rows]
        self._first[owners[before < 0]] = after[before < 0]
        empty = owners[self._first[owners] < 0]
        return empty[first_occurrences(empty)]

    def owners(self, rows: Slots) -> Slots:
        """The owner of each row."""
        return self._owners[rows]

    def rows(self, owners: Slots) -> Slots:
        """All rows of different owners."""
        import numpy as np

        found, at = [], self._first[owners]
        while len(at := at[at >= 0]):
            found.append(at)
            at = self._next[at]
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def _remaining(self, links: Slots, rows: Slots) -> Slots:
        """Where the links of rows that go lead to, past others that go: each round doubles how far that is."""
        found = links[rows]
        while (passed := (found >= 0) & self._gone[found]).any():
            found[passed] = links[found[passed]]
            links[rows] = found
        return found
