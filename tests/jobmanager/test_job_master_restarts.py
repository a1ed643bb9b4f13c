"""Restarts of a job, one decision at a time."""

from __future__ import annotations

from typing import Any

import pytest
from job_driver import JobDriver, of_type
from job_graphs import edge, job, pipeline, vertex
from msgspec.structs import replace

from millstream.core.jobs.failure_kinds import WorkerEnd
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.graph import Exchange, JobGraph
from millstream.core.jobs.ids import NO_ALLOCATION, AllocationId, VertexId
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.core.messages.deployment import TaskDeployment
from millstream.core.messages.task_manager import TaskUpdate
from millstream.jobmanager.failover.settings import FixedDelay
from millstream.jobmanager.failover.topology import Subtask
from millstream.jobmanager.job_master import events as ev
from millstream.jobmanager.job_master.details import job_details
from millstream.jobmanager.job_master.execution_graph import Execution, TaskRestore

_S = ExecutionState


def forward(parallelism: int, source: bool = False) -> JobGraph:
    """Pipelines that have nothing to do with each other: each is a region."""
    return job([vertex("a", parallelism, source=source), vertex("b", parallelism)], [edge("a", "b", "FORWARD")])


def running(graph: JobGraph, attempts: int = 5, delay_ms: int = 1_000) -> JobDriver:
    driver = JobDriver(graph, restart=FixedDelay(attempts, delay_ms))
    driver.run(task_managers=2)
    return driver


def test_a_failure_restarts_its_region_after_the_delay() -> None:
    driver = running(pipeline(2, 2))
    before = driver.task_states()
    effects = driver.update(driver.executions[0], _S.FAILED, "ValueError: bad record")
    assert driver.master.status is JobStatus.RESTARTING
    (rolled_back,) = of_type(effects, ev.RollBack)
    assert len(rolled_back.subtasks) == 4
    assert rolled_back.reason == "ValueError: bad record"
    assert len([a for e in of_type(effects, ev.CancelTasks) for a in e.attempts]) == 3
    assert of_type(effects, ev.WakeUpAt) == [ev.WakeUpAt(driver.now + 1_000)]
    assert not of_type(driver.answer_cancels(), ev.Restore)
    assert driver.tick(0.9) == []
    effects = driver.tick(0.1)
    assert of_type(effects, ev.Restore) == [ev.Restore(1, rolled_back.subtasks, False)]
    assert set(driver.states()) == {_S.SCHEDULED}
    assert not set(driver.task_states()) & set(before)
    effects = driver.restored()
    assert driver.master.status is JobStatus.RUNNING
    deployed = [task for e in of_type(effects, ev.Deploy) for task in e.tasks]
    assert {t.attempt for t in deployed} == {1}
    assert driver.declared == 2
    assert not driver.freed
    assert [s.attempt for v in job_details(driver.master).vertices for s in v.subtasks] == [1] * 4


@pytest.mark.parametrize("hours", [-1, 1])
def test_setting_the_wall_clock_changes_dates_and_no_delay(hours: int) -> None:
    driver = running(pipeline(2, 2))
    driver.update(driver.executions[0], _S.FAILED)
    driver.answer_cancels()
    driver.ahead += hours * 3_600_000
    assert driver.tick(0.9) == []
    assert of_type(driver.tick(0.1), ev.Restore)
    assert set(driver.executions[0].state_times.values()) == {driver.instant.date_ms}


def test_tasks_that_take_long_to_cancel_are_waited_for() -> None:
    driver = running(pipeline(1, 1))
    driver.update(driver.executions[0], _S.FAILED)
    driver.tick(60)
    assert not driver.restores
    assert of_type(driver.answer_cancels(), ev.Restore)


def test_channels_of_a_new_attempt_are_new() -> None:
    driver = running(pipeline(1, 1))
    driver.update(driver.executions[0], _S.FAILED)
    (deploy,) = of_type(driver.restart(), ev.Deploy)
    producer, consumer = deploy.tasks
    assert producer.outputs[0].channels[0].channel_id == consumer.inputs[0].channels[0].channel_id == 2


def test_only_the_region_of_the_failed_task_restarts() -> None:
    driver = running(forward(3))
    driver.update(driver.execution("b", 1), _S.FAILED)
    assert driver.execution("a", 1).state is _S.CANCELING
    assert driver.execution("a", 0).state is _S.RUNNING
    driver.answer_cancels()
    driver.tick(1)
    place = Subtask(VertexId("b"), 1)
    effects = driver.restored({place: TaskRestore(b"[1]", "file:///chk-1", 1, failed_savepoints=(2, 3))})
    (deploy,) = of_type(effects, ev.Deploy)
    assert [(t.task_name, t.restore, t.restore_location) for t in deploy.tasks] == [
        ("a (2/3)", b"", ""),
        ("b (2/3)", b"[1]", "file:///chk-1"),
    ]
    assert [list(t.failed_savepoints) for t in deploy.tasks] == [[], [2, 3]]
    assert driver.execution("a", 0).attempt == 0


def blocking(parallelism: int) -> JobDriver:
    """A job of one blocking edge, whose producers run."""
    graph = job(
        [vertex("a", parallelism), vertex("b", parallelism)],
        [replace(edge("a", "b", "HASH"), exchange=Exchange.BLOCKING)],
    )
    driver = JobDriver(graph, restart=FixedDelay(5, 1_000))
    driver.deploy(task_managers=2)
    return driver


def deployed_by(effects: list[ev.Effect]) -> list[TaskDeployment]:
    return [task for effect in of_type(effects, ev.Deploy) for task in effect.tasks]


def test_consumers_of_a_blocking_edge_are_deployed_when_its_producers_have_finished() -> None:
    driver = blocking(2)
    assert driver.states() == [_S.DEPLOYING, _S.DEPLOYING, _S.SCHEDULED, _S.SCHEDULED]
    assert driver.master.status is JobStatus.RUNNING
    driver.run_tasks()
    assert not deployed_by(driver.update(driver.execution("a"), _S.FINISHED))
    consumers = deployed_by(driver.update(driver.execution("a", 1), _S.FINISHED))
    assert [task.task_name for task in consumers] == ["b (1/2)", "b (2/2)"]
    assert {gate.exchange for task in consumers for gate in task.inputs} == {Exchange.BLOCKING}
    driver.run_tasks()
    for execution in driver.executions[2:]:
        driver.update(execution, _S.FINISHED)
    assert driver.master.status is JobStatus.FINISHED


def test_consumers_of_a_blocking_edge_read_the_same_channels_when_they_restart() -> None:
    driver = blocking(1)
    driver.run_tasks()
    (first,) = deployed_by(driver.update(driver.execution("a"), _S.FINISHED))
    driver.run_tasks()
    rolled_back = of_type(driver.update(driver.execution("b"), _S.FAILED), ev.RollBack)
    assert [effect.subtasks for effect in rolled_back] == [{Subtask(VertexId("b"), 0)}]
    (again,) = deployed_by(driver.restart())
    assert again.attempt_id != first.attempt_id
    assert again.inputs == first.inputs


def test_a_failed_producer_of_a_blocking_edge_restarts_before_consumers_that_wait() -> None:
    driver = blocking(2)
    driver.run_tasks()
    driver.update(driver.execution("a", 1), _S.FINISHED)
    driver.update(driver.execution("a"), _S.FAILED)
    assert [task.task_name for task in deployed_by(driver.restart())] == ["a (1/2)"]
    driver.run_tasks()
    consumers = deployed_by(driver.update(driver.execution("a"), _S.FINISHED))
    assert [len(task.inputs[0].channels) for task in consumers] == [2, 2]


def test_a_finished_task_of_the_region_runs_again() -> None:
    driver = running(pipeline(1, 1))
    driver.update(driver.execution("v0"), _S.FINISHED)
    driver.update(driver.execution("v1"), _S.FAILED)
    driver.tick(1)
    assert [e.attempt for e in driver.executions] == [1, 1]


def test_a_second_failure_joins_the_restart_that_waits() -> None:
    driver = running(forward(2))
    driver.update(driver.execution("a", 0), _S.FAILED)
    driver.now += 500
    driver.update(driver.execution("a", 1), _S.FAILED)
    driver.answer_cancels()
    assert driver.tick(0.5) == []
    (restore,) = of_type(driver.tick(0.5), ev.Restore)
    assert len(restore.subtasks) == 4
    (entry,) = driver.master.history.entries
    assert len(entry.concurrent) == 1


def test_echoes_of_a_failure_cost_no_attempt() -> None:
    driver = running(pipeline(2, 1), attempts=1)
    first, second, third = driver.executions
    driver.update(first, _S.FAILED, "PeerLostError: lost v1")
    driver.update(second, _S.FAILED, "PeerLostError: lost v1")
    driver.update(third, _S.FAILED, "ValueError: root")
    assert driver.master.status is JobStatus.RESTARTING
    assert driver.master.failures[0].exception == "ValueError: root"
    driver.restart()
    assert driver.master.status is JobStatus.RUNNING


def test_when_the_strategy_gives_up_the_job_fails_with_the_reason() -> None:
    driver = running(pipeline(1), attempts=1)
    driver.update(driver.executions[0], _S.FAILED, "ValueError: one")
    driver.restart()
    driver.update(driver.executions[0], _S.RUNNING)
    driver.update(driver.executions[0], _S.FAILED, "ValueError: two")
    assert driver.master.status is JobStatus.FAILED
    assert [f.exception for f in driver.master.failures] == ["ValueError: two", "ValueError: one"]
    assert "restart-strategy.fixed-delay.attempts" in driver.master.message
    assert driver.declared == 0


# The same error again and again

RAISED = {"signature": "ValueError map:3", "record": "'x'", "operator_name": "parse"}


def fail_and_restart(driver: JobDriver, execution: Execution, **raised: Any) -> None:
    driver.update(execution, _S.FAILED, "ValueError: bad", RAISED | raised)
    driver.answer_cancels()
    driver.tick(1)
    if driver.master.status is JobStatus.RESTARTING:
        driver.restored()
        for one in driver.executions:
            driver.update(one, _S.RUNNING)


def test_the_same_error_at_the_same_record_fails_the_job_and_names_the_option_for_that() -> None:
    driver = running(pipeline(1, 2), attempts=100)
    for subtask in (0, 1, 0):
        assert driver.master.status is JobStatus.RUNNING
        fail_and_restart(driver, driver.execution("v1", subtask))
    assert driver.master.status is JobStatus.FAILED
    assert "the same error occurred 3 times in a row at the record 'x'" in driver.master.message
    assert "restart-strategy.same-error-limit is 3" in driver.master.message
    assert [(f.times, f.restart, f.restart_delay_ms) for f in driver.master.failures] == [
        (3, 0, 0), (2, 2, 1_000), (1, 1, 1_000),
    ]  # fmt: skip
    assert job_details(driver.master).restarts == 2


def test_a_job_that_gets_past_the_record_continues() -> None:
    driver = running(pipeline(1, 2), attempts=100)
    for _ in range(10):
        execution = driver.execution("v1", 0)
        fail_and_restart(driver, execution, records=9)
        again = driver.execution("v1", 0)
        driver.tell(ev.CheckpointCompleted({execution.attempt_id: 1_000, again.attempt_id: 2}))
        fail_and_restart(driver, again, records=5)
        driver.tell(ev.CheckpointCompleted({driver.execution("v1", 0).attempt_id: 3}))
        assert driver.master.failures[0].times == 2
    assert driver.master.status is JobStatus.RUNNING
    assert driver.master.restarts == 20


def test_an_error_that_comes_along_with_another_failure_counts_too() -> None:
    driver = running(pipeline(2, 1), attempts=100)
    for _ in range(3):
        driver.update(driver.execution("v0", 1), _S.FAILED, "PeerLostError: lost v1")
        fail_and_restart(driver, driver.execution("v1"))
    assert driver.master.status is JobStatus.FAILED
    assert driver.master.failures[0].exception == "ValueError: bad"
    assert driver.master.failures[0].times == 3


def test_killed_workers_are_never_too_many() -> None:
    driver = running(pipeline(1), attempts=100)
    for restart in range(1, 20):
        driver.lose_worker("a0")
        assert driver.master.message.startswith(f"restart {restart} in 1.0 s, 1 of 1 tasks: SlotLost: killed")
        driver.tick(1)
        driver.restored()
        driver.ready("a0")
        driver.update(driver.executions[0], _S.RUNNING)
    assert driver.master.status is JobStatus.RUNNING


def crash_and_restart(driver: JobDriver, echo_first: bool) -> None:
    if echo_first:
        driver.update(driver.execution("v0", 1), _S.FAILED, "PeerLostError: lost v1")
    driver.lose_worker("a0", f"process {driver.master.restarts} exited with status 7", WorkerEnd.CRASHED)
    driver.answer_cancels()
    driver.tick(1)
    if driver.master.status is JobStatus.RESTARTING:
        driver.restored()
        driver.ready("a0")
        for one in driver.executions:
            driver.update(one, _S.RUNNING)


@pytest.mark.parametrize("echo_first", [False, True])
def test_a_worker_that_ends_by_itself_without_progress_in_between_fails_the_job(echo_first: bool) -> None:
    driver = running(pipeline(2, 2), attempts=100)
    for _ in range(3):
        assert driver.master.status is JobStatus.RUNNING
        driver.tell(ev.CheckpointCompleted({one.attempt_id: 0 for one in driver.executions}))
        crash_and_restart(driver, echo_first)
    assert driver.master.status is JobStatus.FAILED
    assert (
        "one of its processes ended by itself 3 times in a row without a checkpoint in between" in driver.master.message
    )
    assert driver.master.failures[0].exception.startswith("SlotLost: process 2 exited with status 7. Its tasks: v0")
    assert [f.times for f in driver.master.failures] == [3, 2, 1]


@pytest.mark.parametrize("opened", [None, 0, 1], ids=["before the deployment", "in the first open()", "in another"])
def test_one_that_ends_by_itself_before_its_tasks_are_open_processes_no_record(opened: int | None) -> None:
    driver = running(pipeline(2, 2), attempts=100)
    for restart in range(10):
        driver.lose_worker("a0", f"process {restart} exited with status 7", WorkerEnd.CRASHED)
        driver.answer_cancels()
        driver.tick(1)
        driver.restored()
        if opened is not None:
            driver.ready("a0")
            for task in driver.executions[:opened]:
                driver.update(task, _S.RUNNING)
            for task in driver.executions[opened:]:
                driver.update(task, _S.INITIALIZING)
    assert driver.master.status is JobStatus.RESTARTING if opened is None else JobStatus.RUNNING
    assert [f.times for f in driver.master.failures][:-1] == [0] * 9


def test_one_that_ends_by_itself_now_and_then_does_not() -> None:
    driver = running(pipeline(2, 2), attempts=100)
    for restart in range(20):
        crash_and_restart(driver, echo_first=False)
        if restart % 2:
            driver.tell(ev.CheckpointCompleted({driver.execution("v0", 1).attempt_id: 1}))
    assert driver.master.status is JobStatus.RUNNING


# Slots and workers


def test_a_dead_worker_is_started_again_in_its_slot() -> None:
    driver = running(pipeline(2, 2))
    driver.lose_worker("a1")
    assert not driver.freed
    driver.answer_cancels()
    effects = driver.tick(1)
    assert of_type(effects, ev.StartWorker) == [ev.StartWorker(AllocationId("a1"), driver.held[AllocationId("a1")])]
    driver.restored()
    assert driver.master.status is JobStatus.RESTARTING
    driver.ready("a1")
    assert driver.master.status is JobStatus.RUNNING


def test_lost_slots_are_waited_for_again_and_an_allocation_that_was_lost_is_refused() -> None:
    driver = running(pipeline(2, 2))
    driver.lose_task_manager("tm2:1-a")
    assert driver.freed == {"a1": 1}
    assert driver.declared == 2
    driver.restart()
    assert driver.master.message == "waiting for slots: 1 of 2"
    (response,) = driver.offer("a1", "tm2:1-a")
    assert isinstance(response, ev.RespondToOffer)
    assert not response.accepted
    effects = driver.offer("a2", "tm3:1-a")
    assert [e.allocation_id for e in of_type(effects, ev.StartWorker)] == ["a2"]
    driver.ready("a2")
    assert driver.master.status is JobStatus.RUNNING


def test_slots_go_back_for_another_job_only_when_no_task_runs_in_them() -> None:
    driver = running(pipeline(2, 2))
    assert driver.tell(ev.SlotsReclaimed()) == []
    driver.lose_task_manager("tm2:1-a")
    assert driver.tell(ev.SlotsReclaimed()) == []
    driver.answer_cancels()
    driver.tick(1)
    effects = driver.tell(ev.SlotsReclaimed())
    assert [e.allocation_id for e in of_type(effects, ev.FreeSlot)] == ["a0"]
    driver.restored()
    driver.offer("a2", "tm3:1-a")
    driver.offer("a3", "tm3:1-a")
    driver.ready("a2")
    driver.ready("a3")
    assert driver.master.status is JobStatus.RUNNING


def test_a_slot_may_come_before_it_is_needed() -> None:
    driver = running(pipeline(2, 2))
    driver.lose_task_manager("tm2:1-a")
    effects = driver.offer("a2", "tm3:1-a")
    assert not of_type(effects, ev.StartWorker)
    driver.answer_cancels()
    assert [e.allocation_id for e in of_type(driver.tick(1), ev.StartWorker)] == ["a2"]


def test_the_slot_timeout_applies_again() -> None:
    driver = running(pipeline(2), attempts=1)
    driver.lose_task_manager("tm2:1-a")
    driver.answer_cancels()
    driver.tick(1)
    assert driver.tick(9.9) == []
    driver.tick(0.1)
    driver.answer_cancels()
    assert driver.master.status is JobStatus.FAILED
    assert driver.master.failures[0].exception.startswith("NotEnoughSlots: the job needs 2 slots and has 1")


def test_a_worker_that_cannot_be_started_costs_an_attempt() -> None:
    driver = running(pipeline(1), attempts=2)
    driver.lose_worker("a0")
    driver.tick(1)
    driver.lose_worker("a0", "no such interpreter")
    assert driver.master.status is JobStatus.RESTARTING
    driver.tick(1)
    driver.lose_worker("a0", "no such interpreter")
    assert driver.master.status is JobStatus.FAILED


def test_a_worker_that_can_never_be_started_ends_the_job() -> None:
    driver = running(pipeline(1), attempts=2)
    driver.lose_worker("a0")
    driver.tick(1)
    driver.tell(ev.WorkerLost(AllocationId("a0"), "no matching distribution", WorkerEnd.IMPOSSIBLE))
    assert driver.master.status is JobStatus.FAILED


def test_a_worker_put_down_while_its_tasks_are_cancelled_costs_none() -> None:
    driver = running(pipeline(2, 1), attempts=1)
    driver.update(driver.execution("v0", 0), _S.FAILED)
    driver.update(driver.execution("v1", 0), _S.CANCELED)
    driver.started.discard(AllocationId("a1"))
    driver.addresses.discard(AllocationId("a1"))
    driver.tell(ev.WorkerLost(AllocationId("a1"), "did not cancel in time", WorkerEnd.PUT_DOWN))
    assert [e.allocation_id for e in of_type(driver.tick(1), ev.StartWorker)] == ["a1"]
    assert len(driver.master.failures) == 1


def test_the_worker_of_tasks_that_have_finished_may_go() -> None:
    driver = running(forward(2))
    for name in ("a", "b"):
        driver.update(driver.execution(name, 1), _S.FINISHED)
    driver.lose_task_manager("tm2:1-a")
    assert driver.master.status is JobStatus.RUNNING
    for name in ("a", "b"):
        driver.update(driver.execution(name, 0), _S.FINISHED)
    assert driver.master.status is JobStatus.FINISHED


# Sources and state


def test_an_enumerator_process_that_fails_restarts_everything_and_is_started_again() -> None:
    driver = running(forward(2, source=True))
    driver.tell(ev.EnumeratorsFailed(TaskFailure(exception="OSError: gone")))
    driver.tell(ev.EnumeratorsFailed(TaskFailure(exception="split enumerators: exited")))
    driver.answer_cancels()
    (restore,) = of_type(driver.tick(1), ev.Restore)
    assert restore.start_enumerators
    assert len(restore.subtasks) == 4
    driver.restored()
    assert driver.master.status is JobStatus.RESTARTING
    driver.tell(ev.EnumeratorsReadied())
    assert driver.master.status is JobStatus.RUNNING


def test_state_that_cannot_be_read_costs_an_attempt() -> None:
    driver = running(pipeline(1), attempts=2)
    driver.update(driver.executions[0], _S.FAILED)
    driver.tick(1)
    driver.tell(ev.RestoreFailed(1, "chk-1 is damaged"))
    assert [f.exception for f in driver.master.failures] == ["RestoreFailed: chk-1 is damaged", "ValueError: bad"]
    driver.tick(1)
    assert driver.tell(ev.Restored(1)) == []
    assert driver.tell(ev.RestoreFailed(1, "late")) == []
    driver.restored()
    assert driver.master.status is JobStatus.RUNNING


def test_messages_do_not_reach_a_subtask_that_is_about_to_run_again() -> None:
    driver = running(pipeline(1))
    attempt = driver.executions[0].attempt_id
    driver.update(driver.executions[0], _S.FAILED)
    driver.tick(1)
    assert driver.master.place_of(VertexId("v0"), 0) is None
    assert driver.master.place_of_attempt(attempt) is None
    driver.restored()
    assert driver.master.place_of(VertexId("v0"), 0) is not None


# Ends


@pytest.mark.parametrize("stage", ["cancelling tasks", "waiting", "slots", "workers", "restoring"])
def test_a_job_that_restarts_can_be_cancelled(stage: str) -> None:
    driver = running(pipeline(2, 2))
    if stage == "slots":
        driver.lose_task_manager("tm2:1-a")
    else:
        driver.lose_worker("a1")
    if stage != "cancelling tasks":
        driver.answer_cancels()
    if stage in ("slots", "workers", "restoring"):
        driver.tick(1)
    if stage == "workers":
        driver.restored()
    driver.cancel()
    driver.answer_cancels()
    assert driver.master.status is JobStatus.CANCELED
    assert driver.tick(100) == []


def test_a_job_finishes_after_a_restart() -> None:
    driver = running(pipeline(2))
    driver.update(driver.executions[0], _S.FAILED)
    driver.restart()
    for execution in list(driver.executions):
        driver.update(execution, _S.FINISHED)
    assert driver.master.status is JobStatus.FINISHED
    assert driver.master.failures


def test_a_job_that_starts_from_a_snapshot_is_deployed_when_that_is_read() -> None:
    driver = JobDriver(pipeline(2, 2, source=True), restoring=True)
    effects = driver.start()
    everything = frozenset(driver.master.topology.subtasks())
    assert of_type(effects, ev.Restore) == [ev.Restore(0, everything, True)]
    assert not of_type(effects, ev.StartEnumerators)
    assert driver.master.message == "restoring state"
    driver.give_slots()
    driver.ready_all()
    assert (driver.master.status, driver.master.message) == (JobStatus.CREATED, "restoring state")
    assert not of_type(driver.restored({Subtask(VertexId("v1"), 1): TaskRestore(b"[1]", "file:///s")}), ev.Deploy)
    deployed = [t for e in of_type(driver.tell(ev.EnumeratorsReadied()), ev.Deploy) for t in e.tasks]
    assert {t.task_name: t.restore for t in deployed} == {
        "v0 (1/2)": b"", "v0 (2/2)": b"", "v1 (1/2)": b"", "v1 (2/2)": b"[1]",
    }  # fmt: skip


def test_a_snapshot_that_is_refused_ends_the_job_whatever_the_restart_strategy() -> None:
    driver = JobDriver(pipeline(1, 1, source=True), restart=FixedDelay(100, 0), restoring=True)
    driver.start()
    driver.give_slots()
    driver.restore_failed(final=True)
    assert driver.master.status is JobStatus.FAILED
    assert driver.master.failures[0].exception == "RestoreFailed: no such file"
    assert not driver.deployed


def test_the_job_takes_over_the_vertices_of_the_snapshot() -> None:
    driver = JobDriver(pipeline(1, 2), restoring=True)
    driver.start()
    graph = driver.master.graph
    fitted = replace(graph, vertices=tuple(replace(v, max_parallelism=64) for v in graph.vertices))
    driver.give_slots()
    driver.ready_all()
    deployed = [t for e in of_type(driver.restored(graph=fitted), ev.Deploy) for t in e.tasks]
    assert {t.max_parallelism for t in deployed} == {64}
    assert {o.max_parallelism for t in deployed for o in t.outputs} == {64}
    assert {v.max_parallelism for v in job_details(driver.master).vertices} == {64}


def test_a_restore_that_was_overtaken_before_it_started_the_enumerators_is_made_up_for() -> None:
    driver = JobDriver(pipeline(1, source=True), restart=FixedDelay(100, 0), restoring=True)
    driver.start()
    driver.give_slots()
    effects = driver.lose_worker("a0")
    assert of_type(effects, ev.Restore) == [ev.Restore(1, frozenset(driver.master.topology.subtasks()), True)]
    driver.restored()
    driver.tell(ev.EnumeratorsReadied())
    assert of_type(driver.ready("a0"), ev.Deploy)
    (again,) = of_type(driver.lose_worker("a0"), ev.Restore)
    assert not again.start_enumerators


def test_a_failure_that_trying_again_would_not_mend_is_final() -> None:
    driver = running(pipeline(2, 2), attempts=100)
    other, failed = driver.executions[0], driver.executions[3]
    driver.update(other, _S.FAILED, "PeerLostError: echo")
    assert driver.master.status is JobStatus.RESTARTING
    failure = TaskFailure(exception="IncompatibleStateError: other types", final=True)
    update = TaskUpdate(NO_ALLOCATION, failed.attempt_id, _S.FAILED, failure)
    driver.tell(ev.TaskChanged(update))
    driver.answer_cancels()
    assert driver.master.status is JobStatus.FAILED
    assert "a restart would not help" in driver.master.message
    assert driver.master.failures[0].exception == "IncompatibleStateError: other types"


def test_a_suspended_job_runs_nowhere_and_begins_again_from_its_checkpoint() -> None:
    driver = running(pipeline(2, 2))
    effects = driver.tell(ev.Suspended("no dispatcher"))
    assert [e.allocation_id for e in of_type(effects, ev.FreeSlot)] == ["a0", "a1"]
    assert of_type(effects, ev.RollBack)
    assert (driver.master.status, driver.declared) == (JobStatus.RESTARTING, 0)
    assert driver.tell(ev.Suspended("no dispatcher")) == []
    (response,) = driver.offer("a7")
    assert response == ev.RespondToOffer(AllocationId("a7"), response.task_manager, False)  # type: ignore[union-attr]
    assert not of_type(driver.tick(1_000), ev.Restore)
    assert not of_type(driver.tell(ev.JobFailed(TaskFailure(exception="late"))), ev.Restore)
    (restore,) = of_type(driver.tell(ev.Resumed()), ev.Restore)
    assert len(restore.subtasks) == 4
    assert driver.declared == 2
    driver.restored()
    for allocation in ("a8", "a9"):
        driver.offer(allocation)
    driver.ready_all()
    assert driver.master.status is JobStatus.RUNNING
    assert driver.tell(ev.Resumed()) == []


def test_a_suspended_job_without_restarts_fails_and_keeps_its_checkpoints() -> None:
    driver = JobDriver(pipeline(2))
    driver.run()
    driver.tell(ev.Suspended("no dispatcher"))
    assert (driver.master.status, driver.master.keeps_checkpoints) == (JobStatus.FAILED, True)
    assert driver.master.failures[0].exception == "no dispatcher"


def test_a_suspended_job_that_never_ran_needs_no_restarts_to_begin() -> None:
    driver = JobDriver(pipeline(2))
    driver.start()
    driver.offer("a0")
    driver.tell(ev.Suspended("no dispatcher"))
    assert driver.held == {}
    driver.tell(ev.Resumed())
    driver.restored()
    for allocation in ("a1", "a2"):
        driver.offer(allocation)
    driver.ready_all()
    assert driver.master.status is JobStatus.RUNNING


def test_a_job_that_is_abandoned_ends_at_once_and_keeps_its_checkpoints() -> None:
    driver = running(pipeline(2, 2))
    driver.tell(ev.Abandoned("it was reported as failed"))
    assert (driver.master.status, driver.master.keeps_checkpoints) == (JobStatus.FAILED, True)
    assert driver.held == {}


def test_a_job_that_is_being_cancelled_is_cancelled_when_its_job_manager_may_not_act() -> None:
    driver = running(pipeline(2, 2))
    driver.cancel()
    driver.tell(ev.Suspended("no dispatcher"))
    assert driver.master.status is JobStatus.CANCELED


@pytest.mark.parametrize("starts", [False, True], ids=["while others are missing", "while its worker starts"])
def test_a_slot_that_was_freed_is_replaced(starts: bool) -> None:
    """The resource manager allocates another one, which the job has to accept."""
    driver = JobDriver(pipeline(2, 1), restart=FixedDelay(3, 1000))
    driver.start()
    driver.offer("a0")
    if starts:
        driver.offer("a1")
    driver.started.discard(AllocationId("a0"))
    driver.tell(ev.WorkerLost(AllocationId("a0"), "its task manager had freed the slot", slot_freed=True))
    driver.tick(1)
    assert not driver.master.holds(AllocationId("a0"))
    offered = driver.offer("a2") if starts else [*driver.offer("a1"), *driver.offer("a2")]
    assert all(response.accepted for response in of_type(offered, ev.RespondToOffer))
    assert len(of_type(offered, ev.StartWorker)) == (1 if starts else 2)
