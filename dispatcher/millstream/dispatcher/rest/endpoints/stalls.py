"""REST endpoints of why a job emits nothing, and of the progress of event time."""

from __future__ import annotations

import json

from starlette.requests import Request
from starlette.responses import Response

from millstream.core.clock import Clock
from millstream.core.errors import UnreachableError
from millstream.core.jobs.stalls import ended
from millstream.core.messages.queries import JobQuery, JobView
from millstream.dispatcher.lifecycle import JobLifecycle
from millstream.dispatcher.rest import job_json, stall_schemas
from millstream.dispatcher.rest.requests import job_id_of, vertex_of
from millstream.dispatcher.rest.table import Parameter, RestError, RestRoute


class StallEndpoints:
    """Explains jobs."""

    def __init__(self, lifecycle: JobLifecycle, clock: Clock) -> None:
        self._lifecycle = lifecycle
        self._clock = clock

    def routes(self) -> list[RestRoute]:
        """The rows of the table for these endpoints."""
        what = "Why nothing comes out of a job: what holds it back, and what waits."
        watermarks = "/jobs/{jobid}/vertices/{vertexid}/watermarks"
        how_far = "How far event time has come in the subtasks of a vertex."
        one = f"({'|'.join(job_json.WATERMARKS)})"
        listed = {"type": "string", "pattern": f"^{one}(,{one})*$"}
        known = ", ".join(job_json.WATERMARKS)
        get = Parameter("get", listed, f"Which of {known}, with commas between; {job_json.WATERMARKS[0]} if not given.")
        return [
            RestRoute("GET", "/jobs/{jobid}/stall", self.stall, what, stall_schemas.STALL),
            RestRoute("GET", watermarks, self.watermarks, how_far, stall_schemas.WATERMARKS, parameters=(get,)),
        ]

    async def stall(self, request: Request) -> Response:
        """`GET /jobs/:jobid/stall`."""
        query = JobQuery(job_id_of(request), JobView.STALL)
        details = self._lifecycle.details(query.job_id)
        if details.state.is_terminal:
            return _json(json.dumps(ended(details, self._clock.now_ms()).as_json()).encode())
        try:
            response = await self._lifecycle.query(query)
        except UnreachableError as error:
            raise RestError(503, str(error)) from error
        if response.error:
            raise RestError(404, response.error)
        return _json(response.json)

    async def watermarks(self, request: Request) -> Response:
        """`GET /jobs/:jobid/vertices/:vertexid/watermarks`."""
        vertex = vertex_of(request, self._lifecycle.details(job_id_of(request)))
        wanted = request.query_params.get("get", job_json.WATERMARKS[0]).split(",")
        for name in wanted:
            if name not in job_json.WATERMARKS:
                raise RestError(400, f"get: '{name[:100]}' is not one of {', '.join(job_json.WATERMARKS)}")
        return _json(json.dumps(job_json.watermarks(vertex, wanted)).encode())


def _json(content: bytes) -> Response:
    return Response(content, media_type="application/json")
