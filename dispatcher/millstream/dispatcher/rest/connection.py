"""A connection of the REST server: how many there may be, and how long one may take to send a request.

Without bounds, clients that send a byte now and then hold connections and half-written uploads for ever, until there
are no descriptors left for anyone else. What is bounded is only the client's own part, the sending: a request that has
arrived may be worked on for as long as it takes. Owned by the server's asyncio loop.
"""

from __future__ import annotations

import asyncio
import json
import logging
import resource
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

CERTIFICATE = "certificate"
"""Under which a request's state has the name in the client's certificate."""
_PERIOD = 30.0  # seconds, after which a connection is looked at again
_LEAST = 30 * 1024  # bytes in a period: a kilobyte a second
_MOST_CONNECTIONS = 1000
log = logging.getLogger(__name__)


class Patience:
    """Decides from one look to the next whether a client takes too long."""

    def __init__(self) -> None:
        self._former: tuple[object, int] | None = None

    def is_over(self, request: object, received: int, *, waits: bool, answered: bool) -> bool:
        """Whether a whole period has passed with the same request not there yet, and too little or needlessly sent.

        `received` counts from the connection's beginning, `waits` is true while it is the client's turn to send.
        """
        former, self._former = self._former, (request, received) if waits else None
        if former is None or not waits or former[0] is not request:
            return False
        return answered or received - former[1] < _LEAST


class BoundedConnection(H11Protocol):
    """uvicorn's connection, with bounds, and without tracebacks for bodies that are malformed."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.received = 0
        self._patience = Patience()
        self._look: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Is called once, before anything else."""
        super().connection_made(transport)
        if len(self.connections) > most_connections():
            log.warning("refused a connection of %s: there are %d", self.client, len(self.connections) - 1)
            self._refuse(503, "the REST API has too many connections; try again later")
        else:
            self._look = self.loop.call_later(_PERIOD, self.look_again)
        shown = transport.get_extra_info("peercert")
        if shown:  # TLS has checked it
            self.app_state = {**self.app_state, CERTIFICATE: _common_name(shown)}

    def connection_lost(self, exc: Exception | None) -> None:
        """Is called once, after everything else."""
        if self._look is not None:
            self._look.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """The client has sent something."""
        if not self.transport.is_closing():
            self.received += len(data)
            super().data_received(data)

    def send_400_response(self, msg: str) -> None:
        """The client has sent what is no HTTP; its request may be half answered by now."""
        self._refuse(400, msg)

    def look_again(self) -> None:
        """Gives the client up when it takes too long. Called once in a period."""
        cycle: RequestResponseCycle | None = self.cycle
        waits = (
            self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
            and self.timeout_keep_alive_task is None
            and not self.flow.read_paused
        )
        answered = cycle is not None and cycle.response_complete
        if self._patience.is_over(cycle, self.received, waits=waits, answered=answered):
            log.warning("closed a connection of %s: it sends its request too slowly", self.client)
            self._refuse(408, f"the request did not arrive; at least {_LEAST} bytes are expected in {_PERIOD:.0f} s")
        else:
            self._look = self.loop.call_later(_PERIOD, self.look_again)

    def _refuse(self, status: int, reason: str) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True  # whoever works on it is told, and sends nothing any more
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


def most_connections() -> int:
    """Of the REST server at a time: half of the descriptors are left for everything else."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else min(_MOST_CONNECTIONS, soft // 2)
