"""The network that carries calls and sessions between services: gRPC, which tests replace by a simulated one.

Servers and channels implement gRPC's abstract classes, so services are bound and called in the same way on any network.
Errors have the form that gRPC gives them: a call raises `grpc.RpcError`, and a method that serves one is cancelled.
"""

from __future__ import annotations

from typing import Final, Protocol

import grpc

from millstream.core.services import rpc
from millstream.core.settings.configuration import Configuration


class Network(Protocol):
    """The network of one process. Used on that process's asyncio loop."""

    async def serve(
        self, host: str, port: int, handlers: list[grpc.GenericRpcHandler], configuration: Configuration, key: str
    ) -> tuple[grpc.aio.Server, int]:
        """Starts a server; returns it with its port. `key` is the option that errors about listening name."""
        ...

    def open_channel(self, address: str, configuration: Configuration) -> grpc.aio.Channel:
        """Opens a channel to a peer; nothing is sent until it is used."""
        ...


GRPC: Final[Network] = rpc
