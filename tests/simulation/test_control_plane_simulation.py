"""The real dispatcher, resource manager, job managers and task managers, under hundreds of schedules of faults.

They run on a virtual clock and a virtual network (`simulation.py`), with child processes that are simulated.
`MILLSTREAM_SIMULATION_SEED=n pytest tests/simulation` replays one run, and tells what services logged if it fails.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from faults import FAULTS
from simulation import Outcome, simulate
from thoroughness import cases

from millstream.core.jobs.states import JobStatus

SEED = os.environ.get("MILLSTREAM_SIMULATION_SEED")


def _runs(folder: Path, number: int, start: int, steps: int, fault_rate: float) -> list[Outcome]:
    seeds = [int(SEED)] if SEED else range(start, start + number)
    return [simulate(seed, str(folder), steps, fault_rate, with_logs=bool(SEED)) for seed in seeds]


def test_without_faults_every_job_finishes_or_lacks_slots(tmp_path: Path) -> None:
    ends = Counter(end for run in _runs(tmp_path, 10, start=0, steps=30, fault_rate=0.0) for end in run.ends)
    assert set(ends) <= {JobStatus.FINISHED, JobStatus.FAILED}
    assert ends[JobStatus.FINISHED] > ends[JobStatus.FAILED] or SEED


@pytest.mark.parametrize("start", [0, 100])  # for two cores
def test_under_faults_every_job_ends_runs_nowhere_then_and_no_slot_is_lost(tmp_path: Path, start: int) -> None:
    runs = _runs(tmp_path, cases(60), start, steps=80, fault_rate=0.25)
    ends = Counter(end for run in runs for end in run.ends)
    after_restarts = sum(run.ends.count(JobStatus.FINISHED) for run in runs if run.restarts)
    if not SEED and len(runs) == 60:  # fewer need not have seen everything
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
    _runs(tmp_path, 500, start, steps=200, fault_rate=fault_rate)


@pytest.mark.parametrize(
    ("seed", "fault_rate"),
    [
        (10_462, 0.05),  # an acknowledgement reached a job manager that stopped: it ended a checkpoint without a store
        (40_161, 0.25),  # a job manager registered at a dispatcher that stopped, and was given a job
        (40_220, 0.25),  # a task manager that stopped was told to start a worker, and left it behind
    ],
)
def test_a_schedule_that_went_wrong_once_does_not_again(tmp_path: Path, seed: int, fault_rate: float) -> None:
    simulate(seed, str(tmp_path), steps=200, fault_rate=fault_rate)


def test_a_seed_gives_the_same_run_again_whatever_ids_are_drawn(tmp_path: Path) -> None:
    for seed in (7, 8, 9):
        first, second = (simulate(seed, str(tmp_path), steps=60, fault_rate=0.25) for _ in range(2))
        assert first == second
