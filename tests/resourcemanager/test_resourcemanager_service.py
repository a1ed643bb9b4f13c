"""The resource manager's daemon over real sessions, with peers that do what the test says."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from waiting import DEADLINE

from millstream.core.errors import MillstreamError
from millstream.core.services.rpc import Stub, open_channel
from millstream.core.services.session import Dialer, Session
from millstream.core.settings.configuration import Configuration
from millstream.core.wire.raw import raw_contract
from millstream.proto import resourcemanager_pb2 as pb
from millstream.proto.session_pb2 import Empty
from millstream.resourcemanager.service import ResourceManagerService

SERVICE = pb.DESCRIPTOR.services_by_name["ResourceManager"]
BASE = {"resourcemanager.rpc.port": 0, "heartbeat.interval": "100 ms", "heartbeat.timeout": "5 s"}


class Peer:
    """One dialled session: what arrived, and a way to send."""

    def __init__(self, address: str, method: str, message_type: Any, configuration: Configuration) -> None:
        self.received: asyncio.Queue[Any] = asyncio.Queue()
        self.session: asyncio.Future[Session[Any, Any]] = asyncio.get_running_loop().create_future()
        dialer = Dialer(address, raw_contract(SERVICE, method), configuration)
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
        peer = Peer(self.service.address, "ConnectTaskManager", pb.TaskManagerReport, self.configuration)
        self.peers.append(peer)
        register = pb.RegisterTaskManager(
            task_manager_id=ident, host="127.0.0.1", address="127.0.0.1:1", cpu_cores=2, memory_bytes=7,
            slots=[pb.SlotStatus(index=i) for i in range(slots)],
        )  # fmt: skip
        await peer.send(pb.TaskManagerReport(register=register))
        return peer

    async def job_manager(self, ident: str, **requirements: int) -> Peer:
        peer = Peer(self.service.address, "ConnectJobManager", pb.JobManagerReport, self.configuration)
        self.peers.append(peer)
        register = pb.RegisterJobManager(
            job_manager_id=ident, address="127.0.0.1:2",
            requirements=[pb.Requirement(job_id=j, slots=n) for j, n in requirements.items()],
        )  # fmt: skip
        await peer.send(pb.JobManagerReport(register=register))
        return peer

    async def overview(self) -> pb.Overview:
        async with open_channel(self.service.address, self.configuration) as channel:
            answer = await Stub(channel, SERVICE).get_overview(Empty(), timeout=DEADLINE)
            assert isinstance(answer, pb.Overview)
            return answer

    async def overview_when(self, condition: Callable[[pb.Overview], bool]) -> pb.Overview:
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


def test_slots_reach_the_job_that_wants_them() -> None:
    async def scenario() -> None:
        async with running() as cluster:
            job_manager = await cluster.job_manager("jm", job=2)
            notice = await job_manager.next()
            assert (notice.not_enough.job_id, notice.not_enough.available, notice.not_enough.required) == ("job", 0, 2)
            task_manager = await cluster.task_manager("tm", 3)
            orders = [(await task_manager.next()).allocate for _ in range(2)]
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

    asyncio.run(scenario())


def test_a_refused_slot_is_tried_again() -> None:
    async def scenario() -> None:
        async with running() as cluster:
            task_manager = await cluster.task_manager("tm", 1)
            await cluster.job_manager("jm", job=1)
            first = (await task_manager.next()).allocate
            refused = pb.SlotRefused(allocation_id=first.allocation_id, reason="busy")
            await task_manager.send(pb.TaskManagerReport(refused=refused))
            second = (await task_manager.next()).allocate
            assert second.slot_index == 0
            assert second.allocation_id != first.allocation_id

    asyncio.run(scenario())


def test_a_broken_session_loses_the_task_manager_and_says_what_is_missing() -> None:
    async def scenario() -> None:
        async with running() as cluster:
            task_manager = await cluster.task_manager("tm", 1)
            job_manager = await cluster.job_manager("jm", job=1)
            await task_manager.next()
            await task_manager.close()
            notice = (await job_manager.next()).not_enough
            assert (notice.available, notice.required) == (0, 1)
            await cluster.overview_when(lambda o: not o.task_managers and o.pending_slots == 1)

    asyncio.run(scenario())


def test_a_task_manager_that_registers_again_replaces_its_older_session() -> None:
    async def scenario() -> None:
        async with running() as cluster:
            older = await cluster.task_manager("tm", 1)
            await cluster.overview_when(lambda o: len(o.task_managers) == 1)
            newer = await cluster.task_manager("tm", 2)
            assert "closed the connection" in await older.ended()
            overview = await cluster.overview_when(lambda o: [len(t.slots) for t in o.task_managers] == [2])
            assert len(overview.task_managers) == 1
            await cluster.job_manager("jm", job=1)
            assert (await newer.next()).allocate.job_id == "job"

    asyncio.run(scenario())


def test_a_job_manager_declares_more_and_then_nothing() -> None:
    async def scenario() -> None:
        async with running() as cluster:
            job_manager = await cluster.job_manager("jm")
            await job_manager.send(pb.JobManagerReport(requirement=pb.Requirement(job_id="job", slots=2)))
            assert (await job_manager.next()).not_enough.required == 2
            await job_manager.send(pb.JobManagerReport(requirement=pb.Requirement(job_id="job", slots=0)))
            await cluster.overview_when(lambda o: o.pending_slots == 0)

    asyncio.run(scenario())


@pytest.mark.parametrize("method", ["ConnectTaskManager", "ConnectJobManager"])
def test_a_session_that_does_not_begin_with_a_registration_is_closed(method: str) -> None:
    async def scenario() -> None:
        async with running() as cluster:
            first: pb.TaskManagerReport | pb.JobManagerReport
            if method == "ConnectTaskManager":
                first = pb.TaskManagerReport(slots=pb.SlotReport())
            else:
                first = pb.JobManagerReport(requirement=pb.Requirement())
            peer = Peer(cluster.service.address, method, type(first), cluster.configuration)
            cluster.peers.append(peer)
            await peer.send(first)
            assert "closed the connection" in await peer.ended()

    asyncio.run(scenario())


def test_a_port_that_is_taken_is_named() -> None:
    async def scenario() -> None:
        async with running() as cluster:
            port = cluster.service.address.rpartition(":")[2]
            second = ResourceManagerService(Configuration({**BASE, "resourcemanager.rpc.port": port}))
            with pytest.raises(MillstreamError, match=rf"127\.0\.0\.1:{port} \(resourcemanager\.rpc\.port\)"):
                await second.start()
            await second.stop()

    asyncio.run(scenario())
