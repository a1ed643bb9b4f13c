"""What kinds of failures there are, as services tell each other; the values are those of the contracts.

Nobody decides by the text of an exception, which is for people: a class of the user's may have any name.
"""

from __future__ import annotations

from enum import IntEnum

from millstream.proto import status_pb2, taskmanager_pb2


class FailureKind(IntEnum):
    """What a failure of a job is, for whoever decides what comes of it."""

    ORDINARY = status_pb2.TaskFailure.ORDINARY
    """Code raised an error, which then has a signature; or something that no code did, which has none."""
    PEER_LOST = status_pb2.TaskFailure.PEER_LOST
    """A task lost one that it exchanges data with: only the echo of what happened to the other."""
    CRASHED = status_pb2.TaskFailure.CRASHED
    """A process of the job exited or crashed by itself, at a record that nobody knows."""


class WorkerEnd(IntEnum):
    """Why a slot worker is gone."""

    LOST = taskmanager_pb2.WorkerLost.LOST
    """It could not be started, or was ended from outside: another try may help."""
    PUT_DOWN = taskmanager_pb2.WorkerLost.PUT_DOWN
    """Its task manager ended it, for not cancelling in time: a consequence, not a cause."""
    IMPOSSIBLE = taskmanager_pb2.WorkerLost.IMPOSSIBLE
    """It can never be started: the job is not restarted."""
    CRASHED = taskmanager_pb2.WorkerLost.CRASHED
    """It exited or crashed by itself, with a status or a signal that nobody sends."""


class DeclineReason(IntEnum):
    """Why a task takes no snapshot for a checkpoint."""

    RAISED = taskmanager_pb2.CheckpointDecline.RAISED
    """Its snapshot could not be taken."""
    NOT_WRITTEN = taskmanager_pb2.CheckpointDecline.NOT_WRITTEN
    """What it took could not be stored."""
    SUBSUMED = taskmanager_pb2.CheckpointDecline.SUBSUMED
    """The barrier of a newer checkpoint came first."""
