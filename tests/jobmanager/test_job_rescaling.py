"""A job that is rescaled: its steps, what happens when one of them fails, and what is left then."""

from __future__ import annotations

import pytest
from job_driver import JobDriver, of_type
from job_graphs import edge, job, pipeline, vertex
from msgspec.structs import replace

from millstream.core.jobs.job_events import JobEventKind
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.jobmanager.adaptive.bounds import Bounds, Requirements
from millstream.jobmanager.adaptive.settings import AdaptiveSettings, RescaleSettings
from millstream.jobmanager.failover.settings import FixedDelay
from millstream.jobmanager.job_master import events as ev
from millstream.jobmanager.job_master.details import job_details


def running(parallelism: int = 1, restart: FixedDelay | None = None, **settings: float | bool) -> JobDriver:
    graph = pipeline(parallelism, parallelism, source=True)
    driver = JobDriver(graph, restart=restart, rescaling=RescaleSettings(**settings) if settings else None)  # type: ignore[arg-type]
    driver.run()
    return driver


def gathered(driver: JobDriver, parallelism: int) -> list[ev.Effect]:
    """Up to the checkpoint."""
    driver.rescale(parallelism)
    driver.offer_missing()
    driver.ready_all()
    return driver.tick()


def restarted(driver: JobDriver) -> None:
    """From the cancelled tasks to all running."""
    driver.answer_cancels()
    driver.restored()
    driver.run_tasks()


def parallelisms(driver: JobDriver) -> list[int]:
    return [vertex.parallelism for vertex in driver.master.graph.vertices]


def kinds(driver: JobDriver) -> list[JobEventKind]:
    return [event.kind for event in driver.master.events]


def test_a_job_runs_until_all_that_the_rescale_needs_is_there() -> None:
    driver = running(1)
    driver.rescale(2)
    assert driver.declared == 2
    assert driver.master.status is JobStatus.RUNNING
    assert "waiting for slots: 1 of 2" in driver.master.message
    driver.offer("a1")
    assert driver.checkpoint_wanted is None, "its worker is not ready"
    driver.ready("a1")
    assert driver.checkpoint_wanted == 1
    assert set(driver.states()) == {ExecutionState.RUNNING}


def test_a_rescale_goes_through_a_checkpoint_to_another_parallelism() -> None:
    driver = running(1)
    gathered(driver, 2)
    effects = driver.checkpointed()
    assert driver.master.status is JobStatus.RESTARTING
    assert driver.master.message == "rescaling to 2: it was asked for"
    assert of_type(effects, ev.RollBack)
    effects = driver.answer_cancels()
    (restore,) = of_type(effects, ev.Restore)
    assert len(restore.subtasks) == 4
    assert not restore.start_enumerators
    assert effects.index(of_type(effects, ev.ChangeGraph)[0]) < effects.index(restore)
    driver.restored()
    assert {e.attempt for e in driver.executions} == {1}
    assert "t" not in driver.rescales
    driver.run_tasks()
    assert parallelisms(driver) == [2, 2]
    assert driver.rescales["t"].message == "the job runs at parallelism 2"
    assert kinds(driver) == [JobEventKind.RESCALE_STARTED, JobEventKind.RESCALE_COMPLETED]
    details = job_details(driver.master)
    assert [(v.parallelism, v.upper_bound, v.max_parallelism) for v in details.vertices] == [(2, 2, 128)] * 2


def test_slots_that_are_not_needed_go_back_when_all_tasks_run() -> None:
    driver = running(2)
    gathered(driver, 1)
    assert driver.declared == 2
    driver.checkpointed()
    driver.answer_cancels()
    driver.restored()
    assert len(driver.held) == 2
    driver.run_tasks()
    assert (driver.declared, len(driver.held)) == (1, 1)
    assert parallelisms(driver) == [1, 1]


def test_attempts_of_subtasks_that_come_back_are_numbered_on() -> None:
    driver = running(2)
    for parallelism in (1, 2):
        gathered(driver, parallelism)
        driver.checkpointed()
        restarted(driver)
    assert {e.attempt for e in driver.executions} == {2}


def test_without_slots_in_time_the_job_continues_as_it_was() -> None:
    driver = running(1, slot_timeout_ms=1_000)
    driver.rescale(3)
    driver.offer("a1")
    driver.tick(2)
    assert "2 of 3 slots" in driver.rescales["t"].error
    assert (driver.declared, set(driver.held), driver.master.status) == (1, {"a0"}, JobStatus.RUNNING)
    assert driver.master.message == ""
    assert kinds(driver)[-1] is JobEventKind.RESCALE_FAILED
    assert job_details(driver.master).vertices[0].upper_bound == 1


def test_checkpoints_that_fail_are_tried_again_and_then_the_last_one_does() -> None:
    driver = running(1, checkpoint_failures=2)
    gathered(driver, 2)
    driver.checkpointed("declined")
    assert driver.master.status is JobStatus.RUNNING
    driver.tick(1)
    driver.checkpointed("declined again")
    assert driver.master.status is JobStatus.RESTARTING
    restarted(driver)
    assert parallelisms(driver) == [2, 2]


def test_a_job_without_checkpoints_of_its_own_is_not_rescaled_when_its_only_one_fails() -> None:
    driver = running(1, checkpoint_failures=1, has_checkpoints=False)
    gathered(driver, 2)
    driver.checkpointed("declined")
    assert "declined" in driver.rescales["t"].error
    assert (driver.master.status, driver.declared) == (JobStatus.RUNNING, 1)


def test_a_checkpoint_that_takes_too_long_is_not_waited_for() -> None:
    driver = running(1, checkpoint_timeout_ms=2_000)
    gathered(driver, 2)
    driver.tick(3)
    assert driver.master.status is JobStatus.RESTARTING


@pytest.mark.parametrize("final", [False, True])
def test_what_cannot_be_restored_goes_back_without_asking_the_strategy(final: bool) -> None:
    driver = running(1)
    gathered(driver, 2)
    driver.checkpointed()
    driver.answer_cancels()
    driver.restore_failed(final)
    assert driver.master.status is JobStatus.RESTARTING
    driver.restored()
    driver.run_tasks()
    assert driver.master.status is JobStatus.RUNNING
    assert parallelisms(driver) == [1, 1]
    assert "no such file" in driver.rescales["t"].error
    assert (driver.declared, len(driver.held)) == (1, 1)


def test_a_task_that_fails_before_all_run_takes_the_job_back() -> None:
    driver = running(2)
    gathered(driver, 1)
    driver.checkpointed()
    driver.answer_cancels()
    driver.restored()
    driver.update(driver.executions[0], ExecutionState.FAILED)
    driver.answer_cancels()
    driver.restored()
    driver.run_tasks()
    assert driver.master.status is JobStatus.RUNNING
    assert parallelisms(driver) == [2, 2]
    assert len(driver.held) == 2
    assert kinds(driver)[-1] is JobEventKind.RESCALE_FAILED


def test_a_failure_while_the_job_still_runs_ends_the_rescale_and_restarts_it() -> None:
    driver = running(1, restart=FixedDelay(attempts=3, delay_ms=0))
    gathered(driver, 2)
    driver.update(driver.executions[0], ExecutionState.FAILED)
    assert "ValueError: bad" in driver.rescales["t"].error
    assert (driver.master.status, driver.declared, len(driver.held)) == (JobStatus.RESTARTING, 1, 1)
    driver.restart()
    driver.run_tasks()
    assert parallelisms(driver) == [1, 1]


def test_a_spare_worker_that_dies_is_started_again() -> None:
    driver = running(1)
    driver.rescale(2)
    driver.offer("a1")
    assert of_type(driver.lose_worker("a1"), ev.StartWorker)
    assert driver.master.status is JobStatus.RUNNING
    driver.ready("a1")
    assert driver.checkpoint_wanted == 1


def test_the_rescale_of_a_job_that_is_cancelled_meanwhile_fails_with_that_reason() -> None:
    driver = running(1)
    gathered(driver, 2)
    driver.cancel()
    driver.answer_cancels()
    assert driver.ended
    assert "the job is CANCELLING" in driver.rescales["t"].error


def test_what_cannot_be_wanted_is_refused_with_what_would_do() -> None:
    driver = running(1)
    driver.rescale(129)
    assert "its max parallelism is 128" in driver.rescales["t"].error
    driver.bound({"v0": (1, 1)})
    assert "vertex v1 ('v1') are missing" in driver.rescales["t"].error
    driver.bound({"v0": (1, 1), "v1": (2, 1)})
    assert "lowerBound <= upperBound" in driver.rescales["t"].error
    driver.bound({"v0": (1, 1), "v1": (1, 1), "v2": (1, 1)})
    assert "no vertex v2" in driver.rescales["t"].error


def test_a_second_request_replaces_the_first_as_long_as_the_tasks_run() -> None:
    driver = running(1)
    driver.rescale(9, "mistyped")
    driver.rescale(129)
    assert "mistyped" not in driver.rescales, "what is refused changes nothing"
    gathered(driver, 2)
    assert (
        "another parallelism has been requested since; the job continues as before" in driver.rescales["mistyped"].error
    )
    assert (driver.declared, driver.checkpoint_wanted) == (2, 2)
    driver.checkpointed()
    driver.rescale(3, "late")
    assert "try again" in driver.rescales["late"].error
    restarted(driver)
    assert (parallelisms(driver), driver.rescales["t"].error) == ([2, 2], "")


def test_the_parallelism_that_a_job_has_ends_a_wait_for_slots() -> None:
    driver = running(1)
    driver.rescale(9, "mistyped")
    driver.rescale(1)
    assert driver.rescales["mistyped"].error
    assert (driver.declared, driver.rescales["t"].message) == (1, "the job runs at this parallelism")
    assert not driver.master.is_rescaling


def test_a_job_that_restarts_is_rescaled_when_it_runs() -> None:
    driver = running(1, FixedDelay(attempts=1, delay_ms=0))
    driver.lose_task_manager()
    assert driver.master.status is JobStatus.RESTARTING
    driver.rescale(2)
    assert "RESTARTING; try again when it runs" in driver.rescales["t"].error


def test_vertices_whose_parallelism_the_program_set_do_not_follow() -> None:
    fixed = replace(vertex("sink", 1), parallelism_fixed=True)
    single = replace(vertex("all", 1), non_parallel=True)
    graph = job([vertex("a", 1), single, fixed], [edge("a", "all", "HASH"), edge("all", "sink", "HASH")])
    driver = JobDriver(graph)
    driver.run()
    gathered(driver, 3)
    driver.checkpointed()
    restarted(driver)
    assert parallelisms(driver) == [3, 1, 1]
    driver.bound({"a": (1, 3), "all": (1, 2), "sink": (1, 2)})
    assert "can only run as one subtask" in driver.rescales["t"].error
    driver.bound({"a": (1, 3), "all": (1, 1), "sink": (1, 2)})
    driver.checkpointed()
    restarted(driver)
    assert parallelisms(driver) == [3, 1, 2]


def test_vertices_with_a_forward_edge_between_them_keep_one_parallelism() -> None:
    graph = job([vertex("a", 1), vertex("b", 1), vertex("c", 1)], [edge("a", "b", "FORWARD"), edge("b", "c", "HASH")])
    driver = JobDriver(graph)
    driver.run()
    driver.bound({"a": (1, 4), "b": (1, 2), "c": (1, 3)})
    driver.offer_missing()
    driver.ready_all()
    driver.checkpointed()
    restarted(driver)
    assert parallelisms(driver) == [2, 2, 3]
    driver.bound({"a": (3, 4), "b": (1, 2), "c": (1, 3)})
    assert "forward edges" in driver.rescales["t"].error


def test_the_same_parallelism_gets_a_response_at_once() -> None:
    driver = running(2)
    driver.rescale(2)
    assert driver.rescales["t"].message
    assert driver.master.status is JobStatus.RUNNING
    assert kinds(driver) == []


def accepted_before(parallelism: int) -> Requirements:
    """The requirements that an earlier leader of a job of two vertices received."""
    return dict.fromkeys((v.id for v in pipeline(1, 1).vertices), Bounds(1, parallelism))


def test_a_rescale_that_an_earlier_leader_accepted_begins_when_all_tasks_run() -> None:
    driver = JobDriver(pipeline(1, 1, source=True), bounds=accepted_before(2))
    assert driver.master.requirements == accepted_before(2)
    driver.run()
    assert kinds(driver) == [JobEventKind.RESCALE_STARTED]
    assert driver.declared == 2
    driver.offer_missing()
    driver.ready_all()
    driver.tick()
    driver.checkpointed()
    restarted(driver)
    assert parallelisms(driver) == [2, 2]
    assert driver.master.requirements == accepted_before(2)


def test_one_that_fails_after_all_is_not_tried_by_every_leader_again() -> None:
    driver = JobDriver(
        pipeline(1, 1, source=True), rescaling=RescaleSettings(slot_timeout_ms=0), bounds=accepted_before(2)
    )
    driver.run()
    driver.tick(1_000)
    assert kinds(driver) == [JobEventKind.RESCALE_STARTED, JobEventKind.RESCALE_FAILED]
    assert driver.master.requirements == accepted_before(1)


def test_a_later_request_counts_in_place_of_one_that_was_left_over() -> None:
    driver = JobDriver(pipeline(1, 1, source=True), bounds=accepted_before(2))
    driver.deploy()
    driver.rescale(1)
    for execution in driver.executions:
        driver.update(execution, ExecutionState.INITIALIZING)
        driver.update(execution, ExecutionState.RUNNING)
    assert kinds(driver) == [JobEventKind.REQUIREMENTS_CHANGED]
    assert parallelisms(driver) == [1, 1]


def test_bounds_of_an_adaptive_job_are_those_that_were_accepted() -> None:
    driver = JobDriver(pipeline(1, 1, source=True), adaptive=AdaptiveSettings(), bounds=accepted_before(3))
    assert driver.master.requirements == accepted_before(3)
    assert driver.master.slots_wanted == 3
