"""How keyed state is cut into files that later checkpoints can share. Pure.

A state's key groups are cut into chunks, each with files of its own. A later checkpoint writes only the chunks that
hold a key group touched since, and refers to the files of the others. Chunks are small enough that this is in
proportion to what was touched, and large enough that there are not too many files.
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
    """Some neighbouring key groups and the files that hold them; none when they are empty."""

    key_groups: range
    files: tuple[StateFile, ...]
    name: str = ""
    """Of the backend's own file that this is; in its own format, a state has one chunk for each."""


Layout = tuple[Chunk, ...]
"""The chunks of one state: together all key groups that the subtask owns."""

TaskLayout = Mapping[tuple[str, str], Layout]
"""The layouts of a task's states, by operator id and state name."""


def is_touched(chunk: Chunk, touched: Collection[int]) -> bool:
    """Whether the chunk has to be written again."""
    return any(group in touched for group in chunk.key_groups)


def cut(table: pa.Table, key_groups: range, total_rows: int) -> Iterator[tuple[range, pa.Table]]:
    """Cuts rows sorted by key group into chunks that cover all of the key groups."""
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
    """The rows of some neighbouring key groups."""
    import numpy as np

    start, end = np.searchsorted(table.column(KEY_GROUP).to_numpy(), [key_groups.start, key_groups.stop])
    return table.slice(int(start), int(end - start))
