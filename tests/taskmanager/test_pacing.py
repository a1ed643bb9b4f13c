from __future__ import annotations

from collections.abc import Callable

from millstream.taskmanager.pacing import Pace

MOST = 2048


def settle(cost: Callable[[int], float], pace: Pace | None = None, steps: int = 60, factor: int = 1) -> Pace:
    """Drives a pace with a modelled cost of a step."""
    pace = pace or Pace(MOST)
    for _ in range(steps):
        pace.stepped(pace.rows, cost(pace.rows), pace.rows * factor)
    return pace


def test_fast_functions_get_full_batches() -> None:
    assert settle(lambda rows: rows * 1e-6).rows == MOST


def test_slow_functions_get_steps_of_about_twenty_milliseconds() -> None:
    assert 5 <= settle(lambda rows: rows * 2e-3).rows <= 20


def test_a_very_slow_function_gets_single_rows() -> None:
    assert settle(lambda rows: rows * 1.0).rows == 1


def test_a_fixed_cost_is_spread_over_full_batches() -> None:
    assert settle(lambda rows: 0.05).rows == MOST
    assert settle(lambda rows: 0.05 + rows * 1e-6).rows == MOST


def test_a_fixed_cost_does_not_make_slow_rows_endless() -> None:
    rows = settle(lambda rows: 0.05 + rows * 1e-3).rows
    assert 50 <= rows <= 200


def test_a_function_that_becomes_slow_is_noticed() -> None:
    pace = settle(lambda rows: rows * 1e-6)
    assert settle(lambda rows: rows * 5e-3, pace).rows <= 8


def test_a_function_that_becomes_fast_again_is_noticed() -> None:
    pace = settle(lambda rows: rows * 5e-3)
    assert settle(lambda rows: rows * 1e-6, pace).rows == MOST


def test_an_exploding_flat_map_is_fed_in_small_slices() -> None:
    rows = settle(lambda rows: rows * 1e-6, factor=10_000).rows
    assert rows * 10_000 <= 8 * MOST or rows == 1
