"""Which files of a state a restored subtask reads, and what it takes of them, under the same or another parallelism.

- keyed state: the files that hold key groups of the subtask's range; it reads only those groups from them;
- lists, splits and sink transactions: under the same parallelism its own files; under another one all files, whose
  elements are dealt out in turn (a file cannot be divided without reading it);
- broadcast state: one of the copies, which are equal; the reading is spread over them;
- records that were in flight: those of a former producer go to one new producer. What it had queued is in files of
  its own; what the consumers had received is in theirs, each with records of all producers, so all of them are read;
- union lists: all files.

The job manager chooses the files, so a task reads all that it is handed over. Pure functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from millstream.core.keys.key_groups import key_group_range
from millstream.core.snapshot.metadata.model import StateFile, StateKind, StateSnapshot

T = TypeVar("T")

QUEUED = "queued"
"""How the names of states end that hold what producers had queued of their records in flight."""

_DEALT = frozenset({StateKind.OPERATOR_LIST, StateKind.SPLITS, StateKind.SINK_TRANSACTIONS})


def files_for(
    state: StateSnapshot, stored_parallelism: int, parallelism: int, max_parallelism: int, subtask: int
) -> tuple[StateFile, ...]:
    """The files of one state that a subtask needs, in the order of the subtasks that wrote them."""
    files = tuple(sorted(state.files, key=lambda file: file.subtask))
    if state.kind.keyed:
        owned = key_group_range(subtask, max_parallelism, parallelism)
        return tuple(f for f in files if (g := f.key_groups) is None or (g.start < owned.stop and owned.start < g.stop))
    if state.kind is StateKind.BROADCAST:
        copies = sorted({file.subtask for file in files})
        return tuple(f for f in files if f.subtask == copies[subtask % len(copies)])
    if state.kind in _DEALT and stored_parallelism == parallelism:
        return tuple(file for file in files if file.subtask == subtask)
    if state.kind is StateKind.IN_FLIGHT and state.name.endswith(f"-{QUEUED}"):
        return tuple(file for file in files if takes_over(file.subtask, parallelism) == subtask)
    return files


def is_dealt(kind: StateKind, stored_parallelism: int, parallelism: int) -> bool:
    """Whether a subtask reads the elements of all former ones, and takes only those that `dealt` gives it."""
    return kind in _DEALT and stored_parallelism != parallelism


def dealt(elements: Sequence[T], subtask: int, parallelism: int) -> list[T]:
    """A subtask's share of the elements of all former subtasks, in their order."""
    return list(elements[subtask::parallelism])


def takes_over(producer: int, parallelism: int) -> int:
    """Which new subtask sends the records again that were in flight from a former one."""
    return producer % parallelism
