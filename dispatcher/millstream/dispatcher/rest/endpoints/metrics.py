"""REST endpoints of metrics, as Flink's: of jobs, vertices, subtasks, task managers and the job manager.

Without `get` they list the ids that there are, with it they return values: as text of a single thing, as numbers of
what several have in common. What a job's subtasks have counted at their end is known for as long as the job is.

Keys are the users' own data, as rows of state are: to see the hot ones needs the same role, and is in the audit log.
"""

from __future__ import annotations

from starlette.requests import Request

from millstream.core.jobs.details import SubtaskStatus
from millstream.core.jobs.ids import JobId
from millstream.core.metrics.cluster_metrics import slot_gauges
from millstream.core.metrics.model import Number
from millstream.core.metrics.naming import metric_id
from millstream.dispatcher.admission import is_id
from millstream.dispatcher.callers import Role
from millstream.dispatcher.cluster_view import ClusterView
from millstream.dispatcher.lifecycle import JobLifecycle
from millstream.dispatcher.metrics.fetcher import MetricFetcher
from millstream.dispatcher.metrics.store import MetricStore, Values
from millstream.dispatcher.rest import schemas
from millstream.dispatcher.rest.job_json import TASK_METRICS, Json
from millstream.dispatcher.rest.metric_values import (
    AGGREGATIONS,
    WANTED_METRICS,
    aggregated,
    hot_keys,
    single,
    wanted_aggregations,
    wanted_subtasks,
)
from millstream.dispatcher.rest.requests import job_id_of, vertex_of, whole_number
from millstream.dispatcher.rest.table import Parameter, RestError, RestRoute


class MetricEndpoints:
    """Shows what is measured."""

    def __init__(self, lifecycle: JobLifecycle, cluster: ClusterView, fetcher: MetricFetcher) -> None:
        self._lifecycle = lifecycle
        self._cluster = cluster
        self._fetcher = fetcher

    def routes(self) -> list[RestRoute]:
        """The rows of the table for these endpoints; before those of single jobs and task managers."""
        text = {"type": "string"}
        get = WANTED_METRICS
        how = f"({'|'.join(AGGREGATIONS)})"
        ways = {"type": "string", "pattern": f"^{how}(,{how})*$"}
        agg = Parameter("agg", ways, "How to aggregate, with commas between; in all ways if not given.")
        ids = {"type": "string", "pattern": "^[0-9a-fA-F]{32}(,[0-9a-fA-F]{32})*$"}
        jobs = Parameter("jobs", ids, "The ids of the jobs, with commas between; all if not given.")
        managers = Parameter("taskmanagers", text, "The ids of the task managers; all if not given.")
        some = {"type": "string", "pattern": r"^[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*$"}
        subtasks = Parameter("subtasks", some, "Indices and ranges of subtasks, such as 0,3-5; all if not given.")
        vertex = "/jobs/{jobid}/vertices/{vertexid}"
        one, many = schemas.METRIC_VALUES, schemas.AGGREGATED_METRICS
        return [
            RestRoute(
                "GET", "/jobs/metrics", self.jobs, "What jobs measure, aggregated.", many, parameters=(get, agg, jobs)
            ),
            RestRoute(
                "GET", "/taskmanagers/metrics", self.task_managers, "What task managers measure, aggregated.", many,
                parameters=(get, agg, managers),
            ),
            RestRoute(
                "GET", "/jobmanager/metrics", self.job_manager, "What the job manager measures.", one, parameters=(get,)
            ),
            RestRoute(
                "GET", "/taskmanagers/{taskmanagerid}/metrics", self.task_manager, "What a task manager measures.", one,
                parameters=(get,),
            ),
            RestRoute("GET", "/jobs/{jobid}/metrics", self.job, "What a job measures.", one, parameters=(get,)),
            RestRoute(
                "GET", f"{vertex}/metrics", self.vertex, "The metrics of a vertex's subtasks, and their values.", one,
                parameters=(get,),
            ),
            RestRoute(
                "GET", f"{vertex}/jm-operator-metrics", self.coordinators,
                "What the coordinators of a vertex's operators measure on the job manager.", one, parameters=(get,),
            ),
            RestRoute(
                "GET", f"{vertex}/subtasks/metrics", self.subtasks, "The metrics of a vertex's subtasks, aggregated.",
                many, parameters=(get, agg, subtasks),
            ),
            RestRoute(
                "GET", f"{vertex}/subtasks/{{subtaskindex}}/metrics", self.subtask, "The metrics of a subtask.", one,
                parameters=(get,),
            ),
            RestRoute(
                "GET", f"{vertex}/hot-keys", self.hot_keys, "Which keys come most often at a vertex, by a sample.",
                schemas.HOT_KEYS, needs=Role.OPERATE, action="read keys",
            ),
        ]  # fmt: skip

    async def jobs(self, request: Request) -> list[Json]:
        """`GET /jobs/metrics`."""
        known = {details.job_id for details in self._lifecycle.all()}
        wanted = request.query_params.get("jobs")
        if wanted is not None:
            requested = [job_id.lower() for job_id in wanted.split(",")]
            wrong = next((job_id for job_id in requested if not is_id(job_id)), None)
            if wrong is not None:
                raise RestError(400, f"jobs: '{wrong[:100]}' is not a job id; it has 32 hexadecimal digits")
            known &= {JobId(job_id) for job_id in requested}
        aggregations = wanted_aggregations(request.query_params.get("agg"))
        values = (await self._fetcher.fresh()).jobs()
        chosen = [of_job for job_id, of_job in values.items() if job_id in known]
        return aggregated(chosen, request.query_params.get("get"), aggregations)

    async def job(self, request: Request) -> list[Json]:
        """`GET /jobs/:jobid/metrics`."""
        details = self._lifecycle.details(job_id_of(request))
        return single((await self._fetcher.fresh()).job(details.job_id), request.query_params.get("get"))

    async def vertex(self, request: Request) -> list[Json]:
        """`GET /jobs/:jobid/vertices/:vertexid/metrics`: ids are the subtask's index and the metric's, as in Flink."""
        measured = await self._measured(request)
        values = {f"{index}.{name}": value for index, of in measured.items() for name, value in of.items()}
        return single(values, request.query_params.get("get"))

    async def coordinators(self, request: Request) -> list[Json]:
        """`GET /jobs/:jobid/vertices/:vertexid/jm-operator-metrics`."""
        details = self._lifecycle.details(job_id_of(request))
        vertex = vertex_of(request, details)
        values = (await self._fetcher.fresh()).coordinators(details.job_id, vertex.id)
        return single(values, request.query_params.get("get"))

    async def subtasks(self, request: Request) -> list[Json]:
        """`GET /jobs/:jobid/vertices/:vertexid/subtasks/metrics`."""
        aggregations = wanted_aggregations(request.query_params.get("agg"))
        requested = request.query_params.get("subtasks")
        wanted_subtasks(requested, ())  # raises before metrics are fetched
        measured = await self._measured(request)
        chosen = [measured[index] for index in wanted_subtasks(requested, measured)]
        return aggregated(chosen, request.query_params.get("get"), aggregations)

    async def subtask(self, request: Request) -> list[Json]:
        """`GET /jobs/:jobid/vertices/:vertexid/subtasks/:subtaskindex/metrics`."""
        index = whole_number("the index of a subtask", request.path_params["subtaskindex"], 0, schemas.HIGHEST)
        measured = await self._measured(request)
        if index not in measured:
            raise RestError(404, f"the vertex has no subtask {index}")
        return single(measured[index], request.query_params.get("get"))

    async def hot_keys(self, request: Request) -> Json:
        """`GET /jobs/:jobid/vertices/:vertexid/hot-keys`."""
        details = self._lifecycle.details(job_id_of(request))
        vertex = vertex_of(request, details)
        return hot_keys((await self._fetcher.fresh()).vertex_groups(details.job_id, vertex.id))

    async def task_managers(self, request: Request) -> list[Json]:
        """`GET /taskmanagers/metrics`."""
        aggregations = wanted_aggregations(request.query_params.get("agg"))
        wanted = request.query_params.get("taskmanagers")
        values = (await self._fetcher.fresh()).task_managers()
        chosen = [of for manager, of in values.items() if wanted is None or manager in wanted.split(",")]
        return aggregated(chosen, request.query_params.get("get"), aggregations)

    async def task_manager(self, request: Request) -> list[Json]:
        """`GET /taskmanagers/:taskmanagerid/metrics`."""
        wanted = request.path_params["taskmanagerid"]
        values = (await self._fetcher.fresh()).task_managers().get(wanted)
        if values is None:
            known = (await self._cluster.overview()).task_managers
            if all(manager.task_manager_id != wanted for manager in known):
                raise RestError(404, f"no task manager {wanted} is registered")
        return single(values or {}, request.query_params.get("get"))

    async def job_manager(self, request: Request) -> list[Json]:
        """`GET /jobmanager/metrics`."""
        store = await self._fetcher.fresh()
        slots = slot_gauges(await self._cluster.overview())
        running = sum(not details.state.is_terminal for details in self._lifecycle.all())
        services: dict[str, Values] = {"resourcemanager": slots, "dispatcher": {"numRunningJobs": running}}
        return single(store.job_manager(services), request.query_params.get("get"))

    async def _measured(self, request: Request) -> dict[int, Values]:
        """Of the subtasks of the path's vertex: what was fetched, and what the job manager knows for certain."""
        details = self._lifecycle.details(job_id_of(request))
        vertex = vertex_of(request, details)
        store: MetricStore = self._fetcher.store
        if not details.state.is_terminal:
            store = await self._fetcher.fresh()
        fetched = store.vertex(details.job_id, vertex.id)
        return {subtask.index: _joined(subtask, fetched.get(subtask.index, {})) for subtask in vertex.subtasks}


def _joined(subtask: SubtaskStatus, fetched: Values) -> Values:
    """What is fetched is newer, until the subtask has ended: then what it counted last is what counts."""
    metrics = subtask.metrics
    known: dict[str, Number] = {name: getattr(metrics, attribute) for name, attribute in TASK_METRICS.items()}
    known |= {metric_id(name): count for name, count in metrics.counters.items()}
    if subtask.state.is_terminal:
        return {**{metric_id(name): value for name, value in metrics.gauges.items()}, **known}
    return {**known, **fetched}
