"""The facts from which stalls are explained: a job's tasks, as last reported, and its checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from millstream.core.jobs.ids import JobId, VertexId
from millstream.core.jobs.plan_json import job_type
from millstream.core.jobs.progress import TaskProgress
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.jobmanager.checkpoints.settings import CheckpointSettings
from millstream.jobmanager.checkpoints.statistics.statistics import CheckpointStatistics, CheckpointStats
from millstream.jobmanager.job_master.execution_graph import Execution, SlotKey, TimeShares
from millstream.jobmanager.job_master.job_master import JobMaster


class TaskFacts(Struct, frozen=True):
    """One subtask, as last reported by its worker."""

    vertex_id: VertexId
    vertex_name: str
    subtask: int
    parallelism: int
    is_source: bool = False
    state: ExecutionState = ExecutionState.RUNNING
    state_since: int = 0
    progress: TaskProgress = field(default_factory=TaskProgress)
    output_watermark: int | None = None
    time_shares: TimeShares = field(default_factory=TimeShares)
    emitted_at: int = 0
    """The last time at which it had emitted records; 0: not reported yet."""
    reported_at: int = 0
    """The time of its worker's last report; 0: none yet."""
    slot: SlotKey = SlotKey("", 0)
    """Its slot; the tasks of a slot run on one thread."""

    @property
    def name(self) -> str:
        """The name by which its consumers refer to it."""
        return f"{self.vertex_name} ({self.subtask + 1}/{self.parallelism})"


class CheckpointFacts(Struct, frozen=True):
    """The progress of checkpoints; times in milliseconds, 0 for what has not happened."""

    interval_ms: int = 0
    """The interval; 0: no checkpoints are taken."""
    completed_at: int = 0
    under_way_since: int = 0
    failed_at: int = 0
    failure: str = ""
    missing: Mapping[VertexId, Sequence[int]] = field(default_factory=dict)
    """Subtasks that have not acknowledged the pending checkpoint, or did not acknowledge the last failed one."""


class JobFacts(Struct, frozen=True):
    """The facts of a job."""

    job_id: JobId
    name: str
    state: JobStatus
    now_ms: int
    tasks: Sequence[TaskFacts] = ()
    producers: Mapping[VertexId, Sequence[VertexId]] = field(default_factory=dict)
    """The producers of each vertex."""
    message: str = ""
    """What the job waits for, or the reason for its restart."""
    checkpoints: CheckpointFacts = field(default_factory=CheckpointFacts)
    report_interval_ms: int = 1000
    """The interval at which workers report their tasks."""
    is_batch: bool = False
    restarts: Sequence[tuple[int, str]] = ()
    """The latest restarts, newest first: the time of the failure, and its exception."""

    def running(self) -> list[TaskFacts]:
        """Returns the running tasks."""
        return [task for task in self.tasks if task.state is ExecutionState.RUNNING]


def job_facts(master: JobMaster, checkpoints: CheckpointFacts, now_ms: int, report_interval_ms: int) -> JobFacts:
    """Collects the facts of a job that has not ended."""
    producers: dict[VertexId, list[VertexId]] = {}
    for edge in master.graph.edges:
        producers.setdefault(edge.target, []).append(edge.source)
    tasks = [_task(execution) for execution in master.execution_graph.executions]
    job_id, name = master.graph.job_id, master.graph.name
    is_batch = job_type(master.graph.configuration) == "BATCH"
    restarts = [(failure.timestamp, failure.exception) for failure in master.failures if failure.restart]
    return JobFacts(
        job_id, name, master.status, now_ms, tasks, producers, master.message, checkpoints, report_interval_ms,
        is_batch, restarts,
    )  # fmt: skip


def _task(execution: Execution) -> TaskFacts:
    vertex = execution.vertex
    return TaskFacts(
        vertex.id,
        vertex.name,
        execution.subtask,
        vertex.parallelism,
        bool(vertex.source),
        execution.state,
        execution.state_times.get(execution.state, 0),
        execution.progress,
        execution.metrics.output_watermark,
        execution.time_shares,
        execution.emitted_at,
        execution.reported_at,
        execution.slot_key,
    )


def checkpoint_facts(settings: CheckpointSettings, statistics: CheckpointStatistics) -> CheckpointFacts:
    """Collects the facts of the job's checkpoints."""
    completed, failed = statistics.latest_completed, statistics.latest_failed
    under_way = [stats for stats in statistics.history() if stats.ended is None]
    incomplete = failed or min(under_way, key=lambda stats: stats.id, default=None)
    return CheckpointFacts(
        settings.interval_ms,
        completed.ended.date_ms if completed is not None and completed.ended is not None else 0,
        min((stats.triggered.date_ms for stats in under_way), default=0),
        failed.ended.date_ms if failed is not None and failed.ended is not None else 0,
        failed.failure_message if failed is not None else "",
        {} if incomplete is None else _missing(incomplete),
    )


def _missing(stats: CheckpointStats) -> dict[VertexId, list[int]]:
    missing = {
        vertex: [index for index in range(acknowledged.parallelism) if index not in acknowledged.subtasks]
        for vertex, acknowledged in stats.vertices.items()
    }
    return {vertex: subtasks for vertex, subtasks in missing.items() if subtasks}
