"""The resource manager's daemon over real sessions, with peers that do what the test says."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from waiting import DEADLINE

from millstream.core.errors import MillstreamError
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
            while True:
                overview = await self.overview()
                if condition(overview):
                    return overview


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[Cluster]:
    configuration = Configuration(BASE)
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


async def test_slots_reach_the_job_that_wants_them() -> None:
    async with running() as cluster:
        job_manager = await cluster.job_manager("jm", job=2)
        notice = await job_manager.next()
        assert (notice.job_id, notice.available, notice.required) == ("job", 0, 2)
        task_manager = await cluster.task_manager("tm", 3)
        orders = [await task_manager.next() for _ in range(2)]
        assert [(o.slot_index, o.job_id, o.job_manager_address) for o in orders] == [
            (0, "job", "127.0.0.1:2"),
            (1, "job", "127.0.0.1:2"),
        ]
        overview = await cluster.overview()
        (info,) = overview.task_managers
        assert (info.task_manager_id, info.cpu_cores, info.memory_bytes) == ("tm", 2, 7)
        assert info.last_heartbeat > 0
        assert [s.job_id for s in info.slots] == ["job", "job", ""]
        assert overview.pending_slots == 0


async def test_a_refused_slot_is_tried_again() -> None:
    async with running() as cluster:
        task_manager = await cluster.task_manager("tm", 1)
        await cluster.job_manager("jm", job=1)
        first = await task_manager.next()
        await task_manager.send(msg.SlotRefused(first.allocation_id, "busy"))
        second = await task_manager.next()
        assert second.slot_index == 0
        assert second.allocation_id != first.allocation_id


async def test_a_broken_session_loses_the_task_manager_and_says_what_is_missing() -> None:
    async with running() as cluster:
        task_manager = await cluster.task_manager("tm", 1)
        job_manager = await cluster.job_manager("jm", job=1)
        await task_manager.next()
        await task_manager.close()
        notice = await job_manager.next()
        assert (notice.available, notice.required) == (0, 1)
        await cluster.overview_when(lambda o: not o.task_managers and o.pending_slots == 1)


async def test_a_task_manager_that_registers_again_replaces_its_older_session() -> None:
    async with running() as cluster:
        older = await cluster.task_manager("tm", 1)
        await cluster.overview_when(lambda o: len(o.task_managers) == 1)
        newer = await cluster.task_manager("tm", 2)
        assert "closed the connection" in await older.ended()
        overview = await cluster.overview_when(lambda o: [len(t.slots) for t in o.task_managers] == [2])
        assert len(overview.task_managers) == 1
        await cluster.job_manager("jm", job=1)
        assert (await newer.next()).job_id == "job"


async def test_a_job_manager_declares_more_and_then_nothing() -> None:
    async with running() as cluster:
        job_manager = await cluster.job_manager("jm")
        await job_manager.send(msg.Requirement(JobId("job"), 2))
        assert (await job_manager.next()).required == 2
        await job_manager.send(msg.Requirement(JobId("job"), 0))
        await cluster.overview_when(lambda o: o.pending_slots == 0)


@pytest.mark.parametrize(
    ("contract", "first"),
    [
        (TASK_MANAGER_AT_RESOURCE_MANAGER, msg.SlotReport(())),
        (JOB_MANAGER_AT_RESOURCE_MANAGER, msg.Requirement(JobId("job"), 1)),
    ],
)
async def test_a_session_that_does_not_begin_with_a_registration_is_closed(
    contract: SessionContract[Any, Any], first: msg.SlotReport | msg.Requirement
) -> None:
    async with running() as cluster:
        peer = Peer(cluster.service.address, contract, cluster.configuration)
        cluster.peers.append(peer)
        await peer.send(first)
        assert "closed the connection" in await peer.ended()


async def test_a_port_that_is_taken_is_named() -> None:
    async with running() as cluster:
        port = cluster.service.address.rpartition(":")[2]
        second = ResourceManagerService(Configuration({**BASE, "resourcemanager.rpc.port": port}))
        with pytest.raises(MillstreamError, match=rf"127\.0\.0\.1:{port} \(resourcemanager\.rpc\.port\)"):
            await second.start()
        await second.stop()
