"""The OpenAPI document of the table of routes: which requests are allowed, and every status of a response.

Programs are made from it and tests hold the API to it, so it promises no more than is kept: a request that fits it is
not refused for its shape, and one that does not is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.dispatcher.callers import Role
from millstream.dispatcher.rest.schemas import ERRORS, PATH_PARAMETERS, STRING
from millstream.dispatcher.rest.table import RestRoute

_WORDS = {
    308: "the endpoint has been replaced; the error names the others",
    400: "a wrong request",
    401: "no credentials, or wrong ones",
    403: "not with this role; or addressed to a host, or sent by a web page, that is not allowed",
    404: "no such job, wheel, checkpoint, or whatever else the path names",
    408: "the request arrived too slowly",
    409: "the job has ended already, or its id is taken",
    413: "the request is too large",
    429: "too many requests of this client",
    500: "an error of the cluster; the dispatcher's log has the details",
    503: "the service that this needs cannot be reached now",
}
_BEARER = {
    "type": "http",
    "scheme": "bearer",
    "description": "A token with a role: read, operate or submit, each of which may do what those before it may. "
    "Needed when the cluster has a secret or tokens.",
}
_ALWAYS = (401, 403, 408, 429, 500, 503)


def openapi(routes: Sequence[RestRoute], version: str, is_open: bool) -> dict[str, Any]:
    """The OpenAPI document of the table. `is_open`: every caller may do everything."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        operation = paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
        role = route.role.name.lower()
        operation["x-millstream-role"] = role
        operation["security"] = [] if is_open or route.role is Role.ANYONE else [{"bearer": [role]}]
    return {
        "openapi": "3.1.0",
        "info": {"title": "Millstream REST API", "version": version},
        "servers": [{"url": "/v1"}, {"url": "/"}],
        "paths": paths,
        "components": {"schemas": {"Errors": ERRORS}, "securitySchemes": {"bearer": _BEARER}},
    }


def _operation(route: RestRoute) -> dict[str, Any]:
    names = _path_parameters(route)
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": PATH_PARAMETERS.get(name, STRING)} for name in names
    ]
    parameters += [
        {"name": p.name, "in": "query", "required": p.required, "schema": p.schema, "description": p.description}
        for p in route.parameters
    ]
    operation: dict[str, Any] = {
        "operationId": _operation_id(route.method, route.path),
        "summary": route.summary,
        "parameters": parameters,
        "responses": {str(route.status): _success(route), **{str(s): _failure(s) for s in _failures(route)}},
    }
    if route.response is None:  # of a file, a piece of it
        operation["responses"]["206"] = _success(route)
    if route.body is not None:
        required = "required" in route.body or "minProperties" in route.body
        operation["requestBody"] = {"required": required, "content": {route.body_type: {"schema": route.body}}}
    return operation


def _success(route: RestRoute) -> dict[str, Any]:
    content = {"text/plain": STRING} if route.response is None else {"application/json": route.response}
    success: dict[str, Any] = {
        "description": "success",
        "content": {kind: {"schema": schema} for kind, schema in content.items()},
    }
    if route.outcome:
        given = {name: f"$request.path.{name}" for name in _path_parameters(route)}
        success["links"] = {
            "outcome": {
                "operationId": _operation_id("GET", route.outcome),
                "parameters": {**given, "triggerid": "$response.body#/request-id"},
            }
        }
    return success


def _failures(route: RestRoute) -> list[int]:
    found = {*_ALWAYS, *route.errors}
    if route.parameters or _path_parameters(route):
        found.add(400)
    if _path_parameters(route):
        found.add(404)
    if route.body is not None:
        found |= {400, 413}
    return sorted(found)


def _failure(status: int) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Errors"}}}
    return {"description": _WORDS[status], "content": content}


def _path_parameters(route: RestRoute) -> list[str]:
    return [part[1:-1] for part in route.path.split("/") if part.startswith("{")]


def _operation_id(method: str, path: str) -> str:
    words = [part.strip("{}") for part in path.split("/") if part]
    return "-".join([method.lower(), *words])
