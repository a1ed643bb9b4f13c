"""Asks the REST application one of its own paths, as a client that may only read would."""

from __future__ import annotations

import asyncio
import json
from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Scope

from millstream.dispatcher.callers import Caller, Credential, Role
from millstream.dispatcher.rest.updates import Told


async def told_by(app: ASGIApp, target: str) -> Told:
    """What GET of the path, with its query, answers. What is no JSON is not passed on."""
    path, _, query = target.partition("?")
    status, json_given, body = 500, False, bytearray()

    async def receive() -> Message:
        await asyncio.get_running_loop().create_future()  # it does not go away while it is asked
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
        return Told(status, bytes(body))
    return Told(415, json.dumps({"errors": [f"{path} answers no JSON: ask for the path itself"]}).encode())
