"""What is known of a job when somebody asks what holds it back: its tasks as last reported, and its checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from millstream.core.jobs.ids import JobId, VertexId
from millstream.core.jobs.progress import TaskProgress
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.jobmanager.checkpoints.settings import CheckpointSettings
from millstream.jobmanager.checkpoints.statistics.statistics import CheckpointStatistics
from millstream.jobmanager.job_master.execution_graph import Execution, TimeShares
from millstream.jobmanager.job_master.job_master import JobMaster


class TaskFacts(Struct, frozen=True):
    """One subtask, as its worker reported it last."""

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
    """When it was last seen to have emitted records; 0: nothing is reported of it yet."""

    @property
    def name(self) -> str:
        """As its consumers know it."""
        return f"{self.vertex_name} ({self.subtask + 1}/{self.parallelism})"


class CheckpointFacts(Struct, frozen=True):
    """How checkpoints go; times are in milliseconds, and 0 for what has not been."""

    interval_ms: int = 0
    """0: none are taken."""
    completed_at: int = 0
    under_way_since: int = 0
    failed_at: int = 0
    failure: str = ""


class JobFacts(Struct, frozen=True):
    """All of it."""

    job_id: JobId
    name: str
    state: JobStatus
    now_ms: int
    tasks: Sequence[TaskFacts] = ()
    producers: Mapping[VertexId, Sequence[VertexId]] = field(default_factory=dict)
    """By vertex, those that it gets records from."""
    message: str = ""
    """What the job waits for, or why it restarts."""
    checkpoints: CheckpointFacts = field(default_factory=CheckpointFacts)


def job_facts(master: JobMaster, checkpoints: CheckpointFacts, now_ms: int) -> JobFacts:
    """Of a job that has not ended."""
    producers: dict[VertexId, list[VertexId]] = {}
    for edge in master.graph.edges:
        producers.setdefault(edge.target, []).append(edge.source)
    tasks = [_task(execution) for execution in master.execution_graph.executions]
    job_id, name = master.graph.job_id, master.graph.name
    return JobFacts(job_id, name, master.status, now_ms, tasks, producers, master.message, checkpoints)


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
    )


def checkpoint_facts(settings: CheckpointSettings, statistics: CheckpointStatistics) -> CheckpointFacts:
    """How the job's checkpoints go."""
    completed, failed = statistics.latest_completed, statistics.latest_failed
    under_way = [stats.triggered.date_ms for stats in statistics.history() if stats.ended is None]
    return CheckpointFacts(
        settings.interval_ms,
        completed.ended.date_ms if completed is not None and completed.ended is not None else 0,
        min(under_way, default=0),
        failed.ended.date_ms if failed is not None and failed.ended is not None else 0,
        failed.failure_message if failed is not None else "",
    )
