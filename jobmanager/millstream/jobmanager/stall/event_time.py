"""Findings about event time: which operators wait for which stream's watermark, and since when. Pure."""

from __future__ import annotations

from typing import assert_never

from millstream.core.jobs.ids import VertexId
from millstream.core.jobs.progress import KeptRecords, TimedWork
from millstream.core.jobs.stalls import Finding, FindingKind
from millstream.core.logs.times import utc
from millstream.core.records.batches import MIN_TIMESTAMP
from millstream.jobmanager.stall.facts import JobFacts
from millstream.jobmanager.stall.holders import Holder, Holders, Waiter
from millstream.jobmanager.stall.waiters import now_at, waiters
from millstream.jobmanager.stall.words import event_time, subtask_of, work

PATIENCE_MS = 5000
"""For so long a stream may bring nothing before that is worth a word."""
_IDLENESS = (
    "have records sent there, or give its WatermarkStrategy with_idleness(...), so that event time does not "
    "wait for it"
)


def event_time_findings(facts: JobFacts) -> tuple[list[Finding], set[VertexId]]:
    """One for each operator whose event time stands still before its windows or timers; and who holds them back."""
    holders = Holders(facts)
    findings: list[Finding] = []
    blamed: set[VertexId] = set()
    for waiter in waiters(facts):
        if waiter.work.next_event_time is not None:
            held, ahead = holders.of(waiter)
            stuck = [holder for holder in held if _is_stuck(holder, facts.now_ms)]
            if isinstance(waiter.work, KeptRecords) and ahead < waiter.target:
                continue  # pairs come out as they meet: it only matters that one stream has others keep ever more
            if stuck:
                findings.append(_finding(waiter, stuck, ahead))
                blamed |= {holder.task.vertex_id for holder in stuck}
    return findings, blamed


def _is_stuck(holder: Holder, now_ms: int) -> bool:
    return holder.stream is None or now_ms - holder.stream.moved_at >= PATIENCE_MS


def _finding(waiter: Waiter, held: list[Holder], ahead: int) -> Finding:
    kind, advice = _judged(held[0], ahead >= waiter.target)
    since = held[0].stream.moved_at if held[0].stream is not None else 0
    others = f"; the others have come to {event_time(ahead)}" if ahead >= waiter.target else ""
    causes = "; ".join(map(_cause, held))
    message = f"{_who_waits(waiter)} It is held back by {causes}{others}."
    return Finding(kind, message, advice, waiter.task.vertex_id, waiter.operator, since)


def _who_waits(waiter: Waiter) -> str:
    until = f"event time {event_time(waiter.target)} ({now_at(waiter)})"
    match waiter.work:
        case TimedWork():
            return f"'{waiter.operator}' waits for {until} with {work(waiter.work)}."
        case KeptRecords():
            return (
                f"'{waiter.operator}' keeps {work(waiter.work)} until {until}, and more with every record that comes."
            )
        case _:
            assert_never(waiter.work)


def _cause(holder: Holder) -> str:
    where = f"'{holder.operator}'{subtask_of(holder.task)}"
    if not holder.origin.makes_watermarks:
        return f"{where}, which makes no watermarks"
    stream = holder.stream
    if stream is None:
        return f"{where}, which has no split to read"
    split = f"split '{stream.name}' of {where}" if stream.name else where
    if stream.idle:
        return f"{split}, which is idle since {utc(stream.moved_at)}, like all others"
    if stream.paused or (holder.origin.alignment is not None and holder.origin.alignment.paused_since):
        return f"{split}, which waits for others of its alignment group"
    if not stream.record_at:
        return f"{split}, from which no record has come since it began at {utc(stream.moved_at)}"
    at = "no watermark" if stream.watermark == MIN_TIMESTAMP else f"event time {event_time(stream.watermark)}"
    if stream.record_at - stream.moved_at >= PATIENCE_MS:
        return (
            f"{split}, which sends records, the last at {utc(stream.record_at)}, but has stayed at {at} since "
            f"{utc(stream.moved_at)}"
        )
    return f"{split}, from which no record has come since {utc(stream.record_at)} and which is at {at}"


def _judged(holder: Holder, others_are_ahead: bool) -> tuple[FindingKind, str]:
    stream = holder.stream
    if not holder.origin.makes_watermarks:
        return FindingKind.NO_WATERMARKS, (
            "hand from_source a WatermarkStrategy, or call assign_timestamps_and_watermarks before the windows"
        )
    if stream is None:
        return FindingKind.NO_RECORDS, (
            "lower the source's parallelism to the number of its splits, or give its WatermarkStrategy "
            "with_idleness(...)"
        )
    if stream.idle:
        return FindingKind.ALL_IDLE, (
            "have records sent: event time continues with the next one; an idle stream alone does not move it"
        )
    if stream.record_at - stream.moved_at >= PATIENCE_MS:
        return FindingKind.WATERMARK_HELD_BACK, (
            "look at the timestamps of its records, which do not go forward, and at what the WatermarkStrategy makes "
            "of them: no_watermarks() makes none"
        )
    if others_are_ahead:
        return FindingKind.WATERMARK_HELD_BACK, _IDLENESS
    return FindingKind.NO_RECORDS, "send records: event time advances with those that come, and ends with the input"
