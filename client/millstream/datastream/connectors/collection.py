"""The elements of a list, bounded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from millstream.core.batches import RowBatch
from millstream.core.types import PICKLED, TypeInformation, from_hint
from millstream.datastream.connectors.base import (
    Boundedness,
    Source,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from millstream.datastream.connectors.index_split import IndexReader, IndexSplit, cut_range
from millstream.datastream.connectors.split_queue import QueueEnumerator


class CollectionSource(Source[IndexSplit]):
    """All elements, in order within a subtask. The collection travels with the job, so it should be small."""

    def __init__(self, collection: Iterable[Any], type_info: Any = PICKLED) -> None:
        self._elements = list(collection)
        self._type = from_hint(type_info)

    def get_boundedness(self) -> Boundedness:
        """It ends."""
        return Boundedness.BOUNDED

    def create_enumerator(self, context: SplitEnumeratorContext[IndexSplit]) -> SplitEnumerator[IndexSplit]:
        """A contiguous part of the list for each subtask."""
        return QueueEnumerator(context, cut_range(0, len(self._elements), context.current_parallelism()))

    def restore_enumerator(
        self, context: SplitEnumeratorContext[IndexSplit], state: Any
    ) -> SplitEnumerator[IndexSplit]:
        """The parts not handed out."""
        return QueueEnumerator(context, state)

    def create_reader(self, context: SourceReaderContext) -> IndexReader:
        """Slices the list."""
        return _CollectionReader(context, self._elements)

    def get_produced_type(self) -> TypeInformation:
        """The declared type."""
        return self._type


class _CollectionReader(IndexReader):
    def __init__(self, context: SourceReaderContext, elements: list[Any]) -> None:
        super().__init__(context)
        self._elements = elements

    def make(self, indices: range) -> RowBatch:
        """The elements at these indices."""
        return RowBatch(self._elements[indices.start : indices.stop])
