"""The messages between a job manager and a task manager, and between a task manager and its slot workers."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from millstream.core.jobs.details import Accumulator, TaskMetrics
from millstream.core.jobs.failure_kinds import WorkerEnd
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.graph import Artifact
from millstream.core.jobs.ids import AllocationId, AttemptId, JobId, TaskManagerId
from millstream.core.jobs.progress import TaskProgress
from millstream.core.jobs.states import ExecutionState
from millstream.core.messages.checkpoints import (
    CheckpointAck,
    CheckpointDecline,
    CheckpointNotice,
    CommitFailed,
    InputsEnded,
    TriggerCheckpoint,
)
from millstream.core.messages.deployment import CancelTasks, DeployTasks
from millstream.core.messages.inspection import InspectWorker, PlacedTask, WorkerInspected
from millstream.core.messages.results import CollectRequest, CollectResponse
from millstream.core.messages.sources import EnumeratorEvent, ReaderEvent, Stop, WatermarkLimit, WatermarkReport
from millstream.core.messages.takeover import FoundSlot

# Slots and workers


class RegisterAtJobManager(Struct, frozen=True):
    """The first message of a task manager."""

    task_manager_id: TaskManagerId
    host: str
    address: str


class SlotOffer(Struct, frozen=True):
    """Offers a slot to a job, as requested by the resource manager."""

    allocation_id: AllocationId
    slot_index: int
    job_id: JobId
    found: FoundSlot | None = None
    """The tasks in it, if it was allocated to an earlier leader of the job."""


class OfferAnswer(Struct, frozen=True):
    """Accepts or rejects an offered slot."""

    allocation_id: AllocationId
    accepted: bool
    unknown_job: bool = False
    """Rejected because this job manager does not run the job; another one may become its leader."""


class StartWorker(Struct, frozen=True):
    """Starts the slot's worker in the job's environment."""

    allocation_id: AllocationId
    job_id: JobId
    artifacts: tuple[Artifact, ...] = ()
    artifact_address: str = ""
    """The address of the dispatcher from which they are downloaded."""
    configuration: Mapping[str, str] = field(default_factory=dict)
    python_path: tuple[str, ...] = ()
    job_name: str = ""
    local_state_folder: str = ""
    """The directories for copies of checkpointed state, set by the task manager; empty: no copies."""


class TasksTakenOver(Struct, frozen=True):
    """The job continues with the tasks found in the slot: readers repeat pending requests for splits."""

    allocation_id: AllocationId


class FreeSlot(Struct, frozen=True):
    """Releases the slot."""

    allocation_id: AllocationId
    reason: str


class WorkerProgress(Struct, frozen=True):
    """Progress of building the worker's environment."""

    allocation_id: AllocationId
    message: str


class WorkerReady(Struct, frozen=True):
    """The worker is ready, and listens for others at this address."""

    allocation_id: AllocationId
    data_address: str


class WorkerLost(Struct, frozen=True):
    """The worker has ended, or there is none, for this reason."""

    allocation_id: AllocationId
    reason: str
    end: WorkerEnd = WorkerEnd.LOST
    slot_freed: bool = False
    """Whether the slot does not belong to the job any more."""


# Tasks


class TaskUpdate(Struct, frozen=True):
    """A new state of an attempt; with its metrics, if it has ended."""

    allocation_id: AllocationId
    attempt_id: AttemptId
    state: ExecutionState
    failure: TaskFailure | None = None
    accumulators: tuple[Accumulator, ...] = ()
    metrics: TaskMetrics | None = None


class AttemptMetrics(Struct, frozen=True):
    """The metrics and the progress of an attempt."""

    attempt_id: AttemptId
    metrics: TaskMetrics = field(default_factory=TaskMetrics)
    progress: TaskProgress = field(default_factory=TaskProgress)


class TaskMetricsReport(Struct, frozen=True):
    """The metrics of a slot's tasks."""

    allocation_id: AllocationId
    tasks: tuple[AttemptMetrics, ...] = ()


class SlotMetrics(Struct, frozen=True):
    """The metrics of a slot worker and its tasks, for its task manager only."""

    allocation_id: AllocationId
    groups: bytes = b""
    """Encoded by `millstream.core.metrics.model`."""
    cpu_seconds: float = 0.0
    """Resource usage of the worker's process, like the following fields."""
    memory_bytes: int = 0
    threads: int = 0
    collections: int = 0
    collecting_seconds: float = 0.0


class CollectFromTask(Struct, frozen=True):
    """A client's request for results."""

    allocation_id: AllocationId
    attempt_id: AttemptId
    request: CollectRequest


FromTasks = (
    TaskUpdate
    | ReaderEvent
    | CollectResponse
    | TaskMetricsReport
    | CheckpointAck
    | CheckpointDecline
    | InputsEnded
    | CommitFailed
    | WatermarkReport
)
"""Messages of tasks, which a task manager forwards."""

ToTasks = (
    DeployTasks
    | CancelTasks
    | EnumeratorEvent
    | CollectFromTask
    | TriggerCheckpoint
    | CheckpointNotice
    | WatermarkLimit
)
"""Messages to tasks, which a task manager forwards."""

TaskManagerMessage = RegisterAtJobManager | SlotOffer | WorkerProgress | WorkerReady | WorkerLost | FromTasks
"""From a task manager to a job manager."""

JobManagerCommand = OfferAnswer | StartWorker | TasksTakenOver | FreeSlot | ToTasks
"""From a job manager to a task manager."""

WorkerMessage = WorkerReady | SlotMetrics | PlacedTask | FromTasks
"""Messages from a slot worker that its task manager handles itself."""

FromWorker = WorkerMessage | WorkerInspected
"""All messages of a slot worker."""

WorkerCommand = StartWorker | Stop | InspectWorker | ToTasks
"""From a task manager to a slot worker."""
