"""The kinds of failures, as services exchange them; the values are those of the contracts.

No decision depends on the text of an exception, since a user's class may have any name.
"""

from __future__ import annotations

from enum import IntEnum


class FailureKind(IntEnum):
    """The kind of a failure of a job, for the restart strategy."""

    ORDINARY = 0
    """An error raised by code, with a signature; or any other failure, without one."""
    PEER_LOST = 1
    """A task lost a peer that it exchanges data with: a consequence of the peer's failure."""
    CRASHED = 2
    """A slot worker exited or crashed by itself while its tasks processed records: the record is unknown."""
    OUTAGE = 3
    """Code raised an error because something outside the job failed: a disk, a connection, the target of a sink.
    The record at which that happened, if it is known, is not the cause."""


class WorkerEnd(IntEnum):
    """Why a slot worker has ended."""

    LOST = 0
    """It could not be started, or was killed from outside: another attempt may succeed."""
    PUT_DOWN = 1
    """Its task manager killed it because its tasks were not cancelled in time: a consequence, not a cause."""
    IMPOSSIBLE = 2
    """It can never be started: the job is not restarted."""
    CRASHED = 3
    """It exited or crashed by itself, with a status or a signal that the runtime does not send."""


class DeclineReason(IntEnum):
    """Why a task takes no snapshot for a checkpoint."""

    RAISED = 0
    """Its snapshot could not be taken."""
    NOT_WRITTEN = 1
    """Its snapshot could not be stored."""
    SUBSUMED = 2
    """The barrier of a newer checkpoint arrived first."""
