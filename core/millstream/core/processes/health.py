"""What tells a supervisor how a service is: two paths over plain HTTP, on a port of their own (`health.port`).

`/healthz` is answered by the service's own loop: one that does not turn any more answers nothing. `/readyz` says
whether the service can do its work, or what it still lacks. Nothing can be sent here, and nothing else is told, so
neither TLS nor credentials are asked for, which those who probe mostly do not have. Owned by the loop of the service.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus

from millstream.core.errors import MillstreamError
from millstream.core.settings.configuration import Configuration

_LONGEST_REQUEST = 8192
_PATIENCE = 5.0

Lacks = Callable[[], Awaitable[str]]


@contextlib.asynccontextmanager
async def served_health(lacks: Lacks, configuration: Configuration) -> AsyncIterator[str]:
    """Answers probes within the block, at this address; at none when `health.port` is 0."""
    host, port = configuration.string("health.bind-address"), configuration.integer("health.port")
    if not port:
        yield ""
        return

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(_PATIENCE):
                request = await reader.readuntil(b"\r\n\r\n")
                writer.write(await answer(request, lacks))
                await writer.drain()
        writer.close()

    try:
        server = await asyncio.start_server(connected, host, port, limit=_LONGEST_REQUEST)
    except OSError as error:
        raise MillstreamError(f"cannot listen on {host}:{port} (health.port): {error.strerror}") from error
    try:
        yield f"{host}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def answer(request: bytes, lacks: Lacks) -> bytes:
    """The response to a request, both as they are on the wire."""
    method, _, rest = request.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    if method not in (b"GET", b"HEAD"):
        status, text = HTTPStatus.METHOD_NOT_ALLOWED, "only GET is answered"
    elif path == b"/healthz":
        status, text = HTTPStatus.OK, "healthy"
    elif path == b"/readyz":
        lacking = await lacks()
        status, text = (HTTPStatus.SERVICE_UNAVAILABLE, lacking) if lacking else (HTTPStatus.OK, "ready")
    else:
        status, text = HTTPStatus.NOT_FOUND, "there are /healthz and /readyz"
    body = f"{text}\n".encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    ).encode()
    return head if method == b"HEAD" else head + body
