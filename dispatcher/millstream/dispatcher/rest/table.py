"""The table of REST routes, and the router that is made from it; `document.py` makes the OpenAPI document.

A handler returns a JSON value or a Response, or raises: `RestError` with its status, an unknown job is 404, any other
error meant for the user 400, and everything else 500 without details, which go to the log. No response has a credential
in it. Each row has the role that its callers need, and what it changes is in the audit log.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from millstream.core.errors import MillstreamError
from millstream.core.settings.secrets import json_without_secrets, without_secrets
from millstream.dispatcher.audit import Audit
from millstream.dispatcher.callers import Caller, Role
from millstream.dispatcher.lifecycle import JobEndedError, StandbyError, UnknownJobError
from millstream.dispatcher.rest.authentication import unauthorized
from millstream.dispatcher.rest.schemas import Schema

log = logging.getLogger(__name__)
Endpoint = Callable[[Request], Awaitable[Response]]


class RestError(Exception):
    """A response other than success."""

    def __init__(self, status: int, *errors: str) -> None:
        super().__init__(*errors)
        self.status = status
        self.errors = list(errors)


class Parameter(Struct, frozen=True):
    """A query parameter."""

    name: str
    schema: Schema
    description: str
    required: bool = False


class RestRoute(Struct, frozen=True):
    """One row: an endpoint with its documentation.

    `response` is a schema, or None for plain text. `errors` are statuses that only some routes return. `outcome` is the
    path of the route that returns the result of what this one triggers.
    """

    method: str
    path: str
    handler: Callable[[Request], Awaitable[Any]]
    summary: str
    response: Schema | None
    status: int = 200
    parameters: tuple[Parameter, ...] = ()
    body: Schema | None = None
    body_type: str = "application/json"
    errors: tuple[int, ...] = ()
    outcome: str = ""
    needs: Role | None = None
    """The role of its callers; None: to read for GET, else the highest."""
    action: str = ""
    """What the audit log calls it; empty: its method and path. What only reads is not in there."""
    changes: bool = False
    """Whether GET changes something, as it does in Flink for clients that send nothing else."""

    @property
    def role(self) -> Role:
        """What its callers need to be allowed."""
        return self.needs if self.needs is not None else Role.READ if self.method == "GET" else Role.SUBMIT


class RedactedJsonResponse(JSONResponse):
    """What a handler returned, without credentials: those are in URIs, which most responses have none of."""

    def render(self, content: Any) -> bytes:
        """The body."""
        try:
            body = msgspec.json.encode(content)
        except OverflowError:  # a number of a user's that is larger than it takes
            return super().render(json_without_secrets(content))
        return msgspec.json.encode(json_without_secrets(content)) if b"://" in body else body


def make_app(routes: Sequence[RestRoute], audit: Audit) -> Starlette:
    """The application: each path with and without `/v1`, and errors as JSON.

    All methods of a path are one route of the router: it lists the methods of a single one of its routes when
    none of them takes the request's. Of two paths that fit, the one with a name goes before the one with a parameter in
    its place: `…/subtasks/accumulators` is no index of a subtask.
    """
    paths: dict[str, dict[str, Endpoint]] = {}
    for route in sorted(routes, key=lambda row: [part.startswith("{") for part in row.path.split("/")]):
        paths.setdefault(route.path, {})[route.method] = _endpoint(route, audit)
    return Starlette(
        routes=[
            Route(prefix + path, _by_method(endpoints), methods=list(endpoints), name=path)
            for prefix in ("", "/v1")
            for path, endpoints in paths.items()
        ],
        exception_handlers={HTTPException: _http_error, 404: _http_error, 405: _http_error, 500: _internal_error},
    )


def _by_method(endpoints: dict[str, Endpoint]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        return await endpoints["GET" if request.method == "HEAD" else request.method](request)

    return endpoint


def _endpoint(route: RestRoute, audit: Audit) -> Endpoint:
    respond = _responding(route)

    async def endpoint(request: Request) -> Response:
        return await _if_allowed(route, request, respond)

    async def audited(request: Request) -> Response:
        response = await _if_allowed(route, request, respond)
        content = bytes(response.body) if isinstance(response, JSONResponse) else b"{}"
        fields = json.loads(content)
        job = request.path_params.get("jobid", "") or fields.get("jobid", "")
        failure = next(iter(fields.get("errors", ())), "") if response.status_code >= 300 else ""
        name = route.action or f"{route.method} {route.path}"
        only_looks = route.method == "GET" and route.role < Role.SUBMIT and not route.changes  # a plan runs the program
        record = audit.record_look if only_looks else audit.record
        record(name, request.state.caller, job, failure, f"{request.method} {request.url.path}")
        return response

    return audited if route.role > Role.READ else endpoint


async def _if_allowed(route: RestRoute, request: Request, respond: Endpoint) -> Response:
    caller: Caller = request.state.caller
    if route.changes and request.method == "HEAD":
        return _errors(405, f"HEAD is not allowed on {request.url.path}: GET changes something there")
    if caller.role >= route.role:
        return await respond(request)
    needed = route.role.name.lower()
    if caller.role is Role.ANYONE:
        return unauthorized(
            f"this needs the role '{needed}', and the request has no credentials: send 'Authorization: Bearer "
            "TOKEN'; `millstream cluster token` prints a token for the cluster of its user"
        )
    return _errors(
        403,
        f"this needs the role '{needed}', and the token of {caller.name or 'the request'} is for "
        f"'{caller.role.name.lower()}' only",
    )


def _responding(route: RestRoute) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        try:
            result = await route.handler(request)
        except RestError as error:
            return _errors(error.status, *error.errors)
        except UnknownJobError as error:
            return _errors(404, str(error))
        except JobEndedError as error:
            return _errors(409, str(error))
        except StandbyError as error:
            return _errors(503, f"{error}, try again")
        except MillstreamError as error:
            return _errors(400, str(error))
        except ClientDisconnect:
            return _errors(400, "the client disconnected")
        except Exception:
            log.exception("%s %s failed", request.method, request.url.path)
            return _errors(500, "internal server error; the dispatcher's log has the details")
        if isinstance(result, Response):
            return result
        return RedactedJsonResponse(result, route.status)

    return endpoint


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return _errors(404, f"no such path: {request.url.path}")
    if error.status_code == 405:
        response = _errors(405, f"{request.method} is not allowed on {request.url.path}")
        response.headers.update(error.headers or {})
        return response
    return _errors(error.status_code, str(error.detail))


async def _internal_error(request: Request, error: Exception) -> Response:
    return _errors(500, "internal server error; the dispatcher's log has the details")


def _errors(status: int, *errors: str) -> JSONResponse:
    return JSONResponse({"errors": [without_secrets(text) for text in errors]}, status_code=status)
