"""The requests of programs to the dispatcher, and what passes between it and a job manager."""

from __future__ import annotations

from msgspec import Struct

from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.graph import Artifact, JobGraph
from millstream.core.jobs.ids import ANY_EPOCH, JobId, JobManagerId, LeaderEpoch
from millstream.core.messages.rescaling import RescaleRequest, RescaleResult
from millstream.core.messages.results import CollectRequest, CollectResponse
from millstream.core.messages.snapshots import CheckpointAnswer, CheckpointQuery, SnapshotRequest, SnapshotResult
from millstream.core.messages.stalls import StallAnswer, StallQuery

# Calls of programs


class SubmitJobRequest(Struct, frozen=True):
    """Runs a job; a graph that was accepted before is not run twice."""

    graph: JobGraph


class SubmitJobResponse(Struct, frozen=True):
    """It is accepted."""

    job_id: JobId


class JobRequest(Struct, frozen=True):
    """Which job is meant."""

    job_id: JobId


class JobList(Struct, frozen=True):
    """All jobs that are known."""

    jobs: tuple[JobDetails, ...] = ()


class ArtifactRequest(Struct, frozen=True):
    """An artifact by its content."""

    sha256: str


class ArtifactStatus(Struct, frozen=True):
    """Whether the dispatcher has it."""

    present: bool


class ArtifactChunk(Struct, frozen=True):
    """A piece of an artifact; the first one names it."""

    artifact: Artifact | None = None
    data: bytes = b""


# A job manager's session


class RegisterJobManager(Struct, frozen=True):
    """The first message of a job manager, with everything that it is running."""

    job_manager_id: JobManagerId
    address: str
    jobs: tuple[JobDetails, ...] = ()


JobManagerMessage = (
    RegisterJobManager | JobDetails | CollectResponse | SnapshotResult | CheckpointAnswer | StallAnswer | RescaleResult
)
"""From a job manager to the dispatcher."""


class StartJob(Struct, frozen=True):
    """The job manager runs this job from now on."""

    graph: JobGraph


class CancelJob(Struct, frozen=True):
    """The user wants the job to end."""

    job_id: JobId


class ForgetJob(Struct, frozen=True):
    """The job's end is recorded; the job manager may drop it."""

    job_id: JobId


class AbandonJob(Struct, frozen=True):
    """The job has ended as far as users know: it must not run, and what it has stored stays.

    With an epoch, another job manager has it: it must not run here, unless this job manager leads it under a higher
    one.
    """

    job_id: JobId
    reason: str
    epoch: LeaderEpoch = ANY_EPOCH


DispatcherMessage = (
    StartJob
    | CancelJob
    | ForgetJob
    | AbandonJob
    | CollectRequest
    | SnapshotRequest
    | CheckpointQuery
    | StallQuery
    | RescaleRequest
)
"""From the dispatcher to a job manager."""
