"""REST endpoints that show where the time of a vertex goes, or of a slot worker, as flame graphs in Flink's shape."""

from __future__ import annotations

from starlette.requests import Request

from millstream.core.inspection.flame_graph import FlameGraphType
from millstream.core.jobs.details import SubtaskStatus
from millstream.core.messages.inspection import SampleRequest
from millstream.dispatcher.cluster_view import ClusterView
from millstream.dispatcher.lifecycle import JobLifecycle
from millstream.dispatcher.rest import process_schemas as schemas
from millstream.dispatcher.rest.flame_graphs import DISABLED, TERMINATED, WAITING, FlameGraphs, SamplingPlan, nothing
from millstream.dispatcher.rest.job_json import Json
from millstream.dispatcher.rest.requests import boolean_of, job_id_of, vertex_of, whole_number
from millstream.dispatcher.rest.schemas import BOOLEAN, HIGHEST
from millstream.dispatcher.rest.table import Parameter, RestError, RestRoute

_LONGEST = 60_000
_SHORTEST = 10
_INTERVALS = (1, 1000)


class FlameGraphEndpoints:
    """Shows profiles."""

    def __init__(self, lifecycle: JobLifecycle, cluster: ClusterView, graphs: FlameGraphs) -> None:
        self._lifecycle = lifecycle
        self._cluster = cluster
        self._graphs = graphs

    def routes(self) -> list[RestRoute]:
        """The rows of the table for these endpoints."""
        lowest, highest = _INTERVALS
        common = (
            Parameter("type", {"type": "string", "enum": [*FlameGraphType]}, "Which samples count; 'full' are all."),
            Parameter("runtime", BOOLEAN, "Whether frames of the runtime are shown, too."),
            Parameter("refresh", BOOLEAN, "Whether to sample again, though there are recent samples."),
            Parameter(
                "duration", {"type": "integer", "minimum": _SHORTEST, "maximum": _LONGEST},
                "For how many milliseconds samples are taken, in place of rest.flamegraph.num-samples.",
            ),
            Parameter(
                "interval", {"type": "integer", "minimum": lowest, "maximum": highest},
                "Milliseconds from one sample to the next, in place of rest.flamegraph.delay-between-samples.",
            ),
        )  # fmt: skip
        subtask = Parameter(
            "subtaskindex", {"type": "integer", "minimum": 0, "maximum": HIGHEST}, "Only of this subtask."
        )
        return [
            RestRoute(
                "GET", "/jobs/{jobid}/vertices/{vertexid}/flamegraph", self.vertex,
                "Where the time of a vertex goes: its stacks, sampled on request.", schemas.FLAME_GRAPH,
                parameters=(*common, subtask),
            ),
            RestRoute(
                "GET", "/taskmanagers/{taskmanagerid}/slots/{slot}/flamegraph", self.slot,
                "Where the time of a slot worker goes, by thread.", schemas.FLAME_GRAPH, parameters=common,
            ),
        ]  # fmt: skip

    async def vertex(self, request: Request) -> Json:
        """`GET /jobs/:jobid/vertices/:vertexid/flamegraph`."""
        kind, plan, runtime, again = self._wanted(request)
        vertex = vertex_of(request, self._lifecycle.details(job_id_of(request)))
        index = request.query_params.get("subtaskindex")
        wanted = None if index is None else whole_number("subtaskindex", index, 0, HIGHEST)
        subtasks = [one for one in vertex.subtasks if wanted in (None, one.index)]
        if wanted is not None and not subtasks:
            raise RestError(404, f"vertex {vertex.id} has no subtask {wanted}; it has {len(vertex.subtasks)}")
        if not self._graphs.enabled:
            return nothing(DISABLED)
        if all(one.state.is_terminal for one in subtasks):
            return nothing(TERMINATED)
        known = {m.task_manager_id: m.address for m in (await self._cluster.overview()).task_managers}
        managers = dict.fromkeys(one.task_manager for one in subtasks if _runs(one))
        addresses = {one: known[one] for one in managers if one in known}  # type: ignore[index]  # ids by any name
        sample = SampleRequest(
            job_id_of(request), vertex.id, wanted, plan.samples, plan.interval_ms, runtime, self._graphs.depth
        )
        sampled = self._graphs.latest(sample, addresses, again, [one for one in managers if one not in addresses])
        return nothing(WAITING) if sampled is None else sampled.as_json(kind)

    async def slot(self, request: Request) -> Json:
        """`GET /taskmanagers/:taskmanagerid/slots/:slot/flamegraph`."""
        kind, plan, runtime, again = self._wanted(request)
        wanted, slot = request.path_params["taskmanagerid"], request.path_params["slot"]
        index = whole_number("the index of a slot", slot, 0, HIGHEST)
        manager = next((m for m in (await self._cluster.overview()).task_managers if m.task_manager_id == wanted), None)
        if manager is None:
            raise RestError(404, f"no task manager {wanted} is registered")
        job_id = next((one.job_id for one in manager.slots if one.index == index), None)
        if job_id is None:
            raise RestError(404, f"task manager {wanted} has no slot {index}; it has {len(manager.slots)}, from 0 on")
        if not self._graphs.enabled:
            return nothing(DISABLED)
        if not job_id:
            return nothing(TERMINATED)
        sample = SampleRequest(
            job_id, "", None, plan.samples, plan.interval_ms, runtime, self._graphs.depth, slot=index
        )
        sampled = self._graphs.latest(sample, {wanted: manager.address}, again)
        return nothing(WAITING) if sampled is None else sampled.as_json(kind)

    def _wanted(self, request: Request) -> tuple[FlameGraphType, SamplingPlan, bool, bool]:
        given, plan = request.query_params, self._graphs.plan
        named = given.get("type", "full").lower()
        if named not in [*FlameGraphType]:
            raise RestError(400, f"type: '{named[:100]}' is not one of {', '.join(FlameGraphType)}")
        interval = plan.interval_ms
        if "interval" in given:
            interval = whole_number("interval", given["interval"], *_INTERVALS)
        samples = plan.samples
        if "duration" in given:
            samples = max(1, whole_number("duration", given["duration"], _SHORTEST, _LONGEST) // interval)
        samples = max(1, min(samples, _LONGEST // interval))
        return (
            FlameGraphType(named),
            SamplingPlan(samples, interval),
            boolean_of(request, "runtime"),
            boolean_of(request, "refresh"),
        )


def _runs(subtask: SubtaskStatus) -> bool:
    return bool(subtask.task_manager) and not subtask.state.is_terminal
