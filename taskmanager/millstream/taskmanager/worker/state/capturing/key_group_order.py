"""The rows of a capture in the order of their key groups: their numbers, four bytes each, and nothing copied."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_AT_ONCE = 256 * 1024  # rows: sorting needs many bytes for each of them


class KeyGroupOrder:
    """Rows, sorted by key group. Rows of a key group keep their order."""

    def __init__(self, groups: npt.NDArray[np.uint16], max_parallelism: int) -> None:
        import numpy as np

        steps = range(0, len(groups), _AT_ONCE)
        counted = [np.bincount(groups[start : start + _AT_ONCE], minlength=max_parallelism) for start in steps]
        counts = sum(counted, np.zeros(max_parallelism, np.int64))
        self._starts = np.concatenate([[0], np.cumsum(counts)])
        self._order = np.empty(len(groups), np.uint32)
        next_place = self._starts[:-1].copy()
        for start, counts in zip(steps, counted, strict=True):
            step = groups[start : start + _AT_ONCE]
            found = np.argsort(step, kind="stable")  # a radix sort for 16 bits
            ordered = step[found]
            within = np.arange(len(step)) - np.repeat(np.cumsum(counts) - counts, counts)
            self._order[next_place[ordered] + within] = found + start
            next_place += counts

    def count(self, key_groups: Collection[int]) -> int:
        """How many rows some key groups have."""
        return sum(int(self._starts[group + 1] - self._starts[group]) for group in key_groups)

    def parts(self, key_groups: Collection[int] | None, rows: int) -> Iterator[npt.NDArray[np.uint32]]:
        """The numbers of the rows of some key groups, or of all, in parts of about so many.

        A part ends where a key group ends, unless that is more than as many rows away.
        """
        wanted = range(len(self._starts) - 1) if key_groups is None else sorted(key_groups)
        taken: list[npt.NDArray[np.uint32]] = []
        held = 0
        for group in wanted:
            found = self._order[self._starts[group] : self._starts[group + 1]]
            if not len(found):
                continue
            if len(found) > 2 * rows and taken:
                yield _joined(taken)
                taken, held = [], 0
            while len(found) > 2 * rows:
                yield found[:rows]
                found = found[rows:]
            taken.append(found)
            held += len(found)
            if held >= rows:
                yield _joined(taken)
                taken, held = [], 0
        if taken:
            yield _joined(taken)


def _joined(taken: list[npt.NDArray[np.uint32]]) -> npt.NDArray[np.uint32]:
    import numpy as np

    return np.concatenate(taken)
