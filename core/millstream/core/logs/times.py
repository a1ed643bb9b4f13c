"""Times and spans of time, as users see them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def utc(milliseconds: int, exact: bool = False) -> str:
    """A time of the calendar, in UTC, to the second or exactly; just the number when no calendar has it."""
    try:
        shown = f"{_EPOCH + timedelta(milliseconds=milliseconds):%Y-%m-%d %H:%M:%S}"
    except OverflowError:
        return f"{milliseconds} ms"
    return f"{shown}.{milliseconds % 1000:03} UTC" if exact else f"{shown} UTC"


def duration(milliseconds: int) -> str:
    """`1 h 02 min`, `3 min 04 s`, `5.6 s`."""
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"
