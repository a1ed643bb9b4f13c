"""REST endpoints of the parallelism of jobs: what it may be, that it changes, and what has happened to it."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from millstream.core.errors import UnreachableError
from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.ids import VertexId, new_id, stable_id
from millstream.core.messages.rescaling import RescaleRequest, VertexBounds
from millstream.dispatcher.callers import Role
from millstream.dispatcher.lifecycle import JobEndedError, JobLifecycle
from millstream.dispatcher.operations import OperationKey, OperationKind, Outcome
from millstream.dispatcher.rest import scaling_schemas as schemas
from millstream.dispatcher.rest.job_json import Json
from millstream.dispatcher.rest.operations import RestOperations, failure_cause
from millstream.dispatcher.rest.requests import job_id_of, json_content, whole_number
from millstream.dispatcher.rest.schemas import PARALLELISM
from millstream.dispatcher.rest.table import Parameter, RestError, RestRoute

_MOST = 32768  # as many key groups as there can be
_SHAPE = '{"<vertex id>": {"parallelism": {"lowerBound": 1, "upperBound": 4}}}'


class ScalingEndpoints:
    """Shows and changes at which parallelism jobs run."""

    def __init__(self, lifecycle: JobLifecycle, operations: RestOperations) -> None:
        self._lifecycle = lifecycle
        self._operations = operations

    def routes(self) -> list[RestRoute]:
        """The rows of the table for these endpoints."""
        requirements, rescaling = "/jobs/{jobid}/resource-requirements", "/jobs/{jobid}/rescaling"
        parallelism = Parameter(
            "parallelism", PARALLELISM, "Of all vertices whose parallelism the program left open.", required=True
        )
        return [
            RestRoute(
                "GET", requirements, self.requirements, "The bounds of the parallelism of a job's vertices.",
                schemas.REQUIREMENTS,
            ),
            RestRoute(
                "PUT", requirements, self.require, "Changes these bounds, and with them the parallelism of the job.",
                {"type": "object"}, body=schemas.REQUIREMENTS_REQUEST, errors=(409,), needs=Role.OPERATE,
                action="rescale",
            ),
            RestRoute(
                "PATCH", rescaling, self.rescale, "Runs a job at another parallelism.", schemas.TRIGGERED,
                parameters=(parallelism,), errors=(409,), outcome=f"{rescaling}/{{triggerid}}", needs=Role.OPERATE,
                action="rescale",
            ),
            RestRoute(
                "GET", f"{rescaling}/{{triggerid}}", self.rescaling, "What became of a rescale.",
                schemas.RESCALING_STATUS,
            ),
            RestRoute(
                "GET", "/jobs/{jobid}/events", self.events, "What happened to the parallelism of a job, and why.",
                schemas.EVENTS,
            ),
        ]  # fmt: skip

    async def requirements(self, request: Request) -> Json:
        """`GET /jobs/:jobid/resource-requirements`."""
        return {
            vertex.id: {
                "parallelism": {
                    "lowerBound": vertex.lower_bound or 1,
                    "upperBound": vertex.upper_bound or vertex.parallelism,
                }
            }
            for vertex in self._lifecycle.details(job_id_of(request)).vertices
        }

    async def require(self, request: Request) -> Json:
        """`PUT /jobs/:jobid/resource-requirements`."""
        details = self._running(request)
        bounds = tuple(_bounds(vertex, given) for vertex, given in (await json_content(request)).items())
        if not bounds:
            raise RestError(400, f"the request's body names no vertex; write it like {_SHAPE}")
        try:
            result = await self._lifecycle.rescale(RescaleRequest(details.job_id, bounds=bounds))
        except UnreachableError as error:
            raise RestError(503, str(error)) from error
        if result.error:
            raise RestError(409 if "try again" in result.error else 400, result.error)
        return {}

    async def rescale(self, request: Request) -> Json:
        """`PATCH /jobs/:jobid/rescaling`."""
        details = self._running(request)
        parallelism = whole_number("parallelism", request.query_params.get("parallelism", ""), 1, _MOST)
        trigger_id = new_id()
        unique = stable_id(OperationKind.RESCALING.value, details.job_id, trigger_id)
        wanted = RescaleRequest(details.job_id, unique, parallelism, wait=True)
        self._operations.start(
            OperationKey(OperationKind.RESCALING, details.job_id, trigger_id), lambda: self._rescale(wanted)
        )
        return {"request-id": trigger_id}

    async def _rescale(self, wanted: RescaleRequest) -> Outcome:
        try:
            result = await self._lifecycle.rescale(wanted)
        except UnreachableError as error:
            return Outcome(str(error))
        return Outcome(result.error, message=result.message)

    async def rescaling(self, request: Request) -> Json:
        """`GET /jobs/:jobid/rescaling/:triggerid`."""
        return self._operations.shown(OperationKind.RESCALING, job_id_of(request), request, _shown)

    async def events(self, request: Request) -> Json:
        """`GET /jobs/:jobid/events`."""
        events = self._lifecycle.details(job_id_of(request)).events
        return {"events": [{"timestamp": e.timestamp, "kind": e.kind, "message": e.message} for e in events]}

    def _running(self, request: Request) -> JobDetails:
        details = self._lifecycle.details(job_id_of(request))
        if details.state.is_terminal:
            raise JobEndedError(f"job {details.job_id} cannot be rescaled: it is already {details.state}")
        return details


def _shown(outcome: Outcome) -> Json:
    return {"failure-cause": failure_cause(outcome)} if outcome.failure else {"message": outcome.message}


def _bounds(vertex: str, given: Any) -> VertexBounds:
    match given:
        case {"parallelism": {"lowerBound": int(lower), "upperBound": int(upper), **more}, **others}:
            fits = not more and not others and all(type(n) is int and 1 <= n <= _MOST for n in (lower, upper))
            if fits:
                return VertexBounds(VertexId(vertex), lower, upper)
    raise RestError(400, f"{vertex[:64]}: write whole numbers from 1 to {_MOST}, like {_SHAPE}")
