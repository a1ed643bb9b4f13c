"""Commits that take their time, in a worker driven manually: only the end of a task waits for them."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from typing import Any, ClassVar

import pytest
from checkpoint_rig import CheckpointRig, PositionedSource, merged
from msgspec.structs import replace
from waiting import DEADLINE
from worker_rig import chain, writing, written

from millstream.core.jobs.failure_kinds import FailureKind
from millstream.core.jobs.plan import plan
from millstream.core.messages.checkpoints import CommitFailed, InputsEnded
from millstream.core.messages.deployment import TaskDeployment
from millstream.core.records.batches import Batch
from millstream.datastream.connectors.two_phase_commit import TwoPhaseCommitSink
from millstream.taskmanager.worker.checkpointing.task_commits import COMMIT_ATTEMPTS

SOURCE = plan.SourceSpec(PositionedSource(batch=5))


class Store:
    """What sinks write to. A commit waits until the test lets it go on."""

    def __init__(self) -> None:
        self.numbers = iter(range(1000))
        self.rows: dict[int, list[Any]] = {}
        self.committed: list[int] = []
        self.begun: list[int] = []
        self.go_on = threading.Semaphore(0)
        self.calls = threading.Condition()
        self.threads: set[str] = set()
        self.fails = False
        self.closed = 0

    def commit(self, transaction: int) -> None:
        with self.calls:
            self.begun.append(transaction)
            self.threads.add(threading.current_thread().name)
            self.calls.notify_all()
        assert self.go_on.acquire(timeout=DEADLINE)
        if self.fails:
            raise OSError("the store is away")
        if transaction not in self.committed:
            self.committed.append(transaction)

    def wait_for_commits(self, count: int) -> None:
        """Waits until so many were begun."""
        with self.calls:
            assert self.calls.wait_for(lambda: len(self.begun) >= count, DEADLINE)

    def visible(self) -> list[Any]:
        return [row for transaction in self.committed for row in self.rows[transaction]]


class SlowSink(TwoPhaseCommitSink[int]):
    store: ClassVar[Store]

    def begin_transaction(self) -> int:
        number = next(self.store.numbers)
        self.store.rows[number] = []
        return number

    def write(self, transaction: int, batch: Batch) -> None:
        self.store.rows[transaction] += batch.records()

    def pre_commit(self, transaction: int) -> None: ...

    def commit(self, transaction: int) -> None:
        self.store.commit(transaction)

    def recover_and_commit(self, transaction: int) -> None:
        if transaction not in self.store.committed:
            self.store.committed.append(transaction)

    def abort(self, transaction: int) -> None:
        self.store.rows[transaction] = []

    def abort_leftovers(
        self, known: Sequence[int], known_states: Sequence[Any], failed_savepoints: Collection[int]
    ) -> None:
        """There are none: the open transaction of an attempt is aborted when it is closed."""

    def close(self) -> None:
        self.store.closed += 1


@pytest.fixture
def options() -> dict[str, str]:
    return {"execution.checkpointing.interval": "1 h"}


@pytest.fixture
def store() -> Iterator[Store]:
    SlowSink.store = store = Store()
    yield store
    store.go_on.release(1000)


@pytest.fixture
def sink(rig: CheckpointRig, store: Store) -> TaskDeployment:
    task = rig.subtask(chain(SOURCE, plan.SinkSpec(SlowSink())))
    rig.deploy(task)
    return task


def feed(rig: CheckpointRig, task: TaskDeployment, rows: Sequence[Any]) -> None:
    """Gives the task rows, and has it process them."""
    rig.feed(task, rows)
    rig.turn_until(lambda: not rig.unread(task))


def test_records_other_tasks_and_checkpoints_go_on_while_a_commit_runs(
    rig: CheckpointRig, store: Store, sink: TaskDeployment
) -> None:
    other = rig.subtask(chain(SOURCE, writing("other"), prefix="other"))
    rig.deploy(other)
    feed(rig, sink, ["a"])
    rig.checkpoint(1, sink, other)
    rig.notice(1, True, sink, other)
    rig.turns()
    store.wait_for_commits(1)
    feed(rig, sink, ["b"])
    feed(rig, other, [7])
    assert store.rows[1] == ["b"]
    assert written("other", int) == [7]
    rig.checkpoint(2, sink, other)
    rig.notice(2, True, sink, other)
    feed(rig, sink, ["c"])
    assert store.begun == [0], "the commit of the next checkpoint waits for the one before"
    assert store.committed == []
    store.go_on.release()
    rig.turn_until(lambda: store.begun == [0, 1])
    store.go_on.release()
    rig.turn_until(lambda: store.committed == [0, 1])
    assert store.visible() == ["a", "b"]
    assert len(store.threads) == 1
    assert store.threads != {threading.current_thread().name}


def test_the_end_of_a_task_waits_for_its_last_commit(rig: CheckpointRig, store: Store, sink: TaskDeployment) -> None:
    rig.feed(sink, ["a"], last=True)
    rig.turn_until(lambda: bool(rig.messages(InputsEnded)))
    rig.checkpoint(1, sink)
    rig.notice(1, True, sink)
    rig.turns(20)
    store.wait_for_commits(1)
    rig.turns(20)
    assert rig.state(sink) == "RUNNING"
    store.go_on.release()
    rig.turn_until(rig.ended(sink))
    assert (rig.state(sink), store.visible(), store.closed) == ("FINISHED", ["a"], 1)


def test_a_slow_commit_that_fails_is_reported_and_repeated_with_what_follows(
    rig: CheckpointRig, store: Store, sink: TaskDeployment
) -> None:
    store.fails = True
    feed(rig, sink, ["a"])
    rig.checkpoint(1, sink)
    rig.notice(1, True, sink)
    rig.turns()
    store.wait_for_commits(1)
    feed(rig, sink, ["b"])
    rig.checkpoint(2, sink)
    rig.notice(2, True, sink)
    rig.turns()
    store.go_on.release()
    rig.turn_until(lambda: bool(rig.messages(CommitFailed)))
    (failed,) = rig.messages(CommitFailed)
    assert failed.checkpoint_id == 2, "the newest, which stands for the one before"
    assert "OSError: the store is away" in failed.message
    assert rig.state(sink) == "RUNNING"
    store.fails = False
    store.go_on.release(2)
    rig.notice(2, True, sink)
    rig.turn_until(lambda: store.committed == [0, 1])
    assert store.begun == [0, 0, 1]


def test_commits_that_fail_too_often_fail_the_task_as_an_outage(
    rig: CheckpointRig, store: Store, sink: TaskDeployment
) -> None:
    store.fails = True
    store.go_on.release(1000)
    feed(rig, sink, ["a"])
    rig.checkpoint(1, sink)
    for attempt in range(1, COMMIT_ATTEMPTS + 1):
        rig.notice(1, True, sink)
        rig.turn_until(lambda: len(rig.messages(CommitFailed)) == attempt or rig.state(sink) == "FAILED")  # noqa: B023
    failure = rig.failure(sink)
    assert "the store is away" in failure.exception
    assert (failure.kind, failure.record) == (FailureKind.OUTAGE, "")
    assert store.closed == 1


def test_a_task_that_is_cancelled_waits_for_the_commit_that_runs_and_the_next_attempt_commits_the_rest(
    rig: CheckpointRig, store: Store, sink: TaskDeployment
) -> None:
    feed(rig, sink, ["a"])
    rig.checkpoint(1, sink)
    feed(rig, sink, ["b"])
    acks = rig.checkpoint(2, sink)
    feed(rig, sink, ["c"])
    rig.notice(2, True, sink)
    rig.turns()
    store.wait_for_commits(1)
    threading.Timer(0.05, store.go_on.release).start()
    rig.cancel(sink.attempt_id)
    rig.turn_until(rig.ended(sink))
    assert (rig.state(sink), store.committed, store.begun) == ("CANCELED", [0], [0])
    assert store.rows[2] == [], "what was written behind the checkpoint is aborted"
    again = replace(rig.subtask(chain(SOURCE, plan.SinkSpec(SlowSink())), 0, 1, merged(acks), 2), attempt=1)
    rig.deploy(again)
    assert rig.state(again) == "RUNNING"
    assert store.visible() == ["a", "b"]
