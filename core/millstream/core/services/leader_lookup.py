"""Where a service of the cluster is reached now. Whoever talks to one asks here, each time again.

Without high availability the configuration says it, once and for all. With several candidates for a role it is the one
that leads, which changes while the cluster runs (`core/store/leaders.py`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from millstream.core.jobs.ids import ANY_EPOCH, LeaderEpoch
from millstream.core.settings.configuration import Configuration


class Role(StrEnum):
    """A service of which one leads. The values are the beginnings of its options' names."""

    DISPATCHER = "dispatcher"
    REST = "rest"
    """Of the dispatcher that leads."""
    JOB_MANAGER = "jobmanager"
    RESOURCE_MANAGER = "resourcemanager"


class KnownLeader(Struct, frozen=True):
    """Who leads: where, as `host:port`, and under which epoch, or 0 when only the address is known."""

    address: str
    epoch: LeaderEpoch = ANY_EPOCH


class LeaderLookup(Protocol):
    """Owned by one asyncio loop."""

    async def leader_of(self, role: Role) -> KnownLeader:
        """Who leads in this role now. Raises UnreachableError when nobody is known."""
        ...

    async def standing_by(self, role: Role) -> list[str]:
        """The addresses of those who would lead next, as far as they are known."""
        ...

    async def changed(self, role: Role, leader: KnownLeader) -> KnownLeader:
        """Returns when another leader than this one is known, with the new one."""
        ...


class Leader(Struct, frozen=True):
    """One role, and who says where it is."""

    lookup: LeaderLookup
    role: Role


class ConfiguredLeaders:
    """A `LeaderLookup` by `endpoint_options`. What they say holds for good."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    async def leader_of(self, role: Role) -> KnownLeader:
        """As configured."""
        return KnownLeader(configured_address(self._configuration, role))

    async def standing_by(self, role: Role) -> list[str]:
        """Nobody."""
        return []

    async def changed(self, role: Role, leader: KnownLeader) -> KnownLeader:
        """At once if it was another one from the beginning, else never."""
        import asyncio  # here, since the command line starts with this module, and mostly needs no loop

        configured = await self.leader_of(role)
        while configured == leader:
            await asyncio.Event().wait()  # until cancelled
        return configured


def endpoint_options(role: Role) -> tuple[str, str]:
    """The options of the address and the port that a service in this role listens on, where others find it."""
    prefix = "rest" if role is Role.REST else f"{role}.rpc"
    return f"{prefix}.address", f"{prefix}.port"


def configured_endpoint(configuration: Configuration, role: Role) -> tuple[str, int]:
    """The host and the port that a service in this role listens on."""
    address, port = endpoint_options(role)
    return configuration.string(address), configuration.integer(port)


def configured_address(configuration: Configuration, role: Role) -> str:
    """The same, as `host:port`."""
    host, port = configured_endpoint(configuration, role)
    return f"{host}:{port}"


def address_options(role: Role, address: str) -> dict[str, str]:
    """The options by which others find the service in this role at this address."""
    host, _, port = address.rpartition(":")
    return dict(zip(endpoint_options(role), (host, port), strict=True))
