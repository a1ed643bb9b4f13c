"""Requests of the REST application to its own paths, with the role of a client that may only read."""

from __future__ import annotations

import asyncio
import json
from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Scope

from millstream.dispatcher.callers import Caller, Credential, Role
from millstream.dispatcher.rest.updates import PathResponse


async def own_response(app: ASGIApp, target: str) -> PathResponse:
    """The response to GET of the path, with its query. A response that is no JSON is left out."""
    path, _, query = target.partition("?")
    status, json_given, body = 500, False, bytearray()

    async def receive() -> Message:
        await asyncio.get_running_loop().create_future()  # the client stays until the response
        raise AssertionError("never set")

    async def send(message: Message) -> None:
        nonlocal status, json_given
        if message["type"] == "http.response.start":
            status = message["status"]
            json_given = any(n == b"content-type" and v.startswith(b"application/json") for n, v in message["headers"])
        elif json_given:
            body.extend(message.get("body", b""))

    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [],
        "server": None,
        "client": None,
        "state": {"caller": Caller("", Credential.NONE, Role.READ, "")},
    }
    await app(scope, receive, send)
    if json_given:
        return PathResponse(status, bytes(body))
    return PathResponse(415, json.dumps({"errors": [f"{path} does not return JSON: request the path itself"]}).encode())
