"""What a graph of a job shows of each vertex beside its figures: event time, how even the load is, queues. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from millstream.core.jobs.details import JobDetails, VertexStatus
from millstream.core.metrics.model import Number

Measured = Callable[[str], Collection[Mapping[str, Number]]]
"""The metrics of the subtasks of a vertex, as far as they are known."""


def flow(details: JobDetails, measured: Measured) -> dict[str, Any]:
    """`/jobs/:jobid/flow`.

    The watermark is the lowest that a subtask gives out. The skew is as Flink's: the mean deviation of what subtasks
    have received, in percent of the mean. Queues and credit are those of all subtasks together.
    """
    return {"vertices": [_vertex(vertex, measured(vertex.id)) for vertex in details.vertices]}


def _vertex(vertex: VertexStatus, metrics: Collection[Mapping[str, Number]]) -> dict[str, Any]:
    return {
        "id": vertex.id,
        "watermark": _low_watermark(vertex),
        "skew": _skew(vertex),
        "queued-in": _total(metrics, "buffers.inputQueueLength"),
        "queued-out": _total(metrics, "buffers.outputQueueLength"),
        "credit": _total(metrics, "buffers.outputCredit"),
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


def _total(metrics: Collection[Mapping[str, Number]], name: str) -> int | None:
    found = [of_subtask[name] for of_subtask in metrics if name in of_subtask]
    return int(sum(found)) if found else None
