"""What a graph of a job shows beside the figures of its vertices: event time, how even the load is, edges. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from millstream.core.jobs.details import JobDetails, VertexStatus
from millstream.core.jobs.graph import edge_name
from millstream.core.metrics.model import Number

Measured = Callable[[str], Collection[Mapping[str, Number]]]
"""The metrics of the subtasks of a vertex, as far as they are known."""


def flow(details: JobDetails, measured: Measured) -> dict[str, Any]:
    """`/jobs/:jobid/flow`.

    The watermark is the lowest that a subtask gives out. The skew is as Flink's: the mean deviation of what subtasks
    have received, in percent of the mean. Rates, queues and credit of an edge are those of all its channels together.
    """
    return {
        "vertices": [
            {"id": vertex.id, "watermark": _low_watermark(vertex), "skew": _skew(vertex)} for vertex in details.vertices
        ],
        "edges": _edges(details, {vertex.id: measured(vertex.id) for vertex in details.vertices}),
    }


def _edges(details: JobDetails, measured: Mapping[str, Collection[Mapping[str, Number]]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for node in details.plan:
        into = measured.get(node.id, ())
        for number, source in enumerate(node.inputs):
            name, out_of = f"edge.{edge_name(node.id, number)}", measured.get(source.id, ())
            found.append(
                {
                    "source": source.id,
                    "target": node.id,
                    "input": number,
                    "rate": _total(out_of, f"{name}.numRecordsOutPerSecond"),
                    "queued-out": _whole(out_of, f"{name}.outputQueueLength"),
                    "queued-in": _whole(into, f"{name}.inputQueueLength"),
                    "credit": _whole(out_of, f"{name}.outputCredit"),
                }
            )
    return found


def _low_watermark(vertex: VertexStatus) -> int | None:
    marks = [s.metrics.output_watermark for s in vertex.subtasks if s.metrics.output_watermark is not None]
    return min(marks, default=None)


def _skew(vertex: VertexStatus) -> float | None:
    received = [subtask.metrics.records_in for subtask in vertex.subtasks]
    mean = sum(received) / len(received) if received else 0
    if not mean:
        return None
    return round(100 * sum(abs(records - mean) for records in received) / len(received) / mean, 1)


def _whole(metrics: Collection[Mapping[str, Number]], name: str) -> int | None:
    total = _total(metrics, name)
    return None if total is None else int(total)


def _total(metrics: Collection[Mapping[str, Number]], name: str) -> Number | None:
    found = [of_subtask[name] for of_subtask in metrics if name in of_subtask]
    return sum(found) if found else None
