"""Finds the current address of a service of the cluster. Clients look it up before each connection.

Without high availability it is configured and never changes. With several candidates for a role it is the address of
the leader, which changes while the cluster runs (`core/store/leaders.py`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from millstream.core.jobs.ids import ANY_EPOCH, LeaderEpoch
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options import OptionKey
from millstream.core.settings.options.services import (
    DISPATCHER_RPC_ADDRESS,
    DISPATCHER_RPC_PORT,
    JOBMANAGER_RPC_ADDRESS,
    JOBMANAGER_RPC_PORT,
    RESOURCEMANAGER_RPC_ADDRESS,
    RESOURCEMANAGER_RPC_PORT,
    REST_ADDRESS,
    REST_PORT,
)


class Role(StrEnum):
    """A service of which one instance leads. The values are the prefixes of its options."""

    DISPATCHER = "dispatcher"
    REST = "rest"
    """The REST API of the leading dispatcher."""
    JOB_MANAGER = "jobmanager"
    RESOURCE_MANAGER = "resourcemanager"


class KnownLeader(Struct, frozen=True):
    """A leader: its address, as `host:port`, and its epoch, or 0 if only the address is known."""

    address: str
    epoch: LeaderEpoch = ANY_EPOCH


class LeaderLookup(Protocol):
    """Owned by one asyncio loop."""

    async def leader_of(self, role: Role) -> KnownLeader:
        """Returns the current leader of this role. Raises UnreachableError when none is known."""
        ...

    async def standing_by(self, role: Role) -> list[str]:
        """Returns the addresses of the known standbys."""
        ...

    async def changed(self, role: Role, leader: KnownLeader) -> KnownLeader:
        """Waits until another leader than this one is known, and returns it."""
        ...


class Leader(Struct, frozen=True):
    """A role, with the lookup that finds its leader."""

    lookup: LeaderLookup
    role: Role


class ConfiguredLeaders:
    """A `LeaderLookup` that returns the configured addresses, which never change."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    async def leader_of(self, role: Role) -> KnownLeader:
        """Returns the configured address."""
        return KnownLeader(configured_address(self._configuration, role))

    async def standing_by(self, role: Role) -> list[str]:
        """Returns no standbys."""
        return []

    async def changed(self, role: Role, leader: KnownLeader) -> KnownLeader:
        """Returns at once if another leader was passed than the configured one, otherwise never."""
        import asyncio  # imported here: the command line imports this module at its start and seldom needs a loop

        configured = await self.leader_of(role)
        while configured == leader:
            await asyncio.Event().wait()  # until cancelled
        return configured


_ENDPOINTS = {
    Role.DISPATCHER: (DISPATCHER_RPC_ADDRESS, DISPATCHER_RPC_PORT),
    Role.REST: (REST_ADDRESS, REST_PORT),
    Role.JOB_MANAGER: (JOBMANAGER_RPC_ADDRESS, JOBMANAGER_RPC_PORT),
    Role.RESOURCE_MANAGER: (RESOURCEMANAGER_RPC_ADDRESS, RESOURCEMANAGER_RPC_PORT),
}


def endpoint_options(role: Role) -> tuple[OptionKey[str], OptionKey[int]]:
    """Returns the options of the address and the port of a service in this role."""
    return _ENDPOINTS[role]


def configured_endpoint(configuration: Configuration, role: Role) -> tuple[str, int]:
    """Returns the host and the port that a service in this role listens on."""
    address, port = endpoint_options(role)
    return configuration.get(address), configuration.get(port)


def configured_address(configuration: Configuration, role: Role) -> str:
    """Returns the configured endpoint as `host:port`."""
    host, port = configured_endpoint(configuration, role)
    return f"{host}:{port}"


def address_options(role: Role, address: str) -> dict[str, str]:
    """Returns the options by which others find the service in this role at this address."""
    host, _, port = address.rpartition(":")
    return dict(zip(endpoint_options(role), (host, port), strict=True))
