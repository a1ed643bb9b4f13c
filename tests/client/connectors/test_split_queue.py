"""Splits in a queue: handed out once each, to readers that are there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from millstream.datastream.connectors.base import SplitEnumeratorContext
from millstream.datastream.connectors.file_system.monitoring import MonitoringEnumerator, MonitoringState
from millstream.datastream.connectors.file_system.paths import FoundFile
from millstream.datastream.connectors.file_system.splits import FileSplit
from millstream.datastream.connectors.split_queue import DiscoveringEnumerator, QueueEnumerator


class FakeContext(SplitEnumeratorContext[str]):
    """Remembers what went to whom; background work is done when the test says so."""

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
    """Reader 0 asks, is lost and perhaps asks again before splits are found; so does reader 1, which stays."""
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


def test_what_a_lost_reader_asked_for_before_splits_were_found_is_forgotten() -> None:
    assert asked(again=False).assigned == [(1, ["a"])]


def test_a_reader_that_asks_again_after_a_restart_gets_one_split() -> None:
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
