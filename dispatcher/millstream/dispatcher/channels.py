"""Connections to the services of the cluster, kept for as long as they are used. Owned by the dispatcher's loop.

Services come and go without notice: a connection that was not used for a while is
closed when the next one is opened, so there are never many more than services.
"""

from __future__ import annotations

import grpc

from millstream.core.clock import Clock
from millstream.core.services.rpc import open_channel
from millstream.core.settings.configuration import Configuration

_UNUSED = 300.0  # seconds, in which every call has ended


class KeptChannels:
    """By address."""

    def __init__(self, configuration: Configuration, clock: Clock) -> None:
        self._configuration = configuration
        self._clock = clock
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._used: dict[str, float] = {}

    async def to(self, address: str) -> grpc.aio.Channel:
        """For one call, which is made at once."""
        now = self._clock.monotonic()
        self._used[address] = now
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = open_channel(address, self._configuration)
            await self._let_go([other for other, used in self._used.items() if now - used > _UNUSED])
        return channel

    async def close(self) -> None:
        """Releases them all."""
        await self._let_go(list(self._channels))

    async def _let_go(self, addresses: list[str]) -> None:
        gone = [self._channels.pop(address) for address in addresses]
        for address in addresses:
            del self._used[address]
        for channel in gone:
            await channel.close()
