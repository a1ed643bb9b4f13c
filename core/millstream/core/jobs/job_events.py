"""What happened to a job: that its parallelism or its job manager changes, and what came of it; that it restarts."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class JobEventKind(StrEnum):
    """What an event is about."""

    REQUIREMENTS_CHANGED = "REQUIREMENTS_CHANGED"
    """Other bounds for the parallelism of vertices were requested."""
    SCALING_DECISION = "SCALING_DECISION"
    """The autoscaler wants another parallelism, or would."""
    RESCALE_STARTED = "RESCALE_STARTED"
    RESCALE_COMPLETED = "RESCALE_COMPLETED"
    RESCALE_FAILED = "RESCALE_FAILED"
    """The job continues as it ran before."""
    PARALLELISM_CHOSEN = "PARALLELISM_CHOSEN"
    """The job starts, or starts again, in the slots that there are."""
    LEADER_CHANGED = "LEADER_CHANGED"
    """Another job manager leads the job, and takes its tasks over or starts it again."""
    RESTARTED = "RESTARTED"
    """Tasks restart after a failure. The same failure again and again is one event, which counts."""
    FAILED = "FAILED"
    """The job has ended for a failure; what it leaves of its state."""


class JobEvent(Struct, frozen=True):
    """One of them, in words for people."""

    timestamp: int
    kind: JobEventKind
    message: str
