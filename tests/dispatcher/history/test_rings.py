"""A figure over the last hour: exact for minutes, means before, gaps where nothing was measured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.dispatcher.history.rings import COARSE, FACTOR, FINE, Ring, axis


def recorded(first: int, values: list[float | None]) -> Ring:
    ring = Ring()
    for number, value in enumerate(values):
        ring.put(first + number, value)
    return ring


def test_the_last_minutes_are_kept_as_they_are_and_the_rest_as_means() -> None:
    first, number = 1003, FINE + 57
    ring = recorded(first, [float(at) for at in range(number)])
    along = axis(first, first + number - 1)
    values = ring.at(along)
    assert [width for _, width in along] == [FACTOR] * 6 + [1] * (number + first - 1060)
    assert values[6:] == [float(slot - first) for slot, _ in along[6:]]
    group = [slot - first for slot in range(1010, 1020)]
    assert values[1] == pytest.approx(sum(group) / FACTOR)
    assert values[0] == pytest.approx(3.0), "of the seven slots that were recorded of the first group"


def test_slots_that_were_left_out_are_gaps() -> None:
    ring = recorded(40, [1.0, 2.0])
    ring.put(47, 3.0)
    assert ring.at(axis(40, 47)) == [1.0, 2.0, None, None, None, None, None, 3.0]


def test_no_value_is_a_gap_and_does_not_count_in_a_mean() -> None:
    ring = recorded(0, [4.0, None, *[8.0] * 8, *[1.0] * FINE])
    assert ring.at([(1, 1)]) != [0.0]
    assert ring.at(axis(0, 9 + FINE))[0] == pytest.approx((4 + 8 * 8) / 9, rel=1e-3)


@given(st.integers(0, 10_000), st.lists(st.integers(1, 3000), max_size=12))
def test_nothing_of_more_than_an_hour_ago_and_nothing_out_of_place(first: int, steps: list[int]) -> None:
    """Whatever was left out, every value is that of its own slot."""
    ring, slot, put = Ring(), first, {first: float(first)}
    ring.put(first, float(first))
    for step in steps:
        slot += step
        put[slot] = float(slot)
        ring.put(slot, float(slot))
    along = axis(first, slot)
    assert len(along) <= FINE + COARSE
    assert along == sorted(along)
    assert along[-1] == (slot, 1)
    assert along[0][0] > slot - FACTOR * COARSE - FACTOR
    for (at, width), value in zip(along, ring.at(along), strict=True):
        known = [put[one] for one in range(at - width + 1, at + 1) if one in put]
        assert (value is None) == (not known)
        if known and value is not None:
            assert value == pytest.approx(sum(known) / len(known), rel=1e-3)
