"""The history of a job's rescales: why each began, its steps, and what came of it."""

from __future__ import annotations

from job_driver import JobDriver
from job_graphs import pipeline

from millstream.core.jobs.rescales import MOST_RESCALES, RescaleCause, RescaleEnd, RescaleHistory, rescale_records
from millstream.core.jobs.states import JobStatus
from millstream.jobmanager.adaptive.settings import AdaptiveSettings, RescaleSettings
from millstream.jobmanager.job_master import events as ev
from millstream.jobmanager.job_master.details import job_details


def running(parallelism: int = 1, **settings: float) -> JobDriver:
    rescaling = RescaleSettings(**settings) if settings else None  # type: ignore[arg-type]  # numbers are numbers
    driver = JobDriver(pipeline(parallelism, parallelism, source=True), rescaling=rescaling)
    driver.run()
    return driver


def rescaled(driver: JobDriver, parallelism: int) -> None:
    driver.rescale(parallelism)
    driver.offer_missing()
    driver.ready_all()
    driver.tick()
    driver.checkpointed()
    driver.answer_cancels()
    driver.restored()
    driver.run_tasks()


def told(driver: JobDriver) -> list[tuple[RescaleCause, RescaleEnd | None]]:
    return [(one.cause, one.end) for one in rescale_records(job_details(driver.master).rescales)]


STARTED = (RescaleCause.INITIAL_SCHEDULE, RescaleEnd.SUCCEEDED)


def test_the_first_start_and_a_rescale_with_its_steps() -> None:
    driver = running(1)
    assert told(driver) == [STARTED]
    rescaled(driver, 2)
    assert told(driver) == [STARTED, (RescaleCause.UPDATE_REQUIREMENT, RescaleEnd.SUCCEEDED)]
    first, last = rescale_records(job_details(driver.master).rescales)
    assert [(v.before, v.desired, v.after) for v in first.vertices] == [(0, 1, 1)] * 2
    assert [(v.before, v.desired, v.after, v.lowest, v.highest) for v in last.vertices] == [(1, 2, 2, 1, 2)] * 2
    assert [step.state for step in last.steps] == [
        "WaitingForResources", "Executing", "Restarting", "CreatingExecutionGraph",
    ]  # fmt: skip
    assert all(step.left_ms for step in last.steps)
    assert last.steps[0].entered_ms == last.started_ms
    assert last.steps[-1].left_ms == last.ended_ms
    assert (first.number, last.number) == (1, 2)
    assert first.requirements != last.requirements


def test_a_rescale_that_fails_leaves_the_parallelism_and_has_a_reason() -> None:
    driver = running(1, slot_timeout_ms=1_000)
    driver.rescale(3)
    driver.tick(2)
    assert told(driver)[-1] == (RescaleCause.UPDATE_REQUIREMENT, RescaleEnd.EXCEPTION_OCCURRED)
    last = rescale_records(job_details(driver.master).rescales)[-1]
    assert [(v.before, v.desired, v.after) for v in last.vertices] == [(1, 3, 1)] * 2
    assert "slots after 1 s" in last.steps[-1].error


def test_a_rescale_gives_way_to_the_next_one() -> None:
    driver = running(1)
    driver.rescale(3)
    driver.rescale(2, "u")
    assert told(driver)[1:] == [
        (RescaleCause.UPDATE_REQUIREMENT, RescaleEnd.RESOURCE_REQUIREMENTS_UPDATED),
        (RescaleCause.UPDATE_REQUIREMENT, None),
    ]


def test_a_job_that_ends_ends_its_rescale() -> None:
    driver = JobDriver(pipeline(1, 1, source=True))
    driver.start()
    driver.cancel()
    assert driver.master.status is JobStatus.CANCELED
    assert told(driver) == [(RescaleCause.INITIAL_SCHEDULE, RescaleEnd.JOB_CANCELED)]


def test_only_the_last_ones_are_kept() -> None:
    history, graph = RescaleHistory(), pipeline(1, 1)
    for _ in range(MOST_RESCALES + 5):
        history.begin(RescaleCause.UPDATE_REQUIREMENT, graph, graph, {}, 1)
    records = rescale_records(history.encoded)
    assert (len(records), records[-1].number) == (MOST_RESCALES, MOST_RESCALES + 5)
    assert len({one.id for one in records}) == MOST_RESCALES
    assert len(history.encoded) < 32_000, "it travels with every report"


def test_an_adaptive_job_that_gets_more_slots() -> None:
    settings = AdaptiveSettings(wait_timeout_ms=1_000, stabilization_ms=0, cooldown_ms=0, executing_stabilization_ms=0)
    driver = JobDriver(pipeline(2, 2, source=True), adaptive=settings)
    driver.start()
    driver.offer("a0")
    driver.tick(2)
    driver.tell(ev.EnumeratorsReadied())
    driver.ready_all()
    driver.run_tasks()
    assert told(driver)[-1] == STARTED
    assert [v.after for v in rescale_records(job_details(driver.master).rescales)[-1].vertices] == [1, 1]
    driver.offer("a1")
    driver.tick(2)
    assert told(driver)[-1] == (RescaleCause.NEW_RESOURCE_AVAILABLE, None)
