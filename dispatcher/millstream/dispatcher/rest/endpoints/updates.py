"""REST endpoints that dashboards add to Flink's: who the caller is, and a stream of what changes."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from millstream.dispatcher.callers import Caller, Role
from millstream.dispatcher.rest import schemas
from millstream.dispatcher.rest.job_json import Json
from millstream.dispatcher.rest.requests import whole_number
from millstream.dispatcher.rest.table import Parameter, RestError, RestRoute
from millstream.dispatcher.rest.updates import LIFE, MOST_PATHS, TooManyStreams, Updates

STREAM = "/updates"
_PATH: schemas.Schema = {"type": "string", "pattern": "^/[!-~]*$", "maxLength": 4000}
_SECONDS: schemas.Schema = {"type": "integer", "minimum": 0, "maximum": int(LIFE)}


class UpdateEndpoints:
    """Pushes the responses of other paths."""

    def __init__(self, updates: Updates) -> None:
        self._updates = updates

    def routes(self) -> list[RestRoute]:
        """The rows of the table for these endpoints."""
        path = Parameter(
            "path", schemas.array(_PATH), f"A path to follow, such as /jobs/overview; up to {MOST_PATHS} of them.",
            required=True,
        )  # fmt: skip
        seconds = Parameter("seconds", _SECONDS, f"After how many the stream ends; {LIFE:.0f} when not given.")
        return [
            RestRoute("GET", "/whoami", self.caller, "The caller's name and role.", schemas.WHOAMI, needs=Role.ANYONE),
            RestRoute(
                "GET", STREAM, self.stream, "Server-sent events: the responses of paths that return JSON "
                "to readers, whenever they change, at most once a second.", None, parameters=(path, seconds),
            ),
        ]  # fmt: skip

    async def caller(self, request: Request) -> Json:
        """`GET /whoami`."""
        caller: Caller = request.state.caller
        return {"name": caller.name, "role": caller.role.name.lower(), "credential": caller.credential.value}

    async def stream(self, request: Request) -> Response:
        """`GET /updates`."""
        paths = request.query_params.getlist("path")
        if not 0 < len(paths) <= MOST_PATHS:
            raise RestError(400, f"path: expected from 1 to {MOST_PATHS} of them, and there are {len(paths)}")
        for path in paths:
            _check(path)
        life = whole_number("seconds", request.query_params.get("seconds", str(int(LIFE))), 0, int(LIFE))
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        try:
            events = self._updates.open(paths, life)
        except TooManyStreams as error:
            raise RestError(503, "too many streams are open; request the paths themselves") from error
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(events, media_type="text/event-stream", headers=headers)


def _check(path: str) -> None:
    plain = path.isascii() and path.isprintable() and " " not in path
    if not path.startswith("/") or not plain or len(path) > _PATH["maxLength"]:
        raise RestError(400, f"path: '{path[:100]}' is no path of this API, such as /jobs/overview")
    if path.partition("?")[0].removeprefix("/v1").rstrip("/") == STREAM:
        raise RestError(400, f"path: {STREAM} is not a part of itself")
