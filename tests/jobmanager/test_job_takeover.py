"""A job whose leader changed: when it continues with the tasks that are found, and when it starts again."""

from __future__ import annotations

from typing import Any

import pytest
from found_tasks import WAIT, attempt_of, found_slot, found_task, without_last
from job_driver import JobDriver, of_type
from job_graphs import edge, job, pipeline, vertex
from msgspec.structs import replace

from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import NO_ALLOCATION, AttemptId, JobId, VertexId
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.core.messages.checkpoints import InputsEnded
from millstream.core.messages.sources import Custom, ReaderEvent, SplitRequest
from millstream.core.messages.task_manager import TaskUpdate
from millstream.jobmanager.failover.settings import FixedDelay
from millstream.jobmanager.job_master import events as ev
from millstream.jobmanager.job_master.execution_graph import SlotKey
from millstream.jobmanager.job_master.settings import Succeeding

RUNNING, FINISHED, FAILED = ExecutionState.RUNNING, ExecutionState.FINISHED, ExecutionState.FAILED


def driver_of(graph: JobGraph, latest: int = 3) -> JobDriver:
    driver = JobDriver(
        graph, restart=FixedDelay(attempts=3, delay_ms=0), succeeding=Succeeding(lambda _vertex, _subtask: latest, WAIT)
    )
    started = driver.start()
    assert of_type(started, ev.DeclareSlots) == [ev.DeclareSlots(driver.master.slots_required)]
    assert of_type(started, ev.Restore) == of_type(started, ev.StartEnumerators) == []
    return driver


def key(index: int) -> SlotKey:
    return SlotKey("default", index)


def find_all(driver: JobDriver, state: ExecutionState = RUNNING, **more: Any) -> list[ev.Effect]:
    """Each slice on a task manager of its own."""
    effects: list[ev.Effect] = []
    for index in range(driver.master.slots_required):
        effects += driver.offer(f"a{index}", f"tm{index}:1-a", found_slot(driver, key(index), state, **more))
    return effects


def change(driver: JobDriver, attempt: AttemptId, state: ExecutionState, exception: str = "") -> list[ev.Effect]:
    failure = TaskFailure(exception=exception) if exception else None
    return driver.tell(ev.TaskChanged(TaskUpdate(NO_ALLOCATION, attempt, state, failure)))


def test_a_job_of_which_all_tasks_are_found_continues_without_a_restart() -> None:
    driver = driver_of(pipeline(2, 2, source=True))
    effects = find_all(driver)
    assert all(response.accepted for response in of_type(effects, ev.RespondToOffer))
    assert len(of_type(effects, ev.TakeOver)) == 1
    assert driver.master.status is JobStatus.CREATED
    assert of_type(driver.tell(ev.TakeoverPrepared()), ev.TakenOver) == []
    (taken,) = of_type(driver.tell(ev.EnumeratorsReadied()), ev.TakenOver)
    assert [allocation for allocation, _ in taken.slots] == ["a0", "a1"]
    assert driver.master.status is JobStatus.RUNNING
    assert (driver.master.restarts, driver.master.failures, driver.restores) == (0, (), [])
    for execution in driver.executions:
        assert (execution.attempt_id, execution.attempt, execution.state) == (attempt_of(execution, 3), 3, RUNNING)
        assert (execution.task_manager, execution.host) == (f"tm{execution.subtask}:1-a", "host")
    place = driver.master.place_of(VertexId("v1"), 1)
    assert place is not None
    assert place[:2] == ("tm1:1-a", "a1")


def test_a_job_without_sources_waits_for_no_enumerators() -> None:
    driver = driver_of(pipeline(1))
    find_all(driver)
    driver.tell(ev.TakeoverPrepared())
    assert driver.taken_over


def test_what_restarts_later_has_the_attempts_and_channels_that_follow() -> None:
    driver = driver_of(pipeline(1, 1))
    find_all(driver, highest_channel=17)
    driver.tell(ev.TakeoverPrepared())
    change(driver, attempt_of(driver.execution("v0"), 3), FAILED, "ValueError: bad")
    driver.answer_cancels()
    (deploy,) = of_type(driver.restored(), ev.Deploy)
    assert {task.attempt for task in deploy.tasks} == {4}
    assert [c.channel_id for task in deploy.tasks for p in task.outputs for c in p.channels] == [18]
    assert driver.master.restarts == 1


def test_tasks_that_have_finished_belong_to_it_and_a_job_of_them_is_finished() -> None:
    driver = driver_of(pipeline(2))
    driver.offer("a0", found=found_slot(driver, key(0), FINISHED))
    driver.offer("a1", found=found_slot(driver, key(1)))
    change(driver, attempt_of(driver.executions[1], 3), FINISHED)
    driver.tell(ev.TakeoverPrepared())
    assert driver.taken_over
    assert driver.master.status is JobStatus.FINISHED


def test_a_task_that_is_still_being_restored_is_waited_for() -> None:
    driver = driver_of(pipeline(1))
    assert of_type(find_all(driver, ExecutionState.INITIALIZING), ev.TakeOver) == []
    assert len(of_type(change(driver, attempt_of(driver.executions[0], 3), RUNNING), ev.TakeOver)) == 1


def test_what_is_not_found_in_time_has_the_job_start_again_with_the_attempts_that_follow() -> None:
    driver = driver_of(pipeline(2, 2, source=True))
    driver.offer("a0", found=found_slot(driver, key(0)))
    assert driver.tick(WAIT - 1) == []
    effects = driver.tick(1)
    assert of_type(effects, ev.NotTakenOver) == [ev.NotTakenOver("2 of 4 tasks were found running")]
    (freed,) = of_type(effects, ev.FreeSlot)
    assert freed.allocation_id == "a0"
    assert of_type(effects, ev.Restore) == [ev.Restore(1, driver.restores[0].subtasks, start_enumerators=True)]
    assert {e.attempt for e in driver.executions} == {4}
    assert (driver.master.restarts, driver.master.status) == (1, JobStatus.CREATED)
    assert driver.master.failures[0].exception.startswith("JobManagerChanged: 2 of 4 tasks were found running when")
    driver.offer("b0")
    driver.offer("b1")
    driver.tell(ev.EnumeratorsReadied())
    driver.ready_all()
    driver.restored()
    assert driver.master.status is JobStatus.RUNNING


def test_attempts_that_others_have_followed_are_not_taken_and_not_counted() -> None:
    driver = driver_of(pipeline(2))
    (response,) = driver.offer("old", found=found_slot(driver, key(0), behind=1))
    assert response == ev.RespondToOffer("old", "tm1:1-a", accepted=False)
    find_all(driver)
    driver.tell(ev.TakeoverPrepared())
    assert driver.taken_over


def test_of_two_slots_with_the_same_tasks_one_is_taken() -> None:
    driver = driver_of(pipeline(2))
    driver.offer("a0", found=found_slot(driver, key(0)))
    (response,) = driver.offer("b0", found=found_slot(driver, key(0)))
    assert isinstance(response, ev.RespondToOffer)
    assert not response.accepted


@pytest.mark.parametrize(
    ("change_it", "reason"),
    [
        (without_last, "not all tasks of slot 0 of 'default' were deployed"),
        (lambda slot: replace(slot, data_address=""), "the worker of slot 0 of 'default' was not ready"),
        (lambda slot: replace(slot, tasks=tuple(replace(t, state=FAILED) for t in slot.tasks)), "v0 (1/1) is FAILED"),
        (lambda slot: replace(slot, tasks=tuple(replace(t, drains=True) for t in slot.tasks)), "was draining the job"),
    ],
)  # fmt: skip
def test_a_slot_with_less_than_all_its_tasks_running_has_the_job_start_again_at_once(
    change_it: Any, reason: str
) -> None:
    driver = driver_of(pipeline(1, 1))
    effects = driver.offer("a0", found=change_it(found_slot(driver, key(0))))
    (off,) = of_type(effects, ev.NotTakenOver)
    assert reason in off.reason
    assert [freed.allocation_id for freed in of_type(effects, ev.FreeSlot)] == ["a0"]


def test_tasks_of_another_shape_of_the_job_are_not_taken() -> None:
    driver = driver_of(pipeline(2))
    other = found_slot(driver, key(0))
    changed = replace(other, tasks=tuple(replace(task, parallelism=4) for task in other.tasks))
    assert driver.offer("a0", found=changed) == [ev.RespondToOffer("a0", "tm1:1-a", accepted=False)]
    foreign = replace(other, tasks=tuple(replace(task, vertex_id=VertexId("gone")) for task in other.tasks))
    assert driver.offer("a1", found=foreign) == [ev.RespondToOffer("a1", "tm1:1-a", accepted=False)]


def test_a_task_manager_that_goes_and_comes_back_in_time_is_no_loss() -> None:
    driver = driver_of(pipeline(2))
    driver.offer("a0", "tm0:1-a", found_slot(driver, key(0)))
    assert driver.lose_task_manager("tm0:1-a") == []
    assert of_type(driver.offer("a1", "tm1:1-a", found_slot(driver, key(1))), ev.TakeOver) == []
    assert len(of_type(driver.offer("a0", "tm0:1-a", found_slot(driver, key(0))), ev.TakeOver)) == 1


@pytest.mark.parametrize("asked", [True, False])
def test_a_worker_that_is_lost_has_the_job_start_again(asked: bool) -> None:
    driver = driver_of(pipeline(2))
    driver.offer("a0", "tm0:1-a", found_slot(driver, key(0)))
    if asked:
        driver.offer("a1", "tm1:1-a", found_slot(driver, key(1)))
    effects = driver.tell(ev.WorkerLost(NO_ALLOCATION, "another's"))
    assert effects == []
    effects = driver.lose_worker("a0")
    assert of_type(effects, ev.NotTakenOver) == [ev.NotTakenOver("killed by SIGSEGV")]
    assert not driver.held


def test_a_task_manager_that_is_lost_when_all_was_found_has_the_job_start_again() -> None:
    driver = driver_of(pipeline(2))
    find_all(driver)
    driver.lose_task_manager("tm1:1-a")
    assert driver.started_again


def test_a_task_that_fails_meanwhile_has_the_job_start_again_with_its_failure() -> None:
    driver = driver_of(pipeline(2))
    driver.offer("a0", found=found_slot(driver, key(0)))
    effects = change(driver, attempt_of(driver.executions[0], 3), FAILED, "ValueError: bad")
    assert of_type(effects, ev.NotTakenOver) == [ev.NotTakenOver("v0 (1/2) is FAILED: ValueError: bad")]


@pytest.mark.parametrize(
    "event",
    [ev.TakeoverRefused("it assigned splits"), ev.EnumeratorsFailed(TaskFailure(exception="it assigned splits"))],
)
def test_sources_that_cannot_go_on_have_the_job_start_again(event: ev.Event) -> None:
    driver = driver_of(pipeline(1, source=True))
    find_all(driver)
    effects = driver.tell(event)
    assert of_type(effects, ev.NotTakenOver) == [ev.NotTakenOver("it assigned splits")]
    assert driver.restores[-1].start_enumerators
    assert driver.tell(ev.TakeoverPrepared()) == []


def test_slots_in_which_nothing_runs_are_kept_for_a_new_start_and_given_back_otherwise() -> None:
    for is_found in (True, False):
        driver = driver_of(pipeline(2))
        driver.offer("a0", "tm0:1-a", found_slot(driver, key(0)))
        for number in range(2):
            assert driver.offer(f"b{number}") == [ev.RespondToOffer(f"b{number}", "tm1:1-a", accepted=True)]
        assert driver.offer("too many") == [ev.RespondToOffer("too many", "tm1:1-a", accepted=False)]
        if is_found:
            driver.offer("a1", "tm0:1-a", found_slot(driver, key(1)))
            driver.tell(ev.TakeoverPrepared())
            assert set(driver.held) == {"a0", "a1"}
        else:
            started = of_type(driver.tick(WAIT), ev.StartWorker)
            assert [start.allocation_id for start in started] == ["b0", "b1"]


def test_a_job_that_gets_other_slots_for_all_its_tasks_waits_for_nothing() -> None:
    driver = driver_of(pipeline(2))
    assert len(driver.offer("b0")) == 1
    effects = driver.offer("b1")
    assert of_type(effects, ev.NotTakenOver) == [ev.NotTakenOver("0 of 2 tasks were found running")]
    assert len(of_type(effects, ev.StartWorker)) == 2


def test_a_job_of_which_nothing_is_found_does_not_wait_for_long() -> None:
    driver = driver_of(pipeline(2))
    assert driver.tick(WAIT * 0.2) == []
    driver.tick(WAIT * 0.1)
    assert driver.started_again


def test_what_comes_too_late_is_not_taken() -> None:
    driver = driver_of(pipeline(2))
    driver.tick(WAIT)
    (response,) = driver.offer("a0", found=found_slot(driver, key(0)))
    assert response == ev.RespondToOffer("a0", "tm1:1-a", accepted=False)


def test_a_user_who_cancels_meanwhile_gets_a_job_that_is_cancelled() -> None:
    driver = driver_of(pipeline(2))
    driver.offer("a0", found=found_slot(driver, key(0)))
    driver.offer("spare")
    driver.cancel()
    assert driver.master.status is JobStatus.CANCELED
    assert set(driver.freed) == {"a0", "spare"}


def test_a_job_that_may_not_run_meanwhile_starts_again_when_it_may() -> None:
    driver = driver_of(pipeline(2))
    driver.offer("a0", found=found_slot(driver, key(0)))
    driver.tell(ev.Suspended("no dispatcher"))
    assert driver.master.is_suspended
    driver.tell(ev.Resumed())
    assert {e.attempt for e in driver.executions} == {4}


def test_a_failure_of_the_whole_job_is_the_restart_strategys_to_decide() -> None:
    driver = driver_of(pipeline(2))
    driver.offer("a0", found=found_slot(driver, key(0)))
    driver.tell(ev.JobFailed(TaskFailure(exception="CheckpointFailure: no folder")))
    assert set(driver.freed) == {"a0"}
    assert driver.master.restarts == 1


def test_what_tasks_report_meanwhile_is_not_forgotten() -> None:
    driver = driver_of(pipeline(1, source=True))
    attempt = attempt_of(driver.executions[0], 3)
    event = ReaderEvent(JobId("job"), VertexId("v0"), 0, SplitRequest("host"), attempt)
    driver.tell(ev.TaskReported(replace(event, attempt_id=AttemptId("another"))))
    slot = found_slot(driver, key(0), ExecutionState.INITIALIZING)
    driver.offer("a0", found=slot)
    for message in (event, replace(event, kind=Custom(b"event")), InputsEnded(NO_ALLOCATION, attempt)):
        driver.tell(ev.TaskReported(message))
    change(driver, attempt, RUNNING)
    (task,) = driver.asked[0].tasks
    assert task.inputs_ended
    assert task.reader is not None
    assert task.reader.has_events


def test_an_event_for_an_enumerator_that_is_being_started_would_be_lost_so_the_job_starts_again() -> None:
    driver = driver_of(pipeline(1, source=True))
    find_all(driver)
    attempt = attempt_of(driver.executions[0], 3)
    effects = driver.tell(ev.TaskReported(ReaderEvent(JobId("job"), VertexId("v0"), 0, Custom(b"event"), attempt)))
    assert len(of_type(effects, ev.NotTakenOver)) == 1


def test_regions_may_be_of_different_attempts_but_a_region_may_not() -> None:
    """The numbers are those of the store: each region has the latest of its own."""
    graph = job([vertex("s", 2), vertex("b", 2)], [edge("s", "b", "FORWARD")])
    numbers = {0: 1, 1: 5}
    driver = JobDriver(graph, succeeding=Succeeding(lambda _vertex, subtask: numbers[subtask], WAIT))
    driver.start()
    find_all(driver)
    assert len(driver.asked) == 1
    mixed = JobDriver(graph, succeeding=Succeeding(lambda _vertex, subtask: numbers[subtask], WAIT))
    mixed.start()
    slot = found_slot(mixed, key(0))
    older = found_task(mixed.execution("b", 0), 0, RUNNING)
    (response,) = mixed.offer("a0", found=replace(slot, tasks=(slot.tasks[0], older)))
    assert isinstance(response, ev.RespondToOffer)
    assert not response.accepted
