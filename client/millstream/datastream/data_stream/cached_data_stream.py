"""A stream whose records are kept between the jobs of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.core.records.type_variables import T_co
from millstream.core.records.types import TypeInformation
from millstream.datastream.data_stream.data_stream import DataStream
from millstream.datastream.graph.transformations import CacheTransformation

if TYPE_CHECKING:
    from millstream.datastream.stream_execution_environment import StreamExecutionEnvironment


class CachedDataStream(DataStream[T_co]):
    """The result of `DataStream.cache()`: the first job that computes it keeps its records for later jobs."""

    def __init__(
        self, environment: StreamExecutionEnvironment, cache: CacheTransformation, record_type: TypeInformation[T_co]
    ) -> None:
        super().__init__(environment, cache, record_type)
        self._cache = cache

    def cache(self) -> CachedDataStream[T_co]:
        """Returns this stream, which is cached already."""
        return self

    def invalidate(self) -> None:
        """Deletes the kept records: the next job that reads the stream computes and keeps them again.

        For example:

            cached.invalidate()
        """
        self._environment.caches.invalidate(self._cache)
