"""What can happen to checkpoints, and what the coordinator wants done about it.

Delivery: events may be late, repeated, or about checkpoints and attempts that are gone. Each effect that names an
answering event is answered exactly once, with success or failure, however long it takes.
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
    """How a job stopped; SUSPENDED when only this job manager stopped leading it."""

    FINISHED = "FINISHED"
    CANCELED = "CANCELED"
    FAILED = "FAILED"
    SUSPENDED = "SUSPENDED"


class TasksRunning(Struct, frozen=True):
    """These attempts run now. A new attempt takes its subtask's place."""

    tasks: tuple[TaskRef, ...]


class InputsEnded(Struct, frozen=True):
    """These attempts have handled all their input and wait for one more completed checkpoint before they finish."""

    attempts: tuple[AttemptId, ...]


class TasksFinished(Struct, frozen=True):
    """These attempts have finished."""

    attempts: tuple[AttemptId, ...]


class TasksRolledBack(Struct, frozen=True):
    """These subtasks failed or are being restarted; None means all of the job."""

    subtasks: frozenset[Subtask] | None
    message: str


class JobRestored(Struct, frozen=True):
    """Tasks start from this completed checkpoint. For the statistics."""

    checkpoint_id: CheckpointId


class SavepointRequested(Struct, frozen=True):
    """The user wants a savepoint, and with `stop` the job to end with it."""

    trigger_id: TriggerId
    target_directory: str | None = None
    stop: bool = False
    drain: bool = False
    savepoint_format: SavepointFormat = SavepointFormat.CANONICAL


class CheckpointRequested(Struct, frozen=True):
    """The user wants a checkpoint now."""

    trigger_id: TriggerId
    full: bool = False


class EnumeratorsSnapshotted(Struct, frozen=True):
    """Answers `SnapshotEnumerators`: the state of the sources' enumerators."""

    checkpoint_id: CheckpointId
    state: object


class EnumeratorsFailed(Struct, frozen=True):
    """Answers `SnapshotEnumerators`: there is no state of the sources' enumerators. `cause` is as in `Declined`."""

    checkpoint_id: CheckpointId
    message: str
    cause: TaskFailure | None = None


class Acknowledged(Struct, frozen=True):
    """A task's snapshot is durable. For the rest, see `TaskSnapshot`."""

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
    """Answers `WriteMetadata`: the metadata is durable at the pointer."""

    checkpoint_id: CheckpointId
    pointer: str


class MetadataFailed(Struct, frozen=True):
    """Answers `WriteMetadata`: there is no metadata, and none will appear."""

    checkpoint_id: CheckpointId
    message: str


class PointerStored(Struct, frozen=True):
    """Answers `StorePointer`: the HA store holds the pointer."""

    checkpoint_id: CheckpointId


class PointerFailed(Struct, frozen=True):
    """Answers `StorePointer`: the HA store does not hold the pointer, and will not. Not sent while that is unknown."""

    checkpoint_id: CheckpointId
    message: str


class NotifyFailed(Struct, frozen=True):
    """A task could not be told of a completed checkpoint, or could not commit it."""

    checkpoint_id: CheckpointId
    attempt_id: AttemptId
    message: str


class Stopped(Struct, frozen=True):
    """The job has ended, or is led elsewhere."""

    outcome: StopOutcome


class Tick(Struct, frozen=True):
    """Time passed."""


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
    """Take the state of the sources' enumerators; answered by `EnumeratorsSnapshotted` or `EnumeratorsFailed`.

    The answer is handled before anything that they send to readers after it, so that barriers reach those first.
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
    """Make the metadata durable; answered by `MetadataWritten` or `MetadataFailed`."""

    content: CheckpointContent


class StorePointer(Struct, frozen=True):
    """Put the pointer into the HA store, in one atomic step; answered by `PointerStored` or `PointerFailed`."""

    checkpoint_id: CheckpointId
    pointer: str


class NotifyComplete(Struct, frozen=True):
    """Have these tasks commit everything up to this checkpoint. May be repeated."""

    checkpoint_id: CheckpointId
    attempts: tuple[AttemptId, ...]


class NotifyAborted(Struct, frozen=True):
    """Have these tasks give up the checkpoint, and continue if it was to stop them."""

    checkpoint_id: CheckpointId
    attempts: tuple[AttemptId, ...]


class DiscardState(Struct, frozen=True):
    """Delete what belongs to a checkpoint that will never complete: tasks' states, and the metadata if there is any.

    Files that another checkpoint refers to stay. There may be several for one checkpoint, as late states come in.
    """

    checkpoint_id: CheckpointId
    states: tuple[object, ...]
    pointer: str | None = None


class DeleteCheckpoint(Struct, frozen=True):
    """Delete a completed checkpoint: its pointer first, then its metadata, then files that no other refers to."""

    checkpoint: CompletedCheckpoint


class ReleasePointer(Struct, frozen=True):
    """Take a pointer out of the HA store, and leave the files to their owner."""

    checkpoint_id: CheckpointId


class FailJob(Struct, frozen=True):
    """Fail the running tasks, so that the job restarts from its last checkpoint if it may.

    `cause` is that of the `Declined` or `EnumeratorsFailed` which led to it.
    """

    message: str
    cause: TaskFailure | None = None


class SavepointDone(Struct, frozen=True):
    """The user's savepoint is complete, and the job has ended if it was to end with it."""

    trigger_id: TriggerId
    checkpoint_id: CheckpointId
    path: str


class SavepointFailed(Struct, frozen=True):
    """The user's savepoint will not be, or the job did not end with it."""

    trigger_id: TriggerId
    reason: CheckpointFailureReason
    message: str


class CheckpointDone(Struct, frozen=True):
    """The checkpoint that the user wanted is complete."""

    trigger_id: TriggerId
    checkpoint_id: CheckpointId
    path: str


class CheckpointFailed(Struct, frozen=True):
    """The checkpoint that the user wanted will not be."""

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
