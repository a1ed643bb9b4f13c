"""What carries calls and sessions between services. That is gRPC; tests put a network of their own in its place.

Servers and channels are gRPC's abstract ones, so services are bound and called in the same way on any network. What
breaks on it shows as gRPC shows it: a call raises `grpc.RpcError`, a method that serves one is cancelled.
"""

from __future__ import annotations

from typing import Final, Protocol

import grpc

from millstream.core.services import rpc
from millstream.core.settings.configuration import Configuration


class Network(Protocol):
    """As one process reaches it. Used on that process's asyncio loop."""

    async def serve(
        self, host: str, port: int, handlers: list[grpc.GenericRpcHandler], configuration: Configuration, key: str
    ) -> tuple[grpc.aio.Server, int]:
        """Starts a server and answers it with its port. `key` names the option to blame when it cannot listen."""
        ...

    def open_channel(self, address: str, configuration: Configuration) -> grpc.aio.Channel:
        """A channel to a peer; nothing is sent until it is used."""
        ...


GRPC: Final[Network] = rpc
