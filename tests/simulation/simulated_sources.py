"""The connector of simulated jobs: its enumerators and readers hand out and read the splits of a job's `Input`.

They are those of the connectors that come with Millstream, which most others derive from; only the data is not real.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from inputs import Input, Row, Split

from millstream.core.jobs.ids import JobId
from millstream.core.messages import sources as src
from millstream.core.pickling import to_bytes
from millstream.core.records.batches import Batch, RowBatch
from millstream.datastream.connectors.base import SourceReaderContext, SplitEnumeratorContext
from millstream.datastream.connectors.split_queue import OneSplitReader, QueueEnumerator


class EnumeratorContext(SplitEnumeratorContext[Split]):
    """One enumerator's way out."""

    def __init__(
        self, job_id: JobId, source: src.SourceToEnumerate, send: Callable[[src.EnumeratorsMessage], None]
    ) -> None:
        self._job_id = job_id
        self._source = source
        self._send = send
        self.readers = {reader.subtask for reader in source.readers}

    def current_parallelism(self) -> int:
        return self._source.parallelism

    def registered_readers(self) -> set[int]:
        return self.readers

    def assign_splits(self, splits: list[Split], subtask: int) -> None:
        self._to(subtask, src.Splits(to_bytes(splits)))

    def signal_no_more_splits(self, subtask: int) -> None:
        self._to(subtask, src.NoMoreSplits())

    def send_event_to_reader(self, subtask: int, event: Any) -> None:
        raise NotImplementedError

    def call_async(
        self, work: Callable[[], Any], then: Callable[[Any, BaseException | None], None], delay: float = 0
    ) -> None:
        raise NotImplementedError

    def _to(self, subtask: int, kind: src.Splits | src.NoMoreSplits) -> None:
        self._send(src.EnumeratorEvent(self._job_id, self._source.vertex_id, subtask, kind))


class SimulatedEnumerator(QueueEnumerator[Split]):
    """Of one source."""

    def __init__(self, context: EnumeratorContext, splits: list[Split]) -> None:
        super().__init__(context, splits)
        self.readers = context.readers


class ReaderContext(SourceReaderContext):
    """Of a reader whose splits an enumerator hands out; without one, nothing is requested."""

    def __init__(self, request: Callable[[], None]) -> None:
        self._request = request

    def send_split_request(self) -> None:
        self._request()

    def send_source_event(self, event: Any) -> None:
        raise NotImplementedError

    def wake_up(self) -> None:
        raise NotImplementedError

    def poll_again_in(self, seconds: float) -> None:
        raise NotImplementedError


class SimulatedReader(OneSplitReader[Split]):
    """Of one subtask."""

    def __init__(self, context: ReaderContext, given: Input) -> None:
        super().__init__(context)
        self._given = given
        self._open = Split(0)

    def open_split(self, split: Split) -> None:
        self._open = split

    def current_split(self) -> Split:
        return self._open

    def read(self, max_rows: int) -> Batch | None:
        split, end = self._open, min(self._open.offset + max_rows, self._given.length)
        if split.offset == end:
            return None
        self._open = Split(split.number, end)
        return RowBatch([Row(token) for token in self._given.read(split, end)])
