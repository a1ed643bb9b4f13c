"""The table of REST routes, and what is made from it: the router and the OpenAPI document.

A handler answers a JSON value or a Response, or raises: `RestError` with its status, an unknown job is 404, any other
error meant for the user 400, and everything else 500 without details, which go to the log. No answer has a credential
in it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import Struct
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from millstream.core.errors import MillstreamError
from millstream.core.settings.secrets import json_without_secrets, without_secrets
from millstream.dispatcher.lifecycle import JobEndedError, StandbyError, UnknownJobError
from millstream.dispatcher.rest.schemas import ERRORS, STRING, Schema

log = logging.getLogger(__name__)


class RestError(Exception):
    """An answer other than success."""

    def __init__(self, status: int, *errors: str) -> None:
        super().__init__(*errors)
        self.status = status
        self.errors = list(errors)


class Parameter(Struct, frozen=True):
    """A query parameter."""

    name: str
    schema: Schema
    description: str


class RestRoute(Struct, frozen=True):
    """One row: an endpoint with its documentation. `response` is a schema, or None for plain text."""

    method: str
    path: str
    handler: Callable[[Request], Awaitable[Any]]
    summary: str
    response: Schema | None
    status: int = 200
    parameters: tuple[Parameter, ...] = ()
    body: Schema | None = None
    body_type: str = "application/json"


def make_app(routes: Sequence[RestRoute]) -> Starlette:
    """The application: each route with and without `/v1`, and errors as JSON."""
    return Starlette(
        routes=[
            Route(prefix + route.path, _endpoint(route), methods=[route.method], name=f"{route.method} {route.path}")
            for prefix in ("", "/v1")
            for route in routes
        ],
        exception_handlers={HTTPException: _http_error, 404: _http_error, 405: _http_error, 500: _internal_error},
    )


def _endpoint(route: RestRoute) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            answer = await route.handler(request)
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
        if isinstance(answer, Response):
            return answer
        return JSONResponse(json_without_secrets(answer), status_code=route.status)

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


def openapi(routes: Sequence[RestRoute], version: str) -> dict[str, Any]:
    """The OpenAPI document of the table."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Millstream REST API", "version": version},
        "servers": [{"url": "/v1"}, {"url": "/"}],
        "paths": paths,
        "components": {"schemas": {"Errors": ERRORS}},
    }


def _operation(route: RestRoute) -> dict[str, Any]:
    names = [part[1:-1].partition(":")[0] for part in route.path.split("/") if part.startswith("{")]
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": STRING} for name in names
    ]
    parameters += [
        {"name": p.name, "in": "query", "required": False, "schema": p.schema, "description": p.description}
        for p in route.parameters
    ]
    success: dict[str, Any] = {"description": "success"}
    if route.response is None:
        success["content"] = {"text/plain": {"schema": STRING}}
    else:
        success["content"] = {"application/json": {"schema": route.response}}
    failure = {
        "description": "what was wrong",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Errors"}}},
    }
    operation: dict[str, Any] = {
        "summary": route.summary,
        "parameters": parameters,
        "responses": {str(route.status): success, "default": failure},
    }
    if route.body is not None:
        operation["requestBody"] = {"required": False, "content": {route.body_type: {"schema": route.body}}}
    return operation
