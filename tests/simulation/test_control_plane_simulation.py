"""Slot manager, slot tables and JobMasters together, under hundreds of schedules of messages and faults.

`MILLSTREAM_SIMULATION_SEED=n pytest tests/simulation` replays one run.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest
from simulated_cluster import simulate
from thoroughness import cases

from millstream.core.jobs.states import JobStatus

SEED = os.environ.get("MILLSTREAM_SIMULATION_SEED")


def _seeds(number: int, start: int = 0) -> list[int]:
    return [int(SEED)] if SEED else list(range(start, start + number))


def test_without_faults_every_job_finishes_or_lacks_slots() -> None:
    ends = Counter(end for seed in _seeds(cases(50)) for end in simulate(seed, steps=200, fault_rate=0.0).ends)
    assert set(ends) <= {JobStatus.FINISHED, JobStatus.FAILED}
    assert ends[JobStatus.FINISHED] > ends[JobStatus.FAILED] or SEED


def test_under_faults_every_job_ends_and_no_slot_is_lost() -> None:
    ends: Counter[JobStatus] = Counter()
    faults: Counter[str] = Counter()
    restarts = finished_after_restarts = 0
    for seed in _seeds(cases(250)):
        outcome = simulate(seed, steps=600, fault_rate=0.02)
        ends.update(outcome.ends)
        faults.update(outcome.faults)
        restarts += outcome.restarts
        finished_after_restarts += outcome.ends.count(JobStatus.FINISHED) if outcome.restarts else 0
    if not SEED:
        assert set(ends) == {JobStatus.FINISHED, JobStatus.FAILED, JobStatus.CANCELED}
        assert len(faults) == 8
        assert restarts > cases(100)
        assert finished_after_restarts > cases(20)


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("fault_rate", [0.005, 0.02, 0.08])
def test_thousands_of_fault_schedules(fault_rate: float) -> None:
    for seed in _seeds(1_500, start=10_000):
        simulate(seed, steps=1_500, fault_rate=fault_rate)


def test_a_seed_gives_the_same_run_again() -> None:
    first, second = (simulate(7, steps=400, fault_rate=0.03) for _ in range(2))
    assert first == second
