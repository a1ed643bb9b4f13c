"""The real dispatcher, resource manager, job managers and task managers, under thousands of schedules of faults.

They run on a virtual clock and a virtual network (`simulation.py`), with a store and a disk that they share and child
processes that are simulated. `make simulate SEEDS=n` runs one schedule again, and prints the story of one that fails.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from faults import FAULTS, STORE_FAULTS
from schedules import run_all
from shapes import LONG, SHORT, STANDBYS, UNREACHED, Shape
from simulation import Outcome, simulate
from thoroughness import cases

from millstream.core.jobs.states import JobStatus

CHUNKS = 20
SCHEDULES = 10_000
SAMPLE = 100
SHAPES = pytest.mark.parametrize("shape", [SHORT, STANDBYS], ids=["short", "standbys"])


def schedules(full: int) -> int:
    """All of them, or one in sixteen in daily runs."""
    return full if cases(full) == full else full // 16


def test_without_faults_every_job_finishes_or_lacks_slots(tmp_path: Path) -> None:
    runs = run_all(range(10), str(tmp_path), replace(LONG, steps=30, fault_rate=0.0))
    ends = Counter(end for run in runs for end in run.ends)
    assert set(ends) <= {JobStatus.FINISHED, JobStatus.FAILED}
    assert ends[JobStatus.FINISHED] > ends[JobStatus.FAILED]


@SHAPES
def test_a_sample_of_short_schedules(tmp_path: Path, shape: Shape) -> None:
    check_that_all_happens(run_all(range(SAMPLE), str(tmp_path), shape), shape)


@pytest.mark.slow
@SHAPES
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_ten_thousand_short_schedules(tmp_path: Path, chunk: int, shape: Shape) -> None:
    each = SCHEDULES // CHUNKS // 2
    check_that_all_happens(run_all(range(chunk * each, (chunk + 1) * each), str(tmp_path), shape), shape)


def check_that_all_happens(runs: list[Outcome], shape: Shape) -> None:
    assert {end for run in runs for end in run.ends} == {JobStatus.FINISHED, JobStatus.FAILED, JobStatus.CANCELED}
    assert {fault for run in runs for fault in run.faults} == {*FAULTS, *(STORE_FAULTS if shape.recovers else ())}
    assert sum(run.restarts for run in runs) > len(runs) / 4
    assert sum(run.restored for run in runs) > 0
    assert sum(run.commits for run in runs) > len(runs) / 4


def test_jobs_of_a_job_manager_that_no_dispatcher_can_reach_are_led_by_another(tmp_path: Path) -> None:
    """Else they could not be cancelled, which those are that take too long."""
    runs = run_all(range(schedules(100)), str(tmp_path), UNREACHED)
    assert JobStatus.CANCELED in {end for run in runs for end in run.ends}


@pytest.mark.parametrize("start", [0, 100])  # for two cores
def test_under_faults_every_job_ends_runs_nowhere_then_and_no_slot_is_lost(tmp_path: Path, start: int) -> None:
    runs = run_all(range(start, start + schedules(60)), str(tmp_path), LONG)
    ends = Counter(end for run in runs for end in run.ends)
    after_restarts = sum(run.ends.count(JobStatus.FINISHED) for run in runs if run.restarts)
    if len(runs) == 60:
        assert set(ends) == {JobStatus.FINISHED, JobStatus.FAILED, JobStatus.CANCELED}
        assert {fault for run in runs for fault in run.faults} == set(FAULTS)
        assert sum(run.restarts for run in runs) > 50
        assert after_restarts > 10
        assert sum(run.restored for run in runs) > 10


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("fault_rate", [0.05, 0.25, 0.8])
@pytest.mark.parametrize("start", [10_000, 20_000])
def test_thousands_of_fault_schedules(tmp_path: Path, start: int, fault_rate: float) -> None:
    run_all(range(start, start + 500), str(tmp_path), replace(LONG, steps=200, fault_rate=fault_rate))


def test_a_seed_gives_the_same_run_again_whatever_ids_are_drawn(tmp_path: Path) -> None:
    for shape in (SHORT, STANDBYS, LONG):
        for seed in (7, 8, 9):
            first, second = (simulate(seed, str(tmp_path), shape, with_digest=True) for _ in range(2))
            assert first == second
