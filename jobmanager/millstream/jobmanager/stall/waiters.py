"""Operators with work that waits for event time or processing time, merged over all subtasks. Pure."""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

from millstream.core.jobs.ids import VertexId
from millstream.core.jobs.progress import KeptRecords, TimedKind, TimedWork
from millstream.core.jobs.stalls import Waiting, WaitingKind
from millstream.core.logs.times import utc
from millstream.core.records.batches import MIN_TIMESTAMP
from millstream.jobmanager.stall.facts import JobFacts
from millstream.jobmanager.stall.holders import Waiter, event_time_at
from millstream.jobmanager.stall.words import event_time, work


def waiters(facts: JobFacts) -> list[Waiter]:
    """Returns the waiters of all running tasks."""
    found: dict[tuple[VertexId, str], Waiter] = {}
    for task in facts.running():
        for position, reported in enumerate(task.progress.operators):
            if isinstance(reported.kind, TimedWork | KeptRecords):
                key = task.vertex_id, reported.operator
                waiter = Waiter(task, reported.operator, position, reported.kind)
                found[key] = _joined(found[key], waiter) if key in found else waiter
    return list(found.values())


def waiting(facts: JobFacts) -> list[Waiting]:
    """Returns what waits, as text and as figures."""
    return [listed for waiter in waiters(facts) if (listed := _listed(waiter)) is not None]


def reached(waiter: Waiter) -> int | None:
    """Returns the current watermark of its operator, if there is one."""
    time = event_time_at(waiter.task, waiter.position)
    return None if time is None or time.watermark == MIN_TIMESTAMP else time.watermark


def now_at(waiter: Waiter) -> str:
    """Describes the current watermark."""
    known = reached(waiter)
    return "no watermark has arrived yet" if known is None else f"it is {event_time(known)} now"


def _joined(one: Waiter, other: Waiter) -> Waiter:
    """Merges an operator of two subtasks: keeps the one with the lower event time, if it waits for event time."""
    first, second = sorted((one, other), key=_urgency)
    return replace(first, work=_together(first.work, second.work))


def _urgency(waiter: Waiter) -> tuple[bool, int]:
    time = event_time_at(waiter.task, waiter.position)
    return waiter.work.next_event_time is None, MIN_TIMESTAMP if time is None else time.watermark


def _together(mine: TimedWork | KeptRecords, theirs: TimedWork | KeptRecords) -> TimedWork | KeptRecords:
    match mine, theirs:
        case TimedWork(), TimedWork():
            return TimedWork(
                mine.kind,
                mine.open + theirs.open,
                mine.records + theirs.records,
                _earliest(mine.next_event_time, theirs.next_event_time),
                _earliest(mine.next_processing_time, theirs.next_processing_time),
            )
        case KeptRecords(), KeptRecords():
            return KeptRecords(
                mine.left + theirs.left,
                mine.right + theirs.right,
                mine.left_came + theirs.left_came,
                mine.right_came + theirs.right_came,
                _earliest(mine.next_event_time, theirs.next_event_time),
            )
        case _:
            return mine  # two operators of one vertex with the same name


def _earliest(one: int | None, other: int | None) -> int | None:
    return min((time for time in (one, other) if time is not None), default=None)


def _listed(waiter: Waiter) -> Waiting | None:
    waits = waiter.work
    match waits:
        case TimedWork(open=0, records=0) | KeptRecords(left=0, right=0):
            return None
        case TimedWork(kind=TimedKind.TIMERS):
            kind, number, records, on_clock = WaitingKind.TIMERS, waits.open, None, waits.next_processing_time
        case TimedWork():
            kind, number, records, on_clock = WaitingKind.WINDOWS, waits.open, waits.records, waits.next_processing_time
        case KeptRecords():
            kind, number, records, on_clock = WaitingKind.RECORDS, waits.left + waits.right, None, None
        case _:
            assert_never(waits)
    vertex, operator = waiter.task.vertex_id, waiter.operator
    times = (reached(waiter), waits.next_event_time, on_clock)
    return Waiting(vertex, operator, kind, _in_words(waiter, on_clock), number, records, *times)


def _in_words(waiter: Waiter, on_clock: int | None) -> str:
    waits = waiter.work
    keeps = isinstance(waits, KeptRecords)
    parts = [f"'{waiter.operator}': {work(waits)}{', kept for matching records to come' if keeps else ''}"]
    if waits.next_event_time is not None:
        what = "the oldest go" if keeps else "the next fires"
        parts.append(f"{what} at event time {event_time(waits.next_event_time)} ({now_at(waiter)})")
    if on_clock is not None:
        parts.append(f"the next fires at {utc(on_clock, exact=True)} by the clock of its machine")
    return "; ".join(parts)
