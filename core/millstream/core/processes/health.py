"""The health of a service, for a supervisor: two paths over plain HTTP, on a port of their own (`health.port`).

The service's own loop responds to `/healthz`: one that hangs does not respond. `/readyz` reports
whether the service can do its work, or what it still lacks. Nothing can be sent here, and nothing else is returned, so
neither TLS nor credentials are required, which probes mostly do not have. Owned by the loop of the service.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus

from millstream.core.errors import MillstreamError
from millstream.core.processes.plain_http import PlainRequest, PlainResponse, respond, serve_plain
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.services import HEALTH_BIND_ADDRESS, HEALTH_PORT

Lacks = Callable[[], Awaitable[str]]


@contextlib.asynccontextmanager
async def served_health(lacks: Lacks, configuration: Configuration) -> AsyncIterator[str]:
    """Serves probes within the block, at this address; at none when `health.port` is 0."""
    host, port = configuration.get(HEALTH_BIND_ADDRESS), configuration.get(HEALTH_PORT)
    if not port:
        yield ""
        return
    try:
        server = await serve_plain(lambda request: _probed(request, lacks), host, port)
    except OSError as error:
        raise MillstreamError(f"cannot listen on {host}:{port} (health.port): {error.strerror}") from error
    try:
        yield f"{host}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def health_response(request: bytes, lacks: Lacks) -> bytes:
    """The response to a request, both as they are on the wire."""
    return await respond(request, lambda probe: _probed(probe, lacks))


async def _probed(request: PlainRequest, lacks: Lacks) -> PlainResponse:
    if request.path == "/healthz":
        status, text = HTTPStatus.OK, "healthy"
    elif request.path == "/readyz":
        lacking = await lacks()
        status, text = (HTTPStatus.SERVICE_UNAVAILABLE, lacking) if lacking else (HTTPStatus.OK, "ready")
    else:
        status, text = HTTPStatus.NOT_FOUND, "there are /healthz and /readyz"
    return PlainResponse(status, f"{text}\n".encode())
