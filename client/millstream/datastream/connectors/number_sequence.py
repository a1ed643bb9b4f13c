"""All whole numbers of a range, bounded, in parallel."""

from __future__ import annotations

from typing import Any

from millstream.core.errors import InvalidProgramError
from millstream.core.overriding import override
from millstream.core.records.batches import RowBatch
from millstream.core.records.types import LONG, TypeInformation
from millstream.datastream.connectors.base import (
    Boundedness,
    Source,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from millstream.datastream.connectors.index_enumerator import IndexEnumerator, IndexRange
from millstream.datastream.connectors.index_split import IndexReader, IndexSplit, cut_range


class NumberSequenceSource(Source[IndexSplit, int]):
    """The numbers from `start` to `end`, both included; in order within a subtask."""

    def __init__(self, start: int, end: int) -> None:
        if start > end + 1:
            raise InvalidProgramError(f"a number sequence cannot go from {start} down to {end}")
        self._start = start
        self._end = end

    @property
    def _range(self) -> IndexRange:
        return IndexRange("numbers", self._start, self._end + 1)

    @override
    def get_boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    @override
    def create_enumerator(self, context: SplitEnumeratorContext[IndexSplit]) -> SplitEnumerator[IndexSplit]:
        parts = cut_range(self._start, self._end + 1, context.current_parallelism())
        return IndexEnumerator(context, self._range, parts)

    @override
    def restore_enumerator(
        self, context: SplitEnumeratorContext[IndexSplit], state: Any
    ) -> SplitEnumerator[IndexSplit]:
        return IndexEnumerator.restored(context, self._range, state)

    @override
    def create_reader(self, context: SourceReaderContext) -> IndexReader:
        return _NumberReader(context)

    def get_produced_type(self) -> TypeInformation[int]:
        """Whole numbers."""
        return LONG


class _NumberReader(IndexReader):
    def make(self, indices: range) -> RowBatch:
        """The indices are the records."""
        return RowBatch(list(indices))
