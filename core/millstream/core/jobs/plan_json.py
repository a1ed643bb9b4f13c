"""A job's plan: its nodes, as services exchange them, and its JSON in Flink's form.

There are two forms of descriptions. `info` and `get_execution_plan()` return plain text. The REST API returns HTML, as
in Flink, since dashboards insert it into the page unescaped: a name that contains a script must not be executed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from millstream.core.jobs.details import PlanInput, PlanNode
from millstream.core.jobs.graph import Exchange, JobGraph
from millstream.core.settings.options.scheduling import EXECUTION_RUNTIME_MODE

_EXCHANGES = {Exchange.PIPELINED: "pipelined_bounded", Exchange.BLOCKING: "blocking"}
"""The names that Flink uses in plans."""


def plan_nodes(graph: JobGraph) -> tuple[PlanNode, ...]:
    """Returns the plan's nodes, in the graph's order, with the user's names."""
    return tuple(
        PlanNode(
            vertex.id,
            vertex.description or vertex.name,
            vertex.parallelism,
            tuple(
                PlanInput(edge.source, edge.strategy, edge.exchange) for edge in graph.edges if edge.target == vertex.id
            ),
        )
        for vertex in graph.vertices
    )


def plan_json(graph: JobGraph) -> dict[str, Any]:
    """Returns the plan with plain text descriptions, ready for `json.dumps`."""
    return _plan(graph.job_id, graph.name, job_type(graph.configuration), plan_nodes(graph), str)


def plan_for_rest(
    job_id: str, name: str, configuration: Mapping[str, str], nodes: Iterable[PlanNode]
) -> dict[str, Any]:
    """Returns the plan with descriptions in HTML, for `plan` in the REST API."""
    return _plan(job_id, name, job_type(configuration), nodes, _in_html)


def named_plan_for_rest(
    job_id: str, name: str, configuration: Mapping[str, str], nodes: Iterable[PlanNode]
) -> dict[str, Any]:
    """Returns the plan of a job that has not been submitted, with each description as `operator` too.

    Flink's dashboard shows `operator` alone in such a plan, and both in that of a job.
    """
    plan = plan_for_rest(job_id, name, configuration, nodes)
    return {**plan, "nodes": [{**node, "operator": node["description"]} for node in plan["nodes"]]}


def job_type(configuration: Mapping[str, str]) -> str:
    """Returns STREAMING or BATCH, from a job's options."""
    return configuration.get(EXECUTION_RUNTIME_MODE, "STREAMING")


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
            "exchange": _EXCHANGES[source.exchange],
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
    """The arrows of chains stay as they are, because Flink's dashboard shows descriptions as text in one place."""
    import html  # 1 ms for names that are not needed here; only a plan for the web is escaped

    return html.escape(text).replace(" -&gt; ", " -> ").replace("\\", "&#92;").replace("\n", "<br/>")
