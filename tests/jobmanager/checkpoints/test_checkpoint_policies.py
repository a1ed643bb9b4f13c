"""The small policies of the coordinator: requests, failures, retained checkpoints, commit retries."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from millstream.core.jobs.ids import AttemptId
from millstream.jobmanager.checkpoints.events import DeleteCheckpoint, NotifyComplete, ReleasePointer
from millstream.jobmanager.checkpoints.failures import CheckpointFailureReason, FailureCounter
from millstream.jobmanager.checkpoints.model import (
    CheckpointContent,
    CheckpointId,
    CompletedCheckpoint,
    SnapshotOptions,
    TriggerId,
)
from millstream.jobmanager.checkpoints.pending import EndedCheckpoints, PendingCheckpoint
from millstream.jobmanager.checkpoints.policies.commits import RETRY_MS, CommitRetries
from millstream.jobmanager.checkpoints.policies.requests import (
    FINAL_RETRY_MS,
    MAX_QUEUED,
    Origin,
    Request,
    RequestQueue,
)
from millstream.jobmanager.checkpoints.policies.retention import CompletedCheckpoints
from millstream.jobmanager.checkpoints.settings import CheckpointSettings

SAVEPOINT = SnapshotOptions(is_savepoint=True)


def user(trigger: str, options: SnapshotOptions | None = None) -> Request:
    return Request(Origin.USER, options or SnapshotOptions(), TriggerId(trigger))


def test_savepoints_come_first_then_users_then_the_last_then_periodic_ones() -> None:
    queue = RequestQueue(CheckpointSettings(interval_ms=10, max_concurrent=9), SnapshotOptions())
    queue.start_schedule(0)
    last = Request(Origin.FINAL, SnapshotOptions())
    assert queue.add(last)
    queue.add(user("c"))
    queue.add(user("s", SAVEPOINT))
    assert queue.holds(TriggerId("c"))
    assert [queue.choose(50, 0) for _ in range(3)] == [user("s", SAVEPOINT), user("c"), last]
    assert queue.choose(50, 0) is None
    periodic = queue.choose(60, 0)
    assert periodic is not None
    assert periodic.origin is Origin.PERIODIC


def test_only_savepoints_pass_when_there_is_no_room() -> None:
    queue = RequestQueue(CheckpointSettings(interval_ms=10), SnapshotOptions())
    queue.start_schedule(0)
    queue.add(user("c"))
    queue.add(user("s", SAVEPOINT))
    assert queue.choose(50, 1) == user("s", SAVEPOINT)
    assert queue.choose(50, 1) is None
    assert queue.ready_at(1) is None


def test_a_last_checkpoint_that_failed_waits_and_the_periodic_one_before_it_does_not() -> None:
    queue, last = RequestQueue(CheckpointSettings(interval_ms=10), SnapshotOptions()), Request(Origin.FINAL, SAVEPOINT)
    queue.add(last)
    queue.ended(last, 100)
    assert queue.ready_at(0) == 100 + FINAL_RETRY_MS, "the job does not run yet"
    queue.start_schedule(150)
    assert queue.ready_at(0) == 160
    assert queue.choose(159, 0) is None


def test_a_schedule_that_was_stopped_starts_nothing_and_begins_anew() -> None:
    queue, last = RequestQueue(CheckpointSettings(interval_ms=10), SnapshotOptions()), Request(Origin.FINAL, SAVEPOINT)
    queue.start_schedule(0)
    queue.add(last)
    queue.ended(last, 100)
    assert queue.stop_schedule() == []
    assert not queue.holds_final
    assert queue.ready_at(0) is None
    assert queue.choose(10_000, 0) is None
    queue.start_schedule(200)
    queue.add(last)
    assert queue.choose(200, 0) == last, "it waits for none that failed before"


def test_the_queue_is_bounded_and_hands_back_what_waits() -> None:
    queue = RequestQueue(CheckpointSettings(), SnapshotOptions())
    assert all(queue.add(user(str(i))) for i in range(MAX_QUEUED))
    assert not queue.add(user("one too many"))
    assert len(queue.stop_schedule()) == MAX_QUEUED
    assert queue.choose(0, 0) is None


def test_each_checkpoint_counts_once_and_old_ones_do_not() -> None:
    counter = FailureCounter(1)
    declined = CheckpointFailureReason.CHECKPOINT_DECLINED
    assert not counter.failed(3, declined)
    assert not counter.failed(3, declined)
    counter.succeeded(5)
    assert counter.count == 0
    assert not counter.failed(4, declined)
    assert not counter.failed(6, declined)
    counter.succeeded(2)
    assert counter.failed(7, declined)
    assert counter.count == 0


def test_every_reason_is_described_and_classified() -> None:
    assert all(reason.description for reason in CheckpointFailureReason)
    counted = {reason for reason in CheckpointFailureReason if reason.counts}
    assert CheckpointFailureReason.CHECKPOINT_EXPIRED in counted
    assert CheckpointFailureReason.JOB_FAILOVER_REGION not in counted
    assert CheckpointFailureReason.CHECKPOINT_SUBSUMED not in counted


def completed(checkpoint_id: int, owned: bool = True) -> CompletedCheckpoint:
    content = CheckpointContent(CheckpointId(checkpoint_id), SnapshotOptions(), 0, ())
    return CompletedCheckpoint(content, f"p{checkpoint_id}", owned)


@given(retained=st.integers(1, 4), owned=st.lists(st.booleans(), min_size=1, max_size=12))
def test_the_newest_owned_ones_are_kept(retained: int, owned: list[bool]) -> None:
    store = CompletedCheckpoints(CheckpointSettings(num_retained=retained), ())
    gone: list[int] = []
    for checkpoint_id, is_owned in enumerate(owned, 1):
        for effect in store.add(completed(checkpoint_id, is_owned)):
            match effect:
                case DeleteCheckpoint(checkpoint):
                    assert owned[checkpoint.checkpoint_id - 1]
                    gone.append(checkpoint.checkpoint_id)
                case ReleasePointer(released):
                    assert not owned[released - 1]
                    gone.append(released)
        kept = [c.checkpoint_id for c in store.entries]
        assert kept[-1] == checkpoint_id
        assert sorted(gone + kept) == list(range(1, checkpoint_id + 1))
        assert sum(c.owned for c in store.entries) == min(retained, sum(owned[:checkpoint_id]))


def test_a_commit_is_retried_once_until_it_fails_again() -> None:
    retries, task = CommitRetries(), AttemptId("a")
    retries.failed(CheckpointId(1), task, 0)
    retries.failed(CheckpointId(1), task, 500)
    assert retries.times() == [RETRY_MS]
    assert retries.take_due(RETRY_MS - 1) == []
    assert retries.take_due(RETRY_MS) == [NotifyComplete(CheckpointId(1), (task,))]
    assert retries.take_due(10 * RETRY_MS) == []


def test_the_checkpoints_that_ended_last_are_remembered() -> None:
    ended, late = EndedCheckpoints(remembered=2), AttemptId("late")
    for number in (1, 2, 3):
        ended.add(PendingCheckpoint(CheckpointId(number), user("t"), SnapshotOptions(), 0, 0))
    assert [ended.is_stray(CheckpointId(number), late) for number in (1, 2, 3)] == [False, True, True]
    assert not ended.is_stray(CheckpointId(3), late), "only once"
