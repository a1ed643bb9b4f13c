"""The events and effects of the JobMaster."""

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
    """A task manager offers a slot to the job; `found` are the tasks that an earlier leader started in it."""

    allocation_id: AllocationId
    task_manager: TaskManagerId
    host: str
    found: FoundSlot | None = None


class SlotSupply(Struct, frozen=True):
    """The slots of the whole cluster: the free ones, all, and those that may still be started.

    `too_small` of all slots are on task managers without the resources that a slot sharing group of the job requests.
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
    """The resource manager currently cannot fulfil the declared requirement."""

    available: int
    supply: SlotSupply | None = None


class SlotsReclaimed(Struct, frozen=True):
    """The slots that the job holds while it waits for more would be sufficient for another job."""


class Suspended(Struct, frozen=True):
    """The job manager has lost its lease from the dispatcher: no task of the job may run."""

    reason: str


class Resumed(Struct, frozen=True):
    """The job manager has its lease from the dispatcher again."""


class Abandoned(Struct, frozen=True):
    """The dispatcher has reported the job as ended: it ends, and its checkpoints are kept."""

    reason: str


class WorkerProgressed(Struct, frozen=True):
    """Progress of building an environment: a slot worker's, or with an empty allocation the enumerator process's."""

    allocation_id: AllocationId
    message: str


class WorkerReadied(Struct, frozen=True):
    """A slot worker listens at its address."""

    allocation_id: AllocationId
    data_address: str


class WorkerLost(Struct, frozen=True):
    """A slot worker died, could not be started, or was killed because its tasks were not cancelled in time."""

    allocation_id: AllocationId
    reason: str
    end: WorkerEnd = WorkerEnd.LOST
    slot_freed: bool = False
    """Whether the job no longer has the slot, either."""


class TaskManagerLost(Struct, frozen=True):
    """A task manager's session ended."""

    task_manager: TaskManagerId
    reason: str


class TaskChanged(Struct, frozen=True):
    """A task reported its state."""

    update: TaskUpdate


class MetricsReported(Struct, frozen=True):
    """Tasks reported their metrics."""

    report: TaskMetricsReport


class CancelRequested(Struct, frozen=True):
    """A user requested the cancellation of the job."""


class EnumeratorsReadied(Struct, frozen=True):
    """The enumerator process runs the sources' enumerators."""


class EnumeratorsFailed(Struct, frozen=True):
    """An enumerator raised, or the enumerator process died."""

    failure: TaskFailure


class JobFailed(Struct, frozen=True):
    """A failure that belongs to no single task: the whole job fails or restarts."""

    failure: TaskFailure


class Restored(Struct, frozen=True):
    """The result of `Restore`: what the subtasks restore from; the enumerators have been reset."""

    restart: int
    restores: Mapping[Subtask, TaskRestore] = field(default_factory=dict)
    graph: JobGraph | None = None  # the job, fitted to the snapshot that it starts from


class RestoreFailed(Struct, frozen=True):
    """The failure of `Restore`: the checkpoint cannot be read. With `final`, another attempt would not help."""

    restart: int
    reason: str
    final: bool = False


class TaskReported(Struct, frozen=True):
    """A task that may be taken over sent a message that its new leader needs."""

    message: ReaderEvent | InputsEnded


class TakeoverPrepared(Struct, frozen=True):
    """The result of `TakeOver`: the restore point is known and fits; the enumerators, if any, are being started."""

    graph: JobGraph | None = None  # the job, fitted to the snapshot that it started from


class TakeoverRefused(Struct, frozen=True):
    """The failure of `TakeOver`: the job cannot continue with the tasks that were found."""

    reason: str


class CheckpointCompleted(Struct, frozen=True):
    """A restore point is complete; `records` are the numbers of records that attempts had processed before it."""

    records: Mapping[AttemptId, int]


class RescaleRequested(Struct, frozen=True):
    """A request to run the job at another parallelism: either one for the job, or bounds of every vertex.

    With `waits`, the response is sent when the job has been rescaled or that has failed; otherwise when it is accepted.
    """

    trigger_id: str
    reason: str
    parallelism: int = 0
    bounds: tuple[VertexBounds, ...] = ()
    waits: bool = False


class RescaleCheckpointed(Struct, frozen=True):
    """The result of `TakeCheckpoint`: complete unless there is an error. With `final`, another would fail as well."""

    number: int
    error: str = ""
    final: bool = False


class Tick(Struct, frozen=True):
    """The time of `WakeUpAt` has come."""


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
    | TaskReported
    | TakeoverPrepared
    | TakeoverRefused
    | CheckpointCompleted
    | RescaleRequested
    | RescaleCheckpointed
    | Tick
)


class DeclareSlots(Struct, frozen=True):
    """Declare to the resource manager how many slots the job wants, and the minimum it can run with; 0: all."""

    slots: int
    minimum: int = 0


class RespondToOffer(Struct, frozen=True):
    """Accept or reject an offered slot."""

    allocation_id: AllocationId
    task_manager: TaskManagerId
    accepted: bool


class StopEnumerators(Struct, frozen=True):
    """Stop the enumerator process; another one is started before tasks run again."""


class StartEnumerators(Struct, frozen=True):
    """Start the process for the sources' enumerators."""


class StartWorker(Struct, frozen=True):
    """Start the slot's worker in the job's environment."""

    allocation_id: AllocationId
    task_manager: TaskManagerId


class Deploy(Struct, frozen=True):
    """Deploy tasks in a slot."""

    allocation_id: AllocationId
    task_manager: TaskManagerId
    tasks: tuple[TaskDeployment, ...]


class CancelTasks(Struct, frozen=True):
    """Cancel tasks."""

    allocation_id: AllocationId
    task_manager: TaskManagerId
    attempts: tuple[AttemptId, ...]


class FreeSlot(Struct, frozen=True):
    """Release a slot."""

    allocation_id: AllocationId
    task_manager: TaskManagerId
    reason: str


class RollBack(Struct, frozen=True):
    """These subtasks failed or are being cancelled for a restart: pending checkpoints cannot complete."""

    subtasks: frozenset[Subtask]
    reason: str


class Restore(Struct, frozen=True):
    """Reset the sources' enumerators to the last checkpoint, and find what these subtasks restore from.

    None of the subtasks runs. With `start_enumerators`, there is no enumerator process, or it failed: a new one is
    needed, which reports with `EnumeratorsReadied`. Results in `Restored` or `RestoreFailed` with the same number; an
    effect with a higher number replaces this one.
    """

    restart: int
    subtasks: frozenset[Subtask]
    start_enumerators: bool


class TakeOver(Struct, frozen=True):
    """All tasks of the job were found: start the sources' enumerators with their running readers.

    Results in `TakeoverPrepared` and then, if the job has sources, `EnumeratorsReadied`; or in `TakeoverRefused`.
    """

    tasks: tuple[FoundTask, ...]


class TakenOver(Struct, frozen=True):
    """The job continues with the tasks that were found, which are its executions now."""

    tasks: tuple[FoundTask, ...]
    slots: tuple[tuple[AllocationId, TaskManagerId], ...]


class NotTakenOver(Struct, frozen=True):
    """The found tasks are not taken over: the job restarts from its restore point, or fails where it may not."""

    reason: str
    starts_again: bool = True


class TakeCheckpoint(Struct, frozen=True):
    """Take a checkpoint to rescale the job from; results in `RescaleCheckpointed`."""

    number: int


class ChangeGraph(Struct, frozen=True):
    """Replace the job graph by this one at another parallelism, while no task runs."""

    graph: JobGraph


class RespondToRescale(Struct, frozen=True):
    """Send the response to a rescale request."""

    trigger_id: str
    message: str = ""
    error: str = ""


class WakeUpAt(Struct, frozen=True):
    """A `Tick` is due at this time, on the steady clock."""

    at_ms: int


class ReportDetails(Struct, frozen=True):
    """The job's state, message or failures changed."""


class JobEnded(Struct, frozen=True):
    """The job reached its terminal state; all its slots have been released."""


Effect = (
    DeclareSlots
    | RespondToOffer
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
    | RespondToRescale
    | WakeUpAt
    | ReportDetails
    | JobEnded
)
