"""Snapshots that a user requests, and requests about a job's checkpoints."""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct

from millstream.core.jobs.ids import JobId


class SnapshotRequestKind(IntEnum):
    """The kind of a snapshot request; the values are those of the contract."""

    SAVEPOINT = 0
    STOP = 1
    """With a savepoint."""
    CHECKPOINT = 2


class SnapshotRequest(Struct, frozen=True):
    """Takes a savepoint or a checkpoint, or stops the job with a savepoint."""

    job_id: JobId
    trigger_id: str = ""
    """Assigned by the dispatcher; a repetition has the same id."""
    kind: SnapshotRequestKind = SnapshotRequestKind.SAVEPOINT
    target_directory: str = ""
    """The directory; empty: `execution.checkpointing.savepoint-dir`."""
    drain: bool = False
    """For a stop: whether event time is advanced to its end first."""
    format: str = ""
    """`CANONICAL`, which is the default, or `NATIVE`."""
    full: bool = False
    """For a checkpoint: whether it must not refer to files of earlier ones."""


class SnapshotResult(Struct, frozen=True):
    """The result of a snapshot: complete, unless there is an error."""

    trigger_id: str
    checkpoint_id: int = 0
    location: str = ""
    error: str = ""


class CheckpointView(IntEnum):
    """The view of a job's checkpoints; the values are those of the contract."""

    OVERVIEW = 0
    CONFIG = 1
    DETAILS = 2
    """The details of one checkpoint."""
    SUBTASKS = 3
    """The subtasks of one vertex in one checkpoint."""


class CheckpointQuery(Struct, frozen=True):
    """A query about a job's checkpoints."""

    job_id: JobId
    kind: CheckpointView
    checkpoint_id: int = 0
    vertex_id: str = ""
    request_id: str = ""
    """Set by the dispatcher, to match the response."""


class CheckpointAnswer(Struct, frozen=True):
    """JSON in the shapes of the REST API, or why there is none: no such job, checkpoint or vertex."""

    request_id: str
    json: bytes = b""
    error: str = ""
