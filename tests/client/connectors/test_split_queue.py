"""Enumerators that hand out a queue of splits, when readers come and go meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.datastream.connectors.base import SplitEnumeratorContext
from millstream.datastream.connectors.split_queue import DiscoveringEnumerator


class Context(SplitEnumeratorContext[str]):
    """Notes what readers get; work off the thread is done when the test says so."""

    def __init__(self, *readers: int) -> None:
        self.readers = set(readers)
        self.given: list[tuple[int, list[str] | None]] = []
        self.background: list[tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]] = []

    def current_parallelism(self) -> int:
        return 2

    def registered_readers(self) -> set[int]:
        return set(self.readers)

    def assign_splits(self, splits: list[str], subtask: int) -> None:
        assert subtask in self.readers
        self.given.append((subtask, splits))

    def signal_no_more_splits(self, subtask: int) -> None:
        assert subtask in self.readers
        self.given.append((subtask, None))

    def send_event_to_reader(self, subtask: int, event: Any) -> None:
        raise AssertionError("no events are sent")

    def call_async(self, work: Callable[[], Any], then: Callable[[Any, BaseException | None], None]) -> None:
        self.background.append((work, then))


def test_a_reader_that_failed_while_splits_were_looked_for_gets_none() -> None:
    context = Context(0, 1)
    enumerator = DiscoveringEnumerator(context, lambda: ["a", "b"])
    enumerator.start()
    for subtask in (0, 1):
        enumerator.add_reader(subtask)
        enumerator.handle_split_request(subtask, "host")
    context.readers.remove(0)
    ((work, then),) = context.background
    then(work(), None)
    assert context.given == [(1, ["a"])]
    assert enumerator.snapshot_state(1) == ["b"]
    context.readers.add(0)
    enumerator.add_reader(0)
    enumerator.handle_split_request(0, "host")
    enumerator.handle_split_request(1, "host")
    assert context.given[1:] == [(0, ["b"]), (1, None)]
