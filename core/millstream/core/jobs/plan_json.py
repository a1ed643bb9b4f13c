"""A job's plan: its nodes, as services pass them on, and the JSON that Flink makes of them. All of it is built here.

Two forms differ in the descriptions only. What people and programs ask for by themselves (`info`,
`get_execution_plan()`) is plain text. What REST returns is HTML, as in Flink, since dashboards put it into the page as
it is: a name that is a script must not become one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from millstream.core.jobs.details import PlanInput, PlanNode
from millstream.core.jobs.graph import JobGraph

_EXCHANGE = "pipelined_bounded"


def plan_nodes(graph: JobGraph) -> tuple[PlanNode, ...]:
    """The plan's nodes, in the graph's order. Names are as the user gave them."""
    return tuple(
        PlanNode(
            vertex.id,
            vertex.description or vertex.name,
            vertex.parallelism,
            tuple(PlanInput(edge.source, edge.strategy) for edge in graph.edges if edge.target == vertex.id),
        )
        for vertex in graph.vertices
    )


def plan_json(graph: JobGraph) -> dict[str, Any]:
    """The plan with plain descriptions, ready for `json.dumps`."""
    return _plan(graph.job_id, graph.name, job_type(graph.configuration), plan_nodes(graph), str)


def plan_for_rest(
    job_id: str, name: str, configuration: Mapping[str, str], nodes: Iterable[PlanNode]
) -> dict[str, Any]:
    """The plan with descriptions in HTML, as REST has it under `plan`."""
    return _plan(job_id, name, job_type(configuration), nodes, _in_html)


def job_type(configuration: Mapping[str, str]) -> str:
    """STREAMING or BATCH, by a job's options."""
    return configuration.get("execution.runtime-mode", "STREAMING")


def _plan(
    job_id: str, name: str, kind: str, nodes: Iterable[PlanNode], describe: Callable[[str], str]
) -> dict[str, Any]:
    return {"jid": job_id, "name": name, "type": kind, "nodes": [_node(node, describe) for node in nodes]}


def _node(node: PlanNode, describe: Callable[[str], str]) -> dict[str, Any]:
    inputs = [
        {
            "num": number,
            "id": source.id,
            "ship_strategy": source.ship_strategy,
            "exchange": _EXCHANGE,
            "local_strategy": "",
            "caching": "",
        }
        for number, source in enumerate(node.inputs)
    ]
    return {
        "id": node.id,
        "parallelism": node.parallelism,
        "operator": "",
        "operator_strategy": "",
        "description": describe(node.description),
        "optimizer_properties": {},
        **({"inputs": inputs} if inputs else {}),
    }


def _in_html(text: str) -> str:
    import html  # 1 ms for names that are not needed here; only a plan for the web is escaped

    return html.escape(text).replace("\\", "&#92;").replace("\n", "<br/>")
