"""Splits of a range of indices: for sequences, collections and generated records. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from millstream.core.records.batches import Batch
from millstream.datastream.connectors.base import SourceReaderContext
from millstream.datastream.connectors.split_queue import OneSplitReader


@dataclass(frozen=True, slots=True)
class IndexSplit:
    """Indices from `position` on.

    With an `end`, all of them up to it. Without one, one lane of an endless range: of every `lanes` consecutive blocks
    of `block` indices, one block.
    """

    split_id: str
    position: int
    end: int | None
    block: int = 1
    lanes: int = 1

    def take(self, count: int) -> tuple[range, IndexSplit]:
        """At most `count` of the next indices, and what is left; an empty range means that nothing is."""
        position = self.position
        if self.end is not None:
            stop = min(position + count, self.end)
            return range(position, stop), replace(self, position=max(stop, position))
        if self.block == 1:
            stop = position + count * self.lanes
            return range(position, stop, self.lanes), replace(self, position=stop)
        room = self.block - position % self.block
        stop = position + min(count, room)
        after = stop if count < room else stop + (self.lanes - 1) * self.block
        return range(position, stop), replace(self, position=after)


def cut_range(start: int, end: int, parts: int) -> list[IndexSplit]:
    """The range from start to before end in `parts` contiguous splits of nearly equal size, none of them empty."""
    size = max(end - start, 0)
    bounds = [start + size * i // parts for i in range(parts + 1)]
    return [IndexSplit(str(i), bounds[i], bounds[i + 1]) for i in range(parts) if bounds[i] < bounds[i + 1]]


def lanes_of(parts: int, block: int = 1) -> list[IndexSplit]:
    """All indices from 0 on, dealt to `parts` endless splits in turn, a block at a time."""
    return [IndexSplit(str(i), i * block, None, block, parts) for i in range(parts)]


class IndexReader(OneSplitReader[IndexSplit]):
    """Reads index splits; a subclass makes the batch of some indices.

    Endless ones take turns: after a restore with fewer subtasks one reader has several.
    """

    def __init__(self, context: SourceReaderContext) -> None:
        super().__init__(context)
        self._split = IndexSplit("", 0, 0)

    def make(self, indices: range) -> Batch:
        """The records of these indices, in order."""
        raise NotImplementedError

    def open_split(self, split: IndexSplit) -> None:
        """Opens `split` at its position."""
        self._split = split

    def read(self, max_rows: int) -> Batch | None:
        """The batch of the next indices. The position moves only once the batch is made."""
        indices, rest = self._split.take(max_rows)
        if not indices:
            return None
        batch = self.make(indices)
        self._split = rest
        if rest.end is None and self._queue:
            self.set_aside()
        return batch

    def current_split(self) -> IndexSplit:
        """The indices not read."""
        return self._split
