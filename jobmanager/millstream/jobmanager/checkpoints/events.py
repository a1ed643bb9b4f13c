"""The events and effects of the checkpoint coordinator.

Delivery: events may be late, repeated, or refer to checkpoints and attempts that no longer exist. Each effect whose
docstring names result events leads to exactly one of them, success or failure, however long it takes.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.ids import AttemptId
from millstream.jobmanager.checkpoints.failures import CheckpointFailureReason
from millstream.jobmanager.checkpoints.model import (
    CheckpointContent,
    CheckpointId,
    CompletedCheckpoint,
    SavepointFormat,
    SnapshotMetrics,
    SnapshotOptions,
    TaskRef,
    TriggerId,
)
from millstream.jobmanager.failover.topology import Subtask


class StopOutcome(StrEnum):
    """How a job stopped; SUSPENDED when only this job manager lost the leadership."""

    FINISHED = "FINISHED"
    CANCELED = "CANCELED"
    FAILED = "FAILED"
    SUSPENDED = "SUSPENDED"


class TasksRunning(Struct, frozen=True):
    """These attempts are running. A new attempt replaces the previous one of its subtask."""

    tasks: tuple[TaskRef, ...]


class InputsEnded(Struct, frozen=True):
    """These attempts have processed all their input and wait for one more completed checkpoint before they finish."""

    attempts: tuple[AttemptId, ...]


class TasksFinished(Struct, frozen=True):
    """These attempts have finished."""

    attempts: tuple[AttemptId, ...]


class TasksRolledBack(Struct, frozen=True):
    """These subtasks failed or are being restarted; None means all of the job."""

    subtasks: frozenset[Subtask] | None
    message: str


class JobRestored(Struct, frozen=True):
    """Tasks are restored from this completed checkpoint; recorded in the statistics."""

    checkpoint_id: CheckpointId


class SavepointRequested(Struct, frozen=True):
    """A user requested a savepoint; with `stop`, the job ends with it."""

    trigger_id: TriggerId
    target_directory: str | None = None
    stop: bool = False
    drain: bool = False
    savepoint_format: SavepointFormat = SavepointFormat.CANONICAL


class CheckpointRequested(Struct, frozen=True):
    """A user requested a checkpoint."""

    trigger_id: TriggerId
    full: bool = False


class EnumeratorsSnapshotted(Struct, frozen=True):
    """The result of `SnapshotEnumerators`: the state of the sources' enumerators."""

    checkpoint_id: CheckpointId
    state: object


class EnumeratorsFailed(Struct, frozen=True):
    """The failure of `SnapshotEnumerators`: an enumerator took no snapshot. `cause` is as in `Declined`."""

    checkpoint_id: CheckpointId
    message: str
    cause: TaskFailure | None = None


class Acknowledged(Struct, frozen=True):
    """A task's snapshot is durable. For the fields, see `TaskSnapshot`."""

    checkpoint_id: CheckpointId
    attempt_id: AttemptId
    state: object | None
    metrics: SnapshotMetrics
    ended: bool = False
    union_list: str = ""


class Declined(Struct, frozen=True):
    """A task cannot take the snapshot, or could not write it. `cause` is what was raised in it."""

    checkpoint_id: CheckpointId
    attempt_id: AttemptId
    reason: CheckpointFailureReason
    message: str
    cause: TaskFailure | None = None


class MetadataWritten(Struct, frozen=True):
    """The result of `WriteMetadata`: the metadata is durable at the pointer."""

    checkpoint_id: CheckpointId
    pointer: str


class MetadataFailed(Struct, frozen=True):
    """The failure of `WriteMetadata`: there is no metadata, and none will appear."""

    checkpoint_id: CheckpointId
    message: str


class PointerStored(Struct, frozen=True):
    """The result of `StorePointer`: the HA store holds the pointer."""

    checkpoint_id: CheckpointId


class PointerFailed(Struct, frozen=True):
    """The failure of `StorePointer`: the HA store does not and will not hold the pointer. Sent once that is certain."""

    checkpoint_id: CheckpointId
    message: str


class NotifyFailed(Struct, frozen=True):
    """A task could not be notified of a completed checkpoint, or could not commit it."""

    checkpoint_id: CheckpointId
    attempt_id: AttemptId
    message: str


class Stopped(Struct, frozen=True):
    """The job has ended, or another job manager is its leader."""

    outcome: StopOutcome


class Tick(Struct, frozen=True):
    """The time of `next_wake_up` has come."""


Event = (
    TasksRunning
    | InputsEnded
    | TasksFinished
    | TasksRolledBack
    | JobRestored
    | SavepointRequested
    | CheckpointRequested
    | EnumeratorsSnapshotted
    | EnumeratorsFailed
    | Acknowledged
    | Declined
    | MetadataWritten
    | MetadataFailed
    | PointerStored
    | PointerFailed
    | NotifyFailed
    | Stopped
    | Tick
)


class SnapshotEnumerators(Struct, frozen=True):
    """Take a snapshot of the sources' enumerators; results in `EnumeratorsSnapshotted` or `EnumeratorsFailed`.

    The result is handled before anything that they send to readers after it, so that barriers reach the readers first.
    """

    checkpoint_id: CheckpointId


class TriggerBarrier(Struct, frozen=True):
    """Have these tasks start the checkpoint: sources, tasks that have ended, and tasks whose producers all have.

    A task with inputs that are still open takes its snapshot when they have ended. Should a barrier of this checkpoint
    reach it through an input, or the trigger reach it twice, it takes one snapshot all the same.
    """

    checkpoint_id: CheckpointId
    attempts: tuple[AttemptId, ...]
    options: SnapshotOptions
    timestamp_ms: int


class WriteMetadata(Struct, frozen=True):
    """Make the metadata durable; results in `MetadataWritten` or `MetadataFailed`."""

    content: CheckpointContent


class StorePointer(Struct, frozen=True):
    """Put the pointer into the HA store, in one atomic step; results in `PointerStored` or `PointerFailed`."""

    checkpoint_id: CheckpointId
    pointer: str


class NotifyComplete(Struct, frozen=True):
    """Have these tasks commit everything up to this checkpoint. May be repeated."""

    checkpoint_id: CheckpointId
    attempts: tuple[AttemptId, ...]


class NotifyAborted(Struct, frozen=True):
    """Notify these tasks that the checkpoint was aborted; they continue if it was to stop them."""

    checkpoint_id: CheckpointId
    attempts: tuple[AttemptId, ...]


class DiscardState(Struct, frozen=True):
    """Delete what belongs to a checkpoint that will never complete: tasks' states, and the metadata if there is any.

    Files that another checkpoint refers to remain. Late acknowledgements lead to further such effects for a checkpoint.
    """

    checkpoint_id: CheckpointId
    states: tuple[object, ...]
    pointer: str | None = None


class DeleteCheckpoint(Struct, frozen=True):
    """Delete a completed checkpoint: its pointer first, then its metadata, then files that no other refers to."""

    checkpoint: CompletedCheckpoint


class ReleasePointer(Struct, frozen=True):
    """Remove a pointer from the HA store, and leave the files to their owner."""

    checkpoint_id: CheckpointId


class FailJob(Struct, frozen=True):
    """Fail the running tasks, so that the job restarts from its last checkpoint if its restart strategy allows it.

    `cause` is that of the `Declined` or `EnumeratorsFailed` which led to it.
    """

    message: str
    cause: TaskFailure | None = None


class SavepointDone(Struct, frozen=True):
    """The user's savepoint is complete, and the job has ended if it was to be stopped with it."""

    trigger_id: TriggerId
    checkpoint_id: CheckpointId
    path: str


class SavepointFailed(Struct, frozen=True):
    """The user's savepoint failed, or the job did not end with it."""

    trigger_id: TriggerId
    reason: CheckpointFailureReason
    message: str


class CheckpointDone(Struct, frozen=True):
    """The checkpoint that the user requested is complete."""

    trigger_id: TriggerId
    checkpoint_id: CheckpointId
    path: str


class CheckpointFailed(Struct, frozen=True):
    """The checkpoint that the user requested failed."""

    trigger_id: TriggerId
    reason: CheckpointFailureReason
    message: str


Effect = (
    SnapshotEnumerators
    | TriggerBarrier
    | WriteMetadata
    | StorePointer
    | NotifyComplete
    | NotifyAborted
    | DiscardState
    | DeleteCheckpoint
    | ReleasePointer
    | FailJob
    | SavepointDone
    | SavepointFailed
    | CheckpointDone
    | CheckpointFailed
)
