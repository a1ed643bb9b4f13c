"""A job's plan as Flink writes it, for programs and for `info`: descriptions are plain text."""

from __future__ import annotations

from typing import Any

from millstream.core.graph import JobGraph, JobVertex

_EXCHANGE = "pipelined_bounded"


def plan_json(graph: JobGraph) -> dict[str, Any]:
    """The plan, ready for `json.dumps`."""
    return {
        "jid": graph.job_id,
        "name": graph.name,
        "type": "STREAMING",
        "nodes": [_node(graph, vertex) for vertex in graph.vertices],
    }


def _node(graph: JobGraph, vertex: JobVertex) -> dict[str, Any]:
    node: dict[str, Any] = {
        "id": vertex.id,
        "parallelism": vertex.parallelism,
        "operator": "",
        "operator_strategy": "",
        "description": vertex.name,
        "optimizer_properties": {},
    }
    incoming = [edge for edge in graph.edges if edge.target == vertex.id]
    if incoming:
        node["inputs"] = [
            {"num": number, "id": edge.source, "ship_strategy": edge.strategy, "exchange": _EXCHANGE}
            for number, edge in enumerate(incoming)
        ]
    return node
