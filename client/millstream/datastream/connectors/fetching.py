"""Readers that fetch in a thread: what waits for another system is a `SplitReader`, and `FetchingReader` does the rest.

The thread fetches ahead of the task, up to a bound; the task polls, and is woken when there is something. The position
of a split in a checkpoint is behind the records that the task has emitted, whatever was fetched beyond them. What the
thread raises fails the task, after the records before it. Closing the reader ends a fetch that waits, and the thread.

All methods of a `SplitReader` are called on the thread, one at a time, except for `wake_up`.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Generic

from millstream.core.overriding import override
from millstream.core.processes.forking import leave_if_forked
from millstream.core.processes.task_thread import TaskThread
from millstream.core.records.batches import Batch
from millstream.core.records.type_variables import SplitT
from millstream.datastream.connectors.base import PollStatus, SourceReader, SourceReaderContext, split_id_of
from millstream.datastream.connectors.errors import ConnectorError


@dataclass(frozen=True, slots=True)
class Fetched(Generic[SplitT]):
    """Records of one split, in their order.

    `after(n)` returns the split with its position behind the first `n` of them: a task may emit a batch in parts. It is
    called on the task's thread, for each part. A split has `ended` when nothing follows the batch.
    """

    split_id: str
    batch: Batch
    after: Callable[[int], SplitT]
    ended: bool = False


class SplitReader(ABC, Generic[SplitT]):
    """Fetches from splits. Its constructor is called on the task's thread, and must not block."""

    @abstractmethod
    def add_splits(self, splits: list[SplitT], /) -> None:
        """Called with splits to fetch from, each from its position on. A split has an id (`split_id`)."""

    @abstractmethod
    def fetch(self) -> Iterable[Fetched[SplitT]]:
        """Returns what there is, after waiting for it if necessary; called only while there is a split to fetch from.

        It returns, also with nothing, soon after `wake_up`. It must not keep what it returned.
        """

    def wake_up(self) -> None:  # a hook
        """Ends the wait of a `fetch`, of the next one if none waits now. Called on any thread.

        Not needed if no fetch waits longer than some 100 ms.
        """

    def pause_or_resume_splits(self, splits_to_pause: list[str], splits_to_resume: list[str], /) -> None:
        """Stops fetching from splits, or continues: see `SourceReader.pause_or_resume_splits`."""
        raise NotImplementedError(f"{type(self).__qualname__} has no pause_or_resume_splits")

    def commit_positions(self, splits: Sequence[SplitT], /) -> None:  # a hook
        """Called when a checkpoint has completed, with the splits that it holds and those that have ended before it.

        For systems that show how far their readers are. The job does not depend on it; an exception fails the task.
        """

    def close(self) -> None:  # a hook
        """Called once, also after a failure."""


class FetchingReader(SourceReader[SplitT]):
    """A reader around a `SplitReader`, whose thread starts with the first split. `name` is that of the thread."""

    capacity: ClassVar[int] = 65_536
    """The number of fetched records from which on nothing more is fetched."""
    requests_splits: ClassVar[bool] = True
    """Whether it requests a split at the start, and whenever it has none; False if the enumerator assigns unasked."""

    def __init__(self, context: SourceReaderContext, split_reader: SplitReader[SplitT], name: str = "fetch") -> None:
        self.context = context
        self._split_reader = split_reader
        self._name = name
        self._thread: TaskThread | None = None
        self._commits = type(split_reader).commit_positions is not SplitReader.commit_positions
        # Shared with the thread
        self._changed = threading.Condition()
        self._queue: deque[Fetched[SplitT]] = deque()
        self._queued = 0  # records
        self._commands: deque[Callable[[], None]] = deque()
        self._fetched_from: set[str] = set()  # splits that have not ended
        self._held_back: frozenset[str] = frozenset()  # paused splits
        self._closed = False
        self._error: BaseException | None = None
        # The task's
        self._positions: dict[str, SplitT] = {}  # behind what was emitted
        self._next: deque[tuple[Fetched[SplitT], int]] = deque()  # ahead of the queue, from a record on
        self._paused: dict[str, deque[tuple[Fetched[SplitT], int]]] = {}
        self._read_from: str | None = None
        self._finished: list[str] = []  # splits that have ended with the batch before
        self._ended: list[SplitT] = []  # not in a completed checkpoint yet
        self._snapshots: dict[int, tuple[list[SplitT], list[SplitT]]] = {}
        self._requested = False
        self._no_more = False

    def on_batch(self, batch: Batch) -> Batch:
        """Called on the task's thread with each batch before it is returned; may send to side outputs. A hook."""
        return batch

    @override
    def start(self) -> None:
        self._request()

    @override
    def add_splits(self, splits: list[SplitT]) -> None:
        self._requested = False
        names = []
        for split in splits:
            name = split_id_of(split)
            if name is None:
                raise ConnectorError(f"{type(self).__qualname__}: the split {split!r:.200} has no split_id")
            self._positions[name] = split
            names.append(name)
        self._command(partial(self._split_reader.add_splits, splits), fetched_from=names)

    def notify_no_more_splits(self) -> None:
        """Ends the reader after the splits that it has."""
        self._no_more = True

    def poll_next(self, max_rows: int) -> Batch | PollStatus:
        """The next records of what was fetched first, of the splits that are not paused."""
        while True:
            self._report_finished()
            found = self._take()
            if found is None:
                return self._without_records()
            fetched, start = found
            end = min(len(fetched.batch), start + max_rows)
            whole = end == len(fetched.batch)
            if not whole:
                self._next.appendleft((fetched, end))
            name = self._read_from = fetched.split_id
            self._positions[name] = fetched.after(end)
            if whole and fetched.ended:
                self._finished.append(name)
                position = self._positions.pop(name)
                if self._commits:
                    self._ended.append(position)
            if end > start:
                return self.on_batch(fetched.batch if whole and not start else fetched.batch.slice(start, end))

    def current_split_id(self) -> str | None:
        """The split of the last batch."""
        return self._read_from

    def pause_or_resume_splits(self, splits_to_pause: list[str], splits_to_resume: list[str]) -> None:
        """Holds back what was fetched of paused splits, and fetches no more of them."""
        if type(self._split_reader).pause_or_resume_splits is SplitReader.pause_or_resume_splits:
            raise NotImplementedError(f"{type(self._split_reader).__qualname__} has no pause_or_resume_splits")
        for name in splits_to_pause:
            self._paused.setdefault(name, deque())
        for name in splits_to_resume:
            self._next.extend(self._paused.pop(name, ()))
        pause = partial(self._split_reader.pause_or_resume_splits, splits_to_pause, splits_to_resume)
        self._command(pause, held_back=self._paused)
        if splits_to_resume:
            self.context.wake_up()

    @override
    def snapshot_state(self, checkpoint_id: int) -> list[SplitT]:
        positions = list(self._positions.values())
        if self._commits:
            self._snapshots[checkpoint_id] = (positions, list(self._ended))
        return positions

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Has the positions of the checkpoint committed."""
        positions, ended = self._snapshots.pop(checkpoint_id, ([], []))
        self._snapshots = {number: kept for number, kept in self._snapshots.items() if number > checkpoint_id}
        self._ended = [split for split in self._ended if not any(split is known for known in ended)]
        if positions or ended:
            self._command(partial(self._split_reader.commit_positions, [*ended, *positions]))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Forgets its positions."""
        self._snapshots.pop(checkpoint_id, None)

    def close(self) -> None:
        """Ends the thread, which closes the split reader; a fetch that does not return is abandoned after a while."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify()
        if self._thread is None:
            self._split_reader.close()
        else:
            self._split_reader.wake_up()
            self._thread.join()

    # The task's side

    def _request(self) -> None:
        if self.requests_splits and not self._requested and not self._no_more:
            self._requested = True
            self.context.send_split_request()

    def _command(
        self, command: Callable[[], None], fetched_from: Iterable[str] = (), held_back: Iterable[str] | None = None
    ) -> None:
        """Has the thread call `command`, and then fetch from further splits, or hold back others than before."""
        with self._changed:
            self._commands.append(command)
            self._fetched_from.update(fetched_from)
            if held_back is not None:
                self._held_back = frozenset(held_back)
            self._changed.notify()
        if self._thread is None:
            self._thread = TaskThread(self._run, self._name)
        else:
            self._split_reader.wake_up()

    def _take(self) -> tuple[Fetched[SplitT], int] | None:
        """What comes next; what is of paused splits is set aside."""
        while True:
            if self._next:
                found = self._next.popleft()
            else:
                with self._changed:
                    if not self._queue:
                        return None
                    fetched = self._queue.popleft()
                    self._queued -= _weight(fetched)
                    self._changed.notify()
                found = (fetched, 0)
            if found[0].split_id not in self._paused:
                return found
            self._paused[found[0].split_id].append(found)

    def _without_records(self) -> PollStatus:
        with self._changed:
            if self._error is not None and not self._queue:
                raise self._error
        if not self._positions:
            if self._no_more:
                return PollStatus.END_OF_INPUT
            self._request()
        return PollStatus.NOTHING_AVAILABLE

    def _report_finished(self) -> None:
        """Event time of a split ends after its last batch was emitted."""
        while self._finished:
            self.context.split_finished(self._finished.pop(0))

    # The thread's side

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            try:
                while self._is_to_fetch():
                    for fetched in self._split_reader.fetch():
                        self._put(fetched)
            finally:
                self._split_reader.close()
        except BaseException as raised:  # whatever it is, it has to be reported to the task
            error = raised
        leave_if_forked(error)
        if error is not None:
            with self._changed:
                self._error = error
            self.context.wake_up()

    def _is_to_fetch(self) -> bool:
        """Runs commands until there is something to fetch and room for it; returns False when the reader is closed."""
        while True:
            with self._changed:
                self._changed.wait_for(self._has_work)
                if self._closed:
                    return False
                if not self._commands:
                    return True
                command = self._commands.popleft()
            command()

    def _has_work(self) -> bool:
        may_fetch = self._queued < self.capacity and not self._fetched_from <= self._held_back
        return self._closed or bool(self._commands) or may_fetch

    def _put(self, fetched: Fetched[SplitT]) -> None:
        with self._changed:
            is_news = not self._queue
            self._queue.append(fetched)
            self._queued += _weight(fetched)
            if fetched.ended:
                self._fetched_from.discard(fetched.split_id)
        if is_news:
            self.context.wake_up()


def _weight(fetched: Fetched[SplitT]) -> int:
    """An empty batch also takes room."""
    return len(fetched.batch) or 1
