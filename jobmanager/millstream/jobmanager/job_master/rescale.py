"""The state of one rescale, from the request to its end. Pure data; `rescaling` makes the decisions."""

from __future__ import annotations

from enum import Enum, auto

from msgspec import Struct

from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.rescales import RescaleEnd
from millstream.jobmanager.adaptive.bounds import Requirements


class Phase(Enum):
    """The phase of a rescale."""

    GATHERING = auto()
    """The job runs, and waits for the slots and workers that it will need."""
    CHECKPOINTING = auto()
    """The job runs, and takes a checkpoint to continue from."""
    CANCELLING = auto()
    """Its tasks are being cancelled."""
    STARTING = auto()
    """It is restored at the new parallelism, until all its tasks run."""


class Rescale(Struct):
    """`before` is the graph that the job returns to when the rescale fails, with its bounds at that time."""

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
    """When the next checkpoint may be triggered."""
    stopped_ms: int = 0
    """When the cancellation of its tasks began."""
    error: str = ""
    """Why the job returns to its previous parallelism; empty: it does not."""
    outcome: RescaleEnd | None = None
    """How the rescale ends, where the error does not determine it."""

    def move_to(self, phase: Phase, now_ms: int) -> None:
        """Begins the next phase."""
        self.phase, self.since_ms = phase, now_ms
