"""How findings name times, tasks and numbers."""

from __future__ import annotations

from millstream.core.logs.times import duration, utc
from millstream.core.records.batches import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.jobmanager.stall.facts import TaskFacts

COUNTED = 10_000
"""Up to here, workers count windows and timers."""


def event_time(timestamp: int) -> str:
    """An event time, to the millisecond, in UTC."""
    if timestamp == MIN_TIMESTAMP:
        return "its beginning (there is no watermark yet)"
    if timestamp == MAX_TIMESTAMP:
        return "its end"
    return utc(timestamp, exact=True)


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
    return f"{milliseconds} ms" if milliseconds < 1000 else duration(milliseconds)
