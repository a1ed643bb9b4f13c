"""What `millstream top` shows of a cluster and of a job, made of what REST returns. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

METRICS = (
    "numRecordsInPerSecond", "numRecordsOutPerSecond", "busyTimeMsPerSecond", "idleTimeMsPerSecond",
    "backPressuredTimeMsPerSecond", "currentInputWatermark", "currentOutputWatermark",
)  # fmt: skip
"""Of each vertex, over its subtasks."""
_NO_EVENT_TIME = 10**17  # milliseconds; watermarks before any event and behind all of them are beyond it


class VertexFigures(Struct, frozen=True):
    """A vertex at a moment. Rates are in records a second, shares of time are percent, averaged over the subtasks."""

    id: str
    name: str
    state: str
    running: int
    parallelism: int
    records_in: float | None = None
    records_out: float | None = None
    busy: float | None = None
    idle: float | None = None
    backpressured: float | None = None
    busiest: float | None = None
    """The share of time in which the busiest subtask is busy."""
    watermark_lag_ms: int | None = None
    """How far its event time is behind the clock; None: it has none."""


class CheckpointFigures(Struct, frozen=True):
    """The checkpoints of a job; the duration and size are the last completed one's."""

    completed: int = 0
    failed: int = 0
    in_progress: int = 0
    last_at: int | None = None
    last_duration_ms: int | None = None
    last_size: int | None = None


class JobFigures(Struct, frozen=True):
    """A job at a moment; vertices and checkpoints only of the one that is shown."""

    id: str
    name: str
    state: str
    duration_ms: int
    running: int
    tasks: int
    restarts: int
    cause: str = ""
    """What it waits for, or was restarted for last."""
    records_in: float | None = None
    """Records a second that its sources emit."""
    records_out: float | None = None
    """Records a second that its sinks take."""
    vertices: tuple[VertexFigures, ...] = ()
    checkpoints: CheckpointFigures | None = None


class ClusterFigures(Struct, frozen=True):
    """A cluster at a moment."""

    task_managers: int
    slots: int
    slots_free: int
    jobs: tuple[JobFigures, ...] = ()


def job_figures(job: Mapping[str, Any]) -> JobFigures:
    """The figures of a job, from an item of `/jobs/overview`."""
    counts, ended = job["tasks"], job["end-time"] != -1
    cause = job.get("message") or (job.get("last-failure") if job.get("restarts") or ended else "") or ""
    return JobFigures(
        str(job["jid"]), str(job["name"]), str(job["state"]), int(job["duration"]), int(counts["running"]),
        int(counts["total"]), int(job.get("restarts", 0)), " ".join(str(cause).split()),
    )  # fmt: skip


def vertex_figures(vertex: Mapping[str, Any], metrics: Sequence[Mapping[str, Any]], now_ms: int) -> VertexFigures:
    """Of a vertex in `/jobs/:jobid`, with its metrics as `.../subtasks/metrics` aggregates them."""
    found = {str(metric["id"]): metric for metric in metrics}

    def of(name: str, kind: str) -> float | None:
        value = found.get(name, {}).get(kind)
        number = float(value) if value is not None else math.nan
        return number if math.isfinite(number) else None

    def share(name: str, kind: str = "avg") -> float | None:
        milliseconds = of(name, kind)
        return None if milliseconds is None else min(100.0, milliseconds / 10)

    inputs, outputs = of("currentInputWatermark", "min"), of("currentOutputWatermark", "min")
    watermark = next((w for w in (inputs, outputs) if w is not None and abs(w) < _NO_EVENT_TIME), None)
    return VertexFigures(
        str(vertex["id"]), str(vertex["name"]), str(vertex["status"]), int(vertex["tasks"]["RUNNING"]),
        int(vertex["parallelism"]), of("numRecordsInPerSecond", "sum"), of("numRecordsOutPerSecond", "sum"),
        share("busyTimeMsPerSecond"), share("idleTimeMsPerSecond"), share("backPressuredTimeMsPerSecond"),
        share("busyTimeMsPerSecond", "max"), None if watermark is None else max(0, now_ms - int(watermark)),
    )  # fmt: skip


def with_rates(job: JobFigures, sources: Sequence[VertexFigures], sinks: Sequence[VertexFigures]) -> JobFigures:
    """The job with the rates at both of its ends, as far as they are measured."""

    def total(rates: Sequence[float | None]) -> float | None:
        known = [rate for rate in rates if rate is not None]
        return sum(known) if known else None

    return replace(
        job, records_in=total([v.records_out for v in sources]), records_out=total([v.records_in for v in sinks])
    )


def checkpoint_figures(response: Mapping[str, Any]) -> CheckpointFigures:
    """The figures of checkpoints, from `/jobs/:jobid/checkpoints`."""
    counts, last = response["counts"], response["latest"]["completed"]
    figures = CheckpointFigures(int(counts["completed"]), int(counts["failed"]), int(counts["in_progress"]))
    if last is None:
        return figures
    return CheckpointFigures(
        figures.completed, figures.failed, figures.in_progress, int(last["latest_ack_timestamp"]),
        int(last["end_to_end_duration"]), int(last["checkpointed_size"]),
    )  # fmt: skip
