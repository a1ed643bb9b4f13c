"""What the dispatcher keeps of its jobs in a store that others follow it in, and when it lets go of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import pytest
from dispatcher_fixtures import RunningDispatcher, configuration, dispatching, eventually, graph
from msgspec.structs import replace

from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.ids import JobId
from millstream.core.jobs.states import JobStatus
from millstream.core.messages.dispatcher import ForgetJob, JobRequest, StartJob
from millstream.core.services.leader_lookup import ConfiguredLeaders, Role
from millstream.core.settings.configuration import Configuration
from millstream.core.store.high_availability import HighAvailability, in_memory
from millstream.core.store.memory import MemorySession, MemoryStore
from millstream.core.store.store import ABSENT, Contest, Entry, Key, Kind, Leadership
from millstream.dispatcher import durable_jobs


class Asked(MemorySession):
    """Reports when something is read from it that does not respond."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.asked = asyncio.Event()

    def suspend(self) -> None:
        super().suspend()
        self.asked.clear()

    async def read(self, key: Key) -> Entry | None:
        self.asked.set()
        return await super().read(key)


def followed(session: MemorySession, options: Configuration) -> HighAvailability:
    return replace(in_memory(session, ConfiguredLeaders(options)), recovers=True)


async def led(dispatcher: RunningDispatcher) -> None:
    await eventually(lambda: dispatcher.service.leads)


async def leading(session: MemorySession, job_id: JobId) -> Leadership:
    return await session.campaign(Contest(Role.JOB_MANAGER, job_id), "x:1")


async def test_a_job_whose_submitter_goes_away_is_taken_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options, session = configuration(tmp_path), Asked(MemoryStore())
    job = graph()
    with caplog.at_level("INFO", "millstream.audit"):
        async with dispatching(options, followed(session, options)) as dispatcher:
            await led(dispatcher)
            session.suspend()
            submitting = asyncio.ensure_future(dispatcher.submit(job))
            await session.asked.wait()
            submitting.cancel()
            with pytest.raises(grpc.aio.AioRpcError):  # the dispatcher has noticed by now that no client waits
                await dispatcher.stub.get_job(JobRequest(job.job_id))
            session.resume()

            async def is_known() -> bool:
                listed = await dispatcher.http("GET", f"/jobs/{job.job_id}")
                return bool(listed.status == 200)

            await eventually(is_known)
    told = [record.message for record in caplog.records if record.name == "millstream.audit"]
    assert len(told) == 1
    assert job.job_id in told[0]


@pytest.mark.parametrize("capacity", ["0", "10"])
async def test_a_graph_stays_until_a_job_manager_has_removed_everything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capacity: str
) -> None:
    monkeypatch.setattr(durable_jobs, "_RETRY", 0.05)
    options, store = configuration(tmp_path, **{"jobstore.max-capacity": capacity}), MemoryStore()
    job = graph()
    pointers, result = Key(Kind.CHECKPOINTS, job.job_id), Key(Kind.JOB_RESULT, job.job_id)
    manager_session = store.connect()
    async with dispatching(options, followed(store.connect(), options)) as dispatcher:
        await led(dispatcher)
        async with dispatcher.running_job(job) as manager:
            leadership = await leading(manager_session, job.job_id)
            await manager_session.write(pointers, b"{}", ABSENT, leadership)
            manager.report(JobDetails(job.job_id, job.name, JobStatus.FINISHED, epoch=leadership.epoch))
            await manager.next(ForgetJob)
            assert store.names(Kind.JOB_GRAPH) == [job.job_id]
            manager_session.lose()  # it was killed over the clean-up
            manager_session.resume()
            assert (await manager.next(StartJob)).graph.job_id == job.job_id
            assert (await manager.next(StartJob)).graph.job_id == job.job_id, "until it is done"
            assert store.entry(result) is not None, "a process that finds the graph must not run the job"
            leadership = await leading(manager_session, job.job_id)
            await manager_session.remove(pointers, 1, leadership)
            await manager_session.resign(leadership)
            await eventually(lambda: not store.names(Kind.JOB_GRAPH))
            await eventually(lambda: (store.entry(result) is None) == (capacity == "0"))


async def test_a_dispatcher_that_remembers_no_ended_jobs_leads_though_it_finds_one(tmp_path: Path) -> None:
    options, store = configuration(tmp_path, **{"jobstore.max-capacity": "0"}), MemoryStore()
    job = graph()
    first = followed(store.connect(), options)
    async with dispatching(options, first) as dispatcher:
        await led(dispatcher)
        async with dispatcher.running_job(job) as manager:
            holding = store.connect()
            leadership = await leading(holding, job.job_id)
            manager.report(JobDetails(job.job_id, job.name, JobStatus.FINISHED, epoch=leadership.epoch))
            await manager.next(ForgetJob)
    assert store.names(Kind.JOB_GRAPH) == store.names(Kind.JOB_RESULT) == [job.job_id]
    holding.lose()
    second = replace(first, store=store.connect())
    async with dispatching(options, second) as dispatcher:
        await led(dispatcher)
        await eventually(lambda: not store.names(Kind.JOB_GRAPH) and not store.names(Kind.JOB_RESULT))
