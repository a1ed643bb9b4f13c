"""The jobs that this job manager was told to run, until it leads them, and the end of that.

Whoever runs a job leads it in the store. Without high availability that is at once so; with it, an earlier leader has
to be gone. A job that has ended by then, as the store says, is not run again: only that it has ended is told, and what
its leader left of it is cleaned up.

Owned by the job manager's loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Protocol

from millstream.core.clock import Clock
from millstream.core.errors import MillstreamError
from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import JobId
from millstream.core.store.checkpoint_pointers import JobPointers
from millstream.core.store.contents import until_reached
from millstream.core.store.high_availability import HighAvailability
from millstream.core.store.job_results import JobResultStore
from millstream.core.store.leaders import Candidate
from millstream.core.store.store import Leadership, StoreError
from millstream.jobmanager.restore_points import Led, RestorePoints

log = logging.getLogger(__name__)


class Manager(Protocol):
    """What the job manager does about it."""

    def won(self, graph: JobGraph, led: Led) -> None:
        """It leads the job."""
        ...

    def found_ended(self, result: JobDetails) -> None:
        """The job has ended under an earlier leader."""
        ...

    def delete_left_over(self, graph: JobGraph, result: JobDetails, stored: JobPointers) -> None:
        """What that leader left of it. Blocks, on another thread. Raises MillstreamError and OSError."""
        ...

    def lost(self, job_id: JobId) -> None:
        """It leads the job no more, unless it has left it by itself."""
        ...


class Candidacies:
    """Of one job manager, which is reached at `address`."""

    def __init__(self, ha: HighAvailability, address: str, manager: Manager, clock: Clock) -> None:
        self._ha = ha
        self._clock = clock
        self._candidate = Candidate(ha.store, address)
        self._manager = manager
        self._running: dict[JobId, asyncio.Task[None]] = {}
        self._watching: dict[JobId, asyncio.Task[None]] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    def stand(self, graph: JobGraph) -> None:
        """For the leadership of a job that is not run here; a second time changes nothing.

        It may still be led here, by a run that has ended and is being cleaned up: the candidate waits for the end.
        """
        job_id = graph.job_id
        if job_id not in self._running:
            task = self._running[job_id] = asyncio.ensure_future(self._lead(graph))
            task.add_done_callback(lambda done: self._ended(self._running, job_id, done))

    def stands_for(self, job_id: JobId) -> bool:
        """Whether the job may come to be led here."""
        return job_id in self._running

    def stand_down(self, job_id: JobId) -> None:
        """From the candidacy, if there is one."""
        if (task := self._running.pop(job_id, None)) is not None:
            task.cancel()

    def stand_down_all(self) -> None:
        """From all that are not won yet."""
        for job_id in list(self._running):
            self.stand_down(job_id)

    def left(self, job_id: JobId) -> None:
        """The job is this job manager's no more, by its own will."""
        if (task := self._watching.pop(job_id, None)) is not None:
            task.cancel()

    async def close(self) -> None:
        """Ends everything here; what is led ends with the session."""
        tasks = [*self._running.values(), *self._watching.values(), *self._leaving]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def record_end(self, details: JobDetails, leadership: Leadership) -> None:
        """See `Links`; without high availability nobody follows who would want to know."""
        if self._ha.recovers:
            await JobResultStore(self._ha.store, self._ha.results, leadership).add(details)

    async def _lead(self, graph: JobGraph) -> None:
        points = RestorePoints(graph.job_id, self._candidate)
        try:
            led = await points.lead()
            results = JobResultStore(self._ha.store, self._ha.results, led.leadership)
            result = await until_reached(lambda: results.get(graph.job_id)) if self._ha.recovers else None
            if result is not None:
                log.info("job %s has ended before, as %s", graph.job_id, result.state)
                self._manager.found_ended(result)
                await self._clean_up(graph, result, led)
                return
            led = await points.begin(led, self._clock.now_ms())
        except StoreError as error:
            log.warning("job %s is not led: %s", graph.job_id, error)
            return
        except asyncio.CancelledError:  # it may be led by now, and nobody else could as long as this one lives
            self._spawn(points.resign())
            raise
        self._running.pop(graph.job_id, None)
        self.left(graph.job_id)  # what is watched is an earlier leadership
        watching = self._watching[graph.job_id] = asyncio.ensure_future(self._watch(graph.job_id, led.leadership))
        watching.add_done_callback(lambda done: self._ended(self._watching, graph.job_id, done))
        self._manager.won(graph, led)

    async def _clean_up(self, graph: JobGraph, result: JobDetails, led: Led) -> None:
        """The pointers go last: while there are any, the dispatcher has the job looked at again."""
        try:
            if led.follows:
                await asyncio.to_thread(self._manager.delete_left_over, graph, result, led.stored)
        except (MillstreamError, OSError) as error:
            log.warning("job %s has ended, and what is left of it cannot be deleted now: %s", graph.job_id, error)
            await led.points.resign()
        else:
            await led.points.leave(keeps_pointers=False)

    def _spawn(self, leaving: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(leaving)
        self._leaving.add(task)
        task.add_done_callback(self._left)

    def _left(self, task: asyncio.Task[None]) -> None:
        self._leaving.discard(task)
        if not task.cancelled() and isinstance(task.exception(), StoreError):
            log.debug("left with the session: %s", task.exception())

    async def _watch(self, job_id: JobId, leadership: Leadership) -> None:
        await self._ha.store.changed(leadership.contest, leadership.epoch)
        del self._watching[job_id]
        self._manager.lost(job_id)

    def _ended(self, tasks: dict[JobId, asyncio.Task[None]], job_id: JobId, task: asyncio.Task[None]) -> None:
        if tasks.get(job_id) is task:
            del tasks[job_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("job %s cannot be led", job_id, exc_info=error)
