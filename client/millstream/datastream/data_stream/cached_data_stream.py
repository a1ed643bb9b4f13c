"""A stream whose records are kept between the jobs of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.core.records.types import TypeInformation
from millstream.datastream.data_stream.data_stream import DataStream
from millstream.datastream.graph.transformations import CacheTransformation

if TYPE_CHECKING:
    from millstream.datastream.stream_execution_environment import StreamExecutionEnvironment


class CachedDataStream(DataStream):
    """What `cache()` answers. The first job that makes it keeps its records, and later ones read those."""

    def __init__(
        self, environment: StreamExecutionEnvironment, cache: CacheTransformation, record_type: TypeInformation
    ) -> None:
        super().__init__(environment, cache, record_type)
        self._cache = cache

    def cache(self) -> CachedDataStream:
        """It is."""
        return self

    def invalidate(self) -> None:
        """Removes what is kept: the next job that reads the stream makes it anew, and keeps that."""
        self._environment.caches.invalidate(self._cache)
