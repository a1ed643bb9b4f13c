"""A resource manager's daemon over real sessions, with peers that do what the test prescribes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from links import Link
from waiting import DEADLINE

from millstream.core.jobs.ids import JobId, JobManagerId, TaskManagerId
from millstream.core.messages import resource_manager as msg
from millstream.core.messages.session import Empty
from millstream.core.services.rpc import Stub, open_channel
from millstream.core.settings.configuration import Configuration
from millstream.core.wire.contract import SessionContract
from millstream.core.wire.contracts import (
    JOB_MANAGER_AT_RESOURCE_MANAGER,
    RESOURCE_MANAGER,
    TASK_MANAGER_AT_RESOURCE_MANAGER,
)
from millstream.resourcemanager.service import ResourceManagerService

BASE = {"resourcemanager.rpc.port": 0, "heartbeat.interval": "100 ms", "heartbeat.timeout": "5 s"}


class Peer(Link[Any, Any]):
    async def ended(self) -> str:
        """For which reason."""
        return (await self.end)[1]


class Cluster:
    def __init__(self, service: ResourceManagerService, configuration: Configuration) -> None:
        self.service = service
        self.configuration = configuration
        self.peers: list[Peer] = []

    async def task_manager(self, ident: str, slots: int) -> Peer:
        free = tuple(msg.SlotStatus(index) for index in range(slots))
        registration = msg.RegisterTaskManager(TaskManagerId(ident), "127.0.0.1", "127.0.0.1:1", 2, 7, free)
        return await self.peer(TASK_MANAGER_AT_RESOURCE_MANAGER, registration)

    async def job_manager(self, ident: str, **requirements: int) -> Peer:
        wanted = tuple(msg.Requirement(JobId(job), slots) for job, slots in requirements.items())
        registration = msg.RegisterJobManager(JobManagerId(ident), "127.0.0.1:2", wanted)
        return await self.peer(JOB_MANAGER_AT_RESOURCE_MANAGER, registration)

    async def peer(self, contract: SessionContract[Any, Any], first: Any) -> Peer:
        """A session that begins with this message."""
        peer = Peer(self.service.address, contract, self.configuration, first)
        self.peers.append(peer)
        await peer.session
        return peer

    async def overview(self) -> msg.Overview:
        async with open_channel(self.service.address, self.configuration) as channel:
            answer: msg.Overview = await Stub(channel, RESOURCE_MANAGER).get_overview(Empty(), timeout=DEADLINE)
            return answer

    async def overview_when(self, condition: Callable[[msg.Overview], bool]) -> msg.Overview:
        async with asyncio.timeout(DEADLINE):
            while not condition(overview := await self.overview()):
                pass  # each look is a call
            return overview


@contextlib.asynccontextmanager
async def running(**options: Any) -> AsyncIterator[Cluster]:
    configuration = Configuration({**BASE, **options})
    service = ResourceManagerService(configuration)
    await service.start()
    cluster = Cluster(service, configuration)
    try:
        yield cluster
    finally:
        for peer in cluster.peers:
            await peer.close()
        await service.stop()
        await service.stop()
