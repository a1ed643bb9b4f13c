"""The resource manager with its process provider and real task managers: started when wanted, let go when idle."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from waiting import DEADLINE

from millstream.core.services.rpc import Stub, open_channel
from millstream.core.services.session import Dialer
from millstream.core.settings.configuration import Configuration
from millstream.core.wire.raw import raw_contract
from millstream.proto import resourcemanager_pb2 as pb
from millstream.proto.session_pb2 import Empty
from millstream.resourcemanager.process_records import read_records
from millstream.resourcemanager.service import ResourceManagerService

pytestmark = pytest.mark.process

SERVICE = pb.DESCRIPTOR.services_by_name["ResourceManager"]


async def scenario(folder: Path) -> None:
    configuration = Configuration(
        {
            "io.tmp.dirs": str(folder),
            "resourcemanager.rpc.port": 0,
            "resourcemanager.provider": "process",
            "resourcemanager.taskmanager-timeout": "200 ms",
            "taskmanager.numberOfTaskSlots": 2,
            "heartbeat.interval": "200 ms",
            "heartbeat.timeout": "15 s",  # how long slots wait for a job manager that is not there
        }
    )
    service = ResourceManagerService(configuration)
    await service.start()
    loop = asyncio.get_running_loop()
    notices: asyncio.Queue[pb.JobManagerNotice] = asyncio.Queue()
    registration = pb.RegisterJobManager(
        job_manager_id="jm", address="127.0.0.1:1", requirements=[pb.Requirement(job_id="job", slots=3)]
    )
    connected = loop.create_future()

    def started(session: object) -> object:
        connected.set_result(session)
        return notices.put_nowait

    dialer = Dialer(service.address, raw_contract(SERVICE, "ConnectJobManager"), configuration)
    dialling = loop.create_task(dialer.dial_once("rm", started))  # type: ignore[arg-type]
    try:
        async with asyncio.timeout(DEADLINE), open_channel(service.address, configuration) as channel:
            stub = Stub(channel, SERVICE)
            session = await connected
            session.send(pb.JobManagerReport(register=registration))
            assert (await notices.get()).not_enough.required == 3
            while True:
                overview = await stub.get_overview(Empty())
                if overview.pending_slots == 0 and len(overview.task_managers) == 2:
                    break
                await asyncio.sleep(0.05)
            assert [len(t.slots) for t in overview.task_managers] == [2, 2]
            assert sum(s.job_id == "job" for t in overview.task_managers for s in t.slots) == 3
            records = list(read_records(folder / "run").values())
            assert len(records) == 2
            session.send(pb.JobManagerReport(requirement=pb.Requirement(job_id="job", slots=0)))
            while True:
                overview = await stub.get_overview(Empty())
                if not overview.task_managers and not any(record.is_running() for record in records):
                    break
                await asyncio.sleep(0.05)
    finally:
        if connected.done():
            connected.result().close("test over")
        dialling.cancel()
        await asyncio.gather(dialling, return_exceptions=True)
        await service.stop()
    assert read_records(folder / "run") == {}


def test_task_managers_come_and_go_with_the_demand(tmp_path: Path) -> None:
    asyncio.run(scenario(tmp_path))
