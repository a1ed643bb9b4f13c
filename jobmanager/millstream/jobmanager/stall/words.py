"""How findings name times, tasks and numbers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from millstream.core.records.batches import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.jobmanager.stall.facts import TaskFacts

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COUNTED = 10_000
"""Up to here, workers count windows and timers."""


def moment(milliseconds: int) -> str:
    """A time of the calendar, in UTC."""
    try:
        return f"{_EPOCH + timedelta(milliseconds=milliseconds):%Y-%m-%d %H:%M:%S} UTC"
    except OverflowError:
        return f"{milliseconds} ms"


def event_time(timestamp: int) -> str:
    """An event time, to the millisecond, in UTC."""
    if timestamp == MIN_TIMESTAMP:
        return "its beginning (there is no watermark yet)"
    if timestamp == MAX_TIMESTAMP:
        return "its end"
    try:
        shown = _EPOCH + timedelta(milliseconds=timestamp)
    except OverflowError:
        return f"{timestamp} ms"
    return f"{shown:%Y-%m-%d %H:%M:%S}.{timestamp % 1000:03} UTC"


def subtask_of(task: TaskFacts) -> str:
    """Which of several, as tasks are named: ` (2/4)`; nothing for an only one."""
    return f" ({task.subtask + 1}/{task.parallelism})" if task.parallelism > 1 else ""


def count(number: int, one: str, many: str) -> str:
    """`1 window`, `12 windows`, `at least 10,000 windows`."""
    if number >= COUNTED:
        return f"at least {COUNTED:,} {many}"
    return f"{number:,} {one if number == 1 else many}"


def span(milliseconds: int) -> str:
    """`250 ms`, `5.6 s`, `3 min 04 s`, `1 h 02 min`."""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"
