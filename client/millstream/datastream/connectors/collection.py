"""The elements of a list, bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from millstream.core.environments.data_files import DataFile
from millstream.core.overriding import override
from millstream.core.records.batches import Batch, RowBatch
from millstream.core.records.types import PICKLED, TypeInformation, from_hint
from millstream.datastream.connectors.base import (
    Boundedness,
    Source,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from millstream.datastream.connectors.index_enumerator import IndexEnumerator, IndexRange
from millstream.datastream.connectors.index_split import IndexReader, IndexSplit, cut_range
from millstream.datastream.connectors.shipped_elements import ShippedElements, ship

T_co = TypeVar("T_co", covariant=True)


class CollectionSource(Source[IndexSplit, T_co]):
    """All elements, in order within a subtask. The collection travels with the job; a large one beside its graph."""

    def __init__(self, collection: Iterable[T_co] | ShippedElements, type_info: Any = PICKLED) -> None:
        self._elements = collection if isinstance(collection, ShippedElements) else list(collection)
        self._type = from_hint(type_info)

    @property
    def _range(self) -> IndexRange:
        return IndexRange("elements", 0, len(self._elements))

    @override
    def get_boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def create_enumerator(self, context: SplitEnumeratorContext[IndexSplit]) -> SplitEnumerator[IndexSplit]:
        """A contiguous part of the list for each subtask."""
        return IndexEnumerator(context, self._range, cut_range(0, len(self._elements), context.current_parallelism()))

    def restore_enumerator(
        self, context: SplitEnumeratorContext[IndexSplit], state: Any
    ) -> SplitEnumerator[IndexSplit]:
        """The parts not handed out, if the list is as long as it was."""
        return IndexEnumerator.restored(context, self._range, state)

    @override
    def create_reader(self, context: SourceReaderContext) -> IndexReader:
        if isinstance(self._elements, ShippedElements):
            return _ShippedReader(context, self._elements)
        return _CollectionReader(context, self._elements)

    def shipped(self, folder: Callable[[], Path]) -> tuple[CollectionSource[T_co], Sequence[DataFile]]:
        """With the elements in files, when they are many."""
        if isinstance(self._elements, ShippedElements):
            return self, ()
        try:
            elements = ship(self._elements, folder)
        except Exception:
            return self, ()  # an element cannot be pickled: the error of pickling the source names it
        if elements is None:
            return self, ()
        return CollectionSource(elements, self._type), elements.files()

    @override
    def get_produced_type(self) -> TypeInformation[T_co]:
        return self._type


class _ShippedReader(IndexReader):
    def __init__(self, context: SourceReaderContext, elements: ShippedElements) -> None:
        super().__init__(context)
        self._elements = elements.open()

    def read(self, max_rows: int) -> Batch | None:
        """As far as the piece goes that is decoded."""
        position, end = self._split.position, self._split.end
        assert end is not None, "a collection is bounded"
        if position >= end:
            return None
        rows = self._elements.take(position, min(position + max_rows, end))
        self._split = replace(self._split, position=position + len(rows))
        return RowBatch(rows)

    @override
    def close(self) -> None:
        super().close()
        self._elements.close()


class _CollectionReader(IndexReader):
    def __init__(self, context: SourceReaderContext, elements: list[Any]) -> None:
        super().__init__(context)
        self._elements = elements

    def make(self, indices: range) -> RowBatch:
        """The elements at these indices."""
        return RowBatch(self._elements[indices.start : indices.stop])
