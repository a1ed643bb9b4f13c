"""REST endpoints of the vertices of a job: their subtasks, where these run, and where their time goes."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request

from millstream.core.clock import Clock
from millstream.core.jobs.details import JobDetails, SubtaskStatus, VertexStatus
from millstream.core.jobs.earlier_attempts import EarlierAttempt, earlier_attempts
from millstream.dispatcher.lifecycle import JobLifecycle
from millstream.dispatcher.rest import vertex_json as shapes
from millstream.dispatcher.rest import vertex_schemas as schemas
from millstream.dispatcher.rest.job_json import Json
from millstream.dispatcher.rest.requests import job_id_of, vertex_of, whole_number
from millstream.dispatcher.rest.schemas import HIGHEST
from millstream.dispatcher.rest.table import RestError, RestRoute


class VertexEndpoints:
    """Shows vertices."""

    def __init__(self, lifecycle: JobLifecycle, clock: Clock) -> None:
        self._lifecycle = lifecycle
        self._clock = clock

    def routes(self) -> list[RestRoute]:
        """The rows of the table for these endpoints."""
        one = "/jobs/{jobid}/vertices/{vertexid}"
        subtask = f"{one}/subtasks/{{subtaskindex}}"
        attempt = f"{subtask}/attempts/{{attempt}}"
        return [
            RestRoute("GET", one, self.vertex, "A vertex of a job with its subtasks.", schemas.VERTEX),
            RestRoute(
                "GET", f"{one}/backpressure", self.backpressure, "Whether its subtasks are held up by those behind.",
                schemas.BACKPRESSURE,
            ),
            RestRoute(
                "GET", f"{one}/subtasktimes", self.times, "When its subtasks came to which state.",
                schemas.SUBTASK_TIMES,
            ),
            RestRoute(
                "GET", f"{one}/taskmanagers", self.task_managers, "Its subtasks by task manager.",
                schemas.TASK_MANAGERS,
            ),
            RestRoute(
                "GET", f"{one}/accumulators", self.accumulators, "Its accumulators and counters.", schemas.ACCUMULATORS
            ),
            RestRoute(
                "GET", f"{one}/subtasks/accumulators", self.subtask_accumulators, "The same, by subtask.",
                schemas.SUBTASK_ACCUMULATORS,
            ),
            RestRoute("GET", subtask, self.subtask, "The current attempt of a subtask.", schemas.SUBTASK),
            RestRoute(
                "GET", attempt, self.attempt, "An attempt of a subtask: the current one, or one of the last.",
                schemas.SUBTASK,
            ),
            RestRoute(
                "GET", f"{attempt}/accumulators", self.attempt_accumulators, "Its accumulators and counters.",
                schemas.ATTEMPT_ACCUMULATORS,
            ),
        ]  # fmt: skip

    async def vertex(self, request: Request) -> Json:
        """`GET /jobs/:jobid/vertices/:vertexid`."""
        return shapes.vertex(self._found(request)[1], self._clock.now_ms())

    async def backpressure(self, request: Request) -> Json:
        """`GET …/backpressure`."""
        return shapes.backpressure(self._found(request)[1], self._clock.now_ms())

    async def times(self, request: Request) -> Json:
        """`GET …/subtasktimes`."""
        return shapes.times(self._found(request)[1], self._clock.now_ms())

    async def task_managers(self, request: Request) -> Json:
        """`GET …/taskmanagers`."""
        return shapes.task_managers(self._found(request)[1], self._clock.now_ms())

    async def accumulators(self, request: Request) -> Json:
        """`GET …/accumulators`."""
        return shapes.accumulators(*self._found(request))

    async def subtask_accumulators(self, request: Request) -> Json:
        """`GET …/subtasks/accumulators`."""
        return shapes.subtask_accumulators(*self._found(request))

    async def subtask(self, request: Request) -> Json:
        """`GET …/subtasks/:subtaskindex`."""
        return shapes.subtask(_subtask(request, self._found(request)[1]), self._clock.now_ms())

    async def attempt(self, request: Request) -> Json:
        """`GET …/subtasks/:subtaskindex/attempts/:attempt`."""
        details, vertex = self._found(request)
        found = _attempt(request, vertex, earlier_attempts(details.earlier_attempts))
        return shapes.subtask(found, self._clock.now_ms())

    async def attempt_accumulators(self, request: Request) -> Json:
        """`GET …/subtasks/:subtaskindex/attempts/:attempt/accumulators`."""
        details, vertex = self._found(request)
        return shapes.attempt_accumulators(details, vertex, _attempt(request, vertex))

    def _found(self, request: Request) -> tuple[JobDetails, VertexStatus]:
        details = self._lifecycle.details(job_id_of(request))
        return details, vertex_of(request, details)


def _subtask(request: Request, vertex: VertexStatus) -> SubtaskStatus:
    index = whole_number("the index of a subtask", request.path_params["subtaskindex"], 0, HIGHEST)
    for subtask in vertex.subtasks:
        if subtask.index == index:
            return subtask
    raise RestError(404, f"vertex {vertex.id} has no subtask {index}; it has {len(vertex.subtasks)}, from 0 on")


def _attempt(request: Request, vertex: VertexStatus, earlier: Sequence[EarlierAttempt] = ()) -> SubtaskStatus:
    subtask = _subtask(request, vertex)
    wanted = whole_number("the number of an attempt", request.path_params["attempt"], 0, HIGHEST)
    if subtask.attempt == wanted:
        return subtask
    for one in earlier:
        if (one.vertex_id, one.subtask, one.attempt) == (vertex.id, subtask.index, wanted):
            return one.status
    raise RestError(
        404,
        f"attempt {wanted} of subtask {subtask.index} is not known: {subtask.attempt} is the current one. Of earlier "
        "ones the last are kept, without accumulators (jobmanager.execution.attempts-history-size)",
    )
