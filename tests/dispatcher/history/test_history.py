"""The last hour of jobs out of their reports: rates, gaps, bounds, and an empty one after a change of leader."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from millstream.core.clock import ManualClock
from millstream.core.jobs.details import JobDetails, SubtaskStatus, TaskMetrics, VertexStatus
from millstream.core.jobs.ids import JobId, VertexId
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.core.metrics.model import MetricGroup, Scope, encode_groups
from millstream.dispatcher.history.history import HOUR, MOST_FIGURES, MOST_JOBS, MOST_WATCHED, History
from millstream.dispatcher.history.job_history import MOST_SUBTASKS, WHOLE, weight
from millstream.dispatcher.history.recorder import HistoryRecorder
from millstream.dispatcher.history.rings import RING_BYTES
from millstream.dispatcher.metrics.fetcher import MetricFetcher

JOB = JobId("j" * 32)
V = VertexId("v")


def job(
    seconds: float, job_id: JobId = JOB, state: JobStatus = JobStatus.RUNNING, parallelism: int = 2, lag_ms: int = 500
) -> JobDetails:
    """One that has run for so long: subtask n takes 10 * (n + 1) records a second, is busy for 30 % of its time."""

    def metrics(n: int) -> TaskMetrics:
        ms = round(seconds * 1000)
        return TaskMetrics(
            records_in=round(10 * (n + 1) * seconds),
            records_out=round(5 * seconds),
            busy_ms=ms * 3 // 10,
            backpressured_ms=ms // 10,
            idle_ms=ms * 6 // 10,
            output_watermark=ms - lag_ms * (n + 1),
        )

    running = ExecutionState.RUNNING
    subtasks = tuple(SubtaskStatus(n, running, metrics=metrics(n)) for n in range(parallelism))
    return JobDetails(job_id, "job", state, vertices=(VertexStatus(V, "V", parallelism, 128, subtasks=subtasks),))


def after(*jobs_at: tuple[int, list[JobDetails]]) -> History:
    history = History(0, 0)
    for slot, jobs in jobs_at:
        history.tick(slot, slot * 2000, jobs)
    return history


def of(history: History, figure: str, subtask: int = WHOLE, job_id: JobId = JOB) -> list[float | None]:
    kept = history.job(job_id)
    assert kept is not None
    return kept.values((V, subtask), figure, history.axis(kept.first))


def test_rates_of_vertices_and_subtasks() -> None:
    history = after(*((slot, [job(slot * 2.0)]) for slot in range(10, 20)))
    assert of(history, "records-in") == [None] + [30.0] * 9
    assert of(history, "records-in", 0) == [None] + [10.0] * 9
    assert of(history, "records-in", 1) == [None] + [20.0] * 9
    assert of(history, "records-out") == [None] + [10.0] * 9
    assert of(history, "busy")[1:] == pytest.approx([0.3] * 9, abs=0.01)
    assert of(history, "backpressured")[1:] == pytest.approx([0.1] * 9, abs=0.01)
    assert of(history, "watermark-lag")[1:] == [1000.0] * 9, "of the slowest subtask"
    assert of(history, "records-in", 2) == [None] * 10, "there is no such subtask"


def test_times_are_those_of_the_slots() -> None:
    history = after(*((slot, [job(slot * 2.0)]) for slot in range(10, 13)))
    assert history.times(history.axis(10)) == [20_000, 22_000, 24_000]


def test_what_is_not_reported_is_a_gap() -> None:
    same = job(20)
    reports = [(10, job(18)), (11, same), (12, same), (13, same), (14, same), (15, same), (16, job(32)), (17, job(34))]
    history = after(*((slot, [details]) for slot, details in reports))
    values = of(history, "records-in")
    assert values[1] == 30.0
    assert values[4] is None
    assert values[5] is None
    assert values[-1] is not None


def test_a_task_that_does_not_report_is_a_gap() -> None:
    """As one whose function never returns: the reports of its job repeat its totals."""

    def report(slot: int) -> JobDetails:
        details = job(slot * 2.0)
        (vertex,) = details.vertices
        silent = job(20).vertices[0].subtasks[0]
        return replace(details, vertices=(replace(vertex, subtasks=(silent, *vertex.subtasks[1:])),))

    history = after(*((slot, [report(slot)]) for slot in range(10, 15)))
    for figure in ("records-in", "busy"):
        assert of(history, figure, 0) == [None] * 5
    assert of(history, "records-in", 1) == [None] + [20.0] * 4
    assert of(history, "records-in") == [None] + [20.0] * 4


def test_a_restart_is_a_gap_and_no_rate_is_negative() -> None:
    running = [(slot, [job(slot * 2.0)]) for slot in range(10, 14)]
    away = [(slot, [job(0, state=JobStatus.RESTARTING)]) for slot in range(14, 17)]
    again = [(slot, [job((slot - 17) * 2.0)]) for slot in range(17, 21)]
    values = of(after(*running, *away, *again), "records-in")
    assert values[4:8] == [None] * 4
    assert values[8:] == [30.0] * 3
    sudden = after((10, [job(100)]), (11, [job(1)]))
    assert of(sudden, "records-in") == [None, 0.0]


def test_an_ended_job_is_kept_for_an_hour_and_a_forgotten_one_is_not() -> None:
    history = after((10, [job(1)]), (11, [job(3)]), (12, [job(3, state=JobStatus.FINISHED)]))
    kept = history.job(JOB)
    assert kept is not None
    assert kept.ended == 12
    history.tick(12 + HOUR - 1, 0, [job(3, state=JobStatus.FINISHED)])
    assert history.job(JOB) is kept
    history.tick(12 + HOUR, 0, [job(3, state=JobStatus.FINISHED)])
    assert history.job(JOB) is None
    history = after((10, [job(1)]), (11, []))
    assert history.job(JOB) is None


def test_as_many_figures_as_there_is_room_for() -> None:
    wide = MOST_SUBTASKS
    each = weight(job(1, parallelism=wide))
    ids = [JobId(f"{number:032x}") for number in range(MOST_FIGURES // each + 3)]
    jobs = [job(1, job_id, parallelism=wide) for job_id in ids]
    history = after((1, jobs))
    kept = [job_id for job_id in ids if history.job(job_id) is not None]
    assert kept == ids[: MOST_FIGURES // each], "those that came first"
    ended = [job(1, ids[0], JobStatus.FINISHED, wide), *jobs[1:]]
    history.tick(2, 4000, ended)
    history.tick(3, 6000, ended)
    assert history.job(ids[0]) is None, "one that has ended makes room"
    assert history.job(ids[len(kept)]) is not None
    assert MOST_FIGURES * RING_BYTES < 16_000_000


def test_many_small_jobs_and_a_wide_one() -> None:
    ids = [JobId(f"{number:032x}") for number in range(MOST_JOBS + 5)]
    history = after((1, [job(1, job_id) for job_id in ids]))
    assert sum(history.job(job_id) is not None for job_id in ids) == MOST_JOBS
    history = after(*((slot, [job(slot * 2.0, parallelism=MOST_SUBTASKS + 1)]) for slot in range(10, 13)))
    assert of(history, "records-out")[1:] == [5.0 * (MOST_SUBTASKS + 1)] * 2
    assert of(history, "records-out", 0) == [None] * 3, "of so many subtasks, only the sum is kept"


def test_watched_metrics_are_bounded_and_forgotten_after_an_hour() -> None:
    history = after((10, [job(1)]))
    place = (JOB, str(V))
    history.watch(place, ["0.size"])
    history.tick(11, 22_000, [job(3)])
    history.put(place, {"0.size": 7, "0.other": 1})
    found = history.watched_values(place, "0.size")
    assert found is not None
    assert found[1].at(history.axis(10)) == [None, 7.0]
    history.watch(place, [f"{number}.size" for number in range(MOST_WATCHED + 10)])
    assert history.watched_values(place, f"{MOST_WATCHED - 1}.size") is not None
    assert history.watched_values(place, f"{MOST_WATCHED}.size") is None
    history.tick(20, 0, [job(3)])
    history.watch(place, ["3.size"])
    history.tick(11 + HOUR, 0, [job(3)])
    assert history.watched_values(place, "0.size") is None
    assert history.watched_values(place, "3.size") is not None
    history.tick(12 + HOUR, 0, [job(3, state=JobStatus.CANCELED)])
    assert history.watched == []


class Jobs:
    """Of a dispatcher that leads, unless a test changes it."""

    def __init__(self) -> None:
        self.leads = True
        self.known: list[JobDetails] = []

    def all(self) -> list[JobDetails]:
        assert self.leads
        return self.known


class Cluster:
    """One task manager, and how often its metrics were fetched."""

    def __init__(self) -> None:
        self.fetched = 0

    async def processes(self) -> list[str]:
        return ["tm:1"]

    async def metrics(self, address: str) -> bytes:
        self.fetched += 1
        variables = {"job_id": JOB, "task_id": str(V), "subtask_index": "1", "task_attempt_num": "0"}
        return encode_groups([MetricGroup(Scope.TASK, variables, gauges={"queue": 40 + self.fetched})])


async def test_a_dispatcher_that_leads_again_begins_an_empty_history() -> None:
    clock, jobs, cluster = ManualClock(1_000_000), Jobs(), Cluster()
    recorder = HistoryRecorder(jobs, MetricFetcher(1.0, cluster.processes, cluster.metrics, clock), clock)
    for seconds in range(0, 20, 2):
        jobs.known = [job(seconds)]
        await recorder.record()
        clock.advance(2.0)
    first: History = recorder.history
    assert first.since_ms == 1_000_000
    assert first.job(JOB) is not None
    jobs.leads = False
    await recorder.record()
    assert recorder.history.job(JOB) is None
    clock.advance(100.0)
    await recorder.record()
    jobs.leads = True
    clock.advance(2.0)
    await recorder.record()
    kept = recorder.history.job(JOB)
    assert kept is not None
    assert recorder.history.since_ms == 1_000_000 + 20_000 + 100_000
    assert len(recorder.history.axis(kept.first)) == 1
    assert cluster.fetched == 0, "nothing is watched"


async def test_watched_metrics_are_fetched_now_and_then() -> None:
    clock, jobs, cluster = ManualClock(1_000_000), Jobs(), Cluster()
    fetcher = MetricFetcher(1.0, cluster.processes, cluster.metrics, clock)
    recorder = HistoryRecorder(jobs, fetcher, clock)
    jobs.known = [job(1)]
    place = (JOB, str(V))
    recorder.history.watch(place, ["1.queue", "7.queue"])
    for _ in range(10):
        clock.advance(2.0)
        await recorder.record()
    await fetcher.close()
    found = recorder.history.watched_values(place, "1.queue")
    assert found is not None
    first, ring = found
    values = ring.at(recorder.history.axis(first))
    assert values[1:] == [41.0] * 5 + [42.0] * 5, "each stands until the next is fetched"
    assert cluster.fetched == 2
    other = recorder.history.watched_values(place, "7.queue")
    assert other is not None
    assert set(other[1].at(recorder.history.axis(first))) == {None}
