"""A standby dispatcher forwards REST requests to the leader, and the responses back, piece by piece.

So clients, browsers and load balancers can connect to any dispatcher. A request is forwarded once: while two
dispatchers do not agree on the leader, the response is 503, and the client tries again.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Coroutine
from typing import Any

import h11
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from millstream.core.errors import UnreachableError
from millstream.core.services.cluster_secret import cluster_secret
from millstream.core.services.identity import CLUSTER_NAME, client_context, identity_of_secret
from millstream.core.services.leader_lookup import LeaderLookup, Role
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.services import (
    SSL_REST_AUTHENTICATION_ENABLED,
    SSL_REST_CA,
    SSL_REST_CERT,
    SSL_REST_ENABLED,
    SSL_REST_KEY,
)
from millstream.dispatcher.lifecycle import JobLifecycle
from millstream.dispatcher.rest.connection import OWNER, PROBES

USER_HEADER = b"millstream-user"
"""The name that the holder of a token of the secret gives, for the audit log."""
_MARK = b"millstream-forwarded"
_HOP_BY_HOP = frozenset({b"connection", b"host", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade"})
_PIECE = 64 * 1024
_CONNECT_TIMEOUT = 5.0


class ForwardingApp:
    """Serves with `app` while this dispatcher leads."""

    def __init__(
        self, app: ASGIApp, lifecycle: JobLifecycle, leaders: LeaderLookup, configuration: Configuration
    ) -> None:
        self._app = app
        self._lifecycle = lifecycle
        self._leaders = leaders
        self._tls = _trusting_the_cluster(configuration)
        is_of_secret = self._tls is not None and not configuration.get(SSL_REST_ENABLED)
        self._name = CLUSTER_NAME if is_of_secret else None
        self._secret = cluster_secret(configuration)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        if scope["type"] != "http" or self._lifecycle.leads or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        try:
            if any(name == _MARK for name, _ in scope["headers"]):
                raise UnreachableError("the leader of the cluster is changing")
            address = (await self._leaders.leader_of(Role.REST)).address
            exchange = await _Exchange.begin(address, self._tls, self._name)
        except (UnreachableError, OSError, TimeoutError) as error:
            reason = f"no dispatcher leads the cluster now, try again: {error}"
            await JSONResponse({"errors": [reason]}, 503)(scope, receive, send)
            return
        if self._secret is not None and scope.get("state", {}).get(OWNER):  # whom only this process knows
            token = (b"authorization", f"Bearer {self._secret.rest_token('submit')}".encode())
            scope = {**scope, "headers": [*scope["headers"], token, (USER_HEADER, str(scope["state"][OWNER]).encode())]}
        try:
            await exchange.run(scope, receive, send)
        finally:
            await exchange.close()


class _Exchange:
    """One request to the leader, and its response."""

    def __init__(self, address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._address = address
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.CLIENT)

    @staticmethod
    async def begin(address: str, tls: ssl.SSLContext | None, name: str | None) -> _Exchange:
        host, _, port = address.rpartition(":")
        async with asyncio.timeout(_CONNECT_TIMEOUT):
            connection = asyncio.open_connection(host.strip("[]"), int(port), ssl=tls, server_hostname=name)
            return _Exchange(address, *await connection)

    async def run(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def sending(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._pass_on(scope, receive)
            await _unless_left(self._pass_back(sending), receive)
        except (OSError, h11.ProtocolError) as error:
            if has_begun:  # the client has a part of it: only the end of the connection shows that there is no more
                raise
            reason = f"the leading dispatcher at {self._address} did not respond: {error}"
            await JSONResponse({"errors": [reason]}, 503)(scope, receive, send)

    async def _pass_back(self, send: Send) -> None:
        while True:
            event = await self._next()
            match event:
                case h11.Response():
                    headers = [(name, value) for name, value in event.headers if name not in _HOP_BY_HOP]
                    await send({"type": "http.response.start", "status": event.status_code, "headers": headers})
                case h11.Data():
                    await send({"type": "http.response.body", "body": bytes(event.data), "more_body": True})
                case h11.EndOfMessage():
                    await send({"type": "http.response.body", "body": b""})
                    return
                case h11.ConnectionClosed():
                    raise ConnectionResetError("it closed the connection")

    async def _pass_on(self, scope: Scope, receive: Receive) -> None:
        headers = [(name, value) for name, value in scope["headers"] if name not in _HOP_BY_HOP]
        headers += [(b"host", self._address.encode()), (b"connection", b"close"), (_MARK, b"1")]
        if not any(name == b"content-length" for name, _ in headers) and scope["method"] not in ("GET", "HEAD"):
            headers.append((b"transfer-encoding", b"chunked"))
        target = scope.get("raw_path") or scope["path"].encode()
        if scope["query_string"]:
            target += b"?" + scope["query_string"]
        await self._send(h11.Request(method=scope["method"], target=target, headers=headers))
        more = True
        while more:
            message: dict[str, Any] = await receive()  # type: ignore[assignment]  # Starlette's type is any mapping
            if message["type"] == "http.disconnect":
                raise ConnectionResetError("the client went away")
            more = message.get("more_body", False)
            if body := message.get("body", b""):
                await self._send(h11.Data(data=body))
        await self._send(h11.EndOfMessage())

    async def _send(self, event: h11.Request | h11.Data | h11.EndOfMessage) -> None:
        if data := self._http.send(event):
            self._writer.write(data)
            await self._writer.drain()

    async def _next(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._reader.read(_PIECE))
        return event

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


async def _unless_left(responding: Coroutine[Any, Any, None], receive: Receive) -> None:
    """Ends a response whose client is gone: that of a stream would have no other end."""

    async def left() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    response, leaving = asyncio.create_task(responding), asyncio.create_task(left())
    try:
        await asyncio.wait([response, leaving], return_when=asyncio.FIRST_COMPLETED)
        if response.done():
            response.result()
    finally:
        response.cancel()
        leaving.cancel()
        await asyncio.gather(response, leaving, return_exceptions=True)


def _trusting_the_cluster(configuration: Configuration) -> ssl.SSLContext | None:
    """All dispatchers of a cluster show certificates of one authority, or the same one; None: without TLS."""
    if not configuration.get(SSL_REST_ENABLED):
        own = identity_of_secret(configuration)
        return None if own is None else client_context(own)
    certificate, authority = configuration.get(SSL_REST_CERT), configuration.get(SSL_REST_CA)
    context = ssl.create_default_context(cafile=authority or certificate)
    if configuration.get(SSL_REST_AUTHENTICATION_ENABLED):
        context.load_cert_chain(certificate, configuration.get(SSL_REST_KEY))
    return context
