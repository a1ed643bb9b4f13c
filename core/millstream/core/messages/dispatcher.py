"""What the dispatcher is asked by programs, and what passes between it and a job manager."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.graph import Artifact, JobGraph
from millstream.core.jobs.ids import JobId, JobManagerId
from millstream.core.messages.results import CollectRequest, CollectResponse
from millstream.core.messages.snapshots import CheckpointAnswer, CheckpointQuery, SnapshotRequest, SnapshotResult

# Calls of programs


@dataclass(frozen=True, slots=True)
class SubmitJobRequest:
    """Runs a job; a graph that was accepted before is not run twice."""

    graph: JobGraph


@dataclass(frozen=True, slots=True)
class SubmitJobResponse:
    """It is accepted."""

    job_id: JobId


@dataclass(frozen=True, slots=True)
class JobRequest:
    """Which job is meant."""

    job_id: JobId


@dataclass(frozen=True, slots=True)
class JobList:
    """All jobs that are known."""

    jobs: tuple[JobDetails, ...] = ()


@dataclass(frozen=True, slots=True)
class ArtifactRequest:
    """An artifact by its content."""

    sha256: str


@dataclass(frozen=True, slots=True)
class ArtifactStatus:
    """Whether the dispatcher has it."""

    present: bool


@dataclass(frozen=True, slots=True)
class ArtifactChunk:
    """A piece of an artifact; the first one says which."""

    artifact: Artifact | None = None
    data: bytes = b""


# A job manager's session


@dataclass(frozen=True, slots=True)
class RegisterJobManager:
    """The first that a job manager says, with everything that it is running."""

    job_manager_id: JobManagerId
    address: str
    jobs: tuple[JobDetails, ...] = ()


JobManagerMessage = RegisterJobManager | JobDetails | CollectResponse | SnapshotResult | CheckpointAnswer
"""From a job manager to the dispatcher."""


@dataclass(frozen=True, slots=True)
class StartJob:
    """The job manager runs this job from now on."""

    graph: JobGraph


@dataclass(frozen=True, slots=True)
class CancelJob:
    """The user wants the job to end."""

    job_id: JobId


@dataclass(frozen=True, slots=True)
class ForgetJob:
    """The job's end is recorded; the job manager may drop it."""

    job_id: JobId


@dataclass(frozen=True, slots=True)
class AbandonJob:
    """The job has ended as far as users know: it must not run, and what it has stored stays."""

    job_id: JobId
    reason: str


DispatcherMessage = StartJob | CancelJob | ForgetJob | AbandonJob | CollectRequest | SnapshotRequest | CheckpointQuery
"""From the dispatcher to a job manager."""
