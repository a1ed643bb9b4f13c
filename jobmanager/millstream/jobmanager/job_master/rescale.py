"""One change of a job's parallelism, from the wish to its end. Pure data; `scaling_job_master` decides about it."""

from __future__ import annotations

from enum import Enum, auto

from msgspec import Struct

from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.rescales import RescaleEnd
from millstream.jobmanager.adaptive.bounds import Requirements


class Phase(Enum):
    """How far it has come."""

    GATHERING = auto()
    """The job runs, and waits for the slots and workers that it will need."""
    CHECKPOINTING = auto()
    """The job runs, and takes a checkpoint to continue from."""
    CANCELLING = auto()
    """Its tasks end."""
    STARTING = auto()
    """It is restored at the new parallelism, until all its tasks run."""


class Rescale(Struct):
    """`before` is what the job goes back to when it fails, with the bounds that it had then."""

    number: int
    target: JobGraph
    before: JobGraph
    bounds_before: Requirements
    words: str
    reason: str
    trigger_id: str
    since_ms: int
    phase: Phase = Phase.GATHERING
    failed_checkpoints: int = 0
    not_before_ms: int = 0
    """When the next checkpoint may be tried."""
    stopped_ms: int = 0
    """When its tasks were told to end."""
    error: str = ""
    """Why the job goes back; empty: it does not."""
    outcome: RescaleEnd | None = None
    """As what it ends, where its error does not say that."""

    def move_to(self, phase: Phase, now_ms: int) -> None:
        """The next phase begins."""
        self.phase, self.since_ms = phase, now_ms
