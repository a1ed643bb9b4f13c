"""A connection of the REST server: how many there may be, and how long one may take to send a request.

Without bounds, clients that send a byte now and then hold connections and half-written uploads without end, until there
are no descriptors left for other clients. What is bounded is only the client's own part, the sending and the receiving:
a request that has arrived may be worked on for as long as it takes.

A connection has `_HEADERS` seconds for its TLS handshake and the head of a request. When there are more connections
than places, silent ones are displaced (`Places`), so that silent connections keep no request out. When all places are
taken by requests under work, the reserve is for probes. With TLS a connection counts from its first packet, not from
the end of the handshake.

A server without HTTPS of its own offers TLS with the certificate of the cluster's secret on the same port: the first
byte shows which protocol the client uses. Owned by the server's asyncio loop.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
import socket
import ssl
from typing import Any

import h11
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from millstream.core.linux.descriptors import peer_user
from millstream.core.processes.places import Places
from millstream.core.services.identity import user_name

CERTIFICATE = "certificate"
"""Under which a request's state has the name in the client's certificate."""
OWNER = "owner"
"""Under which it has the name of the user, when it came through the Unix socket."""
PROBES = frozenset({"/healthz", "/readyz"})
"""Which are served when there is no place for other requests."""
_PERIOD = 30.0  # seconds, after which a connection is checked again
_LEAST = 30 * 1024  # bytes in a period: a kilobyte a second
_HEADERS = 10.0  # seconds, for the handshake and for the head of a request
_LAST_WORDS = 2.0  # seconds, for the end of TLS
_TLS = b"\x16"  # with which a client of TLS begins, and no request
_MOST_CONNECTIONS = 1000
_RESERVE = 32
_LOGGED_EACH = 60.0  # seconds
log = logging.getLogger(__name__)


class Patience:
    """Decides from one check to the next whether a client takes too long."""

    def __init__(self) -> None:
        self._former: tuple[object, int] | None = None

    def is_over(self, request: object, received: int, *, waits: bool, responded: bool) -> bool:
        """Whether a whole period has passed with the same request not there yet, and too little or needlessly sent.

        `received` counts from the connection's beginning, `waits` is true while it is the client's turn to send.
        """
        former, self._former = self._former, (request, received) if waits else None
        if former is None or not waits or former[0] is not request:
            return False
        return responded or received - former[1] < _LEAST


class ConnectionBounds:
    """What the connections of one server share."""

    def __init__(self, most: int, tls: ssl.SSLContext | None = None, offered_tls: ssl.SSLContext | None = None) -> None:
        self.tls = tls
        """Which all clients have to speak; None: none has to."""
        self.offered_tls = None if tls is not None else offered_tls
        """Which clients may speak."""
        self.places: Places[BoundedConnection] = Places(most, _RESERVE)
        self._logged = float("-inf")

    def enter(self, connection: BoundedConnection, host: str, now: float) -> None:
        """A new connection; another one may have to go."""
        displaced = self.places.enter(connection, host)
        if displaced is None:
            return
        displaced.abort()
        if now - self._logged > _LOGGED_EACH:
            self._logged = now
            log.warning("closing the oldest silent ones of %d connections, first %s", len(self.places), host)

    def close_silent(self) -> None:
        """The server stops: nothing comes of these any more."""
        for connection in self.places.silent:
            connection.abort()


class BoundedConnection(H11Protocol):
    """uvicorn's connection, with bounds, and without tracebacks for bodies that are malformed."""

    def __init__(self, *arguments: Any, bounds: ConnectionBounds, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.received = 0
        self._bounds = bounds
        self._patience = Patience()
        self._look: asyncio.TimerHandle | None = None
        self._head: asyncio.TimerHandle | None = None
        self._handshake: asyncio.Task[None] | None = None
        self._beneath: asyncio.Transport | None = None
        self._is_busy = False
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Is called once, before anything else."""
        self._beneath = transport
        peer = transport.get_extra_info("peername")
        self._bounds.enter(self, str(peer[0]) if peer else "", self.loop.time())
        self._head = self.loop.call_later(_HEADERS, self.head_is_late)
        if self._bounds.tls is not None:
            self._begin_tls(transport, self._bounds.tls)
        elif self._bounds.offered_tls is None:
            self.begin(transport)

    def _begin_tls(self, transport: asyncio.Transport, tls: ssl.SSLContext, first: bytes = b"") -> None:
        transport.pause_reading()
        self._handshake = self.loop.create_task(self._shake_hands(transport, tls, first))

    async def _shake_hands(self, transport: asyncio.Transport, tls: ssl.SSLContext, first: bytes) -> None:
        secured: asyncio.Transport | None = None
        try:
            if not transport.is_closing():
                if first:  # for the protocol of TLS, which `start_tls` has begin in the next turn of the loop
                    self.loop.call_soon(self.loop.call_soon, _feed, transport, first)
                secured = await self.loop.start_tls(
                    transport, self, tls, server_side=True, ssl_handshake_timeout=_HEADERS,
                    ssl_shutdown_timeout=_LAST_WORDS,
                )  # fmt: skip
        except (OSError, ssl.SSLError) as error:
            log.debug("failed the TLS handshake with %s: %s", transport.get_extra_info("peername"), error)
        if secured is None or transport.is_closing():
            transport.abort()
            self._forget()
        else:
            self.begin(secured)
            self._take_early()

    def _take_early(self) -> None:
        early, self._early = b"".join(self._early), []
        if early:
            self.data_received(early)

    def begin(self, transport: asyncio.Transport) -> None:
        """The client may send requests."""
        super().connection_made(transport)
        self._look = self.loop.call_later(_PERIOD, self.look_again)
        if owner := _owner(transport):
            self.app_state = {**self.app_state, OWNER: owner}
        shown = transport.get_extra_info("peercert")
        if shown:  # TLS has checked it
            self.app_state = {**self.app_state, CERTIFICATE: _common_name(shown)}

    def connection_lost(self, exc: Exception | None) -> None:
        """Is called once, after everything else, but for a connection whose handshake has failed."""
        self._forget()
        if self.transport is not None:
            super().connection_lost(exc)
            self.transport.close()

    def _forget(self) -> None:
        self._bounds.places.leave(self)
        for timer in (self._look, self._head):
            if timer is not None:
                timer.cancel()

    def data_received(self, data: bytes) -> None:
        """The client has sent something. With TLS, that may be before the handshake is over on this side."""
        if self.transport is None:
            self._take_first(data)
        elif not self.transport.is_closing():
            self.received += len(data)
            self.app = self._only_probes if self._bounds.places.is_full else self.config.loaded_app
            super().data_received(data)
            self._take_turns()

    def _take_first(self, data: bytes) -> None:
        beneath, offered = self._beneath, self._bounds.offered_tls
        if self._handshake is not None or beneath is None or offered is None:
            self._early.append(data)
        elif data.startswith(_TLS):
            self._begin_tls(beneath, offered, data)
        else:
            self._early.append(data)
            self.begin(beneath)
            self._take_early()

    def on_response_complete(self) -> None:
        """A request has been served."""
        super().on_response_complete()
        self._take_turns()

    def pause_writing(self) -> None:
        """The client does not take the response as fast as it is made."""
        super().pause_writing()
        self._bounds.places.is_silent(self)

    def resume_writing(self) -> None:
        """The client has taken what was written."""
        super().resume_writing()
        if self._is_busy:
            self._bounds.places.is_busy(self)

    def _take_turns(self) -> None:
        cycle: RequestResponseCycle | None = self.cycle
        is_busy = cycle is not None and not cycle.response_complete
        if is_busy == self._is_busy:
            return
        self._is_busy = is_busy
        if self._head is not None:
            self._head.cancel()
        if is_busy:
            self._bounds.places.is_busy(self)
        else:
            self._bounds.places.is_silent(self)
            self._head = self.loop.call_later(_HEADERS, self.head_is_late)

    async def _only_probes(self, scope: Scope, receive: Receive, send: Send) -> None:
        app: Any = self.config.loaded_app
        if scope["path"] not in PROBES:
            reason = "the REST API has too many connections; try again later"
            app = JSONResponse({"errors": [reason]}, 503, {"Connection": "close", "Retry-After": "1"})
        await app(scope, receive, send)

    def abort(self) -> None:
        """Closes the connection without a word."""
        self._bounds.places.leave(self)
        transport = self.transport or self._beneath
        if transport is not None:
            transport.abort()

    def head_is_late(self) -> None:
        """The time for the head of a request is over. A body that is still sent has its own bounds."""
        if self.transport is None:
            self.abort()
        elif self.conn.their_state is h11.IDLE and not self._is_busy:
            self._refuse(408, f"the request did not arrive in {_HEADERS:.0f} s")

    def send_400_response(self, msg: str) -> None:
        """The client has sent what is no HTTP; part of a response may be sent by now."""
        self._refuse(400, msg)

    def look_again(self) -> None:
        """Gives the client up when it takes too long. Called once in a period."""
        cycle: RequestResponseCycle | None = self.cycle
        waits = (
            self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
            and self.timeout_keep_alive_task is None
            and not self.flow.read_paused
        )
        responded = cycle is not None and cycle.response_complete
        if self._patience.is_over(cycle, self.received, waits=waits, responded=responded):
            log.warning("closed a connection of %s: its request arrives too slowly", self.client)
            self._refuse(408, f"the request did not arrive; at least {_LEAST} bytes are expected in {_PERIOD:.0f} s")
        else:
            self._look = self.loop.call_later(_PERIOD, self.look_again)

    def _refuse(self, status: int, reason: str) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True  # its handler is notified, and sends nothing any more
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            headers = [("content-type", "application/json"), ("connection", "close")]
            for event in (
                h11.Response(status_code=status, headers=headers),
                h11.Data(data=json.dumps({"errors": [reason]}).encode()),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


def _common_name(certificate: dict[str, Any]) -> str:
    fields = [field for names in certificate.get("subject", ()) for field in names]
    return next((str(value) for name, value in fields if name == "commonName"), "a client with a certificate")


def _feed(transport: asyncio.Transport, first: bytes) -> None:
    """Gives the protocol of TLS what the client has sent before the protocol was there."""
    protocol: Any = transport.get_protocol()
    while first and not transport.is_closing():
        buffer = protocol.get_buffer(len(first))
        size = min(len(buffer), len(first))
        buffer[:size] = first[:size]
        protocol.buffer_updated(size)
        first = first[size:]


def _owner(transport: asyncio.Transport) -> str:
    """The name of the user on the other end of a Unix socket, when it is this one or root; empty: another socket."""
    connection = transport.get_extra_info("socket")
    if connection is None or connection.family != socket.AF_UNIX:
        return ""
    user = peer_user(connection)
    if user is None:  # not known: the socket's folder lets only this user in
        user = os.geteuid()
    return user_name(user) if user in (0, os.geteuid()) else ""


def most_connections() -> int:
    """Of the REST server at a time, without the reserve: half of the descriptors are left for everything else."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else min(_MOST_CONNECTIONS, soft // 2)
