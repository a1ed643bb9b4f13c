"""What can happen to a job, and what the JobMaster wants done about it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from millstream.core.jobs.failure_kinds import WorkerEnd
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import AllocationId, AttemptId, TaskManagerId
from millstream.core.messages.checkpoints import InputsEnded
from millstream.core.messages.deployment import TaskDeployment
from millstream.core.messages.rescaling import VertexBounds
from millstream.core.messages.sources import ReaderEvent
from millstream.core.messages.takeover import FoundSlot, FoundTask
from millstream.core.messages.task_manager import TaskMetricsReport, TaskUpdate
from millstream.jobmanager.failover.topology import Subtask
from millstream.jobmanager.job_master.execution_graph import TaskRestore


class SlotOffered(Struct, frozen=True):
    """A task manager has a slot for the job; with what an earlier leader of the job had started in it."""

    allocation_id: AllocationId
    task_manager: TaskManagerId
    host: str
    found: FoundSlot | None = None


class SlotSupply(Struct, frozen=True):
    """The slots of the whole cluster: those that no job holds, all, and those that may still be started.

    `too_small` of all are on task managers that lack what a slot sharing group of the job asks for.
    """

    free: int
    total: int
    startable: int = 0
    too_small: int = 0

    def __str__(self) -> str:
        more = f", up to {self.startable} more may be started" if self.startable else ""
        small = f", {self.too_small} of them on task managers that are too small" if self.too_small else ""
        return f"{self.free} free of {self.total} in the cluster{small}{more}"


class NotEnoughSlots(Struct, frozen=True):
    """The resource manager cannot give what was declared, at this moment."""

    available: int
    supply: SlotSupply | None = None


class SlotsReclaimed(Struct, frozen=True):
    """The slots that the job holds while it waits for more would be enough for another."""


class Suspended(Struct, frozen=True):
    """The job manager may not act for the dispatcher any more: nothing of the job may run."""

    reason: str


class Resumed(Struct, frozen=True):
    """The job manager may act again."""


class Abandoned(Struct, frozen=True):
    """To users the job has ended: it ends, and keeps what it has stored."""

    reason: str


class WorkerProgressed(Struct, frozen=True):
    """An environment is being made: a slot worker's, or with an empty allocation, the enumerator process's."""

    allocation_id: AllocationId
    message: str


class WorkerReadied(Struct, frozen=True):
    """A slot worker listens at its address."""

    allocation_id: AllocationId
    data_address: str


class WorkerLost(Struct, frozen=True):
    """A slot worker died or could not be started, or was put down because its tasks did not cancel in time."""

    allocation_id: AllocationId
    reason: str
    end: WorkerEnd = WorkerEnd.LOST


class TaskManagerLost(Struct, frozen=True):
    """A task manager's session ended."""

    task_manager: TaskManagerId
    reason: str


class TaskChanged(Struct, frozen=True):
    """A task reports its state."""

    update: TaskUpdate


class MetricsReported(Struct, frozen=True):
    """Tasks report their metrics."""

    report: TaskMetricsReport


class CancelRequested(Struct, frozen=True):
    """The user wants the job to end."""


class EnumeratorsReadied(Struct, frozen=True):
    """The enumerator process runs the sources' enumerators."""


class EnumeratorsFailed(Struct, frozen=True):
    """An enumerator raised, or the enumerator process died."""

    failure: TaskFailure


class JobFailed(Struct, frozen=True):
    """Something that is no task's fault alone went wrong: all of the job fails, or restarts."""

    failure: TaskFailure


class Restored(Struct, frozen=True):
    """Answers `Restore`: what the subtasks restore from, and the enumerators are where they were then."""

    restart: int
    restores: Mapping[Subtask, TaskRestore] = field(default_factory=dict)
    graph: JobGraph | None = None  # the job with what it takes over from the snapshot that it starts from


class RestoreFailed(Struct, frozen=True):
    """Answers `Restore`: the checkpoint cannot be read. With `final`, trying again would not help."""

    restart: int
    reason: str
    final: bool = False


class TaskHeard(Struct, frozen=True):
    """A task that may be taken over says what its new leader has to know."""

    message: ReaderEvent | InputsEnded


class TakeoverPrepared(Struct, frozen=True):
    """Answers `TakeOver`: the restore point is known and fits, and the enumerators, if any, are being started."""

    graph: JobGraph | None = None  # the job with what it took over from the snapshot that it started from


class TakeoverRefused(Struct, frozen=True):
    """Answers `TakeOver`: the job cannot go on with the tasks that were found."""

    reason: str


class CheckpointCompleted(Struct, frozen=True):
    """A checkpoint that tasks can be restored from is complete; the records that attempts had taken before it."""

    records: Mapping[AttemptId, int]


class RescaleRequested(Struct, frozen=True):
    """Somebody wants the job to run at another parallelism: either one for the job, or bounds of every vertex.

    With `waits`, whoever it is hears when the job runs so, or has failed to; else when it is accepted.
    """

    trigger_id: str
    reason: str
    parallelism: int = 0
    bounds: tuple[VertexBounds, ...] = ()
    waits: bool = False


class RescaleCheckpointed(Struct, frozen=True):
    """Answers `TakeCheckpoint`: it is complete, unless there is an error. With `final`, none would be."""

    number: int
    error: str = ""
    final: bool = False


class Tick(Struct, frozen=True):
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
    | TaskHeard
    | TakeoverPrepared
    | TakeoverRefused
    | CheckpointCompleted
    | RescaleRequested
    | RescaleCheckpointed
    | Tick
)


class DeclareSlots(Struct, frozen=True):
    """Tell the resource manager how many slots the job wants in all, and with how many it runs, too; 0: with all."""

    slots: int
    minimum: int = 0


class AnswerOffer(Struct, frozen=True):
    """Take a slot, or not."""

    allocation_id: AllocationId
    task_manager: TaskManagerId
    accepted: bool


class StopEnumerators(Struct, frozen=True):
    """End the enumerator process; another will be wanted before anything runs again."""


class StartEnumerators(Struct, frozen=True):
    """Start the process for the sources' enumerators."""


class StartWorker(Struct, frozen=True):
    """Have the slot's worker started in the job's environment."""

    allocation_id: AllocationId
    task_manager: TaskManagerId


class Deploy(Struct, frozen=True):
    """Have tasks run in a slot."""

    allocation_id: AllocationId
    task_manager: TaskManagerId
    tasks: tuple[TaskDeployment, ...]


class CancelTasks(Struct, frozen=True):
    """Have tasks cancelled."""

    allocation_id: AllocationId
    task_manager: TaskManagerId
    attempts: tuple[AttemptId, ...]


class FreeSlot(Struct, frozen=True):
    """Give a slot back."""

    allocation_id: AllocationId
    task_manager: TaskManagerId
    reason: str


class RollBack(Struct, frozen=True):
    """These subtasks failed or are being cancelled for a restart: checkpoints under way cannot complete."""

    subtasks: frozenset[Subtask]
    reason: str


class Restore(Struct, frozen=True):
    """Bring the sources' enumerators back to the last checkpoint, and find what these subtasks restore from.

    None of the subtasks runs. With `start_enumerators`, there is no enumerator process, or it failed: a new one is
    needed, which reports with `EnumeratorsReadied`. Answered by `Restored` or `RestoreFailed` with the same number; an
    effect with a higher number replaces this one.
    """

    restart: int
    subtasks: frozenset[Subtask]
    start_enumerators: bool


class TakeOver(Struct, frozen=True):
    """All tasks of the job were found: have the sources' enumerators go on with their readers.

    Answered by `TakeoverPrepared` and then, if the job has sources, `EnumeratorsReadied`; or by `TakeoverRefused`.
    """

    tasks: tuple[FoundTask, ...]


class TakenOver(Struct, frozen=True):
    """The job goes on with the tasks that were found, which are its executions now."""

    tasks: tuple[FoundTask, ...]
    slots: tuple[tuple[AllocationId, TaskManagerId], ...]


class NotTakenOver(Struct, frozen=True):
    """What was found is given up: the job starts again from its restore point, or fails where it may not."""

    reason: str
    starts_again: bool = True


class TakeCheckpoint(Struct, frozen=True):
    """Take a checkpoint now, to go on from at another parallelism; answered by `RescaleCheckpointed`."""

    number: int


class ChangeGraph(Struct, frozen=True):
    """Nothing of the job runs: from now on it is this one, at another parallelism."""

    graph: JobGraph


class AnswerRescale(Struct, frozen=True):
    """Tell whoever wanted the job to be rescaled what came of it."""

    trigger_id: str
    message: str = ""
    error: str = ""


class WakeUpAt(Struct, frozen=True):
    """A `Tick` is due at this time, on the steady clock."""

    at_ms: int


class ReportDetails(Struct, frozen=True):
    """The job's state, message or failures changed."""


class JobEnded(Struct, frozen=True):
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
    | TakeOver
    | TakenOver
    | NotTakenOver
    | TakeCheckpoint
    | ChangeGraph
    | AnswerRescale
    | WakeUpAt
    | ReportDetails
    | JobEnded
)
