"""What kinds of failures there are, as services exchange them; the values are those of the contracts.

Nothing is decided by the text of an exception, which is for people: a class of the user's may have any name.
"""

from __future__ import annotations

from enum import IntEnum


class FailureKind(IntEnum):
    """What a failure of a job is, for the restart strategy."""

    ORDINARY = 0
    """Code raised an error, which then has a signature; or something that no code did, which has none."""
    PEER_LOST = 1
    """A task lost one that it exchanges data with: only the echo of what happened to the other."""
    CRASHED = 2
    """A process of the job exited or crashed by itself, at an unknown record."""
    OUTAGE = 3
    """Code raised an error because something outside of the job failed: a disk, a connection, what a sink writes to.
    The record at which that happened, if it is known, has no part in it."""


class WorkerEnd(IntEnum):
    """Why a slot worker is gone."""

    LOST = 0
    """It could not be started, or was ended from outside: another try may help."""
    PUT_DOWN = 1
    """Its task manager ended it, for not cancelling in time: a consequence, not a cause."""
    IMPOSSIBLE = 2
    """It can never be started: the job is not restarted."""
    CRASHED = 3
    """It exited or crashed by itself, with a status or a signal that the runtime does not send."""


class DeclineReason(IntEnum):
    """Why a task takes no snapshot for a checkpoint."""

    RAISED = 0
    """Its snapshot could not be taken."""
    NOT_WRITTEN = 1
    """What it took could not be stored."""
    SUBSUMED = 2
    """The barrier of a newer checkpoint came first."""
