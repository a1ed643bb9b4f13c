"""The state of a job as the job manager reports it and the dispatcher shows it.

Structs that exist once per subtask are not tracked by the garbage collector, since they contain no cycles: with 50 jobs
of 1,000 subtasks, a collection in the dispatcher took 49 ms, and takes 5 ms without them.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.graph import Exchange
from millstream.core.jobs.ids import ANY_EPOCH, JobId, LeaderEpoch, VertexId
from millstream.core.jobs.job_events import JobEvent
from millstream.core.jobs.resumption import Resumption
from millstream.core.jobs.states import ExecutionState, JobStatus


class TaskMetrics(Struct, frozen=True, gc=False):
    """The counters of a task, and how it spent its time."""

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
    """The time in which a source waited for others of its alignment group."""
    input_watermark: int | None = None
    """None if it has no inputs."""
    output_watermark: int | None = None
    alignment_drift_ms: int | None = None
    """How far a source is ahead of the slowest of its alignment group; None if it is in none."""


class Accumulator(Struct, frozen=True, gc=False):
    """A user's accumulator in the state of one attempt. The value is pickled, and merged by the client."""

    name: str
    kind: str
    """The accumulator's class, such as `IntCounter`."""
    value: bytes
    vertex_id: str = ""
    """The vertex of the attempt; set by the job manager, as is the subtask."""
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
    """Fractions of the time between its last two reports."""
    backpressured_percent: int = 0


class VertexStatus(Struct, frozen=True, gc=False):
    """One vertex of the job, with all its subtasks."""

    id: VertexId
    name: str
    parallelism: int
    max_parallelism: int
    slot_sharing_group: str = ""
    subtasks: tuple[SubtaskStatus, ...] = ()
    lower_bound: int = 0
    """The minimum and maximum parallelism; 0: no job manager has reported it."""
    upper_bound: int = 0


class PlanInput(Struct, frozen=True, gc=False):
    """An input of a task of the plan."""

    id: str
    ship_strategy: str
    exchange: Exchange = Exchange.PIPELINED


class PlanNode(Struct, frozen=True, gc=False):
    """A task of the plan; the description is plain text."""

    id: str
    description: str
    parallelism: int
    inputs: tuple[PlanInput, ...] = ()


class JobDetails(Struct, frozen=True):
    """The details of a job that are shown to users."""

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
    """What the job is waiting for, such as slots or an install; empty if nothing."""
    accumulators: tuple[Accumulator, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    slots_required: int = 0
    slots_held: int = 0
    checkpoints: bytes = b""
    """Only for a job that has ended: the statistics of its checkpoints, as JSON."""
    failures_truncated: bool = False
    """Whether older root causes were removed."""
    restart_strategy: str = ""
    """The restart strategy, as text."""
    artifacts: tuple[str, ...] = ()
    """The sha256 of each artifact, which are kept until the job has ended."""
    slots_free: int = 0
    """The free slots of the cluster, as last reported while the job waited for slots, like the next two."""
    slots_total: int = 0
    slots_startable: int = 0
    """The slots that a resource provider may still start."""
    restarts: int = 0
    """The number of restarts, including one that is waiting."""
    latest_checkpoint: str = ""
    """The last completed checkpoint, if it is in files."""
    checkpoint_directory: str = ""
    """The folder of the job's checkpoints, if they are in files."""
    epoch: LeaderEpoch = ANY_EPOCH
    """The epoch of its leader; 0: without high availability."""
    events: tuple[JobEvent, ...] = ()
    """The latest events, oldest first."""
    earlier_attempts: bytes = b""
    """The earlier attempts of its subtasks, as encoded by `millstream.core.jobs.earlier_attempts`."""
    rescales: bytes = b""
    """The latest rescales, as encoded by `millstream.core.jobs.rescales`."""
    resumption: Resumption = Resumption.UNKNOWN
    restore_point: int = 0
    """The last checkpoint that the job has completed; 0: none."""
    resumed: Resumption = Resumption.UNKNOWN
    """How the current leader began with the job, unless the tasks of an earlier leader were still running."""
    resumed_from: int = 0
    """The last checkpoint that the job had completed then; 0: none."""
