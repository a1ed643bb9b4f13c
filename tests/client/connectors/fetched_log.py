"""A made-up system of append-only logs that readers fetch from in a thread, and a source of it: what tests hold up.

The numbers of a log have gaps, as the offsets of a log with control records have.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from source_harness import FakeReaderContext
from waiting import DEADLINE

from millstream.core.records.batches import Batch, RowBatch
from millstream.datastream.connectors.base import (
    Boundedness,
    PollStatus,
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from millstream.datastream.connectors.fetching import Fetched, FetchingReader, SplitReader
from millstream.datastream.connectors.split_queue import QueueEnumerator


@dataclass(frozen=True)
class LogSplit:
    """A log from an offset on, up to another one."""

    split_id: str
    stop: int
    offset: int = 0


@dataclass
class Logs:
    """The other end: shared by all readers of a test."""

    gap: int = 3
    changed: threading.Condition = field(default_factory=threading.Condition)
    available: int = 1 << 60
    """The offset up to which there is something to fetch."""
    failing: BaseException | None = None
    hangs: bool = False
    """Whether a fetch that waits does not notice that it is woken up."""
    fetching: threading.Event = field(default_factory=threading.Event)
    """Whether a fetch waits."""
    committed: list[list[LogSplit]] = field(default_factory=list)
    threads: set[str] = field(default_factory=set)
    closed: int = 0

    def extend(self, available: int) -> None:
        with self.changed:
            self.available = available
            self.changed.notify_all()


class LogReader(SplitReader[LogSplit]):
    """Fetches a few records of each log in turn."""

    def __init__(self, logs: Logs, most: int) -> None:
        self._logs = logs
        self._most = most
        self._splits: dict[str, LogSplit] = {}
        self._paused: set[str] = set()
        self._is_woken = False

    def add_splits(self, splits: list[LogSplit]) -> None:
        self._splits.update((split.split_id, split) for split in splits)

    def fetch(self) -> Iterator[Fetched[LogSplit]]:
        logs = self._logs
        logs.threads.add(threading.current_thread().name)
        if logs.failing is not None:
            raise logs.failing
        with logs.changed:
            if not any(self._has_some(split) for split in self._splits.values()):
                logs.fetching.set()
                logs.changed.wait_for(lambda: not logs.hangs and (self._is_woken or self._any()), DEADLINE)
                logs.fetching.clear()
            self._is_woken = False
        for name, split in list(self._splits.items()):
            if self._has_some(split):
                yield self._fetched(name, split)

    def _any(self) -> bool:
        return any(self._has_some(split) for split in self._splits.values())

    def _has_some(self, split: LogSplit) -> bool:
        return split.split_id not in self._paused and split.offset < min(self._logs.available, split.stop)

    def _fetched(self, name: str, split: LogSplit) -> Fetched[LogSplit]:
        end = min(split.offset + self._most * self._logs.gap, split.stop, self._logs.available)
        offsets = [offset for offset in range(split.offset, end) if offset % self._logs.gap == 0]
        behind = [split.offset, *(offset + 1 for offset in offsets)]
        behind[-1] = end
        if end == split.stop:
            del self._splits[name]
        else:
            self._splits[name] = replace(split, offset=end)
        rows = [(name, offset) for offset in offsets]
        return Fetched(name, RowBatch(rows), lambda count: replace(split, offset=behind[count]), end == split.stop)

    def wake_up(self) -> None:
        with self._logs.changed:
            self._is_woken = True
            self._logs.changed.notify_all()

    def pause_or_resume_splits(self, splits_to_pause: list[str], splits_to_resume: list[str]) -> None:
        self._paused = self._paused.union(splits_to_pause).difference(splits_to_resume)

    def commit_positions(self, splits: Sequence[LogSplit]) -> None:
        self._logs.committed.append(sorted(splits, key=lambda split: split.split_id))

    def close(self) -> None:
        self._logs.closed += 1


class NoPauses(SplitReader[LogSplit]):
    """Has the two methods that there is no default for."""

    def add_splits(self, splits: list[LogSplit]) -> None: ...

    def fetch(self) -> list[Fetched[LogSplit]]:
        return []


class SmallReader(FetchingReader[LogSplit]):
    """Fetches no more than a few records ahead."""

    capacity = 10


class PatientReader(SmallReader):
    """Waits for its thread when it is polled, as a task does between two polls."""

    def __init__(self, context: FakeReaderContext, logs: Logs, most: int) -> None:
        super().__init__(context, LogReader(logs, most), "fetching logs")
        self._woken = threading.Event()
        self._paused_logs: set[str] = set()
        context.on_wake_up = self._woken.set

    def pause_or_resume_splits(self, splits_to_pause: list[str], splits_to_resume: list[str]) -> None:
        self._paused_logs = self._paused_logs.union(splits_to_pause).difference(splits_to_resume)
        super().pause_or_resume_splits(splits_to_pause, splits_to_resume)

    def poll_next(self, max_rows: int) -> Batch | PollStatus:
        while True:
            self._woken.clear()
            result = super().poll_next(max_rows)
            read = {split.split_id for split in self.snapshot_state(0)} - self._paused_logs
            if result is not PollStatus.NOTHING_AVAILABLE or not read:
                return result
            assert self._woken.wait(DEADLINE)


@dataclass
class LogSource(Source[LogSplit]):
    """Bounded: logs of so many offsets each."""

    lengths: tuple[int, ...]
    most: int = 4

    def get_boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def create_enumerator(self, context: SplitEnumeratorContext[LogSplit]) -> SplitEnumerator[LogSplit]:
        return QueueEnumerator(context, [LogSplit(f"log {n}", stop) for n, stop in enumerate(self.lengths)])

    def restore_enumerator(self, context: SplitEnumeratorContext[LogSplit], state: Any) -> SplitEnumerator[LogSplit]:
        return QueueEnumerator(context, state)

    def create_reader(self, context: SourceReaderContext) -> SourceReader[LogSplit]:
        assert isinstance(context, FakeReaderContext)
        return PatientReader(context, Logs(), self.most)

    def expected(self) -> list[tuple[str, int]]:
        return [(f"log {n}", offset) for n, stop in enumerate(self.lengths) for offset in range(0, stop, 3)]
