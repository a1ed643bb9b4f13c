"""Reads what `millstream top` shows from a cluster's REST API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from millstream.cli.rest import RestClient, RestError
from millstream.cli.top.figures import (
    METRICS,
    ClusterFigures,
    JobFigures,
    VertexFigures,
    checkpoint_figures,
    job_figures,
    vertex_figures,
    with_rates,
)

_ENDED = frozenset({"FINISHED", "FAILED", "CANCELED"})
_MOST_VERTICES = 100  # whose metrics are requested at a time: one request each
_AGGREGATES = "sum,min,max,avg"
_MOST_JOBS = 50  # whose rates are read at a time: a request for each source and sink, and one more


def read(client: RestClient, job_id: str = "", with_ended: bool = False) -> ClusterFigures:
    """The cluster now, and the job with its vertices and checkpoints if one is named. Raises when it is not there."""
    overview = client.get("/overview")
    jobs = [job_figures(job) for job in client.get("/jobs/overview")["jobs"]]
    shown = [j for j in jobs if j.id == job_id or (not job_id and (with_ended or j.state not in _ENDED))]
    if job_id:
        detail = client.get(f"/jobs/{job_id}")
        shown = [_with_details(client, job, detail) for job in shown]
    else:
        running = [job.id for job in shown if job.state == "RUNNING"][:_MOST_JOBS]
        shown = [_with_rates(client, job) if job.id in running else job for job in shown]
    managers, slots, free = (int(overview[key]) for key in ("taskmanagers", "slots-total", "slots-available"))
    return ClusterFigures(managers, slots, free, tuple(shown))


def _with_details(client: RestClient, job: JobFigures, detail: Mapping[str, Any]) -> JobFigures:
    path, now, vertices = f"/jobs/{job.id}", int(detail["now"]), detail["vertices"]
    figures = [_vertex(client, path, vertex, now, index < _MOST_VERTICES) for index, vertex in enumerate(vertices)]
    return replace(job, vertices=tuple(figures), checkpoints=checkpoint_figures(client.get(f"{path}/checkpoints")))


def _with_rates(client: RestClient, job: JobFigures) -> JobFigures:
    path = f"/jobs/{job.id}"
    try:
        detail = client.get(path)
    except RestError as error:
        if error.status == 404:
            return job  # it has just been removed
        raise
    inputs = {str(node["id"]): [str(one["id"]) for one in node.get("inputs", ())] for node in detail["plan"]["nodes"]}
    consumed = {source for sources in inputs.values() for source in sources}
    ends = {
        str(vertex["id"]): _vertex(client, path, vertex, int(detail["now"]), index < _MOST_VERTICES)
        for index, vertex in enumerate(detail["vertices"])
        if not inputs.get(str(vertex["id"])) or str(vertex["id"]) not in consumed
    }
    sources = [figures for ident, figures in ends.items() if not inputs.get(ident)]
    return with_rates(job, sources, [figures for ident, figures in ends.items() if ident not in consumed])


def _vertex(client: RestClient, path: str, vertex: Mapping[str, Any], now: int, measured: bool) -> VertexFigures:
    metrics: list[Mapping[str, Any]] = []
    if measured:
        query = f"get={','.join(METRICS)}&agg={_AGGREGATES}"
        try:
            metrics = client.get(f"{path}/vertices/{vertex['id']}/subtasks/metrics?{query}")
        except RestError as error:
            if error.status != 404:  # it has just been rescaled, or has no tasks yet
                raise
    return vertex_figures(vertex, metrics, now)
