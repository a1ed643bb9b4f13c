"""The figures of `millstream top` as cells of tables, the same on a terminal and elsewhere. Pure."""

from __future__ import annotations

from millstream.cli.tables import size
from millstream.cli.top.figures import ClusterFigures, JobFigures, VertexFigures
from millstream.core.logs.counts import counted
from millstream.core.logs.failure_texts import shortened
from millstream.core.logs.times import duration

JOBS = ("NAME", "STATE", "TASKS", "IN/S", "OUT/S", "RESTARTS", "DURATION", "JOB ID", "")
VERTICES = ("VERTEX", "STATE", "TASKS", "IN/S", "OUT/S", "BUSY", "IDLE", "BACKPRESSURED", "BUSIEST", "WATERMARK LAG")
_NONE = "-"
_NAME, _CAUSE = 60, 80


def cluster_line(figures: ClusterFigures) -> str:
    """One line about the cluster."""
    used = figures.slots - figures.slots_free
    managers, jobs = counted(figures.task_managers, "task manager"), counted(len(figures.jobs), "job")
    return f"{managers}, {used} of {counted(figures.slots, 'slot')} used, {jobs} shown"


def job_cells(job: JobFigures) -> list[str]:
    """A row of the table of jobs."""
    tasks = f"{job.running}/{job.tasks}"
    return [
        shortened(job.name, _NAME), job.state, tasks, rate(job.records_in), rate(job.records_out), str(job.restarts),
        duration(job.duration_ms), job.id, shortened(job.cause, _CAUSE),
    ]  # fmt: skip


def job_lines(job: JobFigures) -> list[str]:
    """What stands above the vertices of a job."""
    lines = [
        f"{job.name} ({job.id}): {job.state} for {duration(job.duration_ms)}, {job.running}/{job.tasks} tasks run, "
        f"{counted(job.restarts, 'restart')}"
    ]
    if job.cause:
        lines.append(shortened(job.cause, 2 * _CAUSE))
    if (taken := job.checkpoints) is not None:
        line = f"checkpoints: {taken.completed} completed, {taken.failed} failed, {taken.in_progress} in progress"
        if taken.last_duration_ms is not None and taken.last_size is not None:
            line += f"; the last took {duration(taken.last_duration_ms)} and has {size(taken.last_size)}"
        lines.append(line)
    return lines


def vertex_cells(vertex: VertexFigures) -> list[str]:
    """A row of the table of vertices."""
    lag = vertex.watermark_lag_ms
    busy, idle, backpressured = percents(vertex.busy, vertex.idle, vertex.backpressured)
    return [
        shortened(vertex.name, _NAME), vertex.state, f"{vertex.running}/{vertex.parallelism}", rate(vertex.records_in),
        rate(vertex.records_out), busy, idle, backpressured, percent(vertex.busiest),
        _NONE if lag is None else duration(lag),
    ]  # fmt: skip


def rate(records: float | None) -> str:
    """`3.5`, `120`, `45.1k`, `2.3M`."""
    if records is None:
        return _NONE
    if records < 1000:
        return f"{records:.1f}" if 0 < records < 100 else f"{records:.0f}"
    return f"{records / 1000:.1f}k" if records < 999_950 else f"{records / 1_000_000:.1f}M"


def percents(*shares: float | None) -> list[str]:
    """Parts of the same time in whole percent: those that make up all of it add up to 100."""
    known = [share for share in shares if share is not None]
    total = sum(known)
    is_all = len(known) == len(shares) and total > 95  # each is measured by itself, and a little apart
    scale = 100 / total if total > 100 or is_all else 1.0
    whole = [None if share is None else int(share * scale) for share in shares]
    rest = round(sum(share * scale for share in known)) - sum(part for part in whole if part is not None)
    by_fraction = sorted(
        (index for index, share in enumerate(shares) if share is not None),
        key=lambda index: -((shares[index] or 0.0) * scale % 1),
    )
    for index in by_fraction[:rest]:
        whole[index] = (whole[index] or 0) + 1
    return [_NONE if part is None else f"{part} %" for part in whole]


def percent(share: float | None) -> str:
    """`37 %`."""
    return _NONE if share is None else f"{share:.0f} %"
