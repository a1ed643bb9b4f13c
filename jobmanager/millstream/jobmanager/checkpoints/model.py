"""The data of checkpoint coordination: options of a snapshot, acknowledgements, completed checkpoints."""

from __future__ import annotations

from enum import StrEnum
from typing import NewType

from msgspec import Struct, field

from millstream.core.jobs.barriers import CheckpointOptions, StopMode
from millstream.core.jobs.ids import AttemptId
from millstream.jobmanager.failover.topology import Subtask

CheckpointId = NewType("CheckpointId", int)
TriggerId = NewType("TriggerId", str)


class SavepointFormat(StrEnum):
    """How a savepoint is written: in the portable format, or in the state backend's own files."""

    CANONICAL = "CANONICAL"
    NATIVE = "NATIVE"


class SnapshotOptions(CheckpointOptions, frozen=True, kw_only=True):
    """The options of a snapshot that is requested or pending.

    `full` forbids referring to files of earlier checkpoints, and `oldest_base` to those of checkpoints that are no
    longer retained, since tasks may not have been notified yet that a newer one is complete.
    """

    target_directory: str | None = None

    @property
    def savepoint_format(self) -> SavepointFormat | None:
        """The format of a savepoint."""
        if not self.is_savepoint:
            return None
        return SavepointFormat.NATIVE if self.native else SavepointFormat.CANONICAL

    @property
    def is_stop(self) -> bool:
        """Whether the job ends with it."""
        return self.stop is not StopMode.NONE

    @property
    def becomes_restore_point(self) -> bool:
        """Whether the job is restored from it: any checkpoint, and a savepoint that stops the job and commits."""
        return not self.is_savepoint or self.is_stop


class TaskRef(Struct, frozen=True):
    """One attempt of one subtask."""

    subtask: Subtask
    attempt_id: AttemptId


class SnapshotMetrics(Struct, frozen=True):
    """What a task measured while it took its snapshot, in milliseconds and bytes."""

    sync_ms: int = 0
    async_ms: int = 0
    start_delay_ms: int = 0
    alignment_ms: int = 0
    checkpointed_bytes: int = 0
    state_bytes: int = 0
    processed_bytes: int = 0
    persisted_bytes: int = 0
    unaligned: bool = False
    waited_for: str = ""
    """The task whose barrier came last, if others were waiting for it."""


class TaskSnapshot(Struct, frozen=True):
    """A task's acknowledgement. `state` holds the handles of its state, opaque here; None when it has no state.

    `ended` is true when the snapshot holds the end of the task's input. `union_list` names a union list in it.
    """

    task: TaskRef
    state: object | None
    metrics: SnapshotMetrics = field(default_factory=SnapshotMetrics)
    ended: bool = False
    union_list: str = ""


class CheckpointContent(Struct, frozen=True):
    """The content of a checkpoint: snapshots, the tasks that had finished, the state of the sources' enumerators."""

    checkpoint_id: CheckpointId
    options: SnapshotOptions
    timestamp_ms: int
    snapshots: tuple[TaskSnapshot, ...]
    finished: tuple[Subtask, ...] = ()
    enumerator_states: object | None = None


class CompletedCheckpoint(Struct, frozen=True):
    """A restore point: its metadata is durable at `pointer`, and the pointer is in the HA store.

    `owned` is true when the job may delete it: not a savepoint, nor the snapshot it was started from without claiming
    it.
    """

    content: CheckpointContent
    pointer: str
    owned: bool = True

    @property
    def checkpoint_id(self) -> CheckpointId:
        """The checkpoint's id."""
        return self.content.checkpoint_id
