"""Formats times, tasks, numbers and waiting work for findings."""

from __future__ import annotations

from typing import assert_never

from millstream.core.jobs.progress import COUNTED, COUNTED_OF_ALL_KEYS, KeptRecords, TimedKind, TimedWork
from millstream.core.logs.times import duration, utc
from millstream.core.records.batches import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.jobmanager.stall.facts import TaskFacts


def work(waits: TimedWork | KeptRecords) -> str:
    """Describes waiting work: `3 open windows, which took 120 records since the last firing`."""
    match waits:
        case KeptRecords(left, right):
            others = f"{right:,}" if right else "none"
            return f"{count(left, 'record', 'records')} of its left stream and {others} of its right one"
        case TimedWork(records=0):
            return _open(waits)
        case TimedWork():
            return f"{_open(waits)}, which took {count(waits.records, 'record', 'records')} since the last firing"
        case _:
            assert_never(waits)


def _open(waits: TimedWork) -> str:
    number = waits.open
    least = "at least " if number >= COUNTED else ""
    match waits.kind:
        case TimedKind.TIMERS:
            return least + count(number, "key with timers", "keys with timers")
        case _ if not number:  # no time ends them: they count records, or never end
            return "windows that wait for more records"
        case TimedKind.WINDOWS:
            return least + count(number, "open window", "open windows")
        case TimedKind.WINDOWS_OF_ALL_KEYS:
            least = "at least " if number >= COUNTED_OF_ALL_KEYS else ""
            return least + count(number, "open window for all keys", "open windows, each for all keys")
        case TimedKind.SESSIONS:
            return ("at most " if number > 1 else "") + count(number, "open session", "open sessions")
        case _:
            assert_never(waits.kind)


def event_time(timestamp: int) -> str:
    """Formats an event time, to the millisecond, in UTC."""
    if timestamp == MIN_TIMESTAMP:
        return "its beginning (there is no watermark yet)"
    if timestamp == MAX_TIMESTAMP:
        return "its end"
    return utc(timestamp, exact=True)


def subtask_of(task: TaskFacts) -> str:
    """Formats the subtask's index: ` (2/4)`; empty for parallelism 1."""
    return f" ({task.subtask + 1}/{task.parallelism})" if task.parallelism > 1 else ""


def count(number: int, one: str, many: str) -> str:
    """`no windows`, `1 window`, `1,200 windows`."""
    return f"1 {one}" if number == 1 else f"{number:,} {many}" if number else f"no {many}"


def span(milliseconds: int) -> str:
    """`250 ms`, `5.6 s`, `3 min 04 s`, `1 h 02 min`."""
    return f"{milliseconds} ms" if milliseconds < 1000 else duration(milliseconds)
