"""A thousand equal events are reported a handful of times."""

from __future__ import annotations

from millstream.core.logs.repeats import Repeats


def test_the_first_three_then_round_numbers_then_once_in_an_hour() -> None:
    repeats, reported = Repeats(), []
    for number in range(1, 1501):
        if repeats.is_told("boom", now=number * 1.0):
            reported.append((number, repeats.take_untold()))
    assert reported == [(1, 0), (2, 0), (3, 0), (10, 6), (100, 89), (1000, 899)]
    assert not repeats.is_told("boom", now=4000.0)
    assert repeats.is_told("boom", now=1000.0 + 3600.0)
    assert not repeats.is_told("boom", now=4601.0)
    assert (repeats.count, repeats.times) == (1503, " (1503rd time)")


def test_another_event_starts_over() -> None:
    repeats = Repeats()
    assert [repeats.is_told(what, 0.0) for what in ("a", "a", "a", "a", "b", "b", "b", "b", "a")] == [
        True, True, True, False, True, True, True, False, True,
    ]  # fmt: skip


def test_an_event_after_a_long_pause_starts_over() -> None:
    repeats = Repeats(within=60)
    assert [repeats.is_told("a", now) for now in (0.0, 1.0, 2.0, 3.0, 63.0, 64.0)] == [
        True, True, True, False, True, True,
    ]  # fmt: skip
    assert repeats.count == 2


def test_the_caller_may_count() -> None:
    repeats = Repeats()
    assert [repeats.is_told("x", 0.0, count) for count in (1, 2, 3, 4, 10, 11)] == [True] * 3 + [False, True, False]
