"""REST endpoints that show a job's checkpoints: as its job manager knows them, and after its end as it left them."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from millstream.core.errors import UnreachableError
from millstream.core.jobs.states import JobStatus
from millstream.dispatcher.lifecycle import JobLifecycle
from millstream.dispatcher.rest import snapshot_schemas as schemas
from millstream.dispatcher.rest.requests import job_id_of
from millstream.dispatcher.rest.table import RestError, RestRoute
from millstream.proto import dispatcher_pb2 as pb

_OVERVIEW = pb.CheckpointQuery.OVERVIEW
_CONFIG = pb.CheckpointQuery.CONFIG
_DETAILS = pb.CheckpointQuery.DETAILS
_SUBTASKS = pb.CheckpointQuery.SUBTASKS


class CheckpointEndpoints:
    """Shows checkpoints."""

    def __init__(self, lifecycle: JobLifecycle) -> None:
        self._lifecycle = lifecycle

    def routes(self) -> list[RestRoute]:
        """The rows of the table for these endpoints."""
        root = "/jobs/{jobid}/checkpoints"
        one = f"{root}/details/{{checkpointid}}"
        return [
            RestRoute("GET", root, self.overview, "Counts, sizes and the history of checkpoints.", schemas.CHECKPOINTS),
            RestRoute("GET", f"{root}/config", self.config, "How checkpoints are taken.", schemas.CHECKPOINT_CONFIG),
            RestRoute("GET", one, self.details, "A checkpoint with its vertices.", schemas.CHECKPOINT),
            RestRoute(
                "GET", f"{one}/subtasks/{{vertexid}}", self.subtasks, "What each subtask of a vertex did in it.",
                schemas.CHECKPOINT_SUBTASKS,
            ),
        ]  # fmt: skip

    async def overview(self, request: Request) -> Response:
        """`GET /jobs/:jobid/checkpoints`."""
        return await self._answer(pb.CheckpointQuery(job_id=job_id_of(request), kind=_OVERVIEW))

    async def config(self, request: Request) -> Response:
        """`GET /jobs/:jobid/checkpoints/config`."""
        return await self._answer(pb.CheckpointQuery(job_id=job_id_of(request), kind=_CONFIG))

    async def details(self, request: Request) -> Response:
        """`GET /jobs/:jobid/checkpoints/details/:checkpointid`."""
        checkpoint = _checkpoint_id(request)
        query = pb.CheckpointQuery(job_id=job_id_of(request), kind=_DETAILS, checkpoint_id=checkpoint)
        return await self._answer(query)

    async def subtasks(self, request: Request) -> Response:
        """`GET /jobs/:jobid/checkpoints/details/:checkpointid/subtasks/:vertexid`."""
        checkpoint, vertex = _checkpoint_id(request), request.path_params["vertexid"]
        query = pb.CheckpointQuery(
            job_id=job_id_of(request), kind=_SUBTASKS, checkpoint_id=checkpoint, vertex_id=vertex
        )
        return await self._answer(query)

    async def _answer(self, query: pb.CheckpointQuery) -> Response:
        details = self._lifecycle.details(query.job_id)
        if JobStatus(details.state).is_terminal:
            return _json(json.dumps(_left_behind(details.checkpoints, query)).encode())
        try:
            answer = await self._lifecycle.query_checkpoints(query)
        except UnreachableError as error:
            raise RestError(503, str(error)) from error
        if answer.error:
            raise RestError(404, answer.error)
        return _json(answer.json)


def _left_behind(content: bytes, query: pb.CheckpointQuery) -> Any:
    """The part of what an ended job left of its checkpoints."""
    if not content:
        raise RestError(404, f"nothing is known of the checkpoints of job {query.job_id}")
    known, checkpoint = json.loads(content), str(query.checkpoint_id)
    if query.kind == _OVERVIEW:
        return known["overview"]
    if query.kind == _CONFIG:
        return known["config"]
    if checkpoint not in known["details"]:
        raise RestError(404, f"job {query.job_id} has no checkpoint {checkpoint}, or it is no longer remembered")
    if query.kind == _DETAILS:
        return known["details"][checkpoint]
    vertices = known["subtasks"].get(checkpoint, {})
    if query.vertex_id not in vertices:
        raise RestError(404, f"checkpoint {checkpoint} of job {query.job_id} has no vertex {query.vertex_id}")
    return vertices[query.vertex_id]


def _json(content: bytes) -> Response:
    return Response(content, media_type="application/json")


def _checkpoint_id(request: Request) -> int:
    value: str = request.path_params["checkpointid"]
    if not value.isascii() or not value.isdigit() or int(value) >= 2**63:
        raise RestError(400, f"'{value}' is not the id of a checkpoint; that is a whole number")
    return int(value)
