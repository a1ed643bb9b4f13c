"""The stream graph as JSON in Flink's shape: the result of `get_execution_plan()`.

It shows operators, before they are chained into tasks. The plan of tasks is what REST and `millstream info` show.
"""

from __future__ import annotations

from typing import Any

from millstream.core.jobs.plan.plan import STRATEGY_NAMES
from millstream.datastream.graph.stream_graph import StreamGraph, StreamNode


def stream_plan(graph: StreamGraph) -> dict[str, Any]:
    """Ready for `json.dumps`: operators in the order in which they were made, with sinks behind all others."""
    nodes = sorted(graph.nodes, key=lambda node: (node.operator.spec.is_sink, node.operator.number))
    return {"nodes": [_node(node) for node in nodes]}


def _node(node: StreamNode) -> dict[str, Any]:
    spec = node.operator.spec
    predecessors = [
        {
            "id": _id(edge.source),
            "ship_strategy": STRATEGY_NAMES[type(edge.partitioner)],
            "side": "second",  # of every edge: so does Flink, whatever the input
        }
        for edge in node.inputs
    ]
    return {
        "id": _id(node),
        "type": node.name,
        "pact": "Data Source" if spec.inputs == 0 else "Data Sink" if spec.is_sink else "Operator",
        "contents": node.operator.full_description,
        "parallelism": node.parallelism,
        **({"predecessors": predecessors} if spec.inputs else {}),
    }


def _id(node: StreamNode) -> int:
    """From 1, as Flink counts."""
    return node.operator.number + 1
