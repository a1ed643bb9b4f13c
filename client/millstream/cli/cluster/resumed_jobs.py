"""What becomes of the jobs of a cluster that stops, and which of them it resumes when it starts again.

Job managers report how a job would continue (`millstream.core.jobs.resumption`); these are the words for it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

from millstream.cli.rest import RestClient
from millstream.core.errors import MillstreamError
from millstream.core.jobs.resumption import Resumption
from millstream.core.jobs.states import JobStatus
from millstream.core.logs.printable import printable
from millstream.core.settings.configuration import Configuration

_POLL = 0.1
_STEP = 5.0  # seconds for each request
_WHY_NONE = "it has completed no checkpoint, and has no restart strategy"


def jobs_that_stop(configuration: Configuration) -> list[str]:
    """A line for each job that has not ended, before the cluster or its job manager stops."""
    return _of_running_jobs(configuration, lambda client, job: _when_stopped(job, _latest(client, job)))


def jobs_that_lose_tasks(configuration: Configuration) -> list[str]:
    """A line for each job that has not ended, before task managers stop."""
    outcome = "its tasks there are restarted in slots of other task managers, and wait while there are too few"
    return _of_running_jobs(configuration, lambda _, job: f"{_named(job)} is {job['state']}: {outcome}.")


def _of_running_jobs(configuration: Configuration, line: Callable[[RestClient, dict[str, Any]], str]) -> list[str]:
    client = RestClient(configuration, timeout=_STEP, advises=False)
    try:
        jobs = [job for job in client.get("/jobs/overview")["jobs"] if not _has_ended(job)]
    except MillstreamError:
        return [f"The REST API at {client.address} does not respond, so the running jobs are not known."]
    return [line(client, job) for job in jobs]


def jobs_that_start(
    configuration: Configuration, since_ms: int, timeout: float, progress: Callable[[str], None]
) -> list[str]:
    """A line for each job that an earlier run of the cluster left, once a job manager leads it or the time is over.

    The cluster has been started since `since_ms`: a job that has ended before is none of these.
    """
    client = RestClient(configuration, timeout=_STEP, advises=False)
    with contextlib.suppress(MillstreamError):  # the cluster is up all the same
        return _resumed(client, since_ms, time.monotonic() + timeout, progress)
    return []


def _resumed(client: RestClient, since_ms: int, deadline: float, progress: Callable[[str], None]) -> list[str]:
    while True:
        known = client.get("/jobs/overview")["jobs"]
        jobs = [job for job in known if not 0 < job["end-time"] < since_ms]
        unknown = [job for job in jobs if not _has_ended(job) and not job["resumed"]]
        if not unknown or time.monotonic() > deadline:
            return [_when_started(job) for job in jobs]
        progress(f"waiting for job managers to lead {len(unknown)} of {len(jobs)} jobs")
        time.sleep(_POLL)


def _has_ended(job: dict[str, Any]) -> bool:
    return JobStatus(job["state"]).is_terminal


def _latest(client: RestClient, job: dict[str, Any]) -> int:
    """The last completed checkpoint: more may have completed since the job was reported."""
    known = int(job["restore-point"] or 0)
    with contextlib.suppress(MillstreamError):  # no job manager leads the job now
        completed = client.get(f"/jobs/{job['jid']}/checkpoints")["latest"]["completed"]
        return max(known, int(completed["id"]) if completed else 0)
    return known


def _when_stopped(job: dict[str, Any], checkpoint: int) -> str:
    resumption = Resumption(job["resumption"] or "")
    if checkpoint and resumption is not Resumption.LOST:
        resumption = Resumption.CHECKPOINT
    match resumption:
        case Resumption.CHECKPOINT:
            outcome = f"the next start resumes it from checkpoint {checkpoint}, or from a later one"
        case Resumption.BEGINNING:
            outcome = "it has completed no checkpoint, and by its restart strategy the next start runs it again from "
            outcome += "the beginning"
        case Resumption.SNAPSHOT:
            outcome = "it has completed no checkpoint, and by its restart strategy the next start runs it again from "
            outcome += "the snapshot that it was started from"
        case Resumption.NOT_STARTED:
            outcome = "it has not run yet, and the next start starts it"
        case Resumption.NONE:
            outcome = f"it is not resumed: {_WHY_NONE}. It ends as FAILED at the next start"
        case Resumption.LOST:
            outcome = "it is not resumed: the cluster keeps its jobs only while it runs (high-availability.type)"
        case Resumption.UNKNOWN:
            outcome = "no job manager leads it, so it is not known whether the next start resumes it"
    return f"{_named(job)} is {job['state']}: {outcome}."


def _when_started(job: dict[str, Any]) -> str:
    if _has_ended(job):
        cause = f": {printable(job['last-failure'])}" if job["last-failure"] else ""
        return f"{_named(job)} is {job['state']}{cause}."
    match Resumption(job["resumed"] or ""):
        case Resumption.CHECKPOINT:
            outcome = f"is resumed from checkpoint {job['resumed-from']}"
        case Resumption.BEGINNING:
            outcome = "has completed no checkpoint, and by its restart strategy is run again from the beginning"
        case Resumption.SNAPSHOT:
            outcome = "has completed no checkpoint, and by its restart strategy is run again from the snapshot that it "
            outcome += "was started from"
        case Resumption.NOT_STARTED:
            outcome = "is started: it has not run before"
        case Resumption.NONE:
            outcome = f"is not resumed, and ends as FAILED: {_WHY_NONE}"
        case Resumption.LOST | Resumption.UNKNOWN:
            outcome = "is left from before: no job manager leads it yet; `millstream list` shows its state later"
    return f"{_named(job)} {outcome}."


def _named(job: dict[str, Any]) -> str:
    return f"Job '{printable(job['name'])}' ({job['jid']})"
