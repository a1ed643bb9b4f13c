"""Splits in a queue: handed out once each, to readers that are there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from millstream.core.records.batches import Batch, RowBatch
from millstream.datastream.connectors.base import PollStatus, SourceReaderContext, SplitEnumeratorContext
from millstream.datastream.connectors.file_system.monitoring import MonitoringEnumerator, MonitoringState
from millstream.datastream.connectors.file_system.paths import FoundFile
from millstream.datastream.connectors.file_system.splits import FileSplit
from millstream.datastream.connectors.split_queue import DiscoveringEnumerator, OneSplitReader, QueueEnumerator


class FakeContext(SplitEnumeratorContext[str]):
    """Records what each reader received; background work is done when the test triggers it."""

    def __init__(self) -> None:
        self.readers: set[int] = set()
        self.assigned: list[tuple[int, list[str]]] = []
        self.background: list[Callable[[], None]] = []

    def current_parallelism(self) -> int:
        return 2

    def registered_readers(self) -> set[int]:
        return self.readers

    def assign_splits(self, splits: list[str], subtask: int) -> None:
        assert subtask in self.readers
        self.assigned.append((subtask, splits))

    def signal_no_more_splits(self, subtask: int) -> None:
        self.assign_splits([], subtask)

    def send_event_to_reader(self, subtask: int, event: Any) -> None:
        raise AssertionError("no event is sent")

    def call_async(
        self, work: Callable[[], Any], then: Callable[[Any, BaseException | None], None], delay: float = 0
    ) -> None:
        self.background.append(lambda: then(work(), None))


def asked(again: bool) -> FakeContext:
    """Reader 0 requests, is lost and perhaps requests again before splits are found; so does reader 1, which stays."""
    context = FakeContext()
    enumerator = DiscoveringEnumerator[str](context, lambda: ["a", "b", "c"])
    enumerator.start()
    for subtask in (0, 1):
        context.readers.add(subtask)
        enumerator.add_reader(subtask)
        enumerator.handle_split_request(subtask, "host")
    context.readers.discard(0)
    if again:
        context.readers.add(0)
        enumerator.add_reader(0)
        enumerator.handle_split_request(0, "host")
    (found,) = context.background
    found()
    return context


def test_the_request_of_a_lost_reader_before_splits_were_found_is_forgotten() -> None:
    assert asked(again=False).assigned == [(1, ["a"])]


def test_a_reader_that_requests_again_after_a_restart_gets_one_split() -> None:
    assert asked(again=True).assigned == [(1, ["a"]), (0, ["b"])]


@dataclass(frozen=True)
class Named:
    split_id: str
    position: int = 0


@pytest.mark.parametrize("split", [Named, str])
def test_splits_that_readers_have_are_not_handed_out_again(split: Callable[[str], Any]) -> None:
    context = FakeContext()
    enumerator = QueueEnumerator[Any](context, map(split, "abcd"))
    context.readers.update((0, 1))
    assert enumerator.take_over({0: [split("b")], 1: [split("a"), split("d")]})
    for _ in range(2):
        enumerator.handle_split_request(1, "host")
    assert context.assigned == [(1, [split("c")]), (1, [])]


def test_after_the_end_of_the_queue_only_a_restarted_reader_gets_splits_that_came_back() -> None:
    context = FakeContext()
    enumerator = QueueEnumerator[str](context, ["a"])
    context.readers.update((0, 1))
    enumerator.handle_split_request(1, "host")
    enumerator.handle_split_request(0, "host")
    enumerator.add_splits_back(["a"], 1)
    enumerator.handle_split_request(0, "host")
    assert context.assigned == [(1, ["a"]), (0, []), (0, [])]
    enumerator.add_reader(0)
    enumerator.handle_split_request(0, "host")
    assert context.assigned[3:] == [(0, ["a"])]


def test_a_reader_whose_splits_came_back_starts_again() -> None:
    context = FakeContext()
    enumerator = QueueEnumerator[str](context, ["a"])
    context.readers.add(0)
    for _ in range(2):
        enumerator.handle_split_request(0, "host")
    enumerator.add_splits_back(["a"], 0)
    enumerator.handle_split_request(0, "host")
    assert context.assigned == [(0, ["a"]), (0, []), (0, ["a"])]


def test_what_is_searched_for_is_unknown_until_it_is_found() -> None:
    context = FakeContext()
    enumerator = DiscoveringEnumerator[str](context, lambda: ["a", "b"])
    enumerator.start()
    context.readers.add(0)
    assert enumerator.unassigned_splits() is None
    assert enumerator.snapshot_state(1) is None
    (found,) = context.background
    found()
    assert enumerator.unassigned_splits() == 2
    assert enumerator.snapshot_state(2) == ["a", "b"]
    for _ in range(3):
        enumerator.handle_split_request(0, "host")
    enumerator.add_splits_back(["b"], 1)
    enumerator.add_reader(0)
    enumerator.handle_split_request(0, "host")
    assert context.assigned == [(0, ["a"]), (0, ["b"]), (0, []), (0, ["b"])], "a new reader was not notified"


def test_splits_that_readers_have_are_passed_over_when_they_are_found_again() -> None:
    context = FakeContext()
    enumerator = DiscoveringEnumerator[str](context, lambda: ["a", "b"])
    enumerator.start()
    context.readers.add(0)
    assert enumerator.take_over({0: ["a"]})
    enumerator.handle_split_request(0, "host")
    (found,) = context.background
    found()
    assert context.assigned == [(0, ["b"])]


def test_new_files_are_found_and_those_that_readers_have_are_not_read_twice() -> None:
    files = [FoundFile(name, 10) for name in ("known", "given", "half", "new")]

    def cut(file: FoundFile) -> list[FileSplit]:
        return [FileSplit(file.path, 0, 5), FileSplit(file.path, 5, 10)]

    context = FakeContext()
    state = MonitoringState([FileSplit("known", 5, 10)], ["known"])
    enumerator = MonitoringEnumerator(context, lambda: files, cut, 1.0, state)
    enumerator.start()
    context.readers.add(0)
    given = [FileSplit("known", 5, 10), *cut(files[1]), FileSplit("half", 0, 4)]
    assert enumerator.take_over({0: given})
    look = context.background.pop()
    look()
    for _ in range(4):
        enumerator.handle_split_request(0, "host")
    handed_out = [split for _, splits in context.assigned for split in splits]
    assert handed_out == [FileSplit("half", 5, 10), *cut(files[3])]


class Part(NamedTuple):
    """A split of so many numbers, and the position of its reader."""

    split_id: str
    length: int
    at: int = 0


class ReaderContext(SourceReaderContext):
    """Records the calls of a reader."""

    def __init__(self) -> None:
        self.requests = self.wake_ups = 0
        self.finished: list[str] = []

    def send_split_request(self) -> None:
        self.requests += 1

    def send_source_event(self, event: Any) -> None:
        raise NotImplementedError

    def wake_up(self) -> None:
        self.wake_ups += 1

    def poll_again_in(self, seconds: float) -> None:
        raise NotImplementedError

    def split_finished(self, split_id: str) -> None:
        self.finished.append(split_id)


class Reader(OneSplitReader[Part]):
    """One number at a time, named after its split."""

    def __init__(self, *splits: Part) -> None:
        self.told = ReaderContext()
        super().__init__(self.told)
        self.opened: list[Part] = []
        self.closed = 0
        self.start()
        if splits:
            self.add_splits(list(splits))

    def open_split(self, split: Part) -> None:
        self.opened.append(split)
        self._part = split

    def current_split(self) -> Part:
        return self._part

    def close_split(self) -> None:
        self.closed += 1

    def read(self, max_rows: int) -> Batch | None:
        part = self._part
        if part.at == part.length:
            return None
        self._part = part._replace(at=part.at + 1)
        return RowBatch([f"{part.split_id}{part.at}"])

    def polled(self, times: int) -> list[Any]:
        results = [self.poll_next(1) for _ in range(times)]
        return [result.rows[0] if isinstance(result, RowBatch) else result for result in results]


def test_a_reader_reads_its_splits_in_order_and_requests_another_when_it_has_none() -> None:
    reader = Reader(Part("a", 2), Part("b", 1))
    assert reader.has_split
    assert reader.polled(3) == ["a0", "a1", "b0"]
    assert (reader.told.requests, reader.told.finished, reader.closed) == (1, ["a"], 1)
    assert reader.polled(2) == [PollStatus.NOTHING_AVAILABLE] * 2
    assert (reader.told.requests, reader.told.finished, reader.closed) == (2, ["a", "b"], 2)
    assert not reader.has_split
    reader.add_splits([Part("c", 1)])
    assert reader.polled(2) == ["c0", PollStatus.NOTHING_AVAILABLE]
    assert reader.told.requests == 3
    reader.notify_no_more_splits()
    assert reader.polled(1) == [PollStatus.END_OF_INPUT]
    assert reader.told.requests == 3


def test_a_reader_that_waits_for_a_split_requests_no_second_one() -> None:
    reader = Reader()
    assert reader.polled(2) == [PollStatus.NOTHING_AVAILABLE] * 2
    assert reader.told.requests == 1


def test_the_state_of_a_reader_is_its_open_split_with_its_position_and_those_that_wait() -> None:
    reader = Reader(Part("a", 2), Part("b", 1))
    assert reader.snapshot_state(1) == [Part("a", 2), Part("b", 1)]
    assert reader.current_split_id() is None
    reader.polled(1)
    assert reader.current_split_id() == "a"
    assert reader.snapshot_state(2) == [Part("a", 2, 1), Part("b", 1)]
    again = Reader(*reader.snapshot_state(3))
    assert again.polled(2) == ["a1", "b0"]


def test_a_paused_split_is_set_aside_until_it_is_resumed() -> None:
    reader = Reader(Part("a", 2), Part("b", 1))
    reader.polled(1)
    reader.pause_or_resume_splits(["a"], [])
    assert (reader.closed, reader.told.wake_ups) == (1, 0)
    assert reader.polled(2) == ["b0", PollStatus.NOTHING_AVAILABLE]
    assert reader.has_split
    reader.pause_or_resume_splits([], ["a"])
    assert reader.told.wake_ups == 1
    assert reader.polled(1) == ["a1"]
    assert reader.opened == [Part("a", 2), Part("b", 1), Part("a", 2, 1)]


def test_a_split_that_is_not_open_is_paused_where_it_waits() -> None:
    reader = Reader(Part("a", 2), Part("b", 1), Part("c", 1))
    reader.polled(1)
    reader.pause_or_resume_splits(["b"], [])
    assert reader.closed == 0
    assert reader.polled(3) == ["a1", "c0", PollStatus.NOTHING_AVAILABLE]


def test_a_split_that_was_paused_and_has_ended_may_come_again() -> None:
    reader = Reader(Part("a", 0))
    reader.pause_or_resume_splits(["b"], [])
    assert reader.polled(1) == [PollStatus.NOTHING_AVAILABLE]
    assert reader.told.finished == ["a"]


def test_a_reader_closes_its_open_split_once() -> None:
    reader = Reader(Part("a", 2))
    reader.close()
    assert reader.closed == 0
    reader.polled(1)
    reader.close()
    reader.close()
    assert reader.closed == 1
