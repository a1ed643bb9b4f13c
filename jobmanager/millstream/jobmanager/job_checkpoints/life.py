"""The life of a job's checkpoints under one job manager. Pure."""

from __future__ import annotations

from enum import Enum


class Phase(Enum):
    """The phase of a job's checkpoints."""

    TAKING = "taking"
    """Checkpoints are taken and complete."""
    SUSPENDED = "suspended"
    """The job manager stops, or has lost the leadership: none is taken. One that is being stored may complete."""
    CONCLUDING = "concluding"
    """The job has ended, and its result is being stored: none completes any more."""
    WITHDRAWN = "withdrawn"
    """The job has ended, and this job manager no longer leads it: none is taken or completes, and none is deleted."""
    STOPPING = "stopping"
    """The result is stored: what the ended job does not keep is determined."""
    ENDED = "ended"
    """What the ended job does not keep is being deleted, or is."""


_SUSPEND = {Phase.TAKING: Phase.SUSPENDED, Phase.CONCLUDING: Phase.WITHDRAWN, Phase.STOPPING: Phase.ENDED}
_CONCLUDE = {Phase.TAKING: Phase.CONCLUDING, Phase.SUSPENDED: Phase.WITHDRAWN}
_STOP = {
    Phase.TAKING: Phase.STOPPING, Phase.CONCLUDING: Phase.STOPPING, Phase.SUSPENDED: Phase.ENDED,
    Phase.WITHDRAWN: Phase.ENDED,
}  # fmt: skip
_END = {Phase.STOPPING: Phase.ENDED}


class Life:
    """The phase, and what it allows. Every call is allowed in every phase; one that changes nothing is ignored."""

    __slots__ = ("phase",)

    def __init__(self) -> None:
        self.phase = Phase.TAKING

    @property
    def is_active(self) -> bool:
        """Whether the coordinator acts by the clock, and is notified of tasks."""
        return self.phase in (Phase.TAKING, Phase.CONCLUDING, Phase.STOPPING)

    @property
    def may_complete(self) -> bool:
        """Whether the pointer of a checkpoint may be stored."""
        return self.phase in (Phase.TAKING, Phase.SUSPENDED)

    @property
    def is_over(self) -> bool:
        """Whether the job has ended with a stored result, so that it is never restored again."""
        return self.phase in (Phase.STOPPING, Phase.ENDED)

    def suspend(self) -> None:
        """The job manager stops, or has lost the leadership."""
        self.phase = _SUSPEND.get(self.phase, self.phase)

    def conclude(self) -> None:
        """The job has ended."""
        self.phase = _CONCLUDE.get(self.phase, self.phase)

    def stop(self) -> None:
        """The result of the job is stored, and the coordinator is stopped."""
        self.phase = _STOP.get(self.phase, self.phase)

    def end(self) -> None:
        """The coordinator has stopped."""
        self.phase = _END.get(self.phase, self.phase)
