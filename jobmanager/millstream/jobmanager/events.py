"""What can happen to a job, and what the JobMaster wants done about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from millstream.core.jobs.failure_kinds import WorkerEnd
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import AllocationId, AttemptId, TaskManagerId
from millstream.core.messages.deployment import TaskDeployment
from millstream.core.messages.task_manager import TaskMetricsReport, TaskUpdate
from millstream.jobmanager.execution_graph import TaskRestore
from millstream.jobmanager.failover.topology import Subtask


@dataclass(frozen=True, slots=True)
class SlotOffered:
    """A task manager has a slot for the job."""

    allocation_id: AllocationId
    task_manager: TaskManagerId
    host: str


@dataclass(frozen=True, slots=True)
class SlotSupply:
    """The slots of the whole cluster: those that no job holds, all, and those that may still be started."""

    free: int
    total: int
    startable: int = 0

    def __str__(self) -> str:
        more = f", up to {self.startable} more may be started" if self.startable else ""
        return f"{self.free} free of {self.total} in the cluster{more}"


@dataclass(frozen=True, slots=True)
class NotEnoughSlots:
    """The resource manager cannot give what was declared, at this moment."""

    available: int
    supply: SlotSupply | None = None


@dataclass(frozen=True, slots=True)
class SlotsReclaimed:
    """The slots that the job holds while it waits for more would be enough for another."""


@dataclass(frozen=True, slots=True)
class Suspended:
    """The job manager may not act for the dispatcher any more: nothing of the job may run."""

    reason: str


@dataclass(frozen=True, slots=True)
class Resumed:
    """The job manager may act again."""


@dataclass(frozen=True, slots=True)
class Abandoned:
    """To users the job has ended: it ends, and keeps what it has stored."""

    reason: str


@dataclass(frozen=True, slots=True)
class WorkerProgressed:
    """An environment is being made: a slot worker's, or with an empty allocation, the enumerator process's."""

    allocation_id: AllocationId
    message: str


@dataclass(frozen=True, slots=True)
class WorkerReadied:
    """A slot worker listens at its address."""

    allocation_id: AllocationId
    data_address: str


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """A slot worker died or could not be started, or was put down because its tasks did not cancel in time."""

    allocation_id: AllocationId
    reason: str
    end: WorkerEnd = WorkerEnd.LOST


@dataclass(frozen=True, slots=True)
class TaskManagerLost:
    """A task manager's session ended."""

    task_manager: TaskManagerId
    reason: str


@dataclass(frozen=True, slots=True)
class TaskChanged:
    """A task reports its state."""

    update: TaskUpdate


@dataclass(frozen=True, slots=True)
class MetricsReported:
    """Tasks report their metrics."""

    report: TaskMetricsReport


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """The user wants the job to end."""


@dataclass(frozen=True, slots=True)
class EnumeratorsReadied:
    """The enumerator process runs the sources' enumerators."""


@dataclass(frozen=True, slots=True)
class EnumeratorsFailed:
    """An enumerator raised, or the enumerator process died."""

    failure: TaskFailure


@dataclass(frozen=True, slots=True)
class JobFailed:
    """Something that is no task's fault alone went wrong: all of the job fails, or restarts."""

    failure: TaskFailure


@dataclass(frozen=True, slots=True)
class Restored:
    """Answers `Restore`: what the subtasks restore from, and the enumerators are where they were then."""

    restart: int
    restores: Mapping[Subtask, TaskRestore] = field(default_factory=dict)
    graph: JobGraph | None = None  # the job with what it takes over from the snapshot that it starts from


@dataclass(frozen=True, slots=True)
class RestoreFailed:
    """Answers `Restore`: the checkpoint cannot be read. With `final`, trying again would not help."""

    restart: int
    reason: str
    final: bool = False


@dataclass(frozen=True, slots=True)
class CheckpointCompleted:
    """A checkpoint that tasks can be restored from is complete; the records that attempts had taken before it."""

    records: Mapping[AttemptId, int]


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed."""


Event = (
    SlotOffered
    | NotEnoughSlots
    | SlotsReclaimed
    | Suspended
    | Resumed
    | Abandoned
    | WorkerProgressed
    | WorkerReadied
    | WorkerLost
    | TaskManagerLost
    | TaskChanged
    | MetricsReported
    | CancelRequested
    | EnumeratorsReadied
    | EnumeratorsFailed
    | JobFailed
    | Restored
    | RestoreFailed
    | CheckpointCompleted
    | Tick
)


@dataclass(frozen=True, slots=True)
class DeclareSlots:
    """Tell the resource manager how many slots the job wants in all."""

    slots: int


@dataclass(frozen=True, slots=True)
class AnswerOffer:
    """Take a slot, or not."""

    allocation_id: AllocationId
    task_manager: TaskManagerId
    accepted: bool


@dataclass(frozen=True, slots=True)
class StopEnumerators:
    """End the enumerator process; another will be wanted before anything runs again."""


@dataclass(frozen=True, slots=True)
class StartEnumerators:
    """Start the process for the sources' enumerators."""


@dataclass(frozen=True, slots=True)
class StartWorker:
    """Have the slot's worker started in the job's environment."""

    allocation_id: AllocationId
    task_manager: TaskManagerId


@dataclass(frozen=True, slots=True)
class Deploy:
    """Have tasks run in a slot."""

    allocation_id: AllocationId
    task_manager: TaskManagerId
    tasks: tuple[TaskDeployment, ...]


@dataclass(frozen=True, slots=True)
class CancelTasks:
    """Have tasks cancelled."""

    allocation_id: AllocationId
    task_manager: TaskManagerId
    attempts: tuple[AttemptId, ...]


@dataclass(frozen=True, slots=True)
class FreeSlot:
    """Give a slot back."""

    allocation_id: AllocationId
    task_manager: TaskManagerId
    reason: str


@dataclass(frozen=True, slots=True)
class RollBack:
    """These subtasks failed or are being cancelled for a restart: checkpoints under way cannot complete."""

    subtasks: frozenset[Subtask]
    reason: str


@dataclass(frozen=True, slots=True)
class Restore:
    """Bring the sources' enumerators back to the last checkpoint, and find what these subtasks restore from.

    None of the subtasks runs. With `start_enumerators`, there is no enumerator process, or it failed: a new one is
    needed, which reports with `EnumeratorsReadied`. Answered by `Restored` or `RestoreFailed` with the same number; an
    effect with a higher number replaces this one.
    """

    restart: int
    subtasks: frozenset[Subtask]
    start_enumerators: bool


@dataclass(frozen=True, slots=True)
class WakeUpAt:
    """A `Tick` is due at this time, on the steady clock."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class ReportDetails:
    """The job's state, message or failures changed."""


@dataclass(frozen=True, slots=True)
class JobEnded:
    """The job reached its terminal state; everything that it held has been given back."""


Effect = (
    DeclareSlots
    | AnswerOffer
    | StartEnumerators
    | StopEnumerators
    | StartWorker
    | Deploy
    | CancelTasks
    | FreeSlot
    | RollBack
    | Restore
    | WakeUpAt
    | ReportDetails
    | JobEnded
)
