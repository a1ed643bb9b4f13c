"""Runs a source in memory: one enumerator, its readers, and the messages between them, one step at a time.

The caller chooses every step, so any interleaving of polls, messages and background work can be tried and replayed.
`snapshot` returns what a checkpoint would hold; a harness made from it continues from there.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from millstream.core.jobs.ids import JobId
from millstream.core.records.batches import Batch, RowBatch
from millstream.core.records.conversion import record_batch_to_rows
from millstream.core.records.types import PICKLED, TypeInformation
from millstream.datastream.connectors.base import (
    PollStatus,
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumeratorContext,
)
from millstream.datastream.functions import OutputTag
from millstream.taskmanager.testing import DEPLOYMENT
from millstream.taskmanager.worker.runtime_context import TaskRuntimeContext


def runtime_context(
    subtask: int = 0, parallelism: int = 1, *, attempt: int = 0, checkpointed: bool = False, job: str = "job",
    task: str = "task",
) -> TaskRuntimeContext:  # fmt: skip
    """Of a subtask without state."""
    deployment = replace(DEPLOYMENT, job_id=JobId(job), subtask=subtask, parallelism=parallelism, attempt=attempt)
    options = {"execution.checkpointing.interval": "1 s"} if checkpointed else {}
    return TaskRuntimeContext(deployment, task, options, {}, {})


class FakeReaderContext(SourceReaderContext):
    """Counts the reader's requests, and passes them to `on_request`."""

    def __init__(
        self,
        subtask: int = 0,
        parallelism: int = 1,
        on_request: Callable[[], None] | None = None,
        on_event: Callable[[Any], None] | None = None,
    ) -> None:
        self.runtime_context: TaskRuntimeContext = runtime_context(subtask, parallelism)
        self.requests = 0
        self.waits: list[float] = []
        self.side: dict[str, list[Any]] = {}
        self.on_wake_up: Callable[[], None] = lambda: None
        self._on_request = on_request
        self._on_event = on_event

    def count(self, name: str) -> int:
        return self.runtime_context.get_metrics_group().counter(name).get_count()

    def send_split_request(self) -> None:
        self.requests += 1
        if self._on_request is not None:
            self._on_request()

    def send_source_event(self, event: Any) -> None:
        assert self._on_event is not None, "this source sends no events"
        self._on_event(pickle.loads(pickle.dumps(event)))

    def wake_up(self) -> None:
        self.on_wake_up()

    def poll_again_in(self, seconds: float) -> None:
        self.waits.append(seconds)

    def output(self, tag: OutputTag, rows: list[Any]) -> None:
        self.side.setdefault(tag.tag_id, []).extend(rows)


class _EnumeratorContext(SplitEnumeratorContext[Any]):
    def __init__(self, harness: SourceHarness) -> None:
        self._harness = harness

    def current_parallelism(self) -> int:
        return self._harness.parallelism

    def registered_readers(self) -> set[int]:
        return set(range(self._harness.parallelism))

    def assign_splits(self, splits: list[Any], subtask: int) -> None:
        self._harness.assigned[subtask].extend(splits)
        self._harness.to_reader[subtask].append(pickle.loads(pickle.dumps(splits)))

    def signal_no_more_splits(self, subtask: int) -> None:
        self._harness.to_reader[subtask].append(None)

    def send_event_to_reader(self, subtask: int, event: Any) -> None:
        self._harness.to_reader[subtask].append(_Event(pickle.loads(pickle.dumps(event))))

    def call_async(
        self, work: Callable[[], Any], then: Callable[[Any, BaseException | None], None], delay: float = 0
    ) -> None:
        self._harness.background.append((work, then))


@dataclass(frozen=True)
class _Event:
    """In flight from the enumerator to a reader."""

    event: Any


@dataclass(frozen=True)
class Snapshot:
    """A checkpoint: the enumerator's state, all unfinished splits, and what was emitted before it."""

    enumerator: Any
    splits: list[Any]
    emitted: list[Any]
    side: list[Any] = field(default_factory=list)


@dataclass
class SourceHarness:
    source: Source[Any]
    parallelism: int
    restored: Snapshot | None = None
    kind: TypeInformation = PICKLED
    emitted: list[Any] = field(default_factory=list)
    side: list[Any] = field(default_factory=list)
    by_subtask: list[list[Any]] = field(default_factory=list)
    to_reader: list[deque[list[Any] | _Event | None]] = field(default_factory=list)
    background: deque[tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]] = field(
        default_factory=deque
    )

    def __post_init__(self) -> None:
        source = pickle.loads(pickle.dumps(self.source))
        self.to_reader = [deque() for _ in range(self.parallelism)]
        self.by_subtask = [[] for _ in range(self.parallelism)]
        self.assigned: list[list[Any]] = [[] for _ in range(self.parallelism)]
        self.requests: deque[int] = deque()
        self.events: deque[tuple[int, Any]] = deque()
        self.ended = [False] * self.parallelism
        context = _EnumeratorContext(self)
        if self.restored is None:
            self.enumerator = source.create_enumerator(context)
        else:
            self.enumerator = source.restore_enumerator(context, self.restored.enumerator)
            self.emitted = list(self.restored.emitted)
            self.side = list(self.restored.side)
        self.contexts: dict[int, FakeReaderContext] = {}
        self.enumerator.start()
        self.readers: list[SourceReader[Any]] = []
        for subtask in range(self.parallelism):
            self.readers.append(self._new_reader(subtask))
        for number, split in enumerate(self.restored.splits if self.restored else ()):
            self.readers[number % self.parallelism].add_splits([split])

    def _new_reader(self, subtask: int) -> SourceReader[Any]:
        source = pickle.loads(pickle.dumps(self.source))
        context = FakeReaderContext(
            subtask,
            self.parallelism,
            lambda: self.requests.append(subtask),
            lambda event: self.events.append((subtask, event)),
        )
        self.contexts[subtask] = context
        reader: SourceReader[Any] = source.create_reader(context)
        self.enumerator.add_reader(subtask)
        reader.start()
        return reader

    def fail(self, subtask: int) -> None:
        """One reader fails before any checkpoint: what it emitted is void, its splits go back, a new reader starts."""
        self.readers[subtask].close()
        self.to_reader[subtask].clear()
        self.requests = deque(s for s in self.requests if s != subtask)
        self.events = deque(event for event in self.events if event[0] != subtask)
        self.by_subtask[subtask] = []
        self.ended[subtask] = False
        splits, self.assigned[subtask] = self.assigned[subtask], []
        self.enumerator.add_splits_back(splits, subtask)
        self.readers[subtask] = self._new_reader(subtask)

    def step(self, choice: int, max_rows: int) -> bool:
        """One step out of those possible now; false when the source has ended."""
        steps: list[Callable[[], None]] = [
            *(lambda s=s: self._poll(s, max_rows) for s in range(self.parallelism) if not self.ended[s]),
            *(lambda s=s: self._deliver(s) for s in range(self.parallelism) if self.to_reader[s]),
        ]
        if self.requests:
            steps.append(lambda: self.enumerator.handle_split_request(self.requests.popleft(), "127.0.0.1"))
        if self.events:
            steps.append(lambda: self.enumerator.handle_source_event(*self.events.popleft()))
        if self.background:
            steps.append(self._work)
        if all(self.ended):
            return False
        steps[choice % len(steps)]()
        return True

    def _work(self) -> None:
        work, then = self.background.popleft()
        try:
            result = work()
        except Exception as error:
            then(None, error)
        else:
            then(result, None)

    def _deliver(self, subtask: int) -> None:
        splits = self.to_reader[subtask].popleft()
        if isinstance(splits, _Event):
            self.readers[subtask].handle_source_event(splits.event)
        elif splits is None:
            self.readers[subtask].notify_no_more_splits()
        else:
            self.readers[subtask].add_splits(splits)

    def _poll(self, subtask: int, max_rows: int) -> None:
        result = self.readers[subtask].poll_next(max_rows)
        for rows in self.contexts[subtask].side.values():
            self.side.extend(rows)
        self.contexts[subtask].side.clear()
        if isinstance(result, PollStatus):
            self.ended[subtask] = result is PollStatus.END_OF_INPUT
            return
        assert len(result) <= max_rows
        rows = rows_of(result, self.kind)
        self.emitted.extend(rows)
        self.by_subtask[subtask].extend(rows)

    def run_to_end(self, max_rows: int = 1000) -> list[Any]:
        """Takes every kind of step in turn until the source ends; returns all that was emitted."""
        for choice in range(100_000):
            if not self.step(choice, max_rows):
                return self.emitted
        raise AssertionError("the source does not end")

    def snapshot(self) -> Snapshot:
        """What a checkpoint at this moment holds. Splits in flight belong to the readers that they go to."""
        splits = [split for reader in self.readers for split in reader.snapshot_state(1)]
        on_their_way = [message for queue in self.to_reader for message in queue if isinstance(message, list)]
        splits += [split for message in on_their_way for split in message]
        state = pickle.loads(pickle.dumps((self.enumerator.snapshot_state(1), splits)))
        return Snapshot(state[0], state[1], list(self.emitted), list(self.side))

    def count(self, name: str) -> int:
        """A counter, over all readers."""
        return sum(context.count(name) for context in self.contexts.values())

    def steps(self, choices: Iterable[tuple[int, int]]) -> None:
        """So many steps, each with its choice and its rows."""
        for choice, rows in choices:
            self.step(choice, rows)

    def __enter__(self) -> SourceHarness:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for reader in self.readers:
            reader.close()
        self.enumerator.close()


def rows_of(batch: Batch, kind: TypeInformation = PICKLED) -> list[Any]:
    """The records of either kind of batch."""
    return list(batch.rows) if isinstance(batch, RowBatch) else record_batch_to_rows(batch.data, kind)


def read_all(
    source: Source[Any], parallelism: int = 1, max_rows: int = 1000, kind: TypeInformation = PICKLED
) -> list[Any]:
    """Everything that a bounded source reads."""
    with SourceHarness(source, parallelism, kind=kind) as harness:
        return harness.run_to_end(max_rows)
