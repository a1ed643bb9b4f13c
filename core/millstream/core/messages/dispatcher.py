"""The requests of programs to the dispatcher, and the messages between it and a job manager."""

from __future__ import annotations

from msgspec import Struct

from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.graph import Artifact, JobGraph
from millstream.core.jobs.ids import ANY_EPOCH, JobId, JobManagerId, LeaderEpoch
from millstream.core.messages.queries import JobQuery, JobQueryResult
from millstream.core.messages.rescaling import RescaleRequest, RescaleResult
from millstream.core.messages.results import CollectRequest, CollectResponse
from millstream.core.messages.snapshots import SnapshotRequest, SnapshotResult

# Calls of programs


class SubmitJobRequest(Struct, frozen=True):
    """Submits a job; a graph that was accepted before is not run twice."""

    graph: JobGraph


class SubmitJobResponse(Struct, frozen=True):
    """The job is accepted."""

    job_id: JobId


class JobRequest(Struct, frozen=True):
    """A request about a job."""

    job_id: JobId


class JobList(Struct, frozen=True):
    """All known jobs."""

    jobs: tuple[JobDetails, ...] = ()


class ArtifactRequest(Struct, frozen=True):
    """An artifact by its content."""

    sha256: str


class ArtifactStatus(Struct, frozen=True):
    """Whether the dispatcher has it."""

    present: bool


class ArtifactChunk(Struct, frozen=True):
    """A chunk of an artifact; the first one identifies it."""

    artifact: Artifact | None = None
    data: bytes = b""


# A job manager's session


class RegisterJobManager(Struct, frozen=True):
    """The first message of a job manager, with the jobs that it is running."""

    job_manager_id: JobManagerId
    address: str
    jobs: tuple[JobDetails, ...] = ()


JobManagerMessage = RegisterJobManager | JobDetails | CollectResponse | SnapshotResult | JobQueryResult | RescaleResult
"""From a job manager to the dispatcher."""


class StartJob(Struct, frozen=True):
    """Assigns a job to the job manager."""

    graph: JobGraph


class CancelJob(Struct, frozen=True):
    """A user requested the cancellation of the job."""

    job_id: JobId


class ForgetJob(Struct, frozen=True):
    """The job's result is recorded; the job manager may forget the job."""

    job_id: JobId


class AbandonJob(Struct, frozen=True):
    """The job has been reported as ended: it must not run, and its stored data is kept.

    With an epoch, another job manager is the leader: the job must not run here, unless this job manager is its leader
    with a higher epoch.
    """

    job_id: JobId
    reason: str
    epoch: LeaderEpoch = ANY_EPOCH


DispatcherMessage = (
    StartJob | CancelJob | ForgetJob | AbandonJob | CollectRequest | SnapshotRequest | JobQuery | RescaleRequest
)
"""From the dispatcher to a job manager."""
