"""A resource manager's daemon over real sessions, with peers that do what the test says."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from waiting import DEADLINE

from millstream.core.jobs.ids import JobId, JobManagerId, TaskManagerId
from millstream.core.messages import resource_manager as msg
from millstream.core.messages.session import Empty
from millstream.core.services.rpc import Stub, open_channel
from millstream.core.services.session import Dialer, Session
from millstream.core.settings.configuration import Configuration
from millstream.core.wire.contract import SessionContract
from millstream.core.wire.contracts import (
    JOB_MANAGER_AT_RESOURCE_MANAGER,
    RESOURCE_MANAGER,
    TASK_MANAGER_AT_RESOURCE_MANAGER,
)
from millstream.resourcemanager.service import ResourceManagerService

BASE = {"resourcemanager.rpc.port": 0, "heartbeat.interval": "100 ms", "heartbeat.timeout": "5 s"}


class Peer:
    """One dialled session: what arrived, and a way to send."""

    def __init__(self, address: str, contract: SessionContract[Any, Any], configuration: Configuration) -> None:
        self.received: asyncio.Queue[Any] = asyncio.Queue()
        self.session: asyncio.Future[Session[Any, Any]] = asyncio.get_running_loop().create_future()
        dialer = Dialer(address, contract, configuration)
        self.task = asyncio.get_running_loop().create_task(dialer.dial_once("the resource manager", self._started))

    def _started(self, session: Session[Any, Any]) -> Callable[[Any], None]:
        self.session.set_result(session)
        return self.received.put_nowait

    async def send(self, message: Any) -> None:
        (await asyncio.wait_for(self.session, DEADLINE)).send(message)

    async def next(self) -> Any:
        return await asyncio.wait_for(self.received.get(), DEADLINE)

    async def ended(self) -> str:
        return (await asyncio.wait_for(self.task, DEADLINE))[1]

    async def close(self) -> None:
        if self.session.done():
            self.session.result().close("test over")
        await asyncio.wait_for(asyncio.gather(self.task, return_exceptions=True), DEADLINE)


class Cluster:
    def __init__(self, service: ResourceManagerService, configuration: Configuration) -> None:
        self.service = service
        self.configuration = configuration
        self.peers: list[Peer] = []

    async def task_manager(self, ident: str, slots: int) -> Peer:
        peer = Peer(self.service.address, TASK_MANAGER_AT_RESOURCE_MANAGER, self.configuration)
        self.peers.append(peer)
        free = tuple(msg.SlotStatus(index) for index in range(slots))
        await peer.send(msg.RegisterTaskManager(TaskManagerId(ident), "127.0.0.1", "127.0.0.1:1", 2, 7, free))
        return peer

    async def job_manager(self, ident: str, **requirements: int) -> Peer:
        peer = Peer(self.service.address, JOB_MANAGER_AT_RESOURCE_MANAGER, self.configuration)
        self.peers.append(peer)
        wanted = tuple(msg.Requirement(JobId(job), slots) for job, slots in requirements.items())
        await peer.send(msg.RegisterJobManager(JobManagerId(ident), "127.0.0.1:2", wanted))
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
