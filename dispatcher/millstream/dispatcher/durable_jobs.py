"""What the dispatcher keeps of its jobs in the store, for the dispatcher that follows it.

Owned by the dispatcher's loop, for one term of its leadership. What is to be cleaned up is tried for as long as the
term lasts, and the next one continues with it. Of a job that has ended, its job manager deletes its checkpoints and
last its pointers; if it died over that, another one has to. Only then the graph goes, and only then the result
may.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import Struct

from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import ANY_EPOCH, JobId
from millstream.core.processes.background import BackgroundTasks
from millstream.core.services.leader_lookup import Role
from millstream.core.store.changes import leader_of, read
from millstream.core.store.contents import NoContentError
from millstream.core.store.high_availability import HighAvailability
from millstream.core.store.job_graphs import JobGraphStore, StoredGraph
from millstream.core.store.job_results import JobResultStore
from millstream.core.store.store import Contest, Key, Kind, Leadership, StoreError

log = logging.getLogger(__name__)
_RETRY = 5.0  # seconds after which a job manager is requested again to clean up


class LeftJob(Struct, frozen=True):
    """A job that an earlier dispatcher took; with its end, if it has ended."""

    job_id: JobId
    graph: StoredGraph | None
    result: JobDetails | None


class DurableJobs:
    """One term's. `recovers`: later terms read it; without them only what this process needs is kept."""

    def __init__(self, ha: HighAvailability, leadership: Leadership, background: BackgroundTasks) -> None:
        self.recovers = ha.recovers
        self._store = ha.store
        self._background = background
        self._recalling = asyncio.Lock()  # a recall and its withdrawal take effect in their order
        self._gone: dict[JobId, asyncio.Event] = {}
        self._graphs = JobGraphStore(ha.store, ha.graphs, leadership)
        self._results = JobResultStore(ha.store, ha.results, leadership)

    async def left(self) -> list[LeftJob]:
        """Everything that earlier terms left, in the order in which jobs began as far as that is known."""
        found: list[LeftJob] = []
        for job_id in sorted({*await self._graphs.job_ids(), *await self._results.job_ids()}):
            try:
                job = LeftJob(job_id, await self._graphs.get(job_id), await self._results.get(job_id))
            except NoContentError as error:
                log.error("cannot recover job %s, its graph is lost: %s", job_id, error)
            else:
                found.append(job)
        return sorted(found, key=lambda job: job.result.start_time if job.result is not None else 0)

    async def add(self, graph: JobGraph) -> StoredGraph:
        """Returns when the job cannot be lost any more. Raises InvalidProgramError when it was there already."""
        if self.recovers and await self._results.has(graph.job_id):
            raise InvalidProgramError(f"a job with the id {graph.job_id} was already submitted, and has ended")
        return await self._graphs.add(graph)

    async def cancel(self, job_id: JobId) -> None:
        """Returns when the cancellation is in the store, for the dispatchers that follow."""
        if self.recovers:
            await self._graphs.cancel(job_id)

    def taken(self, graph: StoredGraph) -> bool:
        """A job manager has the job; whether the graph goes now, since no other one can need it."""
        if not self.recovers:
            self._spawn(self._graphs.remove, graph)
        return not self.recovers

    def ended(self, details: JobDetails, graph: StoredGraph | None, have_cleaned: Callable[[JobGraph], None]) -> None:
        """The job has ended: its graph goes, once its end is known for good and nothing else is left of it.

        With `have_cleaned` a job manager is requested to clean up, if there is one.
        """
        self._spawn(self._end, details, graph, have_cleaned, self._gone.setdefault(details.job_id, asyncio.Event()))

    async def _end(
        self,
        details: JobDetails,
        graph: StoredGraph | None,
        have_cleaned: Callable[[JobGraph], None],
        gone: asyncio.Event,
    ) -> None:
        if self.recovers and not await self._results.has(details.job_id):
            await self._results.add(details)
        if graph is not None:
            if self.recovers:
                await self._cleaned(graph.graph, have_cleaned)
            await self._graphs.remove(graph)
        gone.set()

    async def _cleaned(self, graph: JobGraph, have_cleaned: Callable[[JobGraph], None]) -> None:
        contest = Contest(Role.JOB_MANAGER, graph.job_id)
        while True:
            await self.leader_lost(graph.job_id)
            if await read(self._store, Key(Kind.CHECKPOINTS, graph.job_id)) is None:
                return
            have_cleaned(graph)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._store.changed(contest, ANY_EPOCH), _RETRY)

    def forget(self, job_id: JobId) -> None:
        """Forgets the job. Its result stays until its graph is gone: a dispatcher that finds a graph alone runs it."""
        if self.recovers:
            self._spawn(self._forget, job_id, self._gone.pop(job_id, None))

    async def _forget(self, job_id: JobId, gone: asyncio.Event | None) -> None:
        if gone is not None:
            await gone.wait()
        await self._results.remove(job_id)

    def recall(self, job_id: JobId, withdrawn: bool) -> None:
        """The leader of the job is to leave it to another job manager; `withdrawn`: not any more."""
        self._spawn(self._recall, job_id, withdrawn)

    async def _recall(self, job_id: JobId, withdrawn: bool) -> None:
        async with self._recalling:
            leader = None if withdrawn else await leader_of(self._store, Contest(Role.JOB_MANAGER, job_id))
            if withdrawn or leader is not None:
                await self._graphs.recall(job_id, leader.epoch if leader is not None else ANY_EPOCH)

    async def leader_lost(self, job_id: JobId) -> None:
        """Returns when no job manager leads the job."""
        contest = Contest(Role.JOB_MANAGER, job_id)
        while (leader := await leader_of(self._store, contest)) is not None:
            await self._store.changed(contest, leader.epoch)

    def _spawn(self, work: Callable[..., Coroutine[Any, Any, None]], *arguments: Any) -> None:
        self._background.spawn(_unless_over(work, *arguments))


async def _unless_over(work: Callable[..., Coroutine[Any, Any, None]], *arguments: Any) -> None:
    try:
        await work(*arguments)
    except StoreError as error:
        log.warning("left the remaining work to the dispatcher that leads now: %s", error)
