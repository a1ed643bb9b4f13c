from __future__ import annotations

from collections.abc import Callable

import pytest

from millstream.taskmanager.worker.tasks.pacing import Outlet, Pace

MOST = 2048


def settle(cost: Callable[[int], float], pace: Pace | None = None, steps: int = 60, factor: int = 1) -> Pace:
    """Drives a pace with a modelled cost of a step."""
    pace = pace or Pace(MOST)
    for _ in range(steps):
        pace.stepped(pace.rows, cost(pace.rows), pace.rows * factor)
    return pace


@pytest.mark.parametrize(
    ("cost", "least", "most"),
    [
        (lambda rows: rows * 1e-6, MOST, MOST),
        (lambda rows: rows * 2e-3, 5, 20),
        (lambda rows: 0.05, MOST, MOST),
        (lambda rows: 0.05 + rows * 1e-6, MOST, MOST),
        (lambda rows: 0.05 + rows * 1e-3, 50, 200),
    ],
    ids=[
        "fast rows come in full batches", "slow ones in steps of 20 ms", "a fixed cost is spread over full batches",
        "as is one beside fast rows", "it does not make slow rows endless",
    ],
)  # fmt: skip
def test_a_step_has_as_many_rows_as_its_cost_allows(cost: Callable[[int], float], least: int, most: int) -> None:
    assert least <= settle(cost).rows <= most


def test_a_very_slow_function_gets_single_rows_except_for_occasional_trials() -> None:
    pace = settle(lambda rows: rows * 1.0)
    seen = []
    for _ in range(50):
        seen.append(pace.rows)
        settle(lambda rows: rows * 1.0, pace, steps=1)
    assert set(seen) <= {1, 2}
    assert 1 <= seen.count(2) <= 5


def test_a_fixed_cost_is_detected_even_after_single_rows_only() -> None:
    pace = Pace(MOST)
    for _ in range(30):
        pace.stepped(1, 0.05, 1)
    assert settle(lambda rows: 0.05, pace).rows == MOST


def test_a_function_that_becomes_slow_is_detected() -> None:
    pace = settle(lambda rows: rows * 1e-6)
    assert settle(lambda rows: rows * 5e-3, pace).rows <= 8


def test_a_function_that_becomes_fast_again_is_detected() -> None:
    pace = settle(lambda rows: rows * 5e-3)
    assert settle(lambda rows: rows * 1e-6, pace).rows == MOST


def test_an_exploding_flat_map_is_fed_in_small_slices() -> None:
    rows = settle(lambda rows: rows * 1e-6, factor=10_000).rows
    assert rows * 10_000 <= 8 * MOST or rows == 1


def test_columns_are_read_in_as_many_rows_as_make_a_few_batches() -> None:
    pace = settle(lambda rows: rows * 1e-8, Pace(65536, columns=True, batch=MOST))
    assert 2 * MOST <= pace.rows <= 8 * MOST
    assert settle(lambda rows: rows * 1e-8, Pace(65536, columns=True, batch=MOST), factor=0).rows == 65536


def flow(wanted: int, share: float, outlet: Outlet | None = None, took: float = 0.0, steps: int = 40) -> Outlet:
    """Drives an outlet with a task that sends one consumer `share` rows for each row that it takes."""
    outlet = outlet or Outlet(65536, 1.0)
    for _ in range(steps):
        outlet.stepped(outlet.rows, took, outlet.rows * share / wanted)
    return outlet


def test_an_outlet_without_limits_does_not_restrict_the_step() -> None:
    outlet = Outlet(65536, None)
    outlet.stepped(100, 0.0, 50.0)
    assert outlet.rows == 65536


@pytest.mark.parametrize(
    ("share", "least", "most"), [(1.0, 50, 100), (0.25, 200, 400), (40.0, 1, 3), (0.0, 65536, 65536)]
)
def test_a_step_sends_a_consumer_what_it_wants_in_one_batch(share: float, least: int, most: int) -> None:
    assert least <= flow(100, share).rows <= most


def test_an_outlet_starts_with_one_row_and_follows_what_consumers_want() -> None:
    outlet = Outlet(65536, 1.0)
    assert outlet.rows == 1
    assert 500 <= flow(1000, 1.0, outlet).rows <= 1000
    assert flow(2, 1.0, outlet, steps=1).rows <= 2
    assert 500 <= flow(1000, 1.0, outlet).rows <= 1000


def test_a_step_that_takes_long_sends_what_is_processed_meanwhile() -> None:
    assert 250 <= flow(100, 1.0, took=0.5).rows <= 700


def test_steps_with_few_rows_do_not_widen_the_outlet() -> None:
    outlet = flow(100, 1.0)
    before = outlet.rows
    for _ in range(20):
        outlet.stepped(1, 0.0, 0.01)
    assert outlet.rows == before
