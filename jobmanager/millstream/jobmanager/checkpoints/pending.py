"""A pending checkpoint, and the record of recently ended ones."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from enum import Enum, auto

from msgspec import Struct, field

from millstream.core.jobs.barriers import StopMode
from millstream.core.jobs.ids import AttemptId
from millstream.jobmanager.checkpoints.model import (
    CheckpointContent,
    CheckpointId,
    SnapshotOptions,
    TaskRef,
    TaskSnapshot,
)
from millstream.jobmanager.checkpoints.policies.requests import Request


class Phase(Enum):
    """How far a checkpoint has come. Only one is in STORING at a time, and it cannot be aborted there."""

    PREPARING = auto()  # the sources' enumerators take their snapshots
    COLLECTING = auto()  # barriers flow, tasks acknowledge
    WRITING = auto()  # the metadata is being written
    WRITTEN = auto()  # the metadata is durable; the pointer waits to be stored
    STORING = auto()  # the pointer is being stored


class PendingCheckpoint(Struct):
    """What has been collected so far. `started_ms` is a date, `deadline_ms` a reading of the steady clock."""

    id: CheckpointId
    request: Request
    options: SnapshotOptions
    started_ms: int
    deadline_ms: int
    phase: Phase = Phase.PREPARING
    expected: dict[AttemptId, TaskRef] = field(default_factory=dict)
    snapshots: dict[AttemptId, TaskSnapshot] = field(default_factory=dict)
    finished: dict[AttemptId, TaskRef] = field(default_factory=dict)
    triggered: set[AttemptId] = field(default_factory=set)
    strangers: set[AttemptId] = field(default_factory=set)
    enumerator_states: object | None = None
    pointer: str | None = None

    @property
    def is_acknowledged(self) -> bool:
        """Whether every task has acknowledged or finished."""
        return len(self.snapshots) + len(self.finished) == len(self.expected)

    @property
    def has_drained(self) -> bool:
        """Whether tasks may have advanced event time to its end for it, which only a restart can reset."""
        return self.options.stop is StopMode.DRAIN and bool(self.expected)

    def waits_for(self) -> str:
        """What is missing for it to complete, for messages."""
        match self.phase:
            case Phase.PREPARING:
                return "the enumerators of the sources"
            case Phase.COLLECTING:
                missing = len(self.expected) - len(self.snapshots) - len(self.finished)
                return f"{missing} of {len(self.expected)} tasks"
            case Phase.WRITING | Phase.WRITTEN | Phase.STORING:
                return "its metadata to be stored"

    def begin(self, active: Iterable[TaskRef], finished: Iterable[TaskRef]) -> None:
        """Starts collecting: these tasks take part, and barriers are sent next."""
        self.phase = Phase.COLLECTING
        self.finished = {task.attempt_id: task for task in finished}
        self.expected = {task.attempt_id: task for task in active} | self.finished

    def to_trigger(self, starting_points: Iterable[TaskRef]) -> tuple[AttemptId, ...]:
        """Returns the starting points that need a trigger and have not received one."""
        attempts = tuple(
            task.attempt_id
            for task in starting_points
            if task.attempt_id in self.expected
            and task.attempt_id not in self.triggered
            and task.attempt_id not in self.snapshots
        )
        self.triggered.update(attempts)
        return attempts

    def acknowledge(self, snapshot: TaskSnapshot) -> None:
        """Records a task's snapshot; a task recorded as finished counts as acknowledged instead."""
        self.snapshots[snapshot.task.attempt_id] = snapshot
        self.finished.pop(snapshot.task.attempt_id, None)

    def finish(self, task: TaskRef) -> None:
        """Records that a task finished: all its records precede the barrier, unless it acknowledged before."""
        if task.attempt_id in self.expected and task.attempt_id not in self.snapshots:
            self.finished[task.attempt_id] = task

    def collected(self) -> tuple[TaskSnapshot, ...]:
        """The snapshots so far, in the order of the tasks."""
        return tuple(self.snapshots[attempt] for attempt in self.expected if attempt in self.snapshots)

    def states(self) -> tuple[object, ...]:
        """The states that have to be deleted if the checkpoint is aborted."""
        return tuple(s.state for s in self.collected() if s.state is not None)

    def is_stray(self, attempt: AttemptId) -> bool:
        """Whether this is an unexpected snapshot to be discarded; true only once for an attempt."""
        if attempt in self.snapshots or attempt in self.strangers:
            return False
        self.strangers.add(attempt)
        return True

    def content(self) -> CheckpointContent:
        """All that was collected."""
        return CheckpointContent(
            self.id,
            self.options,
            self.started_ms,
            self.collected(),
            tuple(sorted(task.subtask for task in self.finished.values())),
            self.enumerator_states,
        )


class EndedCheckpoints:
    """The attempts whose snapshots have been accounted for, for recently ended checkpoints.

    Distinguishes a late snapshot, which must be discarded, from one that was acknowledged twice, which must not be.
    Nothing is deleted for a checkpoint that is no longer remembered.
    """

    def __init__(self, remembered: int = 128) -> None:
        self._remembered = remembered
        self._attempts: OrderedDict[CheckpointId, set[AttemptId]] = OrderedDict()

    def add(self, pending: PendingCheckpoint) -> None:
        """Remembers an ended checkpoint, whose acknowledged snapshots are accounted for."""
        self._attempts[pending.id] = set(pending.snapshots) | pending.strangers
        if len(self._attempts) > self._remembered:
            self._attempts.popitem(last=False)

    def is_stray(self, checkpoint_id: CheckpointId, attempt: AttemptId) -> bool:
        """Whether this is a late snapshot to be discarded; true only once for an attempt."""
        attempts = self._attempts.get(checkpoint_id)
        if attempts is None or attempt in attempts:
            return False
        attempts.add(attempt)
        return True
