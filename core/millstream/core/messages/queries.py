"""Queries about a job that only its job manager can respond to, and the result."""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct

from millstream.core.jobs.ids import JobId


class JobView(IntEnum):
    """What is shown of a job; the values are those of the contract."""

    CHECKPOINTS = 0
    """An overview of its checkpoints."""
    CHECKPOINT_CONFIG = 1
    CHECKPOINT_DETAILS = 2
    """The details of one checkpoint."""
    CHECKPOINT_SUBTASKS = 3
    """The subtasks of one vertex in one checkpoint."""
    STALL = 4
    """What holds the job back."""


class JobQuery(Struct, frozen=True):
    """A query about a job."""

    job_id: JobId
    kind: JobView
    checkpoint_id: int = 0
    vertex_id: str = ""
    request_id: str = ""
    """Set by the dispatcher, to match the result."""


class JobQueryResult(Struct, frozen=True):
    """JSON in the shapes of the REST API, or why there is none: no such job, checkpoint or vertex."""

    request_id: str
    json: bytes = b""
    error: str = ""
