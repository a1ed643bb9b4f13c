"""The life of checkpoints and savepoints, rule by rule."""

from __future__ import annotations

import pytest
from checkpoint_driver import METRICS, CheckpointDriver, of, only, topology
from msgspec.structs import replace

from millstream.core.jobs.barriers import Alignment, StopMode
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.ids import AttemptId, VertexId
from millstream.jobmanager.checkpoints import events as ev
from millstream.jobmanager.checkpoints.coordinator import UnsettledError
from millstream.jobmanager.checkpoints.failures import CheckpointFailureReason as Reason
from millstream.jobmanager.checkpoints.model import (
    CheckpointContent,
    CheckpointId,
    CompletedCheckpoint,
    SnapshotOptions,
    TaskRef,
    TriggerId,
)
from millstream.jobmanager.checkpoints.policies.commits import RETRY_MS
from millstream.jobmanager.checkpoints.policies.requests import FINAL_RETRY_MS
from millstream.jobmanager.checkpoints.settings import CheckpointingMode, CheckpointSettings, Retention
from millstream.jobmanager.checkpoints.tasks import TaskTable
from millstream.jobmanager.failover.topology import Subtask

PERIODIC = CheckpointSettings(interval_ms=1000, tolerable_failures=100, timeout_ms=60_000)
MANUAL = CheckpointSettings(tolerable_failures=100)


def started(settings: CheckpointSettings = PERIODIC, **options: object) -> CheckpointDriver:
    driver = CheckpointDriver(settings, **options)  # type: ignore[arg-type]
    driver.run_all()
    return driver


def checkpointing(settings: CheckpointSettings = PERIODIC, **options: object) -> CheckpointDriver:
    """With the first checkpoint in progress."""
    driver = started(settings, **options)
    driver.pass_time(1000)
    assert driver.started
    return driver


def restored(checkpoint_id: int, owned: bool = True) -> CompletedCheckpoint:
    content = CheckpointContent(CheckpointId(checkpoint_id), SnapshotOptions(), 0, ())
    return CompletedCheckpoint(content, f"file:///old-{checkpoint_id}", owned)


# Periodic checkpoints


def test_a_checkpoint_completes_step_by_step() -> None:
    driver = started()
    assert driver.coordinator.next_wake_up() == 1000
    (barrier,) = driver.pass_time(1000)
    date, source = driver.instant.date_ms, driver.attempt("source")
    assert barrier == ev.TriggerBarrier(CheckpointId(1), (source,), SnapshotOptions(), date)
    assert driver.ack(1, driver.attempt("source")) == []
    write = only(ev.WriteMetadata, driver.ack(1, driver.attempt("sink")))
    assert [s.state for s in write.content.snapshots] == ["1/source-0-1", "1/sink-0-1"]
    assert driver.metadata_written(1) == [ev.StorePointer(CheckpointId(1), "file:///chk-1")]
    assert driver.pointer_stored(1) == [
        ev.NotifyComplete(CheckpointId(1), (driver.attempt("source"), driver.attempt("sink")))
    ]
    latest = driver.coordinator.latest_restorable()
    assert latest.pointer == "file:///chk-1"


def test_barriers_say_which_checkpoints_are_still_there_to_build_upon() -> None:
    driver = started(replace(PERIODIC, num_retained=2))
    bases = []
    for number in range(1, 5):
        (barrier,) = of(ev.TriggerBarrier, driver.pass_time(1000))
        bases.append(barrier.options.oldest_base)
        driver.complete(number)
    assert bases == [0, 1, 1, 2]


def test_no_checkpoints_without_an_interval() -> None:
    driver = started(MANUAL)
    assert driver.coordinator.next_wake_up() is None
    assert driver.pass_time(10_000_000) == []


def test_no_checkpoints_before_all_tasks_run() -> None:
    driver = CheckpointDriver(PERIODIC)
    assert driver.coordinator.next_wake_up() is None
    assert driver.pass_time(5000) == []
    driver.run_all()
    assert driver.coordinator.next_wake_up() == 6000


def test_the_schedule_starts_once_with_the_last_task() -> None:
    driver = CheckpointDriver(PERIODIC)
    source, sink = (TaskRef(Subtask(VertexId(v), 0), AttemptId(v)) for v in ("source", "sink"))
    driver.tell(ev.TasksRunning((source,)))
    assert driver.coordinator.next_wake_up() is None
    driver.now = 400
    driver.tell(ev.TasksRunning((source, sink)))
    driver.now = 500
    driver.tell(ev.TasksRunning((source, sink)))
    assert driver.coordinator.next_wake_up() == 1400


def test_a_late_periodic_checkpoint_is_taken_once() -> None:
    driver = started()
    driver.pass_time(5500)
    assert driver.started == [1]
    driver.complete(1)
    assert driver.started == [1, 2]
    driver.complete(2)
    assert driver.coordinator.next_wake_up() == 6500


@pytest.mark.parametrize("hours", [-1, 1])
def test_setting_the_wall_clock_changes_dates_and_no_deadline(hours: int) -> None:
    driver = CheckpointDriver(CheckpointSettings(interval_ms=1000, timeout_ms=1500, tolerable_failures=9))
    driver.run_all()
    driver.pass_time(400)
    driver.ahead += hours * 3_600_000
    assert driver.pass_time(599) == []
    trigger = only(ev.TriggerBarrier, driver.pass_time(1))
    assert trigger.timestamp_ms == driver.instant.date_ms
    driver.ahead += hours * 3_600_000
    assert driver.pass_time(1499) == []
    assert any(isinstance(e, ev.NotifyAborted) for e in driver.pass_time(1))
    (failed,) = [c for c in driver.coordinator.statistics.history() if c.id == 1]
    assert failed.end_to_end_ms(driver.instant) == 1500


def test_min_pause_counts_from_the_end_of_the_last_one() -> None:
    driver = started(replace(PERIODIC, min_pause_ms=700))
    driver.pass_time(1900)
    driver.complete(1)
    assert driver.coordinator.next_wake_up() == 2600
    driver.pass_time(699)
    assert driver.started == [1]
    driver.pass_time(1)
    assert driver.started == [1, 2]


def test_min_pause_counts_from_a_failure_too() -> None:
    driver = checkpointing(replace(PERIODIC, min_pause_ms=5000))
    driver.decline(1, driver.attempt("sink"), Reason.CHECKPOINT_DECLINED)
    assert driver.coordinator.next_wake_up() == 6000


def test_a_newer_checkpoint_subsumes_older_ones() -> None:
    driver = started(replace(PERIODIC, max_concurrent=3))
    driver.pass_time(3000)
    driver.ack(1, driver.attempt("source"))
    effects = driver.complete(2)
    assert of(ev.NotifyAborted, effects) == [
        ev.NotifyAborted(CheckpointId(1), (driver.attempt("source"), driver.attempt("sink")))
    ]
    assert ev.DiscardState(CheckpointId(1), ("1/source-0-1",)) in effects
    assert {p.id for p in driver.coordinator.pending} >= {3}
    assert not of(ev.FailJob, effects)


def test_pointers_are_stored_one_at_a_time_in_the_order_of_ids() -> None:
    driver = started(replace(PERIODIC, max_concurrent=2))
    driver.pass_time(2000)
    for checkpoint_id in (1, 2):
        driver.ack_all(checkpoint_id)
    assert driver.metadata_written(1) == [ev.StorePointer(CheckpointId(1), "file:///chk-1")]
    assert driver.metadata_written(2) == []
    effects = driver.pointer_stored(1)
    assert of(ev.StorePointer, effects) == [ev.StorePointer(CheckpointId(2), "file:///chk-2")]


def test_an_older_one_that_waits_behind_a_newer_pointer_is_subsumed_with_its_metadata() -> None:
    driver = started(replace(PERIODIC, max_concurrent=2))
    driver.pass_time(2000)
    driver.ack_all(1)
    driver.store(2)
    assert driver.metadata_written(1) == []
    effects = driver.pointer_stored(2)
    assert ev.DiscardState(CheckpointId(1), ("1/source-0-1", "1/sink-0-1"), "file:///chk-1") in effects
    assert driver.completed == [2]


def test_beyond_num_retained_the_oldest_is_deleted_after_the_commit() -> None:
    driver = started(replace(PERIODIC, num_retained=2))
    for checkpoint_id in (1, 2):
        driver.pass_time(1000)
        assert not of(ev.DeleteCheckpoint, driver.complete(checkpoint_id))
    driver.pass_time(1000)
    effects = driver.complete(3)
    (deleted,) = of(ev.DeleteCheckpoint, effects)
    assert deleted.checkpoint.checkpoint_id == 1
    assert effects.index(deleted) > effects.index(of(ev.NotifyComplete, effects)[0])
    stats = driver.coordinator.statistics.details(CheckpointId(1))
    assert stats.discarded


# Failures


def test_a_timeout_discards_what_was_acknowledged() -> None:
    driver = checkpointing(replace(PERIODIC, timeout_ms=500))
    driver.ack(1, driver.attempt("source"))
    effects = driver.pass_time(500)
    assert of(ev.DiscardState, effects) == [ev.DiscardState(CheckpointId(1), ("1/source-0-1",))]
    assert len(of(ev.NotifyAborted, effects)) == 1
    stats = driver.coordinator.statistics.details(CheckpointId(1))
    assert stats.failure_message.endswith("after 0.5 s it waited for 1 of 2 tasks")
    late = driver.ack(1, driver.attempt("sink"))
    assert late == [ev.DiscardState(CheckpointId(1), ("1/sink-0-1",))]
    assert driver.ack(1, driver.attempt("sink")) == []
    assert driver.ack(1, driver.attempt("source")) == []


def test_a_timeout_while_the_metadata_is_written_waits_for_the_writing_to_end() -> None:
    driver = checkpointing(replace(PERIODIC, timeout_ms=500))
    driver.ack_all(1)
    effects = driver.pass_time(500)
    assert of(ev.NotifyAborted, effects)
    assert not of(ev.DiscardState, effects)
    del driver.writing[1]
    effects = driver.tell(ev.MetadataWritten(CheckpointId(1), "file:///chk-1"))
    assert effects == [ev.DiscardState(CheckpointId(1), ("1/source-0-1", "1/sink-0-1"), "file:///chk-1")]
    assert driver.coordinator.latest_restorable() is None


def test_a_pointer_that_is_being_stored_does_not_time_out() -> None:
    driver = checkpointing(replace(PERIODIC, timeout_ms=500, max_concurrent=1))
    driver.store(1)
    assert driver.pass_time(100_000) == []
    with pytest.raises(UnsettledError):
        driver.coordinator.latest_restorable()
    assert of(ev.NotifyComplete, driver.pointer_stored(1))


def test_metadata_that_cannot_be_written_fails_the_checkpoint() -> None:
    driver = checkpointing()
    driver.ack_all(1)
    effects = driver.metadata_failed(1)
    assert ev.DiscardState(CheckpointId(1), ("1/source-0-1", "1/sink-0-1")) in effects


def test_a_pointer_that_cannot_be_stored_fails_the_checkpoint_with_its_metadata() -> None:
    driver = checkpointing()
    driver.store(1)
    effects = driver.pointer_failed(1)
    assert ev.DiscardState(CheckpointId(1), ("1/source-0-1", "1/sink-0-1"), "file:///chk-1") in effects
    assert not of(ev.NotifyComplete, driver.log)


def test_more_failures_in_a_row_than_tolerable_fail_the_job_once() -> None:
    driver = started(replace(PERIODIC, tolerable_failures=1))
    for checkpoint_id in (1, 2):
        driver.pass_time(1000)
        driver.decline(checkpoint_id, driver.attempt("sink"), Reason.CHECKPOINT_DECLINED)
    (failed,) = of(ev.FailJob, driver.log)
    assert "tolerable-failed-checkpoints" in failed.message
    assert "no space left" in failed.message
    assert driver.pass_time(10_000) == []
    driver.roll_back()
    driver.run_all()
    driver.pass_time(1000)
    assert driver.started == [1, 2, 3]


def test_the_failure_of_the_job_has_the_reason_of_the_decline() -> None:
    driver = checkpointing(CheckpointSettings(interval_ms=1000))
    cause = OSError("disk full")
    decline = ev.Declined(CheckpointId(1), driver.attempt("sink"), Reason.CHECKPOINT_DECLINED, "it raised", cause)
    (failed,) = of(ev.FailJob, driver.tell(decline))
    assert failed.cause is cause
    driver.roll_back()
    driver.run_all()
    driver.pass_time(1000)
    expired = of(ev.FailJob, driver.pass_time(600_000))
    assert [failed.cause for failed in expired] == [None]


def test_a_success_between_failures_is_enough() -> None:
    driver = started(replace(PERIODIC, tolerable_failures=1))
    for checkpoint_id in (1, 3, 5):
        driver.pass_time(1000)
        driver.decline(checkpoint_id, driver.attempt("sink"), Reason.CHECKPOINT_ASYNC_EXCEPTION)
        driver.pass_time(1000)
        driver.complete(checkpoint_id + 1)
    assert not of(ev.FailJob, driver.log)


@pytest.mark.parametrize("reason", [Reason.CHECKPOINT_DECLINED_TASK_NOT_READY, Reason.CHECKPOINT_DECLINED_SUBSUMED])
def test_some_reasons_are_not_counted(reason: Reason) -> None:
    driver = checkpointing(replace(PERIODIC, tolerable_failures=0))
    effects = driver.decline(1, driver.attempt("sink"), reason)
    assert of(ev.NotifyAborted, effects)
    assert not of(ev.FailJob, effects)


def test_declines_of_strangers_and_of_those_who_acknowledged_change_nothing() -> None:
    driver = checkpointing()
    driver.ack(1, driver.attempt("sink"))
    assert driver.decline(1, AttemptId("old"), Reason.CHECKPOINT_DECLINED) == []
    assert driver.decline(1, driver.attempt("sink"), Reason.CHECKPOINT_DECLINED) == []
    assert driver.decline(9, driver.attempt("sink"), Reason.CHECKPOINT_DECLINED) == []


def test_a_stranger_s_snapshot_is_discarded_once() -> None:
    driver = checkpointing()
    assert driver.ack(1, AttemptId("old")) == [ev.DiscardState(CheckpointId(1), ("1/old",))]
    assert driver.ack(1, AttemptId("old")) == []


def test_a_task_acknowledges_a_checkpoint_once() -> None:
    driver = checkpointing()
    driver.ack(1, driver.attempt("source"))
    assert driver.tell(ev.Acknowledged(CheckpointId(1), driver.attempt("source"), "another", METRICS)) == []
    write = only(ev.WriteMetadata, driver.ack(1, driver.attempt("sink")))
    assert [s.state for s in write.content.snapshots] == ["1/source-0-1", "1/sink-0-1"]


def test_a_snapshot_that_was_discarded_before_the_barriers_were_sent_is_not_used_later() -> None:
    driver = checkpointing(coordinated=True)
    assert driver.ack(1, driver.attempt("source")) == [ev.DiscardState(CheckpointId(1), ("1/source-0-1",))]
    driver.tell(ev.EnumeratorsSnapshotted(CheckpointId(1), "splits"))
    assert driver.ack(1, driver.attempt("source")) == []
    assert driver.ack(1, driver.attempt("sink")) == [], "the source is still awaited"


def test_a_stateless_task_leaves_nothing_to_discard() -> None:
    driver = checkpointing()
    driver.tell(ev.Acknowledged(CheckpointId(1), driver.attempt("sink"), None, METRICS))
    effects = driver.decline(1, driver.attempt("source"), Reason.CHECKPOINT_DECLINED)
    assert ev.DiscardState(CheckpointId(1), ()) in effects


# Failover


def test_a_failure_aborts_everything_that_is_not_being_stored() -> None:
    driver = started(replace(PERIODIC, max_concurrent=3))
    driver.pass_time(3000)
    driver.store(1)
    driver.ack_all(2)
    effects = driver.roll_back(frozenset({Subtask(VertexId("sink"), 0)}))
    assert [a.checkpoint_id for a in of(ev.NotifyAborted, effects)] == [2, 3]
    assert of(ev.NotifyAborted, effects)[0].attempts == (driver.attempt("source"),)
    assert [p.id for p in driver.coordinator.pending] == [1]
    assert not driver.coordinator.settled
    assert driver.pointer_stored(1) == [ev.NotifyComplete(CheckpointId(1), (driver.attempt("source"),))]
    assert driver.coordinator.next_wake_up() is None
    driver.run_all()
    assert driver.coordinator.next_wake_up() == 4000


def test_tasks_must_not_start_before_the_restore_point_is_known() -> None:
    driver = checkpointing()
    driver.store(1)
    driver.roll_back()
    with pytest.raises(UnsettledError):
        driver.run_all()


def test_a_savepoint_that_has_all_its_snapshots_survives_a_failure() -> None:
    driver = started(MANUAL)
    driver.savepoint("t1")
    driver.ack_all(1)
    driver.roll_back()
    assert driver.metadata_written(1) == [ev.SavepointDone(TriggerId("t1"), CheckpointId(1), "file:///chk-1")]


def test_ids_go_on_after_a_restore() -> None:
    driver = checkpointing(PERIODIC, retained=(restored(17),), next_id=5)
    assert driver.started == [18]
    driver = checkpointing(PERIODIC, retained=(restored(17),), next_id=30)
    assert driver.started == [30]


def test_ids_of_an_earlier_run_are_not_used_again() -> None:
    driver = CheckpointDriver(PERIODIC)
    driver.coordinator.number_from(7)
    driver.coordinator.number_from(3)
    driver.run_all()
    driver.pass_time(1000)
    assert driver.started == [7]


def test_a_job_at_another_parallelism_takes_full_checkpoints_of_its_new_subtasks() -> None:
    driver = checkpointing(PERIODIC, job=topology(source=2, sink=1))
    driver.complete(1)
    driver.roll_back()
    driver.topology = topology(source=1, sink=1)
    driver.coordinator.rescale(driver.topology)
    driver.run_all()
    barrier = only(ev.TriggerBarrier, driver.pass_time(1000))
    assert barrier.attempts == (driver.attempt("source"),)
    assert barrier.options.full, "no file of other subtasks is to be referred to"


def test_what_was_not_claimed_is_never_deleted_and_not_referred_to() -> None:
    driver = started(PERIODIC, retained=(restored(17, owned=False),))
    barrier = only(ev.TriggerBarrier, driver.pass_time(1000))
    assert barrier.options.full
    effects = driver.complete(18)
    assert ev.ReleasePointer(CheckpointId(17)) in effects
    assert not of(ev.DeleteCheckpoint, effects)
    barrier = only(ev.TriggerBarrier, driver.pass_time(1000))
    assert not barrier.options.full


def test_what_was_claimed_is_deleted_when_subsumed() -> None:
    driver = checkpointing(PERIODIC, retained=(restored(17),))
    (deleted,) = of(ev.DeleteCheckpoint, driver.complete(18))
    assert deleted.checkpoint.checkpoint_id == 17


def test_a_restore_is_in_the_statistics() -> None:
    driver = CheckpointDriver(PERIODIC, retained=(restored(17),))
    driver.tell(ev.JobRestored(CheckpointId(17)))
    assert driver.coordinator.statistics.counts.restored == 1


def test_commits_that_fail_are_retried_until_something_newer_completes() -> None:
    driver = started(replace(PERIODIC, interval_ms=100_000))
    driver.pass_time(100_000)
    driver.complete(1)
    sink = driver.attempt("sink")
    driver.tell(ev.NotifyFailed(CheckpointId(1), sink, "the broker is away"))
    assert driver.pass_time(RETRY_MS) == [ev.NotifyComplete(CheckpointId(1), (sink,))]
    assert driver.pass_time(RETRY_MS) == []
    driver.tell(ev.NotifyFailed(CheckpointId(1), sink, "the broker is away"))
    driver.roll_back()
    assert driver.pass_time(RETRY_MS) == []
    driver.tell(ev.NotifyFailed(CheckpointId(1), sink, "the broker is away"))
    assert driver.pass_time(RETRY_MS) == []


def test_a_commit_is_not_retried_when_the_task_has_finished() -> None:
    driver = started()
    driver.pass_time(1000)
    driver.complete(1)
    source = driver.attempt("source")
    driver.tell(ev.NotifyFailed(CheckpointId(1), source, "the broker is away"))
    driver.finish(source)
    assert not of(ev.NotifyComplete, driver.pass_time(RETRY_MS))


def test_a_commit_is_not_retried_when_something_newer_completes() -> None:
    driver = started(replace(PERIODIC, interval_ms=100))
    driver.pass_time(100)
    driver.complete(1)
    driver.tell(ev.NotifyFailed(CheckpointId(1), driver.attempt("sink"), "the broker is away"))
    driver.pass_time(100)
    driver.complete(2)
    assert not of(ev.NotifyComplete, driver.pass_time(RETRY_MS))


# Finished tasks


def test_finished_tasks_count_as_acknowledged() -> None:
    driver = started(PERIODIC, job=topology(source=2, sink=1))
    driver.finish(driver.attempt("source", 0))
    barrier = only(ev.TriggerBarrier, driver.pass_time(1000))
    assert barrier.attempts == (driver.attempt("source", 1),)
    driver.ack(1, driver.attempt("source", 1))
    write = only(ev.WriteMetadata, driver.ack(1, driver.attempt("sink")))
    assert write.content.finished == (Subtask(VertexId("source"), 0),)


def test_barriers_start_behind_finished_producers() -> None:
    driver = started(PERIODIC, job=topology(source=1, map=2, sink=1))
    driver.finish(driver.attempt("source"))
    barrier = only(ev.TriggerBarrier, driver.pass_time(1000))
    assert barrier.attempts == (driver.attempt("map", 0), driver.attempt("map", 1))


def test_a_producer_that_finishes_under_way_has_its_consumers_triggered() -> None:
    driver = checkpointing()
    barrier = only(ev.TriggerBarrier, driver.finish(driver.attempt("source")))
    assert barrier.checkpoint_id == 1
    assert barrier.attempts == (driver.attempt("sink"),)
    assert only(ev.WriteMetadata, driver.ack(1, driver.attempt("sink")))


def test_the_last_task_that_a_checkpoint_waits_for_may_finish_instead() -> None:
    driver = checkpointing()
    driver.ack(1, driver.attempt("sink"))
    assert only(ev.WriteMetadata, driver.finish(driver.attempt("source")))


def test_a_snapshot_that_comes_after_the_end_of_its_task_counts_once() -> None:
    driver = checkpointing()
    driver.finish(driver.attempt("source"))
    assert driver.ack(1, driver.attempt("source")) == [], "the sink is still awaited"
    write = only(ev.WriteMetadata, driver.ack(1, driver.attempt("sink")))
    assert [s.state for s in write.content.snapshots] == ["1/source-0-1", "1/sink-0-1"]
    assert write.content.finished == ()


def test_a_new_attempt_replaces_the_one_before_it() -> None:
    table = TaskTable(topology(source=1))
    old, new = (TaskRef(Subtask(VertexId("source"), 0), AttemptId(name)) for name in ("old", "new"))
    table.run([old])
    table.end([old.attempt_id])
    assert table.all_input_ended
    table.run([new])
    assert not table.knows(old.attempt_id)
    assert table.active() == [new]
    assert not table.all_input_ended


def test_a_task_finishes_once_and_only_if_it_is_known() -> None:
    table = TaskTable(topology(source=1))
    task = TaskRef(Subtask(VertexId("source"), 0), AttemptId("known"))
    table.run([task])
    assert table.finish([AttemptId("unknown"), task.attempt_id]) == [task]
    assert table.finish([task.attempt_id]) == []


@pytest.mark.parametrize(
    ("finished", "unfinished"),
    [
        ({"map": {0}}, {"source"}),
        ({"source": {0}, "map": {0}}, {"source"}),
        ({"source": {0, 1}, "map": {0}}, set()),
        ({"source": {0, 1}}, set()),
        ({"sink": {0}}, set()),
        ({}, set()),
    ],
)
def test_unfinished_producers_are_those_of_vertices_that_have_finished_as_a_whole(
    finished: dict[str, set[int]], unfinished: set[str]
) -> None:
    table = TaskTable(topology(source=2, map=1, sink=2))
    assert table.unfinished_producers({VertexId(v): done for v, done in finished.items()}) == unfinished


def test_without_the_option_a_finished_task_ends_checkpoints() -> None:
    driver = checkpointing(replace(PERIODIC, after_tasks_finish=False))
    effects = driver.finish(driver.attempt("source"))
    assert of(ev.DiscardState, effects)
    assert driver.pass_time(10_000) == []
    failed = only(ev.SavepointFailed, driver.savepoint("t1"))
    assert failed.reason is Reason.TASKS_FINISHED
    assert "try again" not in failed.message
    driver.roll_back()
    driver.run_all()
    driver.pass_time(1000)
    assert driver.started == [1, 2], "the task runs again"


def test_without_the_option_a_task_that_finishes_after_its_snapshot_ends_no_checkpoint() -> None:
    driver = checkpointing(replace(PERIODIC, after_tasks_finish=False))
    driver.ack(1, driver.attempt("source"))
    assert driver.finish(driver.attempt("source")) == [
        ev.TriggerBarrier(CheckpointId(1), (driver.attempt("sink"),), SnapshotOptions(), driver.instant.date_ms)
    ]
    assert only(ev.WriteMetadata, driver.ack(1, driver.attempt("sink")))


def test_a_bounded_job_gets_its_last_checkpoint_at_once() -> None:
    driver = started(replace(PERIODIC, interval_ms=600_000, min_pause_ms=600_000))
    source, sink = driver.attempt("source"), driver.attempt("sink")
    driver.now = 50
    assert driver.end_inputs(source) == []
    assert only(ev.TriggerBarrier, driver.end_inputs(sink))
    assert of(ev.NotifyComplete, driver.complete(1)) == [ev.NotifyComplete(CheckpointId(1), (source, sink))]
    assert driver.finish(source, sink) == []
    assert driver.coordinator.next_wake_up() is None
    assert only(ev.DeleteCheckpoint, driver.stop(ev.StopOutcome.FINISHED))


def test_the_last_checkpoint_waits_for_room() -> None:
    driver = checkpointing()
    driver.end_inputs(driver.attempt("source"), driver.attempt("sink"))
    assert driver.started == [1]
    driver.complete(1)
    assert driver.started == [1, 2]


def test_a_task_that_has_ended_is_triggered_itself_and_so_are_its_consumers() -> None:
    driver = started(PERIODIC, job=topology(source=2, sink=1))
    driver.end_inputs(driver.attempt("source", 0))
    barrier = only(ev.TriggerBarrier, driver.pass_time(1000))
    assert barrier.attempts == (driver.attempt("source", 0), driver.attempt("source", 1))
    barrier = only(ev.TriggerBarrier, driver.end_inputs(driver.attempt("source", 1)))
    assert (barrier.checkpoint_id, barrier.attempts) == (1, (driver.attempt("sink"),))
    assert driver.end_inputs(driver.attempt("sink")) == [], "it has been asked already"


@pytest.mark.parametrize("ends", ["decline", "timeout"])
def test_a_last_checkpoint_that_fails_is_repeated(ends: str) -> None:
    driver = started(replace(PERIODIC, interval_ms=3_600_000, min_pause_ms=3_600_000))
    driver.end_inputs(driver.attempt("source"), driver.attempt("sink"))
    assert driver.started == [1]
    if ends == "decline":
        driver.decline(1, driver.attempt("sink"), Reason.CHECKPOINT_DECLINED)
    else:
        driver.pass_time(PERIODIC.timeout_ms)
    assert driver.started == [1]
    driver.pass_time(FINAL_RETRY_MS)
    assert driver.started == [1, 2]
    assert of(ev.NotifyComplete, driver.complete(2))
    driver.pass_time(10 * FINAL_RETRY_MS)
    assert driver.started == [1, 2], "once is enough"


def test_a_last_checkpoint_that_a_stop_put_aside_is_taken_when_the_stop_fails() -> None:
    driver = started(replace(PERIODIC, interval_ms=3_600_000))
    driver.end_inputs(driver.attempt("source"), driver.attempt("sink"))
    driver.savepoint("t1", stop=True)
    assert driver.started == [1, 2]
    driver.decline(2, driver.attempt("sink"), Reason.CHECKPOINT_DECLINED)
    driver.pass_time(FINAL_RETRY_MS)
    assert driver.started == [1, 2, 3]


def test_after_a_restart_a_last_checkpoint_is_taken_again() -> None:
    driver = started(replace(PERIODIC, interval_ms=3_600_000))
    driver.end_inputs(driver.attempt("source"), driver.attempt("sink"))
    driver.complete(1)
    driver.roll_back()
    driver.run_all()
    driver.end_inputs(driver.attempt("source"), driver.attempt("sink"))
    assert driver.started == [1, 2]


# Union lists of subtasks that have not all ended

UNION = topology(source=2, sink=1)
RARE = replace(PERIODIC, interval_ms=3_600_000, tolerable_failures=0)


def test_the_ends_of_subtasks_with_a_union_list_are_part_of_the_same_checkpoint() -> None:
    driver = started(replace(RARE, interval_ms=1000), job=UNION, union="source")
    driver.end_inputs(driver.attempt("source", 0))
    driver.pass_time(1000)
    effects = driver.complete(1)
    assert of(ev.NotifyAborted, effects)
    assert of(ev.DiscardState, effects)
    assert not of(ev.FailJob, effects), "it does not count as a failure"
    (failed,) = driver.coordinator.statistics.history()
    assert failed.failure_message == (
        "a task was closing: 1 of 2 subtasks with the union list 'u' have finished, and a restore would miss their "
        "entries; checkpoints complete again when all of them have"
    )
    driver.end_inputs(driver.attempt("source", 1))
    driver.pass_time(1000)
    assert of(ev.NotifyComplete, driver.complete(2))
    driver.finish(driver.attempt("source", 0), driver.attempt("source", 1))
    driver.pass_time(1000)
    assert of(ev.NotifyComplete, driver.complete(3)), "nothing is missing of a vertex that has finished as a whole"


def test_a_snapshot_from_before_the_end_is_none_of_the_end() -> None:
    """The task acknowledges it later than it reports its end."""
    driver = started(replace(RARE, interval_ms=1000), job=UNION, union="source")
    early, late = driver.attempt("source", 0), driver.attempt("source", 1)
    driver.end_inputs(early)
    driver.pass_time(1000)
    driver.end_inputs(late)
    driver.ack(1, early)
    driver.ack(1, driver.attempt("sink"))
    taken = ev.Acknowledged(CheckpointId(1), late, None, METRICS, ended=False, union_list="the union list 'u'")
    assert of(ev.NotifyAborted, driver.tell(taken))


def test_other_vertices_may_end_in_part() -> None:
    driver = started(PERIODIC, job=UNION, union="sink")
    driver.end_inputs(driver.attempt("source", 0))
    driver.pass_time(1000)
    assert of(ev.NotifyComplete, driver.complete(1))
    driver.finish(driver.attempt("source", 0))
    driver.pass_time(1000)
    assert of(ev.NotifyComplete, driver.complete(2))


@pytest.mark.parametrize("held", [True, False])
def test_no_checkpoint_completes_with_consumers_that_finished_before_their_producers(held: bool) -> None:
    """Unless the producers wait for it: what they wait for else is to commit an earlier one."""
    driver = started(replace(RARE, interval_ms=1000))
    driver.end_inputs(*driver.attempts.values() if held else [driver.attempt("sink")])
    driver.pass_time(1000)
    assert of(ev.NotifyComplete, driver.complete(1))
    driver.finish(driver.attempt("sink"))
    driver.pass_time(1000)
    effects = driver.complete(2)
    assert bool(of(ev.NotifyAborted, effects)) is held
    assert bool(of(ev.NotifyComplete, effects)) is not held
    assert not of(ev.FailJob, effects)
    assert driver.coordinator.retained[-1].checkpoint_id == (1 if held else 2)


def test_a_savepoint_that_would_miss_entries_of_a_union_list_fails_with_the_reason() -> None:
    driver = started(MANUAL, job=UNION, union="source")
    driver.finish(driver.attempt("source", 0))
    driver.savepoint("t1")
    (failed,) = of(ev.SavepointFailed, driver.complete(1))
    assert failed.reason is Reason.CHECKPOINT_DECLINED_TASK_CLOSING
    assert "1 of 2 subtasks with the union list 'u' have finished" in failed.message


def test_subtasks_that_finish_during_a_later_checkpoint_hold_nothing_up() -> None:
    """Their end is part of a completed checkpoint, so they all finish."""
    driver = started(replace(RARE, max_concurrent=2), job=UNION, union="source")
    attempts = [driver.attempt("source", 0), driver.attempt("source", 1), driver.attempt("sink")]
    driver.checkpoint("t1")
    driver.end_inputs(*attempts)
    assert driver.started == [1, 2]
    driver.complete(1)
    driver.finish(attempts[0])
    assert not of(ev.FailJob, driver.complete(2))
    assert [p.id for p in driver.coordinator.pending] == []


def test_what_restarts_alone_after_the_end_of_all_has_all_run_again() -> None:
    """The others have finished: no checkpoint could hold its end together with theirs any more."""
    driver = started(RARE, job=UNION, union="source")
    driver.end_inputs(driver.attempt("source", 0), driver.attempt("source", 1), driver.attempt("sink"))
    driver.complete(1)
    driver.finish(driver.attempt("source", 0))
    driver.roll_back(frozenset({Subtask(VertexId("source"), 1), Subtask(VertexId("sink"), 0)}))
    driver.run_all()
    driver.end_inputs(driver.attempt("source", 1), driver.attempt("sink"))
    (failed,) = of(ev.FailJob, driver.complete(2))
    assert "1 of 2 subtasks with the union list 'u' have finished" in failed.message
    driver.roll_back()
    driver.run_all()
    driver.end_inputs(driver.attempt("source", 0), driver.attempt("source", 1), driver.attempt("sink"))
    assert of(ev.NotifyComplete, driver.complete(3))


# Requests


def test_a_savepoint_starts_at_once_and_commits_nothing() -> None:
    driver = checkpointing(replace(PERIODIC, min_pause_ms=5000))
    barrier = only(ev.TriggerBarrier, driver.savepoint("t1"))
    assert barrier.options.is_savepoint
    assert barrier.options.target_directory == "file:///savepoints"
    assert driver.complete(2)[-1] == ev.SavepointDone(TriggerId("t1"), CheckpointId(2), "file:///chk-2")
    assert not of(ev.NotifyComplete, driver.log)
    assert not of(ev.StorePointer, driver.log)
    assert driver.coordinator.latest_restorable() is None


def test_a_savepoint_is_not_subsumed() -> None:
    driver = started(replace(PERIODIC, max_concurrent=2))
    driver.savepoint("t1")
    driver.pass_time(1000)
    assert driver.started == [1, 2]
    assert of(ev.NotifyComplete, driver.complete(2))
    assert [p.id for p in driver.coordinator.pending] == [1]
    assert driver.complete(1)[-1] == ev.SavepointDone(TriggerId("t1"), CheckpointId(1), "file:///chk-1")
    assert [c.checkpoint_id for c in driver.coordinator.retained] == [2]


def test_a_savepoint_needs_a_directory() -> None:
    driver = started(MANUAL)
    failed = only(ev.SavepointFailed, driver.tell(ev.SavepointRequested(TriggerId("t1"))))
    assert "execution.checkpointing.savepoint-dir" in failed.message
    driver = started(replace(MANUAL, savepoint_directory="file:///default"))
    barrier = only(ev.TriggerBarrier, driver.tell(ev.SavepointRequested(TriggerId("t1"))))
    assert barrier.options.target_directory == "file:///default"


def test_a_failed_savepoint_is_abandoned_until_a_later_snapshot_holds_what_it_was_to_hold() -> None:
    driver = started()
    coordinator = driver.coordinator
    for number, trigger in enumerate(("t1", "t2", "t3"), 1):
        driver.savepoint(trigger)
        assert driver.started[-1] == number
    driver.decline(2, driver.attempt("sink"), Reason.CHECKPOINT_DECLINED)
    assert coordinator.abandoned_savepoints == (), "savepoint 3 may come to hold its transactions"
    driver.decline(3, driver.attempt("sink"), Reason.CHECKPOINT_DECLINED)
    assert coordinator.abandoned_savepoints == (2, 3)
    driver.complete(1)
    assert coordinator.abandoned_savepoints == (2, 3), "an older one does not hold them"
    driver.savepoint("t4")
    driver.savepoint("t5")
    driver.complete(5)
    driver.decline(4, driver.attempt("sink"), Reason.CHECKPOINT_DECLINED)
    assert coordinator.abandoned_savepoints == ()
    driver.savepoint("t6")
    driver.roll_back()
    assert coordinator.abandoned_savepoints == (6,)
    driver.run_all()
    driver.pass_time(1000)
    driver.complete(7)
    assert coordinator.abandoned_savepoints == (), "all tasks have begun again since, and cleaned up"


def test_the_first_savepoint_is_abandoned_like_any_other() -> None:
    driver = started(MANUAL)
    driver.savepoint("t1")
    driver.decline(1, driver.attempt("sink"), Reason.CHECKPOINT_DECLINED)
    assert driver.coordinator.abandoned_savepoints == (1,)


def test_a_savepoint_that_fails_gets_a_response_and_counts_only_when_a_task_declined() -> None:
    driver = started(replace(MANUAL, tolerable_failures=0, timeout_ms=500))
    driver.savepoint("t1")
    effects = driver.pass_time(500)
    (failed,) = of(ev.SavepointFailed, effects)
    assert failed.reason is Reason.CHECKPOINT_EXPIRED
    assert not of(ev.FailJob, effects)
    driver.savepoint("t2")
    effects = driver.decline(2, driver.attempt("sink"), Reason.CHECKPOINT_DECLINED)
    assert of(ev.FailJob, effects)


def test_the_user_s_checkpoint_ignores_the_pause_but_waits_for_room() -> None:
    driver = checkpointing(replace(PERIODIC, min_pause_ms=100_000))
    assert driver.checkpoint("t1", full=True) == []
    assert driver.checkpoint("t1", full=True) == []
    (barrier,) = of(ev.TriggerBarrier, driver.complete(1))
    assert barrier.checkpoint_id == 2
    assert barrier.options.full
    (done,) = [e for e in driver.complete(2) if isinstance(e, ev.CheckpointDone)]
    assert (done.trigger_id, done.checkpoint_id) == ("t1", 2)
    assert done.path


def test_requests_are_refused_while_tasks_do_not_run() -> None:
    driver = CheckpointDriver(MANUAL)
    (savepoint,) = driver.savepoint("t1")
    (checkpoint,) = driver.checkpoint("t2")
    assert isinstance(savepoint, ev.SavepointFailed)
    assert isinstance(checkpoint, ev.CheckpointFailed)
    assert savepoint.reason is checkpoint.reason is Reason.NOT_ALL_REQUIRED_TASKS_RUNNING


def test_waiting_requests_fail_with_the_tasks() -> None:
    driver = checkpointing()
    driver.checkpoint("t1")
    (failed,) = of(ev.CheckpointFailed, driver.roll_back())
    assert failed.reason is Reason.JOB_FAILOVER_REGION


# Stop with savepoint


def test_stop_ends_the_job_after_the_commit() -> None:
    driver = checkpointing()
    effects = driver.savepoint("t1", stop=True)
    assert [a.checkpoint_id for a in of(ev.NotifyAborted, effects)] == [1]
    (barrier,) = of(ev.TriggerBarrier, effects)
    assert barrier.options.stop is StopMode.SUSPEND
    assert driver.pass_time(5000) == []
    effects = driver.complete(2)
    assert effects[-1] == ev.NotifyComplete(CheckpointId(2), (driver.attempt("source"), driver.attempt("sink")))
    latest = driver.coordinator.latest_restorable()
    assert not latest.owned
    assert driver.pass_time(5000) == []
    effects = driver.stop(ev.StopOutcome.FINISHED)
    assert effects == [
        ev.SavepointDone(TriggerId("t1"), CheckpointId(2), "file:///chk-2"),
        ev.ReleasePointer(CheckpointId(2)),
    ]


def test_a_stop_fails_the_users_checkpoints_that_wait_for_their_turn() -> None:
    driver = checkpointing()
    assert driver.checkpoint("waits") == []
    (failed,) = of(ev.CheckpointFailed, driver.savepoint("stops", stop=True))
    assert (failed.trigger_id, failed.reason) == ("waits", Reason.CHECKPOINT_COORDINATOR_SUSPEND)


def test_a_stop_aborts_no_savepoint_and_no_checkpoint_that_all_tasks_have_acknowledged() -> None:
    driver = checkpointing()
    driver.ack_all(1)
    driver.savepoint("t1")
    effects = driver.savepoint("t2", stop=True)
    assert only(ev.TriggerBarrier, effects).checkpoint_id == 3
    assert [p.id for p in driver.coordinator.pending] == [1, 2, 3]


def test_only_one_stop_at_a_time() -> None:
    driver = started()
    assert not driver.coordinator.is_stopping
    driver.savepoint("t1", stop=True)
    assert driver.coordinator.is_stopping
    failed = only(ev.SavepointFailed, driver.savepoint("t2", stop=True))
    assert failed.reason is Reason.PERIODIC_SCHEDULER_SHUTDOWN
    assert driver.savepoint("t1", stop=True) == []


def test_a_stop_that_fails_lets_the_job_go_on() -> None:
    driver = started()
    driver.savepoint("t1", stop=True)
    effects = driver.decline(1, driver.attempt("sink"), Reason.CHECKPOINT_DECLINED)
    assert of(ev.NotifyAborted, effects)
    assert of(ev.SavepointFailed, effects)
    assert not of(ev.FailJob, effects)
    driver.pass_time(1000)
    assert driver.started == [1, 2]


def test_a_drain_that_fails_restarts_the_job() -> None:
    driver = started()
    barrier = only(ev.TriggerBarrier, driver.savepoint("t1", stop=True, drain=True))
    assert barrier.options.stop is StopMode.DRAIN
    effects = driver.decline(1, driver.attempt("sink"), Reason.CHECKPOINT_DECLINED)
    (failed,) = of(ev.FailJob, effects)
    assert "drain" in failed.message


def test_a_failure_after_the_stop_savepoint_has_its_path() -> None:
    driver = started()
    driver.savepoint("t1", stop=True)
    driver.complete(1)
    (failed,) = of(ev.SavepointFailed, driver.roll_back())
    assert "file:///chk-1" in failed.message
    latest = driver.coordinator.latest_restorable()
    assert latest.checkpoint_id == 1
    driver.run_all()
    barrier = only(ev.TriggerBarrier, driver.pass_time(1000))
    assert barrier.checkpoint_id == 2
    assert barrier.options.full, "the user's savepoint is not to be referred to"


def test_a_failure_while_the_stop_savepoint_is_stored_has_its_path() -> None:
    driver = started()
    driver.savepoint("t1", stop=True)
    driver.store(1)
    driver.roll_back()
    failed = only(ev.SavepointFailed, driver.pointer_stored(1))
    assert "file:///chk-1" in failed.message


def test_a_partial_failure_after_the_stop_savepoint_restarts_what_ended_with_it() -> None:
    driver = started(PERIODIC, job=topology(source=2))
    driver.savepoint("t1", stop=True)
    driver.complete(1)
    driver.finish(driver.attempt("source", 0))
    effects = driver.roll_back(frozenset({Subtask(VertexId("source"), 1)}))
    assert of(ev.SavepointFailed, effects)
    assert of(ev.FailJob, effects)


def test_a_partial_failure_while_the_stop_savepoint_is_stored_restarts_all_that_end_with_it() -> None:
    driver = started(PERIODIC, job=topology(source=2))
    driver.savepoint("t1", stop=True)
    driver.store(1)
    assert not of(ev.FailJob, driver.roll_back(frozenset({Subtask(VertexId("source"), 1)})))
    effects = driver.pointer_stored(1)
    assert of(ev.NotifyComplete, effects)
    assert of(ev.FailJob, effects)


@pytest.mark.parametrize("drain", [True, False])
def test_a_partial_failure_before_the_stop_savepoint_restarts_only_what_was_drained(drain: bool) -> None:
    driver = started(PERIODIC, job=topology(source=2))
    driver.savepoint("t1", stop=True, drain=drain)
    effects = driver.roll_back(frozenset({Subtask(VertexId("source"), 1)}))
    assert of(ev.NotifyAborted, effects)
    assert len(of(ev.FailJob, effects)) == int(drain)


def test_a_drained_job_that_restarts_or_ends_as_a_whole_is_not_restarted_for_it() -> None:
    driver = started()
    driver.savepoint("t1", stop=True, drain=True)
    assert not of(ev.FailJob, driver.roll_back())
    driver.run_all()
    driver.savepoint("t2", stop=True, drain=True)
    effects = driver.stop(ev.StopOutcome.CANCELED)
    assert of(ev.SavepointFailed, effects)
    assert not of(ev.FailJob, effects)


# Coordinators of sources


def test_the_sources_enumerators_come_before_the_barriers() -> None:
    driver = started(PERIODIC, coordinated=True)
    assert driver.pass_time(1000) == [ev.SnapshotEnumerators(CheckpointId(1))]
    assert only(ev.TriggerBarrier, driver.tell(ev.EnumeratorsSnapshotted(CheckpointId(1), "splits")))
    write = only(ev.WriteMetadata, driver.ack_all(1))
    assert write.content.enumerator_states == "splits"


@pytest.mark.parametrize(
    ("allowed", "finished", "begins"),
    [
        (True, [], True),
        (True, ["source"], True),
        (True, ["source", "sink"], False),
        (False, [], True),
        (False, ["source"], False),
    ],
)
def test_tasks_that_finish_before_the_barriers(allowed: bool, finished: list[str], begins: bool) -> None:
    driver = checkpointing(replace(PERIODIC, after_tasks_finish=allowed), coordinated=True)
    driver.finish(*[driver.attempt(vertex) for vertex in finished])
    effects = driver.tell(ev.EnumeratorsSnapshotted(CheckpointId(1), "splits"))
    assert bool(of(ev.TriggerBarrier, effects)) is begins
    assert bool(driver.coordinator.pending) is begins


def test_enumerators_that_fail_fail_the_checkpoint() -> None:
    driver = checkpointing(PERIODIC, coordinated=True)
    effects = driver.tell(ev.EnumeratorsFailed(CheckpointId(1), "it raised"))
    assert effects == []
    assert driver.coordinator.statistics.counts.failed == 1
    assert driver.tell(ev.EnumeratorsSnapshotted(CheckpointId(1), "splits")) == []


def test_a_job_that_does_not_tolerate_it_fails_with_what_the_enumerators_raised() -> None:
    driver = checkpointing(replace(PERIODIC, tolerable_failures=0), coordinated=True)
    cause = TaskFailure(traceback="the traceback")
    fail = only(ev.FailJob, driver.tell(ev.EnumeratorsFailed(CheckpointId(1), "it raised", cause)))
    assert fail.cause is cause


# Options and ends


@pytest.mark.parametrize(
    ("settings", "alignment", "timeout"),
    [
        (PERIODIC, Alignment.ALIGNED, None),
        (replace(PERIODIC, mode=CheckpointingMode.AT_LEAST_ONCE), Alignment.AT_LEAST_ONCE, None),
        (replace(PERIODIC, unaligned=True), Alignment.UNALIGNED, None),
        (replace(PERIODIC, unaligned=True, aligned_timeout_ms=300), Alignment.ALIGNED, 300),
        (replace(PERIODIC, aligned_timeout_ms=300), Alignment.ALIGNED, None),
    ],
)
def test_barriers_carry_the_mode(settings: CheckpointSettings, alignment: Alignment, timeout: int | None) -> None:
    driver = started(settings)
    barrier = only(ev.TriggerBarrier, driver.pass_time(1000))
    assert (barrier.options.alignment, barrier.options.aligned_timeout_ms) == (alignment, timeout)
    (savepoint,) = of(ev.TriggerBarrier, driver.savepoint("t1"))
    assert savepoint.options.alignment is not Alignment.UNALIGNED
    assert savepoint.options.aligned_timeout_ms is None


KEPT = [
    (Retention.NO_EXTERNALIZED_CHECKPOINTS, {ev.StopOutcome.SUSPENDED}),
    (Retention.DELETE_ON_CANCELLATION, {ev.StopOutcome.SUSPENDED, ev.StopOutcome.FAILED}),
    (
        Retention.RETAIN_ON_CANCELLATION,
        {ev.StopOutcome.SUSPENDED, ev.StopOutcome.FAILED, ev.StopOutcome.CANCELED},
    ),
]


@pytest.mark.parametrize("outcome", ev.StopOutcome)
@pytest.mark.parametrize(("retention", "kept"), KEPT)
def test_what_stays_when_the_job_ends(retention: Retention, kept: set[ev.StopOutcome], outcome: ev.StopOutcome) -> None:
    driver = checkpointing(replace(PERIODIC, retention=retention))
    driver.complete(1)
    effects = driver.stop(outcome)
    assert (not of(ev.DeleteCheckpoint, effects)) == (outcome in kept)
    assert driver.stop(outcome) == []


def test_an_end_while_a_pointer_is_stored_waits_for_the_outcome() -> None:
    driver = checkpointing()
    driver.store(1)
    assert driver.stop(ev.StopOutcome.CANCELED) == []
    assert only(ev.DeleteCheckpoint, driver.pointer_stored(1))


def test_a_leader_that_lost_its_job_deletes_no_checkpoint() -> None:
    driver = checkpointing()
    driver.complete(1)
    driver.pass_time(1000)
    driver.store(2)
    driver.stop(ev.StopOutcome.SUSPENDED)
    assert driver.pointer_stored(2) == []


def test_nothing_is_started_after_the_end() -> None:
    driver = started()
    driver.stop(ev.StopOutcome.CANCELED)
    assert driver.pass_time(10_000) == []
    failed = only(ev.SavepointFailed, driver.savepoint("t1"))
    assert failed.reason is Reason.CHECKPOINT_COORDINATOR_SHUTDOWN
