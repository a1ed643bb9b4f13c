"""Durations and points in time, with PyFlink's names.

Durations are in whole milliseconds. Methods that have a duration as a parameter accept a `datetime.timedelta` too.
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
        """Returns the length in milliseconds."""
        return self.length_ms


class Time(_Length):
    """A length of time, for windows and the time-to-live of state: `Time.seconds(10)`."""

    __slots__ = ()

    def __init__(self, milliseconds: int) -> None:
        super().__init__(milliseconds)

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        """Returns a time of `milliseconds`."""
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: int) -> Time:
        """Returns a time of `seconds`."""
        return Time(seconds * 1000)

    @staticmethod
    def minutes(minutes: int) -> Time:
        """Returns a time of `minutes`."""
        return Time.seconds(minutes * 60)

    @staticmethod
    def hours(hours: int) -> Time:
        """Returns a time of `hours`."""
        return Time.minutes(hours * 60)

    @staticmethod
    def days(days: int) -> Time:
        """Returns a time of `days`."""
        return Time.hours(days * 24)


class Duration(_Length):
    """A length of time, as Java's Duration: `Duration.of_seconds(10)`."""

    __slots__ = ()

    @staticmethod
    def of_nanos(nanos: int) -> Duration:
        """Returns a duration of `nanos` nanoseconds, rounded down to milliseconds, the unit of all durations."""
        return Duration(nanos // 1_000_000)

    @staticmethod
    def of_millis(millis: int) -> Duration:
        """Returns a duration of `millis` milliseconds."""
        return Duration(millis)

    @staticmethod
    def of_seconds(seconds: int) -> Duration:
        """Returns a duration of `seconds`."""
        return Duration(seconds * 1000)

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        """Returns a duration of `minutes`."""
        return Duration.of_seconds(minutes * 60)

    @staticmethod
    def of_hours(hours: int) -> Duration:
        """Returns a duration of `hours`."""
        return Duration.of_minutes(hours * 60)

    @staticmethod
    def of_days(days: int) -> Duration:
        """Returns a duration of `days`."""
        return Duration.of_hours(days * 24)


Interval = int | timedelta | Time | Duration
"""A parameter for which PyFlink accepts milliseconds: an integer number of milliseconds, or a duration."""


def plain_milliseconds(length: object) -> object:
    """Returns a timedelta, `Time` or `Duration` in milliseconds; any other `length` unchanged, to be validated."""
    if isinstance(length, timedelta):
        return round(length / timedelta(milliseconds=1))
    return length.to_milliseconds() if isinstance(length, _Length) else length
