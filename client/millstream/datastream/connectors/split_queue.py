"""The usual way to hand out splits: a queue in the enumerator process, and readers that ask for one split at a time.

A reader requests its next split when it has none left; the response is a split, or the notice that
there are no more. A split is in exactly one place at any time: in the queue, in a message, or in a reader.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from millstream.core.overriding import override
from millstream.core.records.batches import Batch
from millstream.datastream.connectors.base import (
    PollStatus,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
    split_id_of,
)

SplitT = TypeVar("SplitT")


class GivenSplits:
    """Splits that readers have, by their names; those without one by themselves."""

    def __init__(self, assigned: Mapping[int, Iterable[Any]]) -> None:
        self._splits = [split for splits in assigned.values() for split in splits]
        self._names = {split_id_of(split) for split in self._splits} - {None}

    def left_of(self, splits: Iterable[SplitT]) -> list[SplitT]:
        """Those of these splits that no reader has."""
        return [split for split in splits if not self._holds(split)]

    def _holds(self, split: Any) -> bool:
        name = split_id_of(split)
        return name in self._names if name is not None else split in self._splits


class QueueEnumerator(SplitEnumerator[SplitT]):
    """Hands out a fixed list of splits in order. Its state is the list of those not handed out.

    A reader that was notified that there are no more gets none, even if it requested twice and splits came back: it
    may have ended already.
    """

    def __init__(self, context: SplitEnumeratorContext[SplitT], splits: Iterable[SplitT]) -> None:
        self._context = context
        self._pending = deque(splits)
        self._notified: set[int] = set()

    def add_reader(self, subtask: int) -> None:
        """A new reader has not been notified."""
        self._notified.discard(subtask)

    def take_over(self, assigned: dict[int, list[SplitT]]) -> bool:
        """What readers have is not in the queue."""
        self._pending = deque(GivenSplits(assigned).left_of(self._pending))
        return True

    def handle_split_request(self, subtask: int, host: str) -> None:
        """Assigns the next split, or notifies that there are none; a reader that has failed since requests again."""
        if subtask not in self._context.registered_readers():
            return
        if self._pending and subtask not in self._notified:
            self._context.assign_splits([self._pending.popleft()], subtask)
        else:
            self._notified.add(subtask)
            self._context.signal_no_more_splits(subtask)

    def add_splits_back(self, splits: list[SplitT], subtask: int) -> None:
        """Puts them first in the queue, in their order, for any reader; the failed one is to start again."""
        self._notified.discard(subtask)
        self._pending.extendleft(reversed(splits))

    @override
    def unassigned_splits(self) -> int | None:
        return len(self._pending)

    def snapshot_state(self, checkpoint_id: int) -> list[SplitT]:
        """The splits not handed out."""
        return list(self._pending)


class DiscoveringEnumerator(QueueEnumerator[SplitT]):
    """Finds its splits with blocking work off the enumerators' thread; requests wait until they are found.

    Its state is None until then, so that a restored enumerator searches again. With `found` it does not search.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext[SplitT],
        discover: Callable[[], list[SplitT]],
        found: Iterable[SplitT] | None = None,
    ) -> None:
        super().__init__(context, found or ())
        self._discover = discover
        self._found = found is not None
        self._given = GivenSplits({})
        self._waiting: list[tuple[int, str]] = []

    def add_reader(self, subtask: int) -> None:
        """A new reader requests a split again: the request of the one before it is dropped."""
        super().add_reader(subtask)
        self._waiting = [request for request in self._waiting if request[0] != subtask]

    def take_over(self, assigned: dict[int, list[SplitT]]) -> bool:
        """What readers have is passed over when it is found."""
        self._given = GivenSplits(assigned)
        return super().take_over(assigned)

    @override
    def start(self) -> None:
        if not self._found:
            self._context.call_async(self._discover, self._discovered)

    def _discovered(self, splits: list[SplitT] | None, error: BaseException | None) -> None:
        if error is not None:
            raise error
        self._pending.extend(self._given.left_of(splits or ()))
        self._found = True
        waiting, self._waiting = self._waiting, []
        for subtask, host in waiting:
            self.handle_split_request(subtask, host)

    def handle_split_request(self, subtask: int, host: str) -> None:
        """Assigns the next split now, or once the splits are found."""
        if self._found:
            super().handle_split_request(subtask, host)
        else:
            self._waiting.append((subtask, host))

    def unassigned_splits(self) -> int | None:
        """Unknown while they are searched for."""
        return super().unassigned_splits() if self._found else None

    def snapshot_state(self, checkpoint_id: int) -> Any:
        """The splits not handed out, or None while they are not found."""
        return super().snapshot_state(checkpoint_id) if self._found else None


class OneSplitReader(SourceReader[SplitT]):
    """Reads its splits one after another, and requests the next one when it has none.

    Of several, one that is too far ahead of its alignment group is closed and continues later, where it was.
    A subclass opens a split, reads from it until it returns None, and returns the open split with its position at
    any time between two reads.
    """

    def __init__(self, context: SourceReaderContext) -> None:
        self.context = context
        self._queue: deque[SplitT] = deque()
        self._is_open = False
        self._requested = False
        self._no_more = False
        self._read_from: str | None = None
        self._paused: set[str] = set()

    @abstractmethod
    def open_split(self, split: SplitT) -> None:
        """Starts or resumes a split at its position."""

    @abstractmethod
    def read(self, max_rows: int) -> Batch | PollStatus | None:
        """The next batch of the open split, NOTHING_AVAILABLE, or None at its end.

        An empty batch has the reader polled again, between which checkpoints are taken.
        """

    @abstractmethod
    def current_split(self) -> SplitT:
        """The open split with its position, so that `open_split` with it continues after the last batch."""

    def close_split(self) -> None:
        """Releases what the open split holds; called at its end, and when the reader is closed."""

    @property
    def has_split(self) -> bool:
        """Whether there is a split to read."""
        return self._is_open or bool(self._queue)

    @override
    def start(self) -> None:
        self._request()

    def _request(self) -> None:
        if not self._requested and not self._no_more:
            self._requested = True
            self.context.send_split_request()

    def poll_next(self, max_rows: int) -> Batch | PollStatus:
        """The next batch of the open split, or of the next one."""
        while True:
            if not self._is_open:
                if not self._queue:
                    self._request()
                    return PollStatus.END_OF_INPUT if self._no_more else PollStatus.NOTHING_AVAILABLE
                split = self._next_split()
                if split is None:
                    return PollStatus.NOTHING_AVAILABLE
                self.open_split(split)
                self._is_open = True
            self._read_from = split_id_of(self.current_split())
            result = self.read(max_rows)
            if result is not None:
                return result
            self._is_open = False
            self.close_split()
            if self._read_from is not None:
                self.context.split_finished(self._read_from)

    def current_split_id(self) -> str | None:
        """The split that was read from last."""
        return self._read_from

    def pause_or_resume_splits(self, splits_to_pause: list[str], splits_to_resume: list[str]) -> None:
        """Another split is read in place of one that is paused."""
        self._paused = self._paused.union(splits_to_pause).difference(splits_to_resume)
        if self._is_open and split_id_of(self.current_split()) in self._paused:
            self.set_aside()
        if splits_to_resume:
            self.context.wake_up()

    def set_aside(self) -> None:
        """Puts the open split behind the others, to continue with it later."""
        self._queue.append(self.current_split())
        self._is_open = False
        self.close_split()

    def _next_split(self) -> SplitT | None:
        """The first one that is not paused."""
        for place, split in enumerate(self._queue):
            if not self._paused or split_id_of(split) not in self._paused:
                del self._queue[place]
                return split
        return None

    @override
    def add_splits(self, splits: list[SplitT]) -> None:
        self._requested = False
        self._queue.extend(splits)

    def notify_no_more_splits(self) -> None:
        """Ends the reader after the splits that it has."""
        self._no_more = True

    def snapshot_state(self, checkpoint_id: int) -> list[SplitT]:
        """The open split with its position, then the queued ones."""
        return ([self.current_split()] if self._is_open else []) + list(self._queue)

    @override
    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self.close_split()
