"""Checks of the lengths that windows are declared with: of time, or as a number of records."""

from __future__ import annotations

from millstream.common.time import Interval, plain_milliseconds
from millstream.core.errors import InvalidProgramError


def milliseconds(call: str, name: str, length: Interval) -> int:
    """Returns an argument in milliseconds, which may be negative; errors name the call and the argument."""
    value = plain_milliseconds(length)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidProgramError(
            f"{call}: {name} must be a length of time, as Time.seconds(5), a Duration, a datetime.timedelta or "
            f"whole milliseconds, not {length!r}"
        )
    return value


def positive_milliseconds(call: str, name: str, length: Interval) -> int:
    """Returns an argument in milliseconds; raises `InvalidProgramError` unless it is above 0."""
    value = milliseconds(call, name, length)
    if value <= 0:
        raise InvalidProgramError(f"{call}: {name} must be longer than 0, not {value} ms")
    return value


def positive_count(call: str, name: str, count: int) -> int:
    """Returns a number of records; raises `InvalidProgramError` unless it is at least 1."""
    if isinstance(count, bool) or not isinstance(count, int):
        raise InvalidProgramError(f"{call}: {name} must be a number of records, not {count!r}")
    if count <= 0:
        raise InvalidProgramError(f"{call}: {name} must be at least 1, not {count}")
    return count
