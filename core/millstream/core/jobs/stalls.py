"""Why a job emits no results: findings with advice for the user, and their JSON in the REST API.

The job manager finds what holds a running job back. For a job that has ended, the only finding is its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct

from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.ids import JobId
from millstream.core.jobs.states import JobStatus
from millstream.core.logs.failure_texts import cause_line

NOTHING = "Nothing holds it back."


class FindingKind(StrEnum):
    """What holds a job back."""

    ENDED = "ENDED"
    NOT_RUNNING = "NOT_RUNNING"
    RESTARTS_OFTEN = "RESTARTS_OFTEN"
    NOT_RESPONDING = "NOT_RESPONDING"
    WATERMARK_HELD_BACK = "WATERMARK_HELD_BACK"
    NO_WATERMARKS = "NO_WATERMARKS"
    ALL_IDLE = "ALL_IDLE"
    NO_RECORDS = "NO_RECORDS"
    PAUSED_FOR_ALIGNMENT = "PAUSED_FOR_ALIGNMENT"
    BACKPRESSURE = "BACKPRESSURE"
    CALLS_WAIT = "CALLS_WAIT"
    INPUT_NOT_ENDED = "INPUT_NOT_ENDED"
    NOTHING_PASSES = "NOTHING_PASSES"
    COMMITS_WAIT = "COMMITS_WAIT"


class Finding(Struct, frozen=True):
    """One thing that holds a job back, and what a user can do about it."""

    kind: FindingKind
    message: str
    advice: str = ""
    vertex_id: str = ""
    """The task that waits; empty if it is not a single task."""
    operator: str = ""
    since: int = 0
    """In milliseconds; 0: not known."""


class WaitingKind(StrEnum):
    """The kind of waiting work."""

    WINDOWS = "WINDOWS"
    TIMERS = "TIMERS"
    RECORDS = "RECORDS"
    """Records of an interval join."""


class Waiting(Struct, frozen=True):
    """The waiting work of all subtasks of an operator."""

    vertex_id: str
    operator: str
    kind: WaitingKind
    message: str
    open: int
    """Windows, keys with timers, or records, as far as they are counted."""
    records: int | None
    """The records that windows received since the last firing."""
    event_time: int | None
    """The event time of the slowest subtask; None: there is no watermark yet."""
    next_event_time: int | None
    next_processing_time: int | None


class Stall(Struct, frozen=True):
    """The whole response."""

    job_id: JobId
    name: str
    state: JobStatus
    timestamp: int
    findings: Sequence[Finding] = ()
    waiting: Sequence[Waiting] = ()

    def as_json(self) -> dict[str, Any]:
        """Returns the response of the REST API."""
        return {
            "jid": self.job_id,
            "name": self.name,
            "state": self.state,
            "timestamp": self.timestamp,
            "summary": _summary(self.findings),
            "findings": [
                {
                    "kind": found.kind,
                    "message": found.message,
                    "advice": found.advice or None,
                    "vertex-id": found.vertex_id or None,
                    "operator": found.operator or None,
                    "since": found.since or None,
                }
                for found in self.findings
            ],
            "waiting": [
                {
                    "vertex-id": waits.vertex_id,
                    "operator": waits.operator,
                    "kind": waits.kind,
                    "message": waits.message,
                    "open": waits.open,
                    "records-since-last-firing": waits.records,
                    "event-time": waits.event_time,
                    "next-event-time": waits.next_event_time,
                    "next-processing-time": waits.next_processing_time,
                }
                for waits in self.waiting
            ],
        }


def ended(details: JobDetails, now_ms: int) -> Stall:
    """Returns the stall of a job that has ended."""
    match details.state:
        case JobStatus.FAILED:
            cause = cause_line(details.failures[0]) if details.failures else "the cause is unknown"
            message, advice = f"The job has failed: {cause}", "`millstream exceptions` shows the traceback."
        case JobStatus.CANCELED:
            message, advice = "The job was cancelled.", ""
        case _:
            message, advice = "The job has finished: all its input was processed.", ""
    found = Finding(FindingKind.ENDED, message, advice, since=details.end_time)
    return Stall(details.job_id, details.name, details.state, now_ms, [found])


def _summary(findings: Sequence[Finding]) -> str:
    match findings:
        case []:
            return NOTHING
        case [Finding(kind=FindingKind.ENDED)]:
            return findings[0].message
        case [_]:
            return "1 thing holds it back."
        case _:
            return f"{len(findings)} things hold it back."
