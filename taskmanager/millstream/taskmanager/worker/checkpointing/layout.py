"""Divides keyed state into files that later checkpoints can share. Pure.

A state's key groups are divided into chunks, each with files of its own. A later checkpoint writes only the chunks with
a key group that was modified since, and refers to the files of the others. Chunks are small enough that the written
amount is in proportion to what was modified, and large enough that there are not too many files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from millstream.core.snapshot.metadata.model import StateFile
from millstream.core.snapshot.tables.table import KEY_GROUP

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS = 4096
_CHUNKS = 64


class Chunk(Struct, frozen=True):
    """A range of key groups and the files that contain them; none if they are empty."""

    key_groups: range
    files: tuple[StateFile, ...]
    name: str = ""
    """The name of the backend's own file; in a native format, a state has one chunk per file."""


Layout = tuple[Chunk, ...]
"""The chunks of one state: together all key groups that the subtask owns."""

TaskLayout = Mapping[tuple[str, str], Layout]
"""The layouts of a task's states, by operator id and state name."""


def is_touched(chunk: Chunk, touched: Collection[int]) -> bool:
    """Whether the chunk has to be written again."""
    return any(group in touched for group in chunk.key_groups)


def cut(table: pa.Table, key_groups: range, total_rows: int) -> Iterator[tuple[range, pa.Table]]:
    """Divides rows sorted by key group into chunks that cover all of the key groups."""
    import numpy as np

    least = max(_ROWS, total_rows // _CHUNKS)
    bounds = range(key_groups.start, key_groups.stop + 1)
    positions = np.searchsorted(table.column(KEY_GROUP).to_numpy(), np.asarray(bounds))
    first = 0
    for last in range(1, len(bounds)):
        rows = int(positions[last] - positions[first])
        if rows >= least or last == len(bounds) - 1:
            yield range(bounds[first], bounds[last]), table.slice(int(positions[first]), rows)
            first = last


def slice_of(table: pa.Table, key_groups: range) -> pa.Table:
    """The rows of a range of key groups."""
    import numpy as np

    start, end = np.searchsorted(table.column(KEY_GROUP).to_numpy(), [key_groups.start, key_groups.stop])
    return table.slice(int(start), int(end - start))
