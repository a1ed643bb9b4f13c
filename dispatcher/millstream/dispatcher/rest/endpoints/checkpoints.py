"""REST endpoints that show a job's checkpoints: as its job manager knows them, and after its end as it left them."""

from __future__ import annotations

import json
from typing import Any, assert_never

from starlette.requests import Request
from starlette.responses import Response

from millstream.core.errors import UnreachableError
from millstream.core.messages.queries import JobQuery, JobView
from millstream.dispatcher.lifecycle import JobLifecycle
from millstream.dispatcher.rest import schemas
from millstream.dispatcher.rest import snapshot_schemas as snapshots
from millstream.dispatcher.rest.requests import job_id_of, whole_number
from millstream.dispatcher.rest.table import RestError, RestRoute


class CheckpointEndpoints:
    """Shows checkpoints."""

    def __init__(self, lifecycle: JobLifecycle) -> None:
        self._lifecycle = lifecycle

    def routes(self) -> list[RestRoute]:
        """The rows of the table for these endpoints."""
        root = "/jobs/{jobid}/checkpoints"
        one = f"{root}/details/{{checkpointid}}"
        return [
            RestRoute("GET", root, self.overview, "Counts, sizes and history of checkpoints.", snapshots.CHECKPOINTS),
            RestRoute("GET", f"{root}/config", self.config, "How checkpoints are taken.", snapshots.CHECKPOINT_CONFIG),
            RestRoute("GET", one, self.details, "A checkpoint with its vertices.", snapshots.CHECKPOINT),
            RestRoute(
                "GET", f"{one}/subtasks/{{vertexid}}", self.subtasks, "What each subtask of a vertex did in it.",
                snapshots.CHECKPOINT_SUBTASKS,
            ),
        ]  # fmt: skip

    async def overview(self, request: Request) -> Response:
        """`GET /jobs/:jobid/checkpoints`."""
        return await self._response(JobQuery(job_id_of(request), JobView.CHECKPOINTS))

    async def config(self, request: Request) -> Response:
        """`GET /jobs/:jobid/checkpoints/config`."""
        return await self._response(JobQuery(job_id_of(request), JobView.CHECKPOINT_CONFIG))

    async def details(self, request: Request) -> Response:
        """`GET /jobs/:jobid/checkpoints/details/:checkpointid`."""
        checkpoint = _checkpoint_id(request)
        return await self._response(JobQuery(job_id_of(request), JobView.CHECKPOINT_DETAILS, checkpoint))

    async def subtasks(self, request: Request) -> Response:
        """`GET /jobs/:jobid/checkpoints/details/:checkpointid/subtasks/:vertexid`."""
        checkpoint, vertex = _checkpoint_id(request), request.path_params["vertexid"]
        return await self._response(JobQuery(job_id_of(request), JobView.CHECKPOINT_SUBTASKS, checkpoint, vertex))

    async def _response(self, query: JobQuery) -> Response:
        details = self._lifecycle.details(query.job_id)
        if details.state.is_terminal:
            return _json(json.dumps(_left_behind(details.checkpoints, query)).encode())
        try:
            response = await self._lifecycle.query(query)
        except UnreachableError as error:
            raise RestError(503, str(error)) from error
        if response.error:
            raise RestError(404, response.error)
        return _json(response.json)


def _left_behind(content: bytes, query: JobQuery) -> Any:
    """The part of what an ended job left of its checkpoints."""
    if not content:
        raise RestError(404, f"nothing is known of the checkpoints of job {query.job_id}")
    known, checkpoint = json.loads(content), str(query.checkpoint_id)
    match query.kind:
        case JobView.CHECKPOINTS:
            return known["overview"]
        case JobView.CHECKPOINT_CONFIG:
            return known["config"]
        case _ if checkpoint not in known["details"]:
            raise RestError(404, f"job {query.job_id} has no checkpoint {checkpoint}, or it is no longer remembered")
        case JobView.CHECKPOINT_DETAILS:
            return known["details"][checkpoint]
        case JobView.CHECKPOINT_SUBTASKS:
            vertices = known["subtasks"].get(checkpoint, {})
            if query.vertex_id not in vertices:
                raise RestError(404, f"checkpoint {checkpoint} of job {query.job_id} has no vertex {query.vertex_id}")
            return vertices[query.vertex_id]
        case JobView.STALL:
            raise AssertionError("the stall of an ended job is not stored")
        case _:
            assert_never(query.kind)


def _json(content: bytes) -> Response:
    return Response(content, media_type="application/json")


def _checkpoint_id(request: Request) -> int:
    return whole_number("the id of a checkpoint", request.path_params["checkpointid"], 0, schemas.HIGHEST)
