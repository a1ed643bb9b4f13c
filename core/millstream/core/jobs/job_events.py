"""What happened to a job and was no failure: that its parallelism changes, for which reason, and what came of it."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class JobEventKind(StrEnum):
    """What an event is about."""

    REQUIREMENTS_CHANGED = "REQUIREMENTS_CHANGED"
    """Somebody wants other bounds for the parallelism of vertices."""
    SCALING_DECISION = "SCALING_DECISION"
    """The autoscaler wants another parallelism, or would."""
    RESCALE_STARTED = "RESCALE_STARTED"
    RESCALE_COMPLETED = "RESCALE_COMPLETED"
    RESCALE_FAILED = "RESCALE_FAILED"
    """The job goes on as it ran before."""
    PARALLELISM_CHOSEN = "PARALLELISM_CHOSEN"
    """The job starts, or starts again, in the slots that there are."""


class JobEvent(Struct, frozen=True):
    """One of them, in words for people."""

    timestamp: int
    kind: JobEventKind
    message: str
