"""Readers that fetch in a thread, with a made-up one: what is polled, woken, held in snapshots, and what fails."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from fetched_log import LogReader, Logs, LogSplit, NoPauses, SmallReader
from source_harness import FakeReaderContext
from waiting import DEADLINE

from millstream.core.processes import task_thread
from millstream.core.records.batches import RowBatch
from millstream.datastream.connectors.base import PollStatus
from millstream.datastream.connectors.errors import ConnectorError

NAME = "fetching logs"


class Polling:
    """A reader, which is polled as its task would poll it: again after it was woken up."""

    def __init__(self, logs: Logs | None = None, most: int = 4) -> None:
        self.logs = logs or Logs()
        self.context = FakeReaderContext()
        self.finished: list[str] = []
        self.context.split_finished = self.finished.append  # type: ignore[method-assign]  # a hook
        self.woken = threading.Event()
        self.context.on_wake_up = self.woken.set
        self.reader = SmallReader(self.context, LogReader(self.logs, most), NAME)
        self.reader.start()

    def poll(self, max_rows: int = 100) -> RowBatch | PollStatus:
        """The next batch, or the end of the input."""
        while True:
            self.woken.clear()
            result = self.reader.poll_next(max_rows)
            if result is not PollStatus.NOTHING_AVAILABLE:
                assert isinstance(result, RowBatch | PollStatus)
                return result
            assert self.woken.wait(DEADLINE)

    def rows(self, count: int, max_rows: int = 100) -> list[tuple[str, int]]:
        rows: list[tuple[str, int]] = []
        while len(rows) < count:
            batch = self.poll(max_rows)
            assert isinstance(batch, RowBatch)
            rows += batch.rows
        return rows

    def until_it_waits(self) -> None:
        """The thread has fetched what there is."""
        assert self.logs.fetching.wait(DEADLINE)


@pytest.fixture
def polling() -> Iterator[Polling]:
    made = Polling()
    yield made
    made.logs.hangs = False
    made.reader.close()
    assert NAME not in [thread.name for thread in threading.enumerate()]
    assert made.logs.closed == 1


def test_records_are_fetched_in_a_thread_and_the_task_is_woken_up(polling: Polling) -> None:
    polling.logs.available = 0
    polling.reader.add_splits([LogSplit("a", 100)])
    assert polling.reader.poll_next(10) is PollStatus.NOTHING_AVAILABLE
    polling.until_it_waits()
    polling.woken.clear()
    polling.logs.extend(7)
    assert polling.woken.wait(DEADLINE)
    assert polling.rows(3) == [("a", 0), ("a", 3), ("a", 6)]
    assert polling.reader.current_split_id() == "a"
    assert polling.logs.threads == {NAME}


def test_what_is_fetched_ahead_is_bounded(polling: Polling) -> None:
    polling.reader.add_splits([LogSplit("a", 1 << 40)])
    polling.rows(100)
    ahead = polling.reader._queued  # what a user cannot see
    assert ahead <= SmallReader.capacity + 4


def test_a_snapshot_has_the_position_behind_what_was_emitted(polling: Polling) -> None:
    polling.reader.add_splits([LogSplit("a", 100)])
    assert polling.rows(2, max_rows=1) == [("a", 0), ("a", 3)]
    assert polling.reader.snapshot_state(1) == [LogSplit("a", 100, 4)]
    again = Polling()
    again.reader.add_splits(polling.reader.snapshot_state(1))
    try:
        assert again.rows(4, max_rows=3) == [("a", 6), ("a", 9), ("a", 12), ("a", 15)]
        assert again.reader.snapshot_state(2) == [LogSplit("a", 100, 16)], "behind its last record"
    finally:
        again.reader.close()


def test_a_split_ends_after_its_last_batch(polling: Polling) -> None:
    polling.reader.add_splits([LogSplit("a", 4), LogSplit("b", 2)])
    polling.reader.notify_no_more_splits()
    assert polling.rows(2) == [("a", 0), ("a", 3)]
    assert polling.finished == [], "its records have not been emitted yet"
    assert [split.split_id for split in polling.reader.snapshot_state(1)] == ["b"]
    assert polling.rows(1) == [("b", 0)]
    assert polling.poll() is PollStatus.END_OF_INPUT
    assert polling.finished == ["a", "b"]
    assert polling.reader.snapshot_state(2) == []


def test_a_split_is_requested_when_there_is_none(polling: Polling) -> None:
    assert polling.context.requests == 1
    polling.reader.add_splits([LogSplit("a", 1)])
    assert polling.context.requests == 1
    polling.rows(1)
    assert polling.reader.poll_next(1) is PollStatus.NOTHING_AVAILABLE
    assert polling.reader.poll_next(1) is PollStatus.NOTHING_AVAILABLE
    assert polling.context.requests == 2


def test_what_a_fetch_raises_comes_behind_the_records_before_it(polling: Polling) -> None:
    polling.logs.available = 7
    polling.reader.add_splits([LogSplit("a", 100)])
    polling.until_it_waits()
    polling.logs.failing = OSError("the log is gone")
    polling.logs.extend(7)
    polling.reader.pause_or_resume_splits([], [])  # has the thread fetch again
    assert polling.rows(3) == [("a", 0), ("a", 3), ("a", 6)]
    for _ in range(2):
        with pytest.raises(OSError, match="the log is gone"):
            polling.poll()


@pytest.mark.parametrize("fetches", [False, True])
def test_closing_ends_a_fetch_that_waits(polling: Polling, fetches: bool) -> None:
    if fetches:
        polling.logs.available = 0
        polling.reader.add_splits([LogSplit("a", 100)])
        polling.until_it_waits()
    polling.reader.close()
    polling.reader.close()
    assert polling.logs.closed == 1


def test_closing_does_not_wait_for_room(polling: Polling) -> None:
    polling.reader.add_splits([LogSplit("a", 1 << 40)])
    polling.rows(1)


def test_a_fetch_that_does_not_return_is_abandoned(
    polling: Polling, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    polling.logs.available = 0
    polling.logs.hangs = True
    polling.reader.add_splits([LogSplit("a", 100)])
    polling.until_it_waits()
    with monkeypatch.context() as patch:
        patch.setattr(task_thread, "GRACE", 0.01)
        polling.reader.close()
    assert f"{NAME} did not end within 0.01 s; its thread is abandoned" in caplog.text
    polling.logs.hangs = False
    polling.logs.extend(0)
    for thread in threading.enumerate():
        if thread.name == NAME:
            thread.join(DEADLINE)


def test_a_paused_split_returns_nothing_and_does_not_take_the_room_of_others(polling: Polling) -> None:
    polling.reader.add_splits([LogSplit("a", 1 << 40), LogSplit("b", 1 << 40)])
    polling.rows(20)
    polling.reader.pause_or_resume_splits(["a"], [])
    assert {name for name, _ in polling.rows(60)} == {"b"}
    position = next(split for split in polling.reader.snapshot_state(1) if split.split_id == "a")
    polling.reader.pause_or_resume_splits(["b"], ["a"])
    resumed = polling.rows(40)
    assert {name for name, _ in resumed} == {"a"}
    first = -(-position.offset // 3) * 3
    assert [offset for _, offset in resumed] == list(range(first, first + 3 * len(resumed), 3))


def test_a_reader_that_cannot_pause_says_so() -> None:
    reader = SmallReader(FakeReaderContext(), NoPauses())
    with pytest.raises(NotImplementedError, match="NoPauses has no pause_or_resume_splits"):
        reader.pause_or_resume_splits(["a"], [])
    reader.close()


def test_positions_are_committed_when_their_checkpoint_has_completed(polling: Polling) -> None:
    reader, logs = polling.reader, polling.logs
    reader.add_splits([LogSplit("a", 4), LogSplit("b", 1000)])
    assert {name for name, _ in polling.rows(4)} == {"a", "b"}
    a, b = LogSplit("a", 4, 4), next(split for split in reader.snapshot_state(1) if split.split_id == "b")
    reader.snapshot_state(2)
    reader.notify_checkpoint_aborted(1)
    reader.notify_checkpoint_complete(1)
    reader.notify_checkpoint_complete(2)
    reader.snapshot_state(3)
    reader.notify_checkpoint_complete(3)
    while len(logs.committed) < 2:
        polling.rows(1)
    assert logs.committed == [[a, b], [b]], "a split that has ended is committed once"


def test_a_split_needs_an_id(polling: Polling) -> None:
    with pytest.raises(ConnectorError, match="the split 'nameless' has no split_id"):
        polling.reader.add_splits(["nameless"])  # type: ignore[list-item]  # no split
