"""Divides keyed state into files that later checkpoints can share. Pure.

A state's key groups are divided into chunks, each with files of its own. A later checkpoint writes only the chunks with
a key group that was modified since, and refers to the files of the others. Chunks are small enough that the written
amount is in proportion to what was modified, and large enough that there are not too many files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from msgspec import Struct

from millstream.core.snapshot.metadata.model import StateFile

_ROWS = 4096
_CHUNKS = 64


class Chunk(Struct, frozen=True):
    """A range of key groups and the files that contain them; none if they are empty."""

    key_groups: range
    files: tuple[StateFile, ...]
    name: str = ""
    """The name of the backend's own file; in a native format, a state has one chunk per file."""
    entries: int = 0


Layout = tuple[Chunk, ...]
"""The chunks of one state: together all key groups that the subtask owns."""

TaskLayout = Mapping[tuple[str, str], Layout]
"""The layouts of a task's states, by operator id and state name."""


def is_touched(chunk: Chunk, touched: Collection[int]) -> bool:
    """Whether the chunk has to be written again."""
    return any(group in touched for group in chunk.key_groups)


def cut(key_groups: range, entries: Callable[[range], int], total: int) -> Iterator[tuple[range, int]]:
    """Divides key groups into chunks by the number of entries that they have, which it returns with each; all of them.

    `total` are those of the state.
    """
    least = max(_ROWS, total // _CHUNKS)
    first, held = key_groups.start, 0
    for group in key_groups:
        held += entries(range(group, group + 1))
        if held >= least or group == key_groups.stop - 1:
            yield range(first, group + 1), held
            first, held = group + 1, 0
