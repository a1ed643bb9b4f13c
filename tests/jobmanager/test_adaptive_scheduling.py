"""A job that runs in the slots that there are: when it starts, what it does with more and with fewer, and how often."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_driver import JobDriver, of_type
from job_graphs import edge, job, pipeline, vertex
from msgspec.structs import replace

from millstream.core.errors import ConfigurationError
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.job_events import JobEventKind
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.core.settings.configuration import Configuration
from millstream.jobmanager.adaptive.bounds import Bounds, forward_groups, initial_requirements
from millstream.jobmanager.adaptive.fitting import fit, graph_at, in_words, least_slots, most_slots
from millstream.jobmanager.adaptive.scheduler import AdaptiveScheduler
from millstream.jobmanager.adaptive.settings import AdaptiveSettings, adaptive_settings
from millstream.jobmanager.failover.settings import FixedDelay
from millstream.jobmanager.job_master import events as ev

SETTINGS = AdaptiveSettings(
    wait_timeout_ms=60_000, stabilization_ms=10_000, cooldown_ms=30_000, executing_stabilization_ms=20_000
)
REACTIVE = AdaptiveSettings(True, None, 0, 30_000, 20_000)
RESTARTS = FixedDelay(attempts=10, delay_ms=0)


def parallelisms(driver: JobDriver) -> list[int]:
    return [vertex.parallelism for vertex in driver.master.graph.vertices]


def waiting(slots: int, settings: AdaptiveSettings = SETTINGS, graph: JobGraph | None = None) -> JobDriver:
    driver = JobDriver(graph or pipeline(4, 4, source=True), restart=RESTARTS, adaptive=settings)
    driver.start()
    driver.offer_missing(slots)
    return driver


def running(slots: int, settings: AdaptiveSettings = SETTINGS, graph: JobGraph | None = None) -> JobDriver:
    driver = waiting(slots, settings, graph)
    driver.tick(10)
    up(driver)
    assert driver.master.status is JobStatus.RUNNING
    return driver


def up(driver: JobDriver) -> None:
    """All workers are ready, and all tasks that are deployed run."""
    driver.tell(ev.EnumeratorsReadied())
    driver.ready_all()
    driver.run_tasks()


def test_with_all_slots_a_job_starts_at_once() -> None:
    driver = waiting(4)
    assert driver.declared == 4
    up(driver)
    assert driver.master.status is JobStatus.RUNNING
    assert parallelisms(driver) == [4, 4]


def test_with_fewer_slots_it_starts_when_no_more_have_come_for_a_while() -> None:
    driver = waiting(2)
    assert driver.enumerator_starts == 0
    assert driver.master.message.startswith("waiting for slots: 2 of 4")
    driver.tick(9)
    assert driver.started == set()
    assert driver.master.status is JobStatus.CREATED
    driver.tick(1)
    up(driver)
    assert driver.master.status is JobStatus.RUNNING
    assert parallelisms(driver) == [2, 2]
    assert driver.enumerator_starts == 1
    assert [event.kind for event in driver.master.events] == [JobEventKind.PARALLELISM_CHOSEN]


def test_without_any_slot_it_fails_after_the_wait_with_advice() -> None:
    driver = JobDriver(pipeline(2), adaptive=SETTINGS)
    driver.start()
    driver.tick(61)
    assert driver.master.status is JobStatus.FAILED
    assert "needs at least 1 slot and has 0 after waiting 60 s" in driver.master.failures[0].exception


def test_a_reactive_job_waits_without_a_limit_and_starts_in_the_first_slot() -> None:
    driver = JobDriver(pipeline(2), adaptive=REACTIVE)
    driver.start()
    assert driver.declared == 128
    driver.tick(100_000)
    assert driver.master.status is JobStatus.CREATED
    driver.offer("a0")
    up(driver)
    assert parallelisms(driver) == [1]


def test_slots_that_come_are_used_after_the_cooldown_when_they_have_stayed() -> None:
    driver = running(1)
    driver.offer_missing(1)
    driver.tick(29)
    assert driver.checkpoint_wanted is None
    driver.tick(2)
    driver.tick(19)
    assert not driver.master.is_rescaling
    driver.tick(2)
    up(driver)
    driver.checkpointed()
    driver.answer_cancels()
    driver.restored()
    up(driver)
    assert parallelisms(driver) == [2, 2]


def test_all_slots_that_it_can_use_are_used_at_once_after_the_cooldown() -> None:
    driver = running(1)
    driver.offer_missing(3)
    driver.tick(31)
    assert driver.master.is_rescaling


def test_a_task_manager_that_comes_and_goes_does_not_rescale_a_job() -> None:
    driver = running(1)
    driver.tick(40)
    for _ in range(20):
        driver.offer_missing(1, "tm2:1-a")
        driver.tick(15)
        driver.lose_task_manager("tm2:1-a")
        driver.tick(1)
    assert not driver.master.is_rescaling
    assert driver.master.restarts == 0


def test_a_lost_task_manager_leaves_a_job_at_a_lower_parallelism_from_its_last_checkpoint() -> None:
    driver = JobDriver(pipeline(2, 2, source=True), restart=RESTARTS, adaptive=SETTINGS)
    driver.start()
    driver.offer("a0", "tm1:1-a")
    driver.offer("a1", "tm2:1-a")
    up(driver)
    assert parallelisms(driver) == [2, 2]
    driver.lose_task_manager("tm2:1-a")
    assert driver.master.status is JobStatus.RESTARTING
    driver.answer_cancels()
    assert driver.restores == [], "it waits for another one"
    driver.tick(10)
    assert len(driver.restores[-1].subtasks) == 2
    driver.restored()
    up(driver)
    assert driver.master.status is JobStatus.RUNNING
    assert parallelisms(driver) == [1, 1]
    assert driver.declared == 2
    assert {e.attempt for e in driver.executions} == {1}


def test_a_slot_that_is_lost_before_the_tasks_are_deployed_is_not_waited_for_longer_than_others() -> None:
    driver = JobDriver(pipeline(2), restart=RESTARTS, adaptive=SETTINGS)
    driver.start()
    driver.offer("a0", "tm1:1-a")
    driver.offer("a1", "tm2:1-a")
    driver.lose_task_manager("tm2:1-a")
    driver.answer_cancels()
    driver.tick(10)
    driver.tick(10)
    driver.restored()
    up(driver)
    assert driver.master.status is JobStatus.RUNNING
    assert parallelisms(driver) == [1]


def test_bounds_that_change_are_followed() -> None:
    driver = running(4)
    driver.tick(31)
    driver.bound({"v0": (1, 2), "v1": (1, 2)}, waits=False)
    assert "accepted" in driver.rescales["t"].message
    assert driver.master.is_rescaling
    up(driver)
    driver.checkpointed()
    driver.answer_cancels()
    driver.restored()
    up(driver)
    assert parallelisms(driver) == [2, 2]
    assert (driver.declared, len(driver.held)) == (2, 2)


def test_the_parallelism_is_shown_in_short() -> None:
    graph = job([vertex("a", 4), vertex("b", 2), vertex("c", 1)])
    a, b, c = (v.id for v in graph.vertices)
    names = [v.name for v in graph.vertices]
    assert in_words(graph, {a: 3, b: 3, c: 1}) == "3", "what does not change is left out"
    assert in_words(graph, {a: 3, b: 1, c: 1}) == f"'{names[0]}': 3, '{names[1]}': 1"
    assert in_words(graph, {a: 4, b: 2, c: 1}) == "4", "nothing changes"
    assert in_words(job([]), {}) == "1"


def test_slots_are_dealt_out_to_sharing_groups() -> None:
    graph = job([vertex("a", 4), vertex("b", 2, "other")], [edge("a", "b", "HASH")])
    driver = running(4, graph=graph)
    assert parallelisms(driver) == [3, 1]


@given(
    widths=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    groups=st.lists(st.sampled_from(["x", "y"]), min_size=4, max_size=4),
    forward=st.lists(st.booleans(), min_size=3, max_size=3),
    slots=st.integers(0, 12),
)
def test_what_fits_is_within_its_bounds_and_into_the_slots_and_more_slots_are_never_worse(
    widths: list[int], groups: list[str], forward: list[bool], slots: int
) -> None:
    vertices = [replace(vertex(f"v{i}", width, groups[i]), max_parallelism=8) for i, width in enumerate(widths)]
    edges = [edge(f"v{i}", f"v{i + 1}", "FORWARD" if forward[i] else "HASH") for i in range(len(widths) - 1)]
    graph = job(vertices, edges)
    bounds = initial_requirements(graph, uses_all_slots=True)
    fitted, more = fit(graph, bounds, slots), fit(graph, bounds, slots + 1)
    assert (fitted is None) == (slots < least_slots(graph, bounds))
    if fitted is None or more is None:
        return
    assert graph_at(graph, fitted).slots_required() <= slots
    assert all(bounds[v].lower <= p <= bounds[v].upper for v, p in fitted.items())
    assert all(len({fitted[v] for v in group}) == 1 for group in forward_groups(graph))
    assert sum(more.values()) >= sum(fitted.values())
    if slots >= most_slots(graph, bounds):
        assert fitted == {v: bound.upper for v, bound in bounds.items()}


@given(
    changes=st.lists(st.tuples(st.integers(0, 30_000), st.booleans(), st.booleans()), max_size=40),
)
def test_a_running_job_is_never_rescaled_twice_within_the_cooldown(changes: list[tuple[int, bool, bool]]) -> None:
    scheduler, now, last = AdaptiveScheduler(SETTINGS), 0.0, 0.0
    scheduler.started(now)
    for passed, differs, all_there in changes:
        now += passed
        if scheduler.rescales(differs, all_there, now):
            assert differs
            assert now - last >= SETTINGS.cooldown_ms
            last = now
            scheduler.started(now)


def test_options_are_flinks_and_reactive_ones_have_defaults_of_their_own() -> None:
    assert adaptive_settings(Configuration()) is None
    adaptive = Configuration({"jobmanager.scheduler": "Adaptive"})
    assert adaptive_settings(adaptive) == AdaptiveSettings(False, 300_000, 10_000, 30_000, 60_000)
    reactive = adaptive.merged({"scheduler-mode": "REACTIVE"})
    assert adaptive_settings(reactive) == AdaptiveSettings(True, None, 0, 30_000, 60_000)
    prefix = "jobmanager.adaptive-scheduler"
    with pytest.warns(FutureWarning, match="submission"):
        given_too = reactive.merged({f"{prefix}.resource-wait-timeout": "1 min"})
    told = adaptive_settings(given_too)
    assert told is not None
    assert told.wait_timeout_ms == 60_000
    negative = adaptive.merged({f"{prefix}.submission.resource-wait-timeout": "-1"})
    told = adaptive_settings(negative)
    assert told is not None
    assert told.wait_timeout_ms is None


@pytest.mark.parametrize("other", [{}, {"jobmanager.scheduler": "adaptive", "resourcemanager.provider": "process"}])
def test_reactive_mode_where_it_cannot_be_is_refused(other: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="scheduler-mode"):
        adaptive_settings(Configuration({"scheduler-mode": "reactive", **other}))


def test_a_reactive_job_leaves_what_the_program_fixed() -> None:
    fixed, single = replace(vertex("a", 2), parallelism_fixed=True), replace(vertex("b", 1), non_parallel=True)
    bounds = initial_requirements(job([fixed, single, vertex("c", 1)]), uses_all_slots=True)
    assert list(bounds.values()) == [Bounds(1, 2), Bounds(1, 1), Bounds(1, 128)]


def test_tasks_that_cannot_be_deployed_twice_are_not() -> None:
    driver = running(2)
    deployed = len(driver.deployed)
    assert of_type(driver.tick(), ev.Deploy) == []
    assert len(driver.deployed) == deployed
    assert set(driver.states()) == {ExecutionState.RUNNING}


def test_other_bounds_end_a_rescale_whose_tasks_still_run_and_the_same_ones_do_not() -> None:
    driver = running(2)
    driver.tick(30)
    driver.offer_missing()
    driver.tick()
    assert driver.master.is_rescaling
    driver.bound({"v0": (1, 4), "v1": (1, 4)}, "same")
    assert (driver.master.is_rescaling, driver.rescales["same"].error) == (True, "")
    driver.bound({"v0": (1, 2), "v1": (1, 2)}, "other")
    assert (driver.master.is_rescaling, driver.declared, parallelisms(driver)) == (False, 2, [2, 2])


@pytest.mark.parametrize("lost", [1, 2])
def test_a_spare_slot_takes_the_place_of_one_that_was_lost(lost: int) -> None:
    graph = job([vertex("a", 2), vertex("b", 1, "other")], [edge("a", "b", "FORWARD")])
    driver = JobDriver(graph, restart=RESTARTS, adaptive=SETTINGS)
    driver.start()
    for number in (1, 2, 3):
        driver.offer(f"s{number}", f"tm{number}")
    up(driver)
    assert parallelisms(driver) == [1, 1], "both vertices go together, in slots of their own"
    driver.lose_task_manager(f"tm{lost}")
    driver.answer_cancels()
    driver.tick(10)
    driver.restored()
    up(driver)
    assert driver.master.status is JobStatus.RUNNING
    assert len(driver.held) == 2
