"""For how long a job is in its states."""

from __future__ import annotations

from millstream.core.jobs.states import JobStatus
from millstream.jobmanager.job_times import JobTimes


def test_times_of_states_are_current_and_in_total() -> None:
    times = JobTimes(JobStatus.CREATED, 1_000)
    times.observe(JobStatus.RUNNING, 1_500)
    times.observe(JobStatus.RUNNING, 1_800)
    told = times.gauges(2_500)
    assert (told["createdTime"], told["createdTimeTotal"]) == (0, 500)
    assert (told["runningTime"], told["runningTimeTotal"], told["uptime"], told["downtime"]) == (1000, 1000, 1000, 0)
    times.observe(JobStatus.RESTARTING, 3_000)
    told = times.gauges(3_400)
    assert (told["restartingTime"], told["downtime"], told["uptime"]) == (400, 400, 0)
    times.observe(JobStatus.RUNNING, 4_000)
    told = times.gauges(4_100)
    assert (told["uptime"], told["runningTimeTotal"], told["restartingTimeTotal"], told["downtime"]) == (
        100, 1600, 1000, 0,
    )  # fmt: skip


def test_a_job_that_has_ended_is_neither_up_nor_down() -> None:
    times = JobTimes(JobStatus.RUNNING, 0)
    times.observe(JobStatus.FAILING, 10)
    times.observe(JobStatus.FAILED, 20)
    told = times.gauges(1_000)
    assert (told["uptime"], told["downtime"], told["failingTimeTotal"]) == (-1, 0, 10)
