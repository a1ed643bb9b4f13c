"""Events of a job: changes of its parallelism or its job manager with their results, restarts, its failure."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class JobEventKind(StrEnum):
    """The kind of an event."""

    REQUIREMENTS_CHANGED = "REQUIREMENTS_CHANGED"
    """Other bounds for the parallelism of vertices were requested."""
    SCALING_DECISION = "SCALING_DECISION"
    """The autoscaler requests another parallelism, or would if it were enabled."""
    RESCALE_STARTED = "RESCALE_STARTED"
    RESCALE_COMPLETED = "RESCALE_COMPLETED"
    RESCALE_FAILED = "RESCALE_FAILED"
    """The rescale failed, and the job continues at its previous parallelism."""
    PARALLELISM_CHOSEN = "PARALLELISM_CHOSEN"
    """The job starts or restarts in the available slots."""
    LEADER_CHANGED = "LEADER_CHANGED"
    """Another job manager leads the job, and takes over its tasks or restarts it."""
    RESTARTED = "RESTARTED"
    """Tasks restart after a failure. Repetitions of the same failure are one event with their number."""
    FAILED = "FAILED"
    """The job has failed; which checkpoint it keeps."""


class JobEvent(Struct, frozen=True):
    """An event with its message."""

    timestamp: int
    kind: JobEventKind
    message: str
