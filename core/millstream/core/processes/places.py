"""The places that a listener has for connections, and which connection loses its place when they run out. Pure.

A connection is silent while it is its client's turn: it has sent no whole request, or does not take the response. What
is silent costs its client nothing, so it is not refused, which would let silent connections keep others out: it is
displaced. When there are more connections than places, the client with the most silent connections loses the oldest of
them. A request that arrives at once is served whatever else is open. A reserve beyond the places is for requests that
are served even when all places are taken by requests under work.

Connections are accepted a few at a time (`ACCEPTED_AT_ONCE`), so that what one has sent is read before as many others
as there are places have entered. Accepted hundreds at a time, it would be displaced with its request unread.

Clients are distinguished by their address, as far as one client cannot choose many: all of loopback is one, and so is
an IPv6 network of 64 bits.
"""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from typing import Generic, TypeVar

C = TypeVar("C")
ACCEPTED_AT_ONCE = 16
"""In a turn of the loop. It takes three turns until the request of a new connection is read."""
BACKLOG = 1024
"""The connections that wait to be accepted. asyncio has one number for both, so this one is set afterwards."""


class Places(Generic[C]):
    """The connections of one listener."""

    def __init__(self, most: int, reserve: int) -> None:
        self._most = most
        self._reserve = reserve
        self._clients: dict[C, str] = {}
        self._silent: dict[str, dict[C, None]] = defaultdict(dict)
        self._silent_count = 0

    def __len__(self) -> int:
        return len(self._clients)

    @property
    def is_full(self) -> bool:
        """Whether only requests of the reserve are served."""
        return len(self._clients) > self._most

    @property
    def silent(self) -> list[C]:
        """The connections whose clients' turn it is."""
        return [connection for silent in self._silent.values() for connection in silent]

    def enter(self, connection: C, host: str) -> C | None:
        """A new connection, which is silent. Returns the one that is displaced, which may be closed at once."""
        self._clients[connection] = client_of(host)
        self.is_silent(connection)
        if len(self._clients) <= self._most or self._silent_count <= self._reserve:
            return None
        crowded = max(self._silent.values(), key=len)
        displaced = next(iter(crowded))
        self.leave(displaced)
        return displaced

    def is_silent(self, connection: C) -> None:
        """The server waits for the client from now on."""
        client = self._clients.get(connection)
        if client is not None and connection not in self._silent.get(client, ()):
            self._silent[client][connection] = None
            self._silent_count += 1

    def is_busy(self, connection: C) -> None:
        """The server works on a request from now on."""
        client = self._clients.get(connection)
        if client is not None and connection in self._silent.get(client, ()):
            del self._silent[client][connection]
            self._silent_count -= 1
            if not self._silent[client]:
                del self._silent[client]

    def leave(self, connection: C) -> None:
        """The connection is closed. May be called again."""
        self.is_busy(connection)
        self._clients.pop(connection, None)


def client_of(host: str) -> str:
    """What all addresses that one client may choose have in common."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        elif not address.is_loopback:
            return str(ipaddress.ip_network((address, 64), strict=False))
    return "loopback" if address.is_loopback else str(address)
