"""`HybridSource`: several sources read one after another, such as files of the past and then what is new."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from millstream.core.environments.data_files import DataFile
from millstream.core.errors import InvalidProgramError
from millstream.core.overriding import override
from millstream.core.records.type_variables import T_co
from millstream.core.records.types import PICKLED, TypeInformation
from millstream.datastream.connectors.base import (
    Boundedness,
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from millstream.datastream.connectors.hybrid.enumerator import HybridEnumerator
from millstream.datastream.connectors.hybrid.messages import HybridSplit
from millstream.datastream.connectors.hybrid.reader import HybridReader
from millstream.datastream.functions import OutputTag

RECORD = TypeVar("RECORD")


class HybridSource(Source[HybridSplit, T_co]):
    """Made with a builder. Each source begins when the one before it has ended in all subtasks."""

    def __init__(self, sources: Sequence[Source[Any, T_co]]) -> None:
        self._sources = tuple(sources)

    @staticmethod
    def builder(first_source: Source[Any, RECORD]) -> HybridSourceBuilder[RECORD]:
        """With the source to begin with."""
        return HybridSourceBuilder([]).add_source(first_source)

    @override
    def get_boundedness(self) -> Boundedness:
        return self._sources[-1].get_boundedness()

    def create_enumerator(self, context: SplitEnumeratorContext[HybridSplit]) -> SplitEnumerator[HybridSplit]:
        """At the first source."""
        return HybridEnumerator(context, self._sources)

    def restore_enumerator(
        self, context: SplitEnumeratorContext[HybridSplit], state: Any
    ) -> SplitEnumerator[HybridSplit]:
        """At the source that it was at."""
        return HybridEnumerator(context, self._sources, state)

    def create_reader(self, context: SourceReaderContext) -> SourceReader[HybridSplit]:
        """Follows the enumerator."""
        return HybridReader(context, self._sources)

    def get_produced_type(self) -> TypeInformation[T_co]:
        """That of all sources, if it is the same."""
        types = [source.get_produced_type() for source in self._sources]
        return types[0] if all(type_ == types[0] for type_ in types) else PICKLED

    def shipped(self, folder: Callable[[], Path]) -> tuple[HybridSource[T_co], Sequence[DataFile]]:
        """Each source ships itself."""
        shipped = [source.shipped(folder) for source in self._sources]
        return HybridSource([source for source, _ in shipped]), [file for _, files in shipped for file in files]

    def side_outputs(self) -> tuple[OutputTag, ...]:
        """Those of all sources, each once."""
        tags = [tag for source in self._sources for tag in source.side_outputs()]
        return tuple({tag.tag_id: tag for tag in tags}.values())

    def produces_columns(self) -> bool:
        """Whether all do."""
        return all(source.produces_columns() for source in self._sources)

    def keeps_records(self) -> bool:
        """Whether any does."""
        return any(source.keeps_records() for source in self._sources)


class HybridSourceBuilder(Generic[T_co]):
    """The sources so far. All but the last have to end."""

    def __init__(self, sources: Sequence[Source[Any, T_co]]) -> None:
        self._sources: list[Source[Any, Any]] = list(sources)

    def add_source(self, source: Source[Any, RECORD]) -> HybridSourceBuilder[T_co | RECORD]:
        """The source to continue with."""
        if not isinstance(source, Source):
            raise InvalidProgramError(f"HybridSource: expected a Source, got {type(source).__qualname__}")
        if self._sources and self._sources[-1].get_boundedness() is not Boundedness.BOUNDED:
            raise InvalidProgramError(
                f"HybridSource: {type(self._sources[-1]).__qualname__}, number {len(self._sources)}, never ends, so "
                "nothing can follow it"
            )
        self._sources.append(source)
        return self

    def build(self) -> HybridSource[T_co]:
        """The source."""
        return HybridSource(self._sources)
