"""The figures of `millstream top` as cells of tables, the same on a terminal and elsewhere. Pure."""

from __future__ import annotations

from millstream.cli.tables import size
from millstream.cli.top.figures import ClusterFigures, JobFigures, VertexFigures
from millstream.core.logs.failure_texts import shortened
from millstream.core.logs.times import duration

JOBS = ("NAME", "STATE", "TASKS", "RESTARTS", "DURATION", "JOB ID", "")
VERTICES = ("VERTEX", "STATE", "TASKS", "IN/S", "OUT/S", "BUSY", "IDLE", "BACKPRESSURED", "WATERMARK LAG")
_NONE = "-"
_NAME, _CAUSE = 60, 80


def cluster_line(figures: ClusterFigures) -> str:
    """One line about the cluster."""
    used = figures.slots - figures.slots_free
    managers = f"{figures.task_managers} task manager{'' if figures.task_managers == 1 else 's'}"
    return f"{managers}, {used} of {figures.slots} slots used, {len(figures.jobs)} jobs shown"


def job_cells(job: JobFigures) -> list[str]:
    """A row of the table of jobs."""
    tasks = f"{job.running}/{job.tasks}"
    return [
        shortened(job.name, _NAME), job.state, tasks, str(job.restarts), duration(job.duration_ms), job.id,
        shortened(job.cause, _CAUSE),
    ]  # fmt: skip


def job_lines(job: JobFigures) -> list[str]:
    """What stands above the vertices of a job."""
    lines = [
        f"{job.name} ({job.id}): {job.state} for {duration(job.duration_ms)}, {job.running}/{job.tasks} tasks run, "
        f"{job.restarts} restarts"
    ]
    if job.cause:
        lines.append(shortened(job.cause, 2 * _CAUSE))
    if (taken := job.checkpoints) is not None:
        told = f"checkpoints: {taken.completed} completed, {taken.failed} failed, {taken.in_progress} under way"
        if taken.last_duration_ms is not None and taken.last_size is not None:
            told += f"; the last took {duration(taken.last_duration_ms)} and has {size(taken.last_size)}"
        lines.append(told)
    return lines


def vertex_cells(vertex: VertexFigures) -> list[str]:
    """A row of the table of vertices."""
    lag = vertex.watermark_lag_ms
    return [
        shortened(vertex.name, _NAME), vertex.state, f"{vertex.running}/{vertex.parallelism}", rate(vertex.records_in),
        rate(vertex.records_out), percent(vertex.busy), percent(vertex.idle), percent(vertex.backpressured),
        _NONE if lag is None else duration(lag),
    ]  # fmt: skip


def rate(records: float | None) -> str:
    """`3.5`, `120`, `45.1k`, `2.3M`."""
    if records is None:
        return _NONE
    if records < 1000:
        return f"{records:.1f}" if 0 < records < 100 else f"{records:.0f}"
    return f"{records / 1000:.1f}k" if records < 999_950 else f"{records / 1_000_000:.1f}M"


def percent(share: float | None) -> str:
    """`37 %`."""
    return _NONE if share is None else f"{share:.0f} %"
