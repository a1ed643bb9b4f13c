"""What the job manager and tasks send each other about checkpoints."""

from __future__ import annotations

from msgspec import Struct

from millstream.core.jobs.barriers import Alignment, StopMode
from millstream.core.jobs.failure_kinds import DeclineReason
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.ids import AllocationId, AttemptId


class CheckpointOptions(Struct, frozen=True):
    """All that a task has to know of a checkpoint."""

    checkpoint_id: int
    timestamp: int
    """When the coordinator triggered it, in milliseconds."""
    location: str
    """The folder that the state files go to."""
    savepoint: bool = False
    """In the open format, owned by the user."""
    full: bool = False
    """It refers to no file of an earlier checkpoint."""
    alignment: Alignment = Alignment.ALIGNED
    stop: StopMode = StopMode.NONE
    aligned_timeout_ms: int | None = None
    """An aligned checkpoint turns unaligned when it is this old."""
    native: bool = False
    """A savepoint in the files of checkpoints."""
    oldest_base: int = 0
    """The oldest checkpoint whose files it may refer to."""


class TriggerCheckpoint(Struct, frozen=True):
    """Triggers a checkpoint at source tasks; the barriers that they emit trigger it at all others."""

    allocation_id: AllocationId
    attempt_ids: tuple[AttemptId, ...]
    options: CheckpointOptions


class CheckpointNotice(Struct, frozen=True):
    """The checkpoint is complete, and what it holds may be committed; or it was given up."""

    allocation_id: AllocationId
    attempt_ids: tuple[AttemptId, ...]
    checkpoint_id: int
    completed: bool


class CheckpointAck(Struct, frozen=True):
    """A task's snapshot is written."""

    allocation_id: AllocationId
    attempt_id: AttemptId
    checkpoint_id: int
    operators: bytes = b""
    """JSON: what each operator of this subtask wrote (`millstream.core.snapshot`)."""
    sync_ms: int = 0
    async_ms: int = 0
    bytes_written: int = 0
    alignment_ms: int = 0
    start_delay_ms: int = 0
    """From the trigger to the first barrier."""
    processed_bytes: int = 0
    """Taken in while barriers were awaited."""
    persisted_bytes: int = 0
    """Records in flight that became part of an unaligned checkpoint."""
    unaligned: bool = False
    ended: bool = False
    """Taken when the task's operators had finished: it holds the end of its input."""
    records: int = 0
    """That the attempt had taken before the barrier."""
    waited_for: str = ""
    """The task whose barrier came last, if others were waiting for it."""


class CheckpointDecline(Struct, frozen=True):
    """A task takes no snapshot."""

    allocation_id: AllocationId
    attempt_id: AttemptId
    checkpoint_id: int
    reason: DeclineReason
    message: str
    failure: TaskFailure | None = None
    """What was raised in the task, if that is why."""


class InputsEnded(Struct, frozen=True):
    """The task has handled all its input, and waits for a checkpoint that holds its end."""

    allocation_id: AllocationId
    attempt_id: AttemptId


class CommitFailed(Struct, frozen=True):
    """A sink could not commit what a completed checkpoint holds: the notice has to be sent again."""

    allocation_id: AllocationId
    attempt_id: AttemptId
    checkpoint_id: int
    message: str
