"""Lengths of time and points in time."""

from __future__ import annotations

import pytest

from millstream.common import Duration, Instant, Time


def test_lengths_are_whole_milliseconds() -> None:
    assert Time(1500) == Time(milliseconds=1500) == Time.milliseconds(1500)
    assert Time.days(1).to_milliseconds() == 24 * Time.hours(1).to_milliseconds() == 24 * 60 * 60 * 1000
    assert Duration.of_nanos(2_999_999) == Duration.of_millis(2)
    assert Duration.of_days(1) == Duration.of_hours(24) == Duration.of_minutes(24 * 60) == Duration.of_seconds(86400)


@pytest.mark.parametrize("milliseconds", [0, 1, 999, 1000, 1_234_567, -1, -1000])
def test_a_point_in_time_comes_back(milliseconds: int) -> None:
    instant = Instant.of_epoch_milli(milliseconds)
    assert instant.to_epoch_milli() == milliseconds
    assert 0 <= instant.nanos < 1_000_000_000


def test_a_point_in_time_is_written_and_compared_as_pyflinks() -> None:
    assert repr(Instant(1, 2)) == "Instant<1, 2>"
    assert Instant(1, 2) == Instant(1, 2)
    assert Instant(1, 2) < Instant(2, 0)
