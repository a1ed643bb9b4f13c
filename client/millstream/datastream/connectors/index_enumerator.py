"""Hands out the splits of a range of indices, and refuses to continue with those of another range.

The splits of a range are cut once, when the source starts: after a restore nothing else is read, whatever the program
has by then. So the range is part of the state, and a program with another one is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from millstream.datastream.connectors.base import SplitEnumeratorContext
from millstream.datastream.connectors.errors import ChangedInputError
from millstream.datastream.connectors.index_split import IndexSplit
from millstream.datastream.connectors.split_queue import QueueEnumerator


@dataclass(frozen=True, slots=True)
class IndexRange:
    """The indices from `start` to before `end`, or endless; `name` is what is counted, for messages."""

    name: str
    start: int
    end: int | None

    def check(self, other: IndexRange) -> None:
        """Raises ChangedInputError if this is the program's range and `other`, the snapshot's, is a different one."""
        if (self.start, self.end) != (other.start, other.end):
            raise ChangedInputError(f"a source of {other}", str(self))

    def check_splits(self, splits: Iterable[IndexSplit]) -> None:
        """Performs the check for a snapshot without a range, as far as it can be derived from the splits."""
        ends = [split.end for split in splits]
        bounded = [end for end in ends if end is not None]
        if len(bounded) < len(ends):
            self.check(replace(self, end=None))
        elif bounded and (self.end is None or max(bounded) > self.end):
            self.check(replace(self, end=max(bounded)))

    def __str__(self) -> str:
        if self.end is None:
            return f"endless {self.name}"
        return f"{self.end - self.start} {self.name} from {self.start} on"


@dataclass(frozen=True, slots=True)
class IndexState:
    """The splits not handed out, and of which range they are."""

    range: IndexRange
    pending: tuple[IndexSplit, ...]


class IndexEnumerator(QueueEnumerator[IndexSplit]):
    """Its state is an `IndexState`; that of earlier versions, and of bootstrapped snapshots, a list of splits."""

    def __init__(
        self, context: SplitEnumeratorContext[IndexSplit], indices: IndexRange, splits: Iterable[IndexSplit]
    ) -> None:
        super().__init__(context, splits)
        self._range = indices

    @staticmethod
    def restored(
        context: SplitEnumeratorContext[IndexSplit], indices: IndexRange, state: Any
    ) -> IndexEnumerator:
        """With the state of a snapshot. Raises ChangedInputError."""
        if isinstance(state, IndexState):
            indices.check(state.range)
            return IndexEnumerator(context, indices, state.pending)
        indices.check_splits(state)
        return IndexEnumerator(context, indices, state)

    def snapshot_state(self, checkpoint_id: int) -> Any:
        """The range as well."""
        return IndexState(self._range, tuple(super().snapshot_state(checkpoint_id)))
