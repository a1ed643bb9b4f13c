"""Lengths of time and points in time, with PyFlink's names.

All lengths are whole milliseconds, which is what everything that takes one counts in. Wherever one is taken, a
`datetime.timedelta` does as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from millstream.core.records.instant import Instant

__all__ = ["Duration", "Instant", "Interval", "Time", "plain_milliseconds"]


@dataclass(frozen=True, slots=True, order=True)
class _Length:
    length_ms: int

    def to_milliseconds(self) -> int:
        """The whole length."""
        return self.length_ms


class Time(_Length):
    """As PyFlink's time-to-live and windows take it: `Time.seconds(10)`."""

    __slots__ = ()

    def __init__(self, milliseconds: int) -> None:
        super().__init__(milliseconds)

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        """So many milliseconds."""
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: int) -> Time:
        """So many seconds."""
        return Time(seconds * 1000)

    @staticmethod
    def minutes(minutes: int) -> Time:
        """So many minutes."""
        return Time.seconds(minutes * 60)

    @staticmethod
    def hours(hours: int) -> Time:
        """So many hours."""
        return Time.minutes(hours * 60)

    @staticmethod
    def days(days: int) -> Time:
        """So many days."""
        return Time.hours(days * 24)


class Duration(_Length):
    """As Java's: `Duration.of_seconds(10)`."""

    __slots__ = ()

    @staticmethod
    def of_nanos(nanos: int) -> Duration:
        """Returns a duration of `nanos` nanoseconds, rounded down to milliseconds, the unit of all durations."""
        return Duration(nanos // 1_000_000)

    @staticmethod
    def of_millis(millis: int) -> Duration:
        """Returns a duration of this many milliseconds: `millis`, an integer."""
        return Duration(millis)

    @staticmethod
    def of_seconds(seconds: int) -> Duration:
        """So many seconds."""
        return Duration(seconds * 1000)

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        """So many minutes."""
        return Duration.of_seconds(minutes * 60)

    @staticmethod
    def of_hours(hours: int) -> Duration:
        """So many hours."""
        return Duration.of_minutes(hours * 60)

    @staticmethod
    def of_days(days: int) -> Duration:
        """So many days."""
        return Duration.of_hours(days * 24)


Interval = int | timedelta | Time | Duration
"""A length of time where PyFlink takes milliseconds: these, or a duration."""


def plain_milliseconds(length: object) -> object:
    """The whole milliseconds of a timedelta, `Time` or `Duration`; anything else as it is, for the caller to check."""
    if isinstance(length, timedelta):
        return round(length / timedelta(milliseconds=1))
    return length.to_milliseconds() if isinstance(length, _Length) else length
