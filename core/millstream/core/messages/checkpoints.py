"""The messages between the job manager and tasks about checkpoints."""

from __future__ import annotations

from msgspec import Struct

from millstream.core.jobs.barriers import Barrier
from millstream.core.jobs.failure_kinds import DeclineReason
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.ids import AllocationId, AttemptId


class TriggerCheckpoint(Struct, frozen=True):
    """Triggers a checkpoint at source tasks; the barriers that they emit trigger it at all others."""

    allocation_id: AllocationId
    attempt_ids: tuple[AttemptId, ...]
    barrier: Barrier


class CheckpointNotice(Struct, frozen=True):
    """Notifies tasks that the checkpoint is complete and may be committed, or that it was aborted."""

    allocation_id: AllocationId
    attempt_ids: tuple[AttemptId, ...]
    checkpoint_id: int
    completed: bool


class CheckpointAck(Struct, frozen=True):
    """A task has written its snapshot."""

    allocation_id: AllocationId
    attempt_id: AttemptId
    checkpoint_id: int
    operators: bytes = b""
    """JSON: the states of each operator of this subtask (`millstream.core.snapshot`)."""
    sync_ms: int = 0
    async_ms: int = 0
    bytes_written: int = 0
    alignment_ms: int = 0
    start_delay_ms: int = 0
    """From the trigger to the first barrier."""
    processed_bytes: int = 0
    """The bytes processed while barriers were awaited."""
    persisted_bytes: int = 0
    """The bytes of records in flight in an unaligned checkpoint."""
    unaligned: bool = False
    ended: bool = False
    """Whether the task's operators had finished, so that it holds the end of its input."""
    records: int = 0
    """The number of records that the attempt had processed before the barrier."""
    waited_for: str = ""
    """The task whose barrier came last, if others were waiting for it."""


class CheckpointDecline(Struct, frozen=True):
    """A task declined the checkpoint."""

    allocation_id: AllocationId
    attempt_id: AttemptId
    checkpoint_id: int
    reason: DeclineReason
    message: str
    failure: TaskFailure | None = None
    """The error that was raised in the task, if that is the reason."""


class InputsEnded(Struct, frozen=True):
    """The task has processed all its input, and waits for a checkpoint that holds its end."""

    allocation_id: AllocationId
    attempt_id: AttemptId


class CommitFailed(Struct, frozen=True):
    """A sink could not commit what a completed checkpoint holds: the notice has to be sent again."""

    allocation_id: AllocationId
    attempt_id: AttemptId
    checkpoint_id: int
    message: str
