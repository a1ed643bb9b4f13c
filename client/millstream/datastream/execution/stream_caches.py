"""The cached streams of one environment: which of them jobs have kept so far, where, and until when.

A job that makes a cached stream writes it, too, unless an earlier one has. Its records count as kept when that job has
finished: the client of the job sees it. They are removed when the stream is invalidated, when the environment is
closed, and when the program ends. What a job on a cluster writes is not removed if the
program did not wait for its end: it may run longer than the program.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from millstream.common.completable_future import CompletableFuture
from millstream.common.watermark_strategy import WatermarkStrategy
from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.ids import new_id
from millstream.core.jobs.plan.plan import SinkSpec, SourceSpec
from millstream.core.records.types import PICKLED, TypeInformation
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.execution import EXECUTION_TARGET
from millstream.core.settings.options.scheduling import EXECUTION_CACHE_DIR
from millstream.datastream.connectors.kept_records import KeptRecordsSink, KeptRecordsSource, kept_files
from millstream.datastream.execution.detached import is_detached
from millstream.datastream.execution.executor import JobClient, JobExecutionResult
from millstream.datastream.execution.forwarding import ForwardingJobClient
from millstream.datastream.graph.batch_mode import has_event_time
from millstream.datastream.graph.stream_graph import StreamGraph
from millstream.datastream.graph.transformations import (
    CacheTransformation,
    OperatorTransformation,
    SideOutputTransformation,
    reachable,
)

DIRECTORY = EXECUTION_CACHE_DIR


class _Written(Struct, frozen=True):
    """By one job."""

    cache: CacheTransformation
    folder: str
    subtasks: int
    has_event_time: bool


class StreamCaches:
    """Of one environment. `configuration` returns its options."""

    def __init__(self, configuration: Callable[[], Configuration]) -> None:
        self._configuration = configuration
        self._caches: list[CacheTransformation] = []
        self._names = itertools.count()
        self._root: Path | None = None
        self._folders: dict[int, str] = {}
        """Of what is kept, by the number of its writer."""

    def add(
        self, stream: OperatorTransformation | SideOutputTransformation, kind: TypeInformation, numbers: Iterator[int]
    ) -> CacheTransformation:
        """For a stream that is to be kept; nothing happens before a job makes it."""
        self._folder()
        number, then = next(numbers), next(numbers)
        writer = OperatorTransformation(then, "Cache", stream, SinkSpec(KeptRecordsSink("")), PICKLED)
        reader = OperatorTransformation(number, "Cache", None, SourceSpec(KeptRecordsSource([], kind)), kind)
        reader.uid, writer.uid = f"cache-{number}-read", f"cache-{number}-written"
        cache = CacheTransformation(stream, reader, writer)
        self._caches.append(cache)
        return cache

    def writers(self, ends: list[OperatorTransformation]) -> list[OperatorTransformation]:
        """What has to be added to a job of these operators: it keeps what it makes and no job before it has kept."""
        if is_detached(self._configuration()):
            return []  # no program waits for the job, to read what it keeps
        for cache in self._caches:
            if cache.is_kept and not Path(self._folders[cache.writer.number]).is_dir():
                cache.is_kept = False  # it was lost, and is made again
        made = {operator.number for operator in reachable(ends)}
        found = [cache for cache in self._caches if not cache.is_kept and cache.producer.number in made]
        for cache in found:
            cache.writer.spec = SinkSpec(KeptRecordsSink(str(self._folder() / str(next(self._names)))))
            cache.writer.parallelism = cache.producer.parallelism
        return [cache.writer for cache in found]

    def check(self, graph: StreamGraph) -> None:
        """Refuses a graph that would have to keep what has no end."""
        if not graph.is_batch and self._written(graph):
            raise InvalidProgramError(
                "cache: only a job that is run as a batch keeps records for later ones; call "
                "env.set_runtime_mode(RuntimeExecutionMode.BATCH)"
            )

    def followed(self, client: JobClient, graph: StreamGraph) -> JobClient:
        """The client of a job, which notifies when the records of the job are kept."""
        written = self._written(graph)
        if not written:
            return client

        def ended(finished: bool) -> None:
            while written:
                self._ended(written.pop(), finished)

        return _FollowedJobClient(client, ended)

    def invalidate(self, cache: CacheTransformation) -> None:
        """Removes what is kept of a stream, if it is."""
        cache.is_kept = False
        folder = self._folders.pop(cache.writer.number, None)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """Removes everything that is kept."""
        for cache in self._caches:
            self.invalidate(cache)

    def _written(self, graph: StreamGraph) -> list[_Written]:
        nodes = {node.operator.number: node for node in graph.nodes}
        found = [(cache, nodes[cache.writer.number]) for cache in self._caches if cache.writer.number in nodes]
        return [_Written(cache, _folder_of(cache), node.parallelism, has_event_time(node)) for cache, node in found]

    def _ended(self, written: _Written, finished: bool) -> None:
        """Of two jobs that have written the same stream at a time, what the first has written is kept."""
        cache, folder, subtasks = written.cache, written.folder, written.subtasks
        files = kept_files(folder, subtasks) if finished and not cache.is_kept else None
        if files is None:
            shutil.rmtree(folder, ignore_errors=True)
            return
        strategy = WatermarkStrategy.no_watermarks() if written.has_event_time else None
        cache.reader.spec = SourceSpec(KeptRecordsSource(files, cache.reader.output_type), strategy)
        cache.reader.parallelism = subtasks
        cache.is_kept = True
        self._folders[cache.writer.number] = folder

    def _folder(self) -> Path:
        if self._root is None:
            configuration = self._configuration()
            directory = configuration.get(DIRECTORY)
            if directory:
                self._root = Path(directory).absolute() / f"millstream-cache-{new_id()}"
                weakref.finalize(self, _remove_kept, self._folders, self._root)
            elif configuration.get(EXECUTION_TARGET) == "local":
                self._root = Path(tempfile.mkdtemp(prefix="millstream-cache-"))
                weakref.finalize(self, shutil.rmtree, self._root, ignore_errors=True)
            else:
                raise InvalidProgramError(
                    f"cache: on a cluster, records are kept in files: set {DIRECTORY} to a folder that the program and "
                    "all task managers reach"
                )
        return self._root


def _folder_of(cache: CacheTransformation) -> str:
    spec = cache.writer.spec
    assert isinstance(spec, SinkSpec), "a writer is a sink"
    folder: str = spec.sink.folder
    return folder


def _remove_kept(folders: dict[int, str], root: Path) -> None:
    """And the folder around them, unless there is something in it that a job may still write."""
    for folder in folders.values():
        shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        root.rmdir()


class _FollowedJobClient(ForwardingJobClient):
    """Notifies, once, whether the job has finished, when the program has waited for its end."""

    def __init__(self, client: JobClient, ended: Callable[[bool], None]) -> None:
        super().__init__(client)
        self._ended = ended

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """The result, with the notification."""
        return _FollowedResult(self._client.get_job_execution_result(), self._ended)

    def collect(self, operator_id: str) -> Iterator[Any]:
        """As they are; behind the last, the job has finished."""
        finished = False
        try:
            yield from self._client.collect(operator_id)
            finished = True
        finally:
            self._ended(finished)


class _FollowedResult(CompletableFuture[JobExecutionResult]):
    def __init__(self, followed: CompletableFuture[JobExecutionResult], ended: Callable[[bool], None]) -> None:
        super().__init__()
        self._followed = followed
        self._ended = ended

    def result(self, timeout: float | None = None) -> JobExecutionResult:
        try:
            result = self._followed.result(timeout)
        except TimeoutError:
            raise
        except BaseException:
            self._ended(False)
            raise
        self._ended(True)
        return result

    def done(self) -> bool:
        return self._followed.done()

    def cancel(self) -> bool:
        return self._followed.cancel()

    def cancelled(self) -> bool:
        return self._followed.cancelled()
