"""Who gets which state when a job is restored, also under another parallelism. Pure functions.

List state is spread evenly, union state goes to all, broadcast state to all as one copy, keyed state by key groups.
The inputs are what the old subtasks had, in the order of the subtasks; finished ones have nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from millstream.core.key_groups import key_group_range

T = TypeVar("T")


def split_list(states: Sequence[Sequence[T]], parallelism: int) -> list[list[T]]:
    """Deals all elements out in turn; under an unchanged parallelism, everyone keeps what it had."""
    if len(states) == parallelism:
        return [list(state) for state in states]
    elements = [element for state in states for element in state]
    return [elements[subtask::parallelism] for subtask in range(parallelism)]


def union_list(states: Sequence[Sequence[T]], parallelism: int) -> list[list[T]]:
    """All elements of all, for each."""
    elements = [element for state in states for element in state]
    return [list(elements) for _ in range(parallelism)]


def broadcast_sources(copies: int, parallelism: int) -> list[int | None]:
    """Which of the copies each subtask reads: they are equal, so the reading is spread. None: there is no copy."""
    return [subtask % copies if copies else None for subtask in range(parallelism)]


@dataclass(frozen=True, slots=True)
class KeyGroupsPart:
    """The key groups that a new subtask takes from one old part."""

    part: int
    key_groups: range


def split_key_groups(parts: Sequence[range], max_parallelism: int, parallelism: int) -> list[list[KeyGroupsPart]]:
    """What each new subtask reads of the old parts, which are ranges of key groups: only what it owns."""
    result: list[list[KeyGroupsPart]] = []
    for subtask in range(parallelism):
        owned = key_group_range(subtask, max_parallelism, parallelism)
        overlaps = (range(max(p.start, owned.start), min(p.stop, owned.stop)) for p in parts)
        result.append([KeyGroupsPart(index, overlap) for index, overlap in enumerate(overlaps) if overlap])
    return result
