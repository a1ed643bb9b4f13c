"""Snapshots that a user requests, and requests about a job's checkpoints."""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct

from millstream.core.jobs.ids import JobId


class SnapshotKind(IntEnum):
    """What is wanted; the values are those of the contract."""

    SAVEPOINT = 0
    STOP = 1
    """With a savepoint."""
    CHECKPOINT = 2


class SnapshotRequest(Struct, frozen=True):
    """Takes a savepoint or a checkpoint, or stops the job with a savepoint."""

    job_id: JobId
    trigger_id: str = ""
    """Made by the dispatcher; the same one again is the same request."""
    kind: SnapshotKind = SnapshotKind.SAVEPOINT
    target_directory: str = ""
    """Empty: `execution.checkpointing.savepoint-dir`."""
    drain: bool = False
    """Of a stop: event time is advanced to its end first."""
    format: str = ""
    """`CANONICAL`, which it is when this is empty, or `NATIVE`."""
    full: bool = False
    """Of a checkpoint: it refers to no file of an earlier one."""


class SnapshotResult(Struct, frozen=True):
    """Complete, unless there is an error."""

    trigger_id: str
    checkpoint_id: int = 0
    location: str = ""
    error: str = ""


class CheckpointView(IntEnum):
    """Which part of what is known of a job's checkpoints; the values are those of the contract."""

    OVERVIEW = 0
    CONFIG = 1
    DETAILS = 2
    """Of one checkpoint."""
    SUBTASKS = 3
    """Of one checkpoint and one vertex."""


class CheckpointQuery(Struct, frozen=True):
    """What a job's checkpoints have been."""

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
