"""How jobs are in one word, as lists show it: from their state, and from what holds them back by their job managers.

A job manager is queried only while a client requests health, once in a few seconds for each job. One that returns
nothing in time does not delay the others: the former result counts, or the backpressure in the last report.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from enum import StrEnum

import msgspec
from msgspec import Struct, field

from millstream.core.clock import Clock
from millstream.core.errors import MillstreamError
from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.ids import JobId
from millstream.core.jobs.stalls import FindingKind
from millstream.core.jobs.states import JobStatus
from millstream.core.messages.queries import JobQuery, JobView
from millstream.dispatcher.lifecycle import JobLifecycle

_FRESH_S = 3.0
_TIMEOUT_S = 1.0
_HIGH = 50


class Condition(StrEnum):
    """Of a job whose state is RUNNING."""

    RUNNING = "RUNNING"
    IDLE = "IDLE"
    """Its sources have nothing to emit."""
    BACKPRESSURED = "BACKPRESSURED"
    STALLED = "STALLED"
    UNSTABLE = "UNSTABLE"
    """It has restarted several times in the last minutes."""
    STARTING = "STARTING"
    """Some of its tasks do not run yet."""


_MEANS = {
    FindingKind.NOT_RESPONDING: Condition.STALLED,
    FindingKind.WATERMARK_HELD_BACK: Condition.STALLED,
    FindingKind.NO_WATERMARKS: Condition.STALLED,
    FindingKind.NOTHING_PASSES: Condition.STALLED,
    FindingKind.CALLS_WAIT: Condition.STALLED,
    FindingKind.COMMITS_WAIT: Condition.STALLED,
    FindingKind.RESTARTS_OFTEN: Condition.UNSTABLE,
    FindingKind.NOT_RUNNING: Condition.STARTING,
    FindingKind.BACKPRESSURE: Condition.BACKPRESSURED,
    FindingKind.ALL_IDLE: Condition.IDLE,
    FindingKind.NO_RECORDS: Condition.IDLE,
}
"""The others are part of a job that runs well. A condition earlier in the list below counts more."""
_URGENCY = (
    Condition.STALLED, Condition.UNSTABLE, Condition.STARTING, Condition.BACKPRESSURED, Condition.IDLE,
)  # fmt: skip


class _Finding(Struct):
    kind: FindingKind
    message: str


class _Findings(Struct):
    findings: list[_Finding] = field(default_factory=list)


class Health(Struct, frozen=True):
    """A word, and the reason for it in a sentence; empty: none is needed."""

    condition: str
    reason: str = ""


def health(details: JobDetails, findings: Collection[tuple[FindingKind, str]] | None) -> Health:
    """Of a job, with the findings of its job manager; None: they are not known. Pure."""
    if details.state is not JobStatus.RUNNING:
        return Health(details.state.value)
    if findings is None:
        shares = [s.backpressured_percent for vertex in details.vertices for s in vertex.subtasks]
        return Health(Condition.BACKPRESSURED if max(shares, default=0) > _HIGH else Condition.RUNNING)
    for condition in _URGENCY:
        for kind, message in findings:
            if _MEANS.get(kind) is condition:
                return Health(condition, message)
    return Health(Condition.RUNNING)


class JobHealth:
    """Of all jobs of a dispatcher."""

    def __init__(self, lifecycle: JobLifecycle, clock: Clock) -> None:
        self._lifecycle = lifecycle
        self._clock = clock
        self._known: dict[JobId, tuple[float, list[tuple[FindingKind, str]] | None]] = {}

    async def all(self, jobs: Collection[JobDetails]) -> dict[JobId, Health]:
        """How the jobs are."""
        running = [details.job_id for details in jobs if details.state is JobStatus.RUNNING]
        self._known = {job_id: known for job_id, known in self._known.items() if job_id in set(running)}
        now = self._clock.monotonic()
        old = [j for j in running if j not in self._known or now - self._known[j][0] >= _FRESH_S]
        await asyncio.gather(*map(self._query, old))
        return {d.job_id: health(d, self._known[d.job_id][1] if d.job_id in self._known else None) for d in jobs}

    async def _query(self, job_id: JobId) -> None:
        found = self._known[job_id][1] if job_id in self._known else None
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                response = await self._lifecycle.query(JobQuery(job_id, JobView.STALL))
            if not response.error:
                findings = msgspec.json.decode(response.json, type=_Findings).findings
                found = [(finding.kind, finding.message) for finding in findings]
        except (TimeoutError, MillstreamError, msgspec.DecodeError):
            pass  # the former result counts
        self._known[job_id] = (self._clock.monotonic(), found)
