"""The resource manager with its process provider and real task managers: started when wanted, let go when idle."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from waiting import DEADLINE

from millstream.core.jobs.ids import JobId, JobManagerId
from millstream.core.messages.resource_manager import (
    JobManagerNotice,
    JobManagerReport,
    NotEnoughSlots,
    RegisterJobManager,
    Requirement,
)
from millstream.core.messages.session import Empty
from millstream.core.services.rpc import Stub, open_channel
from millstream.core.services.session import Dialer, Session
from millstream.core.settings.configuration import Configuration
from millstream.core.wire.contracts import JOB_MANAGER_AT_RESOURCE_MANAGER, RESOURCE_MANAGER
from millstream.resourcemanager.process_records import read_records
from millstream.resourcemanager.service import ResourceManagerService

pytestmark = pytest.mark.process


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
    notices: asyncio.Queue[JobManagerNotice] = asyncio.Queue()
    connected: asyncio.Future[Session[JobManagerReport, JobManagerNotice]] = loop.create_future()

    def started(session: Session[JobManagerReport, JobManagerNotice]) -> Callable[[JobManagerNotice], None]:
        connected.set_result(session)
        return notices.put_nowait

    dialer = Dialer(service.address, JOB_MANAGER_AT_RESOURCE_MANAGER, configuration)
    dialling = loop.create_task(dialer.dial_once("rm", started))
    try:
        async with asyncio.timeout(DEADLINE), open_channel(service.address, configuration) as channel:
            stub = Stub(channel, RESOURCE_MANAGER)
            session = await connected
            session.send(RegisterJobManager(JobManagerId("jm"), "127.0.0.1:1", (Requirement(JobId("job"), 3),)))
            notice = await notices.get()
            assert isinstance(notice, NotEnoughSlots)
            assert notice.required == 3
            while True:
                overview = await stub.get_overview(Empty())
                if overview.pending_slots == 0 and len(overview.task_managers) == 2:
                    break
                await asyncio.sleep(0.05)
            assert [len(t.slots) for t in overview.task_managers] == [2, 2]
            assert sum(s.job_id == "job" for t in overview.task_managers for s in t.slots) == 3
            records = list(read_records(folder / "run").values())
            assert len(records) == 2
            session.send(Requirement(JobId("job"), 0))
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
