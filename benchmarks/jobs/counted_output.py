"""The output of `rescale_job.py`: when counts were emitted, the longest time without one, whether any is missing."""

from __future__ import annotations

import itertools
from pathlib import Path

Result = tuple[int, int, int]
"""The moment, the key and the count."""


def results(folder: Path) -> list[Result]:
    """Returns all results so far, ordered by their moments."""
    lines = [line.split() for file in folder.glob("*.txt") for line in file.read_text().splitlines()]
    return sorted((int(line[0]), int(line[1]), int(line[2])) for line in lines if len(line) == 3)


def longest_gap(found: list[Result], begin: int, end: int) -> float:
    """Returns the longest time in seconds between two results within an interval."""
    moments = [moment for moment, _, _ in found if begin <= moment <= end]
    return max(later - earlier for earlier, later in itertools.pairwise(moments)) / 1e9


def lost_keys(found: list[Result]) -> list[int]:
    """Returns the keys of which a count is missing."""
    counts: dict[int, set[int]] = {}
    for _, key, count in found:
        counts.setdefault(key, set()).add(count)
    return [key for key, seen in counts.items() if seen != set(range(1, max(seen) + 1))]
