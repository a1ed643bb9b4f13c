"""The life of a job, one decision at a time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from job_driver import JobDriver, of_type
from job_graphs import edge, job, pipeline, vertex
from msgspec.structs import replace

from millstream.core.jobs.details import Accumulator, TaskMetrics
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.graph import JobGraph, SlotResources
from millstream.core.jobs.ids import NO_ALLOCATION, AllocationId, AttemptId, JobId, VertexId
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.core.messages.resource_manager import NOTHING, Resources
from millstream.core.messages.task_manager import AttemptMetrics, TaskMetricsReport, TaskUpdate
from millstream.jobmanager.job_master import events as ev
from millstream.jobmanager.job_master.details import job_details
from millstream.jobmanager.job_master.execution_graph import SlotKey
from millstream.jobmanager.job_master.job_failures import lost_failure
from millstream.jobmanager.job_master.job_slots import slot_needs

_S = ExecutionState


def waiting(graph: JobGraph, slot_timeout: float = 10.0) -> JobDriver:
    """For its slots."""
    driver = JobDriver(graph, slot_timeout)
    driver.start()
    return driver


# Slots


def test_a_job_begins_by_asking_for_its_slots() -> None:
    driver = JobDriver(pipeline(2, 3))
    assert driver.master.status is JobStatus.INITIALIZING
    assert driver.start() == [ev.DeclareSlots(3), ev.ReportDetails()]
    assert driver.master.status is JobStatus.CREATED
    assert set(driver.states()) == {_S.SCHEDULED}
    assert driver.master.message == "waiting for slots: 0 of 3"


def test_a_job_with_a_source_has_its_enumerators_started() -> None:
    effects = JobDriver(pipeline(1, source=True)).start()
    assert effects == [ev.DeclareSlots(1), ev.StartEnumerators(), ev.ReportDetails()]


def test_each_sharing_group_needs_the_slots_of_its_widest_vertex() -> None:
    graph = job([vertex("a", 2), vertex("b", 3), vertex("c", 2, "other")], [edge("a", "b", "HASH")])
    driver = JobDriver(graph)
    assert driver.master.slots_required == graph.slots_required() == 5


def test_slots_arrive_one_by_one() -> None:
    driver = waiting(pipeline(3))
    first = AllocationId("a0")
    assert driver.offer("a0", "tm1:1-a") == [ev.RespondToOffer(first, driver.held[first], True), ev.ReportDetails()]
    assert driver.master.message == "waiting for slots: 1 of 3"
    driver.offer("a1", "tm2:1-a")
    assert driver.master.message == "waiting for slots: 2 of 3"
    effects = driver.offer("a2", "tm1:1-a")
    assert driver.master.message == "starting slot workers"
    started = [(e.allocation_id, e.task_manager) for e in of_type(effects, ev.StartWorker)]
    assert started == [("a0", "tm1:1-a"), ("a1", "tm2:1-a"), ("a2", "tm1:1-a")]


def test_an_offer_that_comes_twice_is_taken_once() -> None:
    driver = waiting(pipeline(2))
    driver.offer("a0")
    assert driver.offer("a0") == [ev.RespondToOffer(AllocationId("a0"), driver.held[AllocationId("a0")], True)]
    assert len(driver.master.slots) == 1
    assert driver.master.message == "waiting for slots: 1 of 2"


def test_more_slots_than_needed_are_refused() -> None:
    driver = waiting(pipeline(1))
    driver.offer("a0")
    (response,) = driver.offer("a1")
    assert response == ev.RespondToOffer(AllocationId("a1"), response.task_manager, False)  # type: ignore[union-attr]


@pytest.mark.parametrize(("available", "shown"), [(0, 1), (1, 1), (2, 2)])
def test_the_message_has_the_slots_that_are_there_and_those_that_can_be_had(available: int, shown: int) -> None:
    driver = waiting(pipeline(3))
    driver.offer("a0")
    assert driver.tell(ev.NotEnoughSlots(available)) == [ev.ReportDetails()]
    assert driver.master.message == f"waiting for slots: {shown} of 3"


def test_the_message_has_the_slots_of_the_cluster_while_some_are_missing() -> None:
    driver = waiting(pipeline(2), slot_timeout=5)
    driver.tell(ev.NotEnoughSlots(0, ev.SlotSupply(free=1, total=4)))
    assert driver.master.message == "waiting for slots: 0 of 2 (1 free of 4 in the cluster)"
    details = job_details(driver.master)
    assert (details.slots_required, details.slots_held, details.slots_free, details.slots_total) == (2, 0, 1, 4)
    driver.tick(5)
    assert "1 free of 4 in the cluster" in driver.master.failures[0].exception


def test_the_message_of_a_job_whose_slots_are_larger_than_those_of_task_managers() -> None:
    graph = replace(pipeline(2), slot_resources=(SlotResources("default", 4.0, 2**30),))
    driver = JobDriver(graph, slot_timeout=5)
    driver.start()
    driver.tell(ev.NotEnoughSlots(0, ev.SlotSupply(free=4, total=4, too_small=4)))
    too_small = "4 free of 4 in the cluster, 4 of them on task managers that are too small"
    assert driver.master.message == f"waiting for slots: 0 of 2 ({too_small})"
    driver.tick(5)
    why = driver.master.failures[0].exception
    assert too_small in why
    assert "the slot sharing group 'default' requests 4 cores and 1024 mb of memory: start more or larger" in why


def test_what_the_slots_of_a_job_need_is_known_on_average_and_at_most() -> None:
    graph = job([vertex("a", 3), vertex("b", 1, "heavy"), vertex("c", 2, "heavy")])
    assert slot_needs(graph) == (NOTHING, NOTHING)
    graph = replace(graph, slot_resources=(SlotResources("heavy", 2.0, 1000), SlotResources("unused", 9.0, 9)))
    assert slot_needs(graph) == (Resources(0.8, 400), Resources(2.0, 1000))


def test_slots_that_are_not_enough_go_back_when_another_job_can_use_them() -> None:
    driver = waiting(pipeline(2))
    driver.offer("a0")
    effects = driver.tell(ev.SlotsReclaimed())
    assert [e.allocation_id for e in of_type(effects, ev.FreeSlot)] == ["a0"]
    assert (driver.master.message, driver.declared) == ("waiting for slots: 0 of 2", 2)
    driver.offer("a1")
    driver.offer("a2")
    assert driver.tell(ev.SlotsReclaimed()) == []


def test_news_about_slots_means_nothing_once_all_are_there() -> None:
    driver = waiting(pipeline(1))
    driver.offer("a0")
    assert driver.tell(ev.NotEnoughSlots(0)) == []
    assert driver.master.message == "starting slot workers"


def test_the_slot_timeout_names_what_the_job_has_and_needs() -> None:
    driver = waiting(pipeline(3), slot_timeout=2.5)
    driver.offer("a0")
    assert driver.tick(2.4) == []
    effects = driver.tick(0.1)
    assert effects[-1] == ev.JobEnded()
    assert driver.master.status is JobStatus.FAILED
    (failure,) = driver.master.failures
    assert failure.exception.startswith(
        "NotEnoughSlots: the job needs 3 slots and has 1 after waiting 2.5 s (slot.request.timeout)"
    )
    assert driver.freed == {"a0": 1}
    assert driver.declared == 0


def test_the_slot_timeout_is_over_once_all_slots_are_there() -> None:
    driver = waiting(pipeline(1), slot_timeout=2.5)
    driver.offer("a0")
    assert driver.tick(100) == []


def test_a_slot_that_is_lost_while_waiting_is_waited_for_again() -> None:
    driver = waiting(pipeline(3))
    driver.offer("a0", "tm1:1-a")
    driver.offer("a1", "tm2:1-a")
    effects = driver.lose_task_manager("tm1:1-a")
    assert [e.allocation_id for e in of_type(effects, ev.FreeSlot)] == ["a0"]
    assert driver.master.status is JobStatus.CREATED
    assert driver.master.message == "waiting for slots: 1 of 3"
    assert driver.declared == 3
    driver.offer("a2")
    driver.offer("a3")
    assert driver.master.message == "starting slot workers"


# Workers and deployment


def test_progress_of_an_install_is_shown_until_the_job_runs() -> None:
    driver = waiting(pipeline(1))
    driver.offer("a0")
    progress = ev.WorkerProgressed(AllocationId("a0"), "installing numpy")
    assert driver.tell(progress) == [ev.ReportDetails()]
    assert driver.master.message == "installing numpy"
    assert driver.tell(ev.WorkerProgressed(AllocationId("unknown"), "x")) == []
    driver.ready("a0")
    assert driver.master.message == ""
    assert driver.tell(progress) == []


def test_tasks_are_deployed_when_every_worker_is_ready() -> None:
    driver = waiting(pipeline(2, 2))
    driver.give_slots()
    assert driver.ready("a1") == []
    effects = driver.ready("a0")
    assert driver.master.status is JobStatus.RUNNING
    assert set(driver.states()) == {_S.DEPLOYING}
    deployed = {e.allocation_id: [t.task_name for t in e.tasks] for e in of_type(effects, ev.Deploy)}
    assert deployed == {"a0": ["v0 (1/2)", "v1 (1/2)"], "a1": ["v0 (2/2)", "v1 (2/2)"]}


@pytest.mark.parametrize("enumerators_first", [True, False])
def test_deployment_waits_for_the_enumerators(enumerators_first: bool) -> None:
    driver = waiting(pipeline(1, source=True))
    driver.give_slots()
    steps: list[Callable[[], list[ev.Effect]]] = [
        lambda: driver.tell(ev.EnumeratorsReadied()),
        lambda: driver.ready("a0"),
    ]
    first, second = steps if enumerators_first else reversed(steps)
    assert first() == []
    assert len(of_type(second(), ev.Deploy)) == 1


def test_enumerators_that_are_ready_before_the_slots_deploy_nothing() -> None:
    driver = waiting(pipeline(1, source=True))
    assert driver.tell(ev.EnumeratorsReadied()) == []


def test_a_worker_that_reports_ready_twice_is_deployed_to_once() -> None:
    driver = JobDriver(pipeline(1))
    driver.deploy()
    assert driver.ready("a0") == []


# Ends


def test_a_job_finishes_with_its_last_task() -> None:
    driver = JobDriver(pipeline(2, 1))
    driver.run(task_managers=2)
    first, second, third = driver.executions
    assert driver.update(first, _S.FINISHED) == [ev.ReportDetails()]
    driver.update(third, _S.FINISHED)
    assert driver.master.status is JobStatus.RUNNING
    effects = driver.update(second, _S.FINISHED)
    assert effects[0] == ev.DeclareSlots(0)
    assert ev.JobEnded() in effects
    assert driver.master.status is JobStatus.FINISHED
    assert driver.freed == {"a0": 1, "a1": 1}


def test_a_task_may_finish_before_it_reported_that_it_runs() -> None:
    driver = JobDriver(pipeline(1))
    driver.deploy()
    driver.update(driver.executions[0], _S.FINISHED)
    assert driver.master.status is JobStatus.FINISHED


def test_a_failure_cancels_the_rest_and_frees_all_slots() -> None:
    driver = JobDriver(pipeline(2))
    driver.run(task_managers=2)
    first, second = driver.executions
    effects = driver.update(first, _S.FAILED, "ValueError: bad record")
    assert effects[0] == ev.DeclareSlots(0)
    assert [e.attempts for e in of_type(effects, ev.CancelTasks)] == [(second.attempt_id,)]
    assert driver.master.status is JobStatus.FAILING
    assert driver.states() == [_S.FAILED, _S.CANCELING]
    assert not driver.freed
    driver.update(second, _S.CANCELED)
    assert driver.master.status is JobStatus.FAILED
    assert driver.freed == {"a0": 1, "a1": 1}
    (failure,) = driver.master.failures
    assert (failure.exception, failure.task_manager) == ("ValueError: bad record", "tm1:1-a")


def test_the_root_cause_comes_before_its_echoes() -> None:
    driver = JobDriver(pipeline(3))
    driver.run(task_managers=3)
    first, second, third = driver.executions
    driver.update(first, _S.FAILED, "PeerLostError: lost v0 (2/3)")
    driver.update(second, _S.FAILED, "PeerLostError: lost v0 (3/3)")
    driver.lose_worker("a2", "killed by SIGKILL")
    (failure,) = driver.master.failures
    assert [f.exception for f in (failure, *failure.concurrent)] == [
        "SlotLost: killed by SIGKILL",
        "PeerLostError: lost v0 (2/3)",
        "PeerLostError: lost v0 (3/3)",
    ]
    assert third.state is _S.CANCELED


@pytest.mark.parametrize("stage", ["created", "slots", "workers", "deployed", "running", "failing"])
def test_an_enumerator_that_fails_fails_the_job(stage: str) -> None:
    driver = _at(stage, pipeline(2, source=True))
    driver.tell(ev.EnumeratorsFailed(TaskFailure(exception="OSError: no such file")))
    driver.answer_cancels()
    assert driver.master.status is JobStatus.FAILED
    (failure,) = driver.master.failures
    expected = ["ValueError: bad"] if stage == "failing" else []
    assert [f.exception for f in (failure, *failure.concurrent)] == [*expected, "OSError: no such file"]


# Cancelling


def _at(stage: str, graph: JobGraph | None = None) -> JobDriver:
    driver = JobDriver(graph or pipeline(2))
    if stage != "initializing":
        driver.start()
    match stage:
        case "slots":
            driver.offer("a0")
        case "workers":
            driver.give_slots(2)
        case "deployed":
            driver.deploy(2)
        case "running":
            driver.run(2)
        case "partly finished":
            driver.run(2)
            driver.update(driver.executions[0], _S.FINISHED)
        case "failing":
            driver.run(2)
            driver.update(driver.executions[0], _S.FAILED)
        case "cancelling":
            driver.run(2)
            driver.cancel()
    return driver


STAGES = ["created", "slots", "workers", "deployed", "running", "partly finished", "failing", "cancelling"]


@pytest.mark.parametrize("stage", ["initializing", *STAGES])
def test_a_job_can_be_cancelled_in_every_state(stage: str) -> None:
    driver = _at(stage)
    again = driver.cancel()
    assert stage != "cancelling" or again == [], "the tasks are told once"
    driver.answer_cancels()
    assert driver.master.status is JobStatus.CANCELED
    assert driver.master.failures == () or stage == "failing"
    assert driver.ended
    assert driver.cancel() == []


@pytest.mark.parametrize("response", [_S.CANCELED, _S.FINISHED, _S.FAILED])
def test_however_the_tasks_of_a_cancelled_job_end_it_is_cancelled(response: ExecutionState) -> None:
    driver = _at("running")
    effects = driver.cancel()
    assert len(of_type(effects, ev.CancelTasks)) == 2
    for execution in driver.executions:
        driver.update(execution, response)
    assert driver.master.status is JobStatus.CANCELED
    assert driver.master.failures == ()


def test_a_task_that_reports_running_late_stays_cancelling() -> None:
    driver = _at("deployed")
    driver.cancel()
    assert driver.update(driver.executions[0], _S.RUNNING) == []
    assert driver.executions[0].state is _S.CANCELING


# Losses


@pytest.mark.parametrize("stage", ["workers", "deployed", "running", "partly finished"])
def test_a_lost_worker_fails_the_job(stage: str) -> None:
    driver = _at(stage)
    driver.lose_worker("a1", "killed by SIGSEGV")
    driver.answer_cancels()
    assert driver.master.status is JobStatus.FAILED
    failure = driver.master.failures[0]
    assert failure.exception == "SlotLost: killed by SIGSEGV"
    assert (failure.task_name, failure.subtask) == ("v0 (2/2)", 1)
    assert failure.task_manager == "tm2:1-a"


def test_the_slot_of_a_lost_worker_goes_back_before_the_others() -> None:
    driver = _at("running")
    effects = driver.lose_worker("a1")
    assert [e.allocation_id for e in of_type(effects, ev.FreeSlot)] == ["a1"]
    assert of_type(driver.update(driver.executions[0], _S.CANCELED), ev.FreeSlot)[0].allocation_id == "a0"


@pytest.mark.parametrize("stage", ["failing", "cancelling"])
def test_a_worker_lost_while_the_job_ends_ends_its_tasks(stage: str) -> None:
    driver = _at(stage)
    driver.lose_worker("a1")
    driver.answer_cancels()
    assert driver.master.status is (JobStatus.FAILED if stage == "failing" else JobStatus.CANCELED)
    assert bool(driver.master.failures) is (stage == "failing"), "also if it was killed for not cancelling in time"
    assert driver.execution("v0", 1).state is _S.CANCELED


@pytest.mark.parametrize("stage", STAGES)
def test_every_task_manager_may_be_lost_in_every_state(stage: str) -> None:
    driver = _at(stage)
    waiting = stage in ("created", "slots")
    for task_manager in ("tm1:1-a", "tm2:1-a"):
        driver.lose_task_manager(task_manager)
    if waiting:
        assert driver.master.status is JobStatus.CREATED
        driver.tick(10)
    driver.answer_cancels()
    assert driver.ended
    assert driver.master.status is (JobStatus.CANCELED if stage == "cancelling" else JobStatus.FAILED)


def test_a_lost_task_manager_is_named() -> None:
    driver = _at("running")
    driver.lose_task_manager("tm2:1-a", "no heartbeat for 50 s")
    expected = "SlotLost: task manager tm2:1-a was lost: no heartbeat for 50 s"
    assert driver.master.failures[0].exception == expected
    assert driver.states() == [_S.CANCELING, _S.FAILED]


def test_all_tasks_of_a_lost_worker_are_named_up_to_a_number() -> None:
    driver = JobDriver(pipeline(1, 1))
    driver.run(task_managers=1)
    driver.lose_worker("a0", "killed by SIGKILL")
    failure = driver.master.failures[0]
    assert failure.exception == "SlotLost: killed by SIGKILL. Its tasks: v0 (1/1), v1 (1/1)"
    many = lost_failure(JobId("j"), "killed", 0, "tm", [driver.executions[0]] * 20)
    assert many.exception.endswith("v0 (1/1) and 12 more")


def test_a_task_manager_without_slots_of_the_job_is_no_loss() -> None:
    driver = _at("running")
    assert driver.lose_task_manager("another:1-a") == []
    assert driver.lose_worker("another") == []


# What comes late


@pytest.mark.parametrize("end", ["finished", "failed", "cancelled"])
def test_after_the_end_only_offers_get_a_response(end: str) -> None:
    driver = _at("running")
    first, second = driver.executions
    if end == "cancelled":
        driver.cancel()
    driver.update(first, _S.FAILED if end == "failed" else _S.FINISHED)
    driver.update(second, _S.FINISHED)
    assert driver.ended
    status, details = driver.master.status, job_details(driver.master)
    (refusal,) = driver.offer("late")
    assert isinstance(refusal, ev.RespondToOffer)
    assert not refusal.accepted
    late: list[ev.Event] = [
        ev.NotEnoughSlots(0),
        ev.WorkerProgressed(AllocationId("a0"), "x"),
        ev.WorkerReadied(AllocationId("a0"), "x"),
        ev.EnumeratorsReadied(),
        ev.EnumeratorsFailed(TaskFailure(exception="late")),
        ev.CancelRequested(),
        ev.Tick(),
        ev.MetricsReported(TaskMetricsReport(NO_ALLOCATION)),
    ]
    for event in late:
        assert driver.tell(event) == []
    for state in ExecutionState:
        assert driver.update(first, state) == []
    assert driver.lose_worker("a0") == driver.lose_task_manager("tm1:1-a") == driver.tick(1000) == []
    assert driver.master.status is status
    assert job_details(driver.master) == details


def test_updates_of_unknown_attempts_and_repeated_ones_are_ignored() -> None:
    driver = _at("running")
    assert driver.tell(ev.TaskChanged(TaskUpdate(NO_ALLOCATION, AttemptId("unknown"), ExecutionState.FAILED))) == []
    assert driver.update(driver.executions[0], _S.RUNNING) == []
    assert driver.update(driver.executions[0], _S.INITIALIZING) == []
    driver.update(driver.executions[0], _S.FINISHED)
    assert driver.update(driver.executions[0], _S.FINISHED) == []
    assert driver.update(driver.executions[0], _S.FAILED) == []
    assert driver.master.status is JobStatus.RUNNING


# What others see


def test_details_show_states_places_and_times() -> None:
    driver = JobDriver(pipeline(1, 2))
    driver.deploy(2)
    date = driver.instant.date_ms
    driver.now += 5
    driver.update(driver.executions[0], _S.RUNNING)
    details = job_details(driver.master)
    assert (details.job_id, details.name, details.state) == ("job", "the job", "RUNNING")
    assert (details.start_time, details.end_time) == (date, 0)
    assert (details.slots_required, details.slots_held) == (2, 2)
    assert [v.id for v in details.vertices] == ["v0", "v1"]
    (first,) = details.vertices[0].subtasks
    assert (first.state, first.task_manager, first.host) == ("RUNNING", "tm1:1-a", "host")
    assert first.state_times["RUNNING"] == date + 5
    assert (first.start_time, first.end_time) == (date, 0)
    (incoming,) = details.plan[1].inputs
    assert (incoming.id, incoming.ship_strategy) == ("v0", "HASH")
    assert dict(details.configuration) == {"parallelism.default": "2"}
    assert not details.accumulators


def test_metrics_and_accumulators_are_taken_over() -> None:
    driver = _at("running")
    first, second = driver.executions
    running = AttemptMetrics(first.attempt_id, TaskMetrics(records_in=3))
    unknown = AttemptMetrics(AttemptId("unknown"))
    assert driver.tell(ev.MetricsReported(TaskMetricsReport(NO_ALLOCATION, (unknown, running)))) == []
    assert job_details(driver.master).vertices[0].subtasks[0].metrics.records_in == 3
    accumulator = Accumulator(name="seen", kind="IntCounter", value=b"x")
    metrics = TaskMetrics(records_in=7)
    driver.update(first, _S.FINISHED, accumulators=[accumulator], metrics=metrics)
    driver.update(second, _S.FINISHED, accumulators=[accumulator])
    details = job_details(driver.master)
    assert details.vertices[0].subtasks[0].metrics.records_in == 7
    assert [(a.name, a.value) for a in details.accumulators] == [("seen", b"x")] * 2
    assert [(a.vertex_id, a.subtask) for a in details.accumulators] == [
        (execution.vertex.id, execution.subtask) for execution in (first, second)
    ]
    assert details.end_time == driver.instant.date_ms


def test_messages_find_a_subtask_while_it_runs() -> None:
    driver = waiting(pipeline(1, 2))
    assert driver.master.place_of(VertexId("v1"), 1) is None
    driver.give_slots(2)
    driver.ready("a0")
    driver.ready("a1")
    place = driver.master.place_of(VertexId("v1"), 1)
    assert place == ("tm2:1-a", "a1", driver.execution("v1", 1))
    assert driver.master.collector_of("v0-tail") == ("tm1:1-a", "a0", driver.execution("v0"))
    assert driver.master.collector_of("unknown") is None
    assert driver.master.place_of(VertexId("unknown"), 0) is None
    assert driver.master.place_of(VertexId("v1"), 2) is None
    driver.update(driver.execution("v1", 1), _S.FINISHED)
    assert driver.master.place_of(VertexId("v1"), 1) is None


def test_slots_are_slices_of_a_group() -> None:
    graph = job([vertex("a", 1), vertex("b", 2), vertex("c", 1, "other")])
    driver = JobDriver(graph)
    driver.run()
    slices = {k: [e.name for e in driver.master.execution_graph.in_slice(k)] for k in driver.master.slots}
    assert slices == {
        SlotKey("default", 0): ["a (1/1)", "b (1/2)"],
        SlotKey("default", 1): ["b (2/2)"],
        SlotKey("other", 0): ["c (1/1)"],
    }
    assert driver.master.execution_graph.by_attempt(AttemptId("none")) is None
