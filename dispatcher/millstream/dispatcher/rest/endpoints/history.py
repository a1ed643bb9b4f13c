"""REST endpoints of the last hour of jobs, and of how they are now, which dashboards add to Flink's."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from starlette.requests import Request

from millstream.core.clock import Clock
from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.ids import JobId, VertexId
from millstream.dispatcher.history.health import JobHealth
from millstream.dispatcher.history.history import History
from millstream.dispatcher.history.job_history import VERTEX_FIGURES, WHOLE, JobHistory, Key
from millstream.dispatcher.history.recorder import HistoryRecorder
from millstream.dispatcher.lifecycle import JobLifecycle
from millstream.dispatcher.rest import history_schemas
from millstream.dispatcher.rest.job_json import Json
from millstream.dispatcher.rest.requests import job_id_of, vertex_of
from millstream.dispatcher.rest.table import Parameter, RestError, RestRoute

_MOST_SERIES = 64
_SPARK_SLOTS, _SPARK_WIDTH = 120, 4
_TEXT = {"type": "string"}
_FIGURES = {
    "numRecordsInPerSecond": ("records-in", 1.0),
    "numRecordsOutPerSecond": ("records-out", 1.0),
    "busyTimeMsPerSecond": ("busy", 1000.0),
    "backPressuredTimeMsPerSecond": ("backpressured", 1000.0),
    "watermarkLag": ("watermark-lag", 1.0),
}
"""By the ids of metrics: what is recorded of every job, and in which unit REST has it."""
_OF_SUBTASK = re.compile(r"(?:(\d{1,5})\.)?(\w+)")
_Axis = Sequence[tuple[int, int]]


class HistoryEndpoints:
    """Shows what was recorded."""

    def __init__(self, lifecycle: JobLifecycle, recorder: HistoryRecorder, health: JobHealth, clock: Clock) -> None:
        self._lifecycle = lifecycle
        self._recorder = recorder
        self._health = health
        self._clock = clock

    def routes(self) -> list[RestRoute]:
        """The rows of the table for these endpoints; before those of single jobs."""
        vertices = Parameter("vertices", _TEXT, "The ids of vertices, with commas between; the sources if not given.")
        known = ", ".join(VERTEX_FIGURES)
        one = f"({'|'.join(VERTEX_FIGURES)})?"
        listed = {"type": "string", "pattern": f"^{one}(,{one})*$"}
        figures = Parameter("figures", listed, f"Which of {known}, with commas between; records-in if not given.")
        get = Parameter("get", _TEXT, "The ids of metrics, with commas between; a number and a dot: of that subtask.")
        return [
            RestRoute(
                "GET", "/jobs/health", self.health, "How each job is, why, and its rate in the last minutes.",
                history_schemas.JOBS_HEALTH,
            ),
            RestRoute(
                "GET", "/jobs/{jobid}/history", self.job, "Figures of a job's vertices in the last hour.",
                history_schemas.JOB_HISTORY, parameters=(vertices, figures),
            ),
            RestRoute(
                "GET", "/jobs/{jobid}/vertices/{vertexid}/history", self.vertex,
                "Metrics of a vertex in the last hour; those that no report holds, since they were first requested.",
                history_schemas.VERTEX_HISTORY, parameters=(get,),
            ),
        ]  # fmt: skip

    async def job(self, request: Request) -> Json:
        """`GET /jobs/:jobid/history`."""
        details = self._lifecycle.details(job_id_of(request))
        ids = _listed(request, "vertices", _sources(details))
        known = {vertex.id for vertex in details.vertices}
        for vertex in ids:
            if vertex not in known:
                raise RestError(404, f"the job has no vertex '{vertex[:100]}'")
        figures = _listed(request, "figures", ["records-in"])
        for figure in figures:
            if figure not in VERTEX_FIGURES:
                raise RestError(400, f"figures: '{figure[:100]}' is not one of {', '.join(VERTEX_FIGURES)}")
        _check_number(len(ids) * len(figures))
        history, kept, axis = self._kept(details.job_id)
        series = [
            {"vertex": vertex, "figure": figure, "values": _values(kept, (VertexId(vertex), WHOLE), figure, axis)}
            for vertex in ids
            for figure in figures
        ]
        return {**self._when(history, kept is not None, axis), "series": series}

    async def vertex(self, request: Request) -> Json:
        """`GET /jobs/:jobid/vertices/:vertexid/history`."""
        details = self._lifecycle.details(job_id_of(request))
        vertex = vertex_of(request, details)
        ids = _listed(request, "get", [])
        _check_number(len(ids))
        history, kept, axis = self._kept(details.job_id)
        place = (details.job_id, str(vertex.id))
        measured = [name for name in ids if _figure(name) is None]
        if measured and not details.state.is_terminal:
            history.watch(place, measured)
        series: list[Json] = []
        for name in ids:
            figure = _figure(name)
            if figure is not None:
                subtask, what, unit = figure
                values = _values(kept, (vertex.id, subtask), what, axis)
                values = [None if value is None else value * unit for value in values]
            else:
                watched = history.watched_values(place, name)
                values = [None] * len(axis) if watched is None else watched[1].at(axis)
            series.append({"id": name, "values": values})
        return {**self._when(history, kept is not None, axis), "series": series}

    async def health(self, request: Request) -> Json:
        """`GET /jobs/health`."""
        jobs = self._lifecycle.all()
        found = await self._health.all(jobs)
        history = self._recorder.history
        axis = history.latest(_SPARK_SLOTS)
        shown: list[Json] = []
        for details in jobs:
            kept = None if details.state.is_terminal else history.job(details.job_id)
            rates = [kept.values((v, WHOLE), "records-in", axis) for v in _sources(details)] if kept else []
            sums = _means([_sum(at) for at in zip(*rates, strict=True)])
            shown.append(
                {
                    "jid": details.job_id,
                    "health": found[details.job_id].condition,
                    "reason": found[details.job_id].reason or None,
                    "rate": next((rate for rate in reversed(sums[-2:]) if rate is not None), None),
                    "rates": sums,
                }
            )
        return {"now": self._clock.now_ms(), "jobs": shown}

    def _kept(self, job_id: JobId) -> tuple[History, JobHistory | None, _Axis]:
        history = self._recorder.history
        kept = history.job(job_id)
        return history, kept, history.axis(kept.first, kept.ended) if kept is not None else []

    def _when(self, history: History, recorded: bool, axis: _Axis) -> Json:
        return {
            "recorded": recorded,
            "since": history.since_ms,
            "now": self._clock.now_ms(),
            "times": history.times(axis),
        }


def _sources(details: JobDetails) -> list[VertexId]:
    fed = {node.id for node in details.plan if node.inputs}
    return [vertex.id for vertex in details.vertices if vertex.id not in fed]


def _values(kept: JobHistory | None, key: Key, figure: str, axis: _Axis) -> list[float | None]:
    return [] if kept is None else kept.values(key, figure, axis)


def _listed(request: Request, name: str, default: Sequence[str]) -> list[str]:
    text = request.query_params.get(name)
    return list(default) if text is None else list(dict.fromkeys(filter(None, text.split(","))))


def _check_number(number: int) -> None:
    if number > _MOST_SERIES:
        raise RestError(400, f"{number} series are requested at once; request at most {_MOST_SERIES}")


def _figure(name: str) -> tuple[int, str, float] | None:
    """The subtask, the recorded figure and its unit, of a metric that every history holds."""
    found = _OF_SUBTASK.fullmatch(name)
    if found is None or found[2] not in _FIGURES:
        return None
    figure, unit = _FIGURES[found[2]]
    if found[1] is not None and figure == "watermark-lag":
        return None
    return (WHOLE if found[1] is None else int(found[1])), figure, unit


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) if known else None


def _means(values: Sequence[float | None]) -> list[float | None]:
    """Of every few of them, from the end on, so that the last one is whole."""
    means: list[float | None] = []
    for end in range(len(values), 0, -_SPARK_WIDTH):
        known = [value for value in values[max(0, end - _SPARK_WIDTH) : end] if value is not None]
        means.insert(0, float(f"{math.fsum(known) / len(known):.4g}") if known else None)
    return means
