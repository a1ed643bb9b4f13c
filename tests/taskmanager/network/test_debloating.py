"""The window of a debloater for tasks of known cost, with no clock but the seconds passed by the tests."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from thoroughness import cases

from millstream.taskmanager.worker.network.debloating import FIRST_ROWS, SENDING, Allowance, Debloater
from millstream.taskmanager.worker.tasks.pacing import Pace

EXCLUSIVE = 2
TARGET, PERIOD, SAMPLES, THRESHOLD = 1.0, 0.2, 5, 0.25
MOST_ROWS = 1 << 20


def make(channels: int = 1, exclusive: int = EXCLUSIVE, floating: int = 8) -> Debloater:
    return Debloater(channels, exclusive, floating, TARGET, PERIOD, SAMPLES, THRESHOLD)


def on_its_way(allowed: Allowance, channels: int = 1) -> int:
    """The rows that an allowance lets be in flight."""
    return allowed.rows * (channels * (EXCLUSIVE + SENDING) + allowed.floating)


@dataclass
class SlowTask:
    """A task whose senders always have more: each step takes what its pace wants of what was received."""

    each: float
    fixed: float = 0.0
    channels: int = 1
    debloater: Debloater = field(default_factory=make)
    pace: Pace = field(default_factory=lambda: Pace(2048))
    elapsed: float = 0.0
    processed: int = 0
    changes: list[Allowance] = field(default_factory=list)

    def step(self) -> None:
        allowed = self.debloater.allowance
        received = allowed.rows * (self.channels * EXCLUSIVE + allowed.floating)
        rows = min(self.pace.rows, received)
        took = self.fixed + rows * self.each
        self.elapsed += took
        self.processed += rows
        self.pace.stepped(rows, took, 0)
        changed = self.debloater.stepped(rows, took, self.pace.rows)
        if changed is not None:
            self.changes.append(changed)

    def run(self, seconds: float) -> None:
        end = self.elapsed + seconds
        while self.elapsed < end:
            self.step()


def test_a_task_starts_with_single_rows() -> None:
    assert make().allowance == Allowance(FIRST_ROWS, 8) == Allowance(1, 8)


@given(each=st.floats(1e-5, 0.05), channels=st.integers(1, 4))
@settings(max_examples=cases(40))
def test_data_in_flight_lasts_for_about_the_target(each: float, channels: int) -> None:
    task = SlowTask(each, channels=channels, debloater=make(channels))
    task.run(3.0)
    lasts = on_its_way(task.debloater.allowance, channels) * each
    floor = (channels * (EXCLUSIVE + SENDING) + 1) * each  # one row for each place that cannot be withheld
    assert lasts <= max(TARGET * (1 + THRESHOLD), floor)
    assert lasts >= TARGET * (1 - THRESHOLD) / 2, "rounding a buffer down to whole rows loses half of it at the most"


@given(each=st.floats(1e-5, 10.0))
@settings(max_examples=cases(40))
def test_a_constant_cost_settles(each: float) -> None:
    task = SlowTask(each)
    task.run(max(3.0, 20 * each))
    settled = len(task.changes)
    task.run(max(5.0, 50 * each))
    assert task.changes[settled:] == []


def test_a_function_of_seconds_has_as_few_records_waiting_as_there_are_places() -> None:
    task = SlowTask(5.0)
    task.run(60.0)
    assert task.debloater.allowance == Allowance(1, 1)


def test_a_fast_task_has_a_full_window_after_few_round_trips() -> None:
    task = SlowTask(1e-6)
    while on_its_way(task.debloater.allowance) < 100_000:
        task.step()
    assert task.elapsed < 0.2
    assert len(task.changes) <= 4, "each message grows the window sixteenfold: 12 rows become 100,000"


def test_a_slow_task_that_becomes_fast_gets_more_within_a_second() -> None:
    task = SlowTask(0.02)
    task.run(5.0)
    assert on_its_way(task.debloater.allowance) <= 62
    task.each = 1e-6
    task.run(0.3)
    assert on_its_way(task.debloater.allowance) >= 50_000


def test_a_fast_task_that_becomes_slow_gets_less_once_the_old_samples_are_gone() -> None:
    task = SlowTask(1e-5)
    task.run(3.0)
    assert on_its_way(task.debloater.allowance) >= 50_000
    task.each = 0.02
    for _ in range(20):  # the steps themselves get shorter by half each time
        task.step()
    assert on_its_way(task.debloater.allowance) <= 62


@pytest.mark.parametrize("fixed", [0.05, 0.2, 1.0, 5.0])
def test_a_cost_per_batch_does_not_make_batches_small(fixed: float) -> None:
    task = SlowTask(1e-5, fixed)
    task.run(20 * fixed)
    before = task.processed
    task.run(20 * fixed)
    most = (20 * fixed) / (fixed + 2048 * 1e-5) * 2048
    assert task.processed - before > most / 2, "batches are nearly as large as if nothing were limited"


def test_changes_below_the_threshold_are_not_reported() -> None:
    debloater = make()
    for _ in range(50):
        debloater.stepped(10, 0.2, 1)
    before = debloater.allowance
    for rows in (9, 11, 12, 8, 10) * 10:
        assert debloater.stepped(rows, 0.2, 1) is None
    assert debloater.allowance == before


def test_time_without_rows_makes_no_sample_but_counts_for_the_next() -> None:
    debloater = make()
    for _ in range(20):
        debloater.stepped(100, 2 * PERIOD, 16)
    before = debloater.allowance
    assert debloater.stepped(0, 60.0, 16) is None
    assert debloater.allowance == before
    changed = debloater.stepped(100, 2 * PERIOD, 16)
    assert changed.rows < before.rows


class DebloaterUnderFire(RuleBasedStateMachine):
    """Whatever a task does: within the bounds, in proportion, and reported exactly when it changes."""

    @initialize(channels=st.integers(0, 50), exclusive=st.integers(1, 5), floating=st.integers(0, 20))
    def start(self, channels: int, exclusive: int, floating: int) -> None:
        self.debloater = make(channels, exclusive, floating)
        self.floating = floating
        self.known = self.debloater.allowance

    @rule(rows=st.integers(0, 1 << 22), seconds=st.floats(0, 1000), wanted=st.integers(1, 65536))
    def step(self, rows: int, seconds: float, wanted: int) -> None:
        changed = self.debloater.stepped(rows, seconds, wanted)
        if changed is not None:
            assert changed != self.known
            assert changed.rows <= 16 * (self.known.rows + 1), "grown by more than allowed"
            self.known = changed

    @invariant()
    def the_allowance_is_what_was_told_and_within_bounds(self) -> None:
        allowed = self.debloater.allowance
        assert allowed == self.known
        assert 1 <= allowed.rows <= MOST_ROWS
        assert 0 <= allowed.floating <= self.floating
        if allowed.rows > 1:
            assert allowed.floating == self.floating


TestDebloaterUnderFire = DebloaterUnderFire.TestCase
