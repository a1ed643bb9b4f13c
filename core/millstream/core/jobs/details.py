"""The state of a job as the job manager reports it and the dispatcher shows it.

What there is one of for each subtask is no business of the garbage collector's: it holds no cycles, and with 50 jobs
of 1,000 subtasks, a collection in the dispatcher took 49 ms, and takes 5.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.ids import ANY_EPOCH, JobId, LeaderEpoch, VertexId
from millstream.core.jobs.job_events import JobEvent
from millstream.core.jobs.resumption import Resumption
from millstream.core.jobs.states import ExecutionState, JobStatus


class TaskMetrics(Struct, frozen=True, gc=False):
    """What a task has done so far, and where its time went."""

    records_in: int = 0
    records_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    busy_ms: int = 0
    backpressured_ms: int = 0
    idle_ms: int = 0
    counters: Mapping[str, int] = field(default_factory=dict)
    gauges: Mapping[str, float] = field(default_factory=dict)
    """The values of the functions' other metrics."""
    paused_ms: int = 0
    """Of a source: waiting for others of its alignment group."""
    input_watermark: int | None = None
    """None: it has no inputs."""
    output_watermark: int | None = None
    alignment_drift_ms: int | None = None
    """How far a source is ahead of the slowest of its alignment group; None: it is in none."""


class Accumulator(Struct, frozen=True, gc=False):
    """A user's, as one attempt left it. The value is pickled, and merged by the client."""

    name: str
    kind: str
    """The accumulator's class, such as `IntCounter`."""
    value: bytes
    vertex_id: str = ""
    """Whose attempt left it; set by the job manager, as is the subtask."""
    subtask: int = 0


class SubtaskStatus(Struct, frozen=True, gc=False):
    """The current attempt of one subtask."""

    index: int
    state: ExecutionState
    attempt: int = 0
    task_manager: str = ""
    host: str = ""
    start_time: int = 0
    end_time: int = 0
    """0 while it has not ended."""
    state_times: Mapping[str, int] = field(default_factory=dict)
    metrics: TaskMetrics = TaskMetrics()
    busy_percent: int = 0
    """Of the time between its last two reports."""
    backpressured_percent: int = 0


class VertexStatus(Struct, frozen=True, gc=False):
    """One task of the job, in all its subtasks."""

    id: VertexId
    name: str
    parallelism: int
    max_parallelism: int
    slot_sharing_group: str = ""
    subtasks: tuple[SubtaskStatus, ...] = ()
    lower_bound: int = 0
    """The least and the most parallelism that it may be given; 0: no job manager has reported it."""
    upper_bound: int = 0


class PlanInput(Struct, frozen=True, gc=False):
    """Where a task of the plan gets records from."""

    id: str
    ship_strategy: str


class PlanNode(Struct, frozen=True, gc=False):
    """A task of the plan; the description is plain text."""

    id: str
    description: str
    parallelism: int
    inputs: tuple[PlanInput, ...] = ()


class JobDetails(Struct, frozen=True):
    """Everything that is shown of a job."""

    job_id: JobId
    name: str
    state: JobStatus
    start_time: int = 0
    end_time: int = 0
    """0 while it has not ended."""
    state_times: Mapping[str, int] = field(default_factory=dict)
    vertices: tuple[VertexStatus, ...] = ()
    plan: tuple[PlanNode, ...] = ()
    failures: tuple[TaskFailure, ...] = ()
    """The root causes, newest first."""
    message: str = ""
    """What the job is waiting for: slots, an install; empty when nothing."""
    accumulators: tuple[Accumulator, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    slots_required: int = 0
    slots_held: int = 0
    checkpoints: bytes = b""
    """Only of a job that has ended: JSON, all that was known of its checkpoints."""
    failures_truncated: bool = False
    """Older root causes were forgotten."""
    restart_strategy: str = ""
    """For people."""
    artifacts: tuple[str, ...] = ()
    """The sha256 of each: kept while the job has not ended."""
    slots_free: int = 0
    """Of the whole cluster, as last heard while the job waited for slots, as the next two: held by no job."""
    slots_total: int = 0
    slots_startable: int = 0
    """That a resource provider may still add."""
    restarts: int = 0
    """Decided on so far, with one that is waiting."""
    latest_checkpoint: str = ""
    """Where the last completed one is, when it is in files."""
    checkpoint_directory: str = ""
    """Where the job's checkpoints go, when they go into files."""
    epoch: LeaderEpoch = ANY_EPOCH
    """Under which its job manager leads it; 0: no other can."""
    events: tuple[JobEvent, ...] = ()
    """The last ones, the oldest first."""
    earlier_attempts: bytes = b""
    """Of its subtasks, as `millstream.core.jobs.earlier_attempts` writes them."""
    rescales: bytes = b""
    """The last ones, as `millstream.core.jobs.rescales` writes them."""
    resumption: Resumption = Resumption.UNKNOWN
    restore_point: int = 0
    """The last checkpoint that the job has completed; 0: none."""
