"""What a graph of a job shows of each vertex beside its figures: how far event time is, and how even the load. Pure."""

from __future__ import annotations

from typing import Any

from millstream.core.jobs.details import JobDetails, VertexStatus


def flow(details: JobDetails) -> dict[str, Any]:
    """`/jobs/:jobid/flow`.

    The watermark is the lowest that a subtask gives out. The skew is as Flink's: the mean deviation of what subtasks
    have received, in percent of the mean.
    """
    return {
        "vertices": [
            {"id": vertex.id, "watermark": _low_watermark(vertex), "skew": _skew(vertex)} for vertex in details.vertices
        ]
    }


def _low_watermark(vertex: VertexStatus) -> int | None:
    marks = [s.metrics.output_watermark for s in vertex.subtasks if s.metrics.output_watermark is not None]
    return min(marks, default=None)


def _skew(vertex: VertexStatus) -> float | None:
    received = [subtask.metrics.records_in for subtask in vertex.subtasks]
    mean = sum(received) / len(received) if received else 0
    if not mean:
        return None
    return round(100 * sum(abs(records - mean) for records in received) / len(received) / mean, 1)
