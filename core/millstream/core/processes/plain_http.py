"""A small HTTP server on the loop of its service: responds to GET by a handler, one request a connection.

For what is probed and scraped from outside: nothing can be sent here. When there are more connections than places, the
oldest silent ones are displaced.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from msgspec import Struct

from millstream.core.processes.places import ACCEPTED_AT_ONCE, BACKLOG, Places

_LONGEST_REQUEST = 8192
_PATIENCE = 5.0
_PLACES = 100


class PlainRequest(Struct, frozen=True):
    """A path, and what the client accepts."""

    method: str
    path: str
    accept: str = ""


class PlainResponse(Struct, frozen=True):
    """A response of the handler."""

    status: HTTPStatus
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


Handler = Callable[[PlainRequest], Awaitable[PlainResponse]]


async def serve_plain(handler: Handler, host: str, port: int) -> asyncio.Server:
    """Listens until the server is closed. Raises OSError when it cannot."""
    places: Places[asyncio.StreamWriter] = Places(_PLACES, 0)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("peername")
        displaced = places.enter(writer, str(peer[0]) if peer else "")
        if displaced is not None:
            displaced.transport.abort()
        try:
            with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                async with asyncio.timeout(_PATIENCE):
                    request = await reader.readuntil(b"\r\n\r\n")
                places.is_busy(writer)
                async with asyncio.timeout(_PATIENCE):
                    writer.write(await respond(request, handler))
                    await writer.drain()
        finally:
            places.leave(writer)
            writer.close()

    server = await asyncio.start_server(connected, host, port, limit=_LONGEST_REQUEST, backlog=ACCEPTED_AT_ONCE)
    for listener in server.sockets:
        with listener.dup() as same:
            same.listen(BACKLOG)
    return server


async def respond(request: bytes, handler: Handler) -> bytes:
    """The response to a request, both as they are on the wire."""
    head, *lines = request.split(b"\r\n")
    method, _, rest = head.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    if method not in (b"GET", b"HEAD"):
        response = PlainResponse(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET is supported\n")
    else:
        headers = dict(line.lower().partition(b":")[::2] for line in lines if b":" in line)
        accept = headers.get(b"accept", b"").decode("latin-1").strip()
        response = await handler(PlainRequest(method.decode(), path.decode("latin-1"), accept))
    begin = (
        f"HTTP/1.1 {response.status.value} {response.status.phrase}\r\nContent-Type: {response.content_type}\r\n"
        f"Content-Length: {len(response.body)}\r\nConnection: close\r\n\r\n"
    ).encode()
    return begin if method == b"HEAD" else begin + response.body
