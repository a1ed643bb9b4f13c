"""What a job manager tells a task manager, what that answers, and what passes between it and its slot workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from millstream.core.jobs.details import Accumulator, TaskMetrics
from millstream.core.jobs.failure_kinds import WorkerEnd
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.graph import Artifact
from millstream.core.jobs.ids import AllocationId, AttemptId, JobId, TaskManagerId
from millstream.core.messages.checkpoints import (
    CheckpointAck,
    CheckpointDecline,
    CheckpointNotice,
    CommitFailed,
    InputsEnded,
    TriggerCheckpoint,
)
from millstream.core.messages.deployment import CancelTasks, DeployTasks
from millstream.core.messages.results import CollectRequest, CollectResponse
from millstream.core.messages.sources import EnumeratorEvent, ReaderEvent, Stop

# Slots and workers


@dataclass(frozen=True, slots=True)
class RegisterAtJobManager:
    """The first that a task manager says."""

    task_manager_id: TaskManagerId
    host: str
    address: str


@dataclass(frozen=True, slots=True)
class SlotOffer:
    """A slot for a job, as the resource manager wanted it."""

    allocation_id: AllocationId
    slot_index: int
    job_id: JobId


@dataclass(frozen=True, slots=True)
class OfferAnswer:
    """The job takes the slot, or not."""

    allocation_id: AllocationId
    accepted: bool


@dataclass(frozen=True, slots=True)
class StartWorker:
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


@dataclass(frozen=True, slots=True)
class FreeSlot:
    """The job does not want the slot any more."""

    allocation_id: AllocationId
    reason: str


@dataclass(frozen=True, slots=True)
class WorkerProgress:
    """The worker's environment is being made."""

    allocation_id: AllocationId
    message: str


@dataclass(frozen=True, slots=True)
class WorkerReady:
    """The worker listens for others at this address."""

    allocation_id: AllocationId
    data_address: str


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """The worker is gone; the reason is for people."""

    allocation_id: AllocationId
    reason: str
    end: WorkerEnd = WorkerEnd.LOST


# Tasks


@dataclass(frozen=True, slots=True)
class TaskUpdate:
    """What an attempt has come to. In a report of metrics the state is empty: it says nothing of that."""

    allocation_id: AllocationId
    attempt_id: AttemptId
    state: str = ""
    """An ExecutionState, or empty."""
    failure: TaskFailure | None = None
    accumulators: tuple[Accumulator, ...] = ()
    metrics: TaskMetrics | None = None


@dataclass(frozen=True, slots=True)
class TaskMetricsReport:
    """The metrics of a slot's tasks."""

    tasks: tuple[TaskUpdate, ...] = ()


@dataclass(frozen=True, slots=True)
class CollectFromTask:
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
)
"""What tasks have to say: a task manager passes it on."""

ToTasks = DeployTasks | CancelTasks | EnumeratorEvent | CollectFromTask | TriggerCheckpoint | CheckpointNotice
"""What tasks are told: a task manager passes it on."""

TaskManagerMessage = RegisterAtJobManager | SlotOffer | WorkerProgress | WorkerReady | WorkerLost | FromTasks
"""From a task manager to a job manager."""

JobManagerCommand = OfferAnswer | StartWorker | FreeSlot | ToTasks
"""From a job manager to a task manager."""

WorkerMessage = WorkerReady | FromTasks
"""From a slot worker to its task manager."""

WorkerCommand = StartWorker | Stop | ToTasks
"""From a task manager to a slot worker."""


# Logs


@dataclass(frozen=True, slots=True)
class ReadLogRequest:
    """A piece of a log file."""

    name: str
    """`log`, `stdout` or the name of a file that `ListLogs` answers."""
    offset: int | None = None
    """Negative: from the end; None: the end of the file."""
    length: int = 0
    """0: as much as one answer holds."""


@dataclass(frozen=True, slots=True)
class LogContent:
    """What was there."""

    content: bytes
    start: int
    """Where in the file it begins."""
    size: int
    """Of the whole file."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log file; the time is in milliseconds."""

    name: str
    size: int
    modified: int


@dataclass(frozen=True, slots=True)
class LogList:
    """All log files of a task manager."""

    files: tuple[LogFile, ...] = ()
