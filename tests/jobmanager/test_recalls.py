"""A job manager that no dispatcher reaches leaves the jobs that are recalled, and no others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import ANY_EPOCH, JobId, LeaderEpoch
from millstream.core.services.leader_lookup import Role
from millstream.core.settings.configuration import Configuration
from millstream.core.store.contents import MemoryContents
from millstream.core.store.job_graphs import JobGraphStore
from millstream.core.store.memory import MemorySession, MemoryStore
from millstream.core.store.store import Contest, Entry, Key
from millstream.jobmanager.recalls import Recalls

JOB, OTHER = JobId("job"), JobId("other")
EPOCHS = {JOB: LeaderEpoch(7), OTHER: LeaderEpoch(8)}


class SeenSession(MemorySession):
    """Reports each read."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.asked: asyncio.Queue[Key] = asyncio.Queue()

    async def read(self, key: Key) -> Entry | None:
        self.asked.put_nowait(key)
        return await super().read(key)


class Setting:
    def __init__(self, store: MemoryStore, graphs: JobGraphStore) -> None:
        self.session = SeenSession(store)
        self.graphs = graphs
        self.led = dict(EPOCHS)
        self.left: asyncio.Queue[JobId] = asyncio.Queue()
        options = {"heartbeat.interval": "10 ms", "heartbeat.timeout": "30 ms"}
        self.recalls = Recalls(self.session, Configuration(options), lambda: dict(self.led), self._leave)

    def _leave(self, job_id: JobId) -> None:
        del self.led[job_id]
        self.left.put_nowait(job_id)

    async def looked(self) -> None:
        """Twice at all of them: what it saw the first time has had its effect."""
        for _ in range(2 * len(self.led) + 1):
            await self.session.asked.get()


@asynccontextmanager
async def setting() -> AsyncIterator[Setting]:
    store = MemoryStore()
    dispatcher = store.connect()
    graphs = JobGraphStore(dispatcher, MemoryContents(), await dispatcher.campaign(Contest(Role.DISPATCHER), "host:1"))
    for job_id in EPOCHS:
        await graphs.add(JobGraph(job_id, "a job", (), ()))
    there = Setting(store, graphs)
    watching = asyncio.create_task(there.recalls.watch())
    try:
        async with asyncio.timeout(60):
            yield there
    finally:
        watching.cancel()


async def test_out_of_touch_it_leaves_what_is_recalled_and_keeps_the_rest() -> None:
    async with setting() as there:
        await there.graphs.recall(JOB, EPOCHS[JOB])
        there.recalls.out_of_touch()
        assert await there.left.get() == JOB
        await there.looked()
        assert there.left.empty()
        assert [*there.led] == [OTHER]


async def test_silence_alone_and_recalls_of_others_are_no_reason() -> None:
    async with setting() as there:
        await there.graphs.recall(JOB, LeaderEpoch(EPOCHS[JOB] - 1))
        await there.graphs.recall(OTHER, ANY_EPOCH)
        there.recalls.out_of_touch()
        await there.looked()
        assert there.left.empty()


async def test_in_touch_with_the_dispatcher_nothing_is_left_or_even_looked_for() -> None:
    async with setting() as there:
        there.recalls.out_of_touch()
        await there.looked()
        there.recalls.in_touch()
        await there.graphs.recall(JOB, EPOCHS[JOB])
        while not there.session.asked.empty():
            there.session.asked.get_nowait()
        await there.recalls.look()
        assert there.left.empty()
        assert there.session.asked.empty()


async def test_a_store_that_does_not_respond_is_read_again_later() -> None:
    async with setting() as there:
        await there.graphs.recall(JOB, EPOCHS[JOB])
        there.session.suspend()
        there.recalls.out_of_touch()
        await there.session.asked.get()
        await there.session.asked.get()
        there.session.resume()
        assert await there.left.get() == JOB
