"""What a job manager sends to a task manager, what that returns, and what passes between it and its slot workers."""

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
    """A slot for a job, as the resource manager wanted it."""

    allocation_id: AllocationId
    slot_index: int
    job_id: JobId
    found: FoundSlot | None = None
    """What runs in it, if an earlier leader of the job had it."""


class OfferAnswer(Struct, frozen=True):
    """The job takes the slot, or not."""

    allocation_id: AllocationId
    accepted: bool
    unknown_job: bool = False
    """Not taken, because this job manager does not run the job; another may come to lead it."""


class StartWorker(Struct, frozen=True):
    """Has the slot's worker started, in the job's environment."""

    allocation_id: AllocationId
    job_id: JobId
    artifacts: tuple[Artifact, ...] = ()
    artifact_address: str = ""
    """The dispatcher to fetch them from."""
    configuration: Mapping[str, str] = field(default_factory=dict)
    python_path: tuple[str, ...] = ()
    job_name: str = ""
    local_state_folder: str = ""
    """For copies of checkpointed state, set by the task manager; empty: none are made."""


class TasksTakenOver(Struct, frozen=True):
    """The job continues with what was found in the slot: readers ask once more for the splits that they wait for."""

    allocation_id: AllocationId


class FreeSlot(Struct, frozen=True):
    """The job does not want the slot any more."""

    allocation_id: AllocationId
    reason: str


class WorkerProgress(Struct, frozen=True):
    """The worker's environment is being made."""

    allocation_id: AllocationId
    message: str


class WorkerReady(Struct, frozen=True):
    """The worker listens for others at this address."""

    allocation_id: AllocationId
    data_address: str


class WorkerLost(Struct, frozen=True):
    """The worker is gone; the reason is for people."""

    allocation_id: AllocationId
    reason: str
    end: WorkerEnd = WorkerEnd.LOST


# Tasks


class TaskUpdate(Struct, frozen=True):
    """What an attempt has come to; with its metrics, when that is the end."""

    allocation_id: AllocationId
    attempt_id: AttemptId
    state: ExecutionState
    failure: TaskFailure | None = None
    accumulators: tuple[Accumulator, ...] = ()
    metrics: TaskMetrics | None = None


class AttemptMetrics(Struct, frozen=True):
    """What an attempt has done so far, and what it waits for."""

    attempt_id: AttemptId
    metrics: TaskMetrics = field(default_factory=TaskMetrics)
    progress: TaskProgress = field(default_factory=TaskProgress)


class TaskMetricsReport(Struct, frozen=True):
    """The metrics of a slot's tasks."""

    allocation_id: AllocationId
    tasks: tuple[AttemptMetrics, ...] = ()


class SlotMetrics(Struct, frozen=True):
    """What a slot worker and its tasks measure: for its task manager only."""

    allocation_id: AllocationId
    groups: bytes = b""
    """Encoded as `millstream.core.metrics.model` does it."""
    cpu_seconds: float = 0.0
    """Of the worker's process, as the rest."""
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
"""What tasks have to say: a task manager passes it on."""

ToTasks = (
    DeployTasks
    | CancelTasks
    | EnumeratorEvent
    | CollectFromTask
    | TriggerCheckpoint
    | CheckpointNotice
    | WatermarkLimit
)
"""What is sent to tasks: a task manager passes it on."""

TaskManagerMessage = RegisterAtJobManager | SlotOffer | WorkerProgress | WorkerReady | WorkerLost | FromTasks
"""From a task manager to a job manager."""

JobManagerCommand = OfferAnswer | StartWorker | TasksTakenOver | FreeSlot | ToTasks
"""From a job manager to a task manager."""

WorkerMessage = WorkerReady | SlotMetrics | PlacedTask | FromTasks
"""From a slot worker to its task manager, by itself."""

FromWorker = WorkerMessage | WorkerInspected
"""All messages of a slot worker."""

WorkerCommand = StartWorker | Stop | InspectWorker | ToTasks
"""From a task manager to a slot worker."""
