"""The dispatcher that leads, as a program reaches it: with high availability another one may lead at any time.

Owned by the client's loop.
"""

from __future__ import annotations

import grpc

from millstream.core.services.leader_lookup import Role
from millstream.core.services.rpc import Stub, channel_for_calls
from millstream.core.settings.configuration import Configuration
from millstream.core.store.high_availability import FoundLeaders, leader_patience
from millstream.core.wire.contracts import DISPATCHER


class DispatcherLink:
    """The connection of one program to the leading dispatcher. Closed once."""

    def __init__(self, leaders: FoundLeaders, configuration: Configuration) -> None:
        self.address = ""
        self._leaders = leaders
        self._configuration = configuration
        self._channel: grpc.aio.Channel | None = None
        self._stub: Stub | None = None
        self.patience = leader_patience(configuration)
        """How long the client waits for a dispatcher that does not respond."""

    @property
    def follows(self) -> bool:
        """Whether another dispatcher may come to lead."""
        return self._leaders.store is not None

    @property
    def channel(self) -> grpc.aio.Channel:
        """To the dispatcher that led when `connect` was called last."""
        assert self._channel is not None, "connect comes first"
        return self._channel

    @property
    def stub(self) -> Stub:
        """The methods of its contract, called at the current leader."""
        assert self._stub is not None, "connect comes first"
        return self._stub

    async def connect(self) -> None:
        """Connects to the current leader. Raises UnreachableError when none is known."""
        leader = await self._leaders.lookup.leader_of(Role.DISPATCHER)
        if self._channel is None or leader.address != self.address:
            if self._channel is not None:
                await self._channel.close()
            self.address, self._channel = leader.address, channel_for_calls(leader.address, self._configuration)
            self._stub = Stub(self._channel, DISPATCHER)

    async def close(self) -> None:
        """Ends the connection, and the session that leaders were looked up with."""
        if self._channel is not None:
            await self._channel.close()
        await self._leaders.close()
