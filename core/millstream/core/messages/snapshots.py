"""Snapshots that a user requests."""

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
