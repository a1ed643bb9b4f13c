"""The candidacies of a job manager for the leadership of jobs that it was assigned, from the request to their end.

The job manager that runs a job is its leader in the store. Without high availability it becomes the leader at once;
with it, an earlier leader has to be gone. A job that has ended by then, according to the store, is not run again: its
end is reported, and what its leader left behind is deleted.

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
    """The callbacks of the job manager."""

    def won(self, graph: JobGraph, led: Led) -> None:
        """Runs the job, whose leader this job manager has become."""
        ...

    def found_ended(self, result: JobDetails) -> None:
        """Reports a job that has ended under an earlier leader."""
        ...

    def delete_left_over(self, graph: JobGraph, result: JobDetails, stored: JobPointers) -> None:
        """Deletes what that leader left behind. Blocks, on another thread. Raises MillstreamError and OSError."""
        ...

    def lost(self, job_id: JobId) -> None:
        """Stops the job, whose leadership this job manager has lost, unless it resigned by itself."""
        ...


class Candidacies:
    """The candidacies of one job manager, which is reachable at `address`."""

    def __init__(self, ha: HighAvailability, address: str, manager: Manager, clock: Clock) -> None:
        self._ha = ha
        self._clock = clock
        self._candidate = Candidate(ha.store, address)
        self._manager = manager
        self._running: dict[JobId, asyncio.Task[None]] = {}
        self._watching: dict[JobId, asyncio.Task[None]] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    def run_for(self, graph: JobGraph) -> None:
        """Becomes a candidate for the leadership of a job that does not run here; does nothing if it is one already.

        If an ended run of the job is still being cleaned up here, the candidate waits until that has finished.
        """
        job_id = graph.job_id
        if job_id not in self._running:
            task = self._running[job_id] = asyncio.ensure_future(self._lead(graph))
            task.add_done_callback(lambda done: self._ended(self._running, job_id, done))

    def is_candidate(self, job_id: JobId) -> bool:
        """Whether this job manager is a candidate for the leadership of the job."""
        return job_id in self._running

    def withdraw(self, job_id: JobId) -> None:
        """Withdraws the candidacy for a job, if there is one."""
        if (task := self._running.pop(job_id, None)) is not None:
            task.cancel()

    def withdraw_all(self) -> None:
        """Withdraws all candidacies that are not won yet."""
        for job_id in list(self._running):
            self.withdraw(job_id)

    def left(self, job_id: JobId) -> None:
        """Stops watching the leadership of a job from which this job manager has resigned."""
        if (task := self._watching.pop(job_id, None)) is not None:
            task.cancel()

    async def close(self) -> None:
        """Withdraws all candidacies; leaderships end with the session."""
        tasks = [*self._running.values(), *self._watching.values(), *self._leaving]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def record_end(self, details: JobDetails, leadership: Leadership) -> None:
        """See `Links`; without high availability there is no next leader to record it for."""
        if self._ha.recovers:
            await JobResultStore(self._ha.store, self._ha.results, leadership).add(details)

    async def _lead(self, graph: JobGraph) -> None:
        points = RestorePoints(graph.job_id, self._candidate)
        try:
            led = await points.lead()
            results = JobResultStore(self._ha.store, self._ha.results, led.leadership)
            result = await until_reached(lambda: results.get(graph.job_id)) if self._ha.recovers else None
            if result is not None:
                log.info("job %s: not running it, since it has already ended as %s", graph.job_id, result.state)
                self._manager.found_ended(result)
                await self._clean_up(graph, result, led)
                return
            led = await points.begin(led, self._clock.now_ms())
        except StoreError as error:
            log.warning("job %s: giving up the candidacy for its leadership: %s", graph.job_id, error)
            return
        except asyncio.CancelledError:  # it may have become the leader, and no other job manager could while it lives
            self._spawn(points.resign())
            raise
        self._running.pop(graph.job_id, None)
        self.left(graph.job_id)  # an earlier leadership is being watched
        watching = self._watching[graph.job_id] = asyncio.ensure_future(self._watch(graph.job_id, led.leadership))
        watching.add_done_callback(lambda done: self._ended(self._watching, graph.job_id, done))
        self._manager.won(graph, led)

    async def _clean_up(self, graph: JobGraph, result: JobDetails, led: Led) -> None:
        """Deletes the pointers last: while there are any, the dispatcher has the cleanup repeated."""
        try:
            if led.follows:
                await asyncio.to_thread(self._manager.delete_left_over, graph, result, led.stored)
        except (MillstreamError, OSError) as error:
            log.warning("job %s: cleaning up after its end failed, and will be retried: %s", graph.job_id, error)
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
            log.debug("resigning failed, the leadership ends with the session: %s", task.exception())

    async def _watch(self, job_id: JobId, leadership: Leadership) -> None:
        await self._ha.store.changed(leadership.contest, leadership.epoch)
        del self._watching[job_id]
        self._manager.lost(job_id)

    def _ended(self, tasks: dict[JobId, asyncio.Task[None]], job_id: JobId, task: asyncio.Task[None]) -> None:
        if tasks.get(job_id) is task:
            del tasks[job_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("job %s: its leadership failed", job_id, exc_info=error)
