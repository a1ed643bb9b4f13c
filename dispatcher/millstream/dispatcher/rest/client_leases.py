"""Jobs that last as long as their client: it reports that it is alive, and a job whose client does not is cancelled.

Only of jobs whose client has reported at least once. Leases are kept by the dispatcher that leads: a client reports to
the next one as well, and until then its job continues. Owned by the dispatcher's loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from millstream.core.clock import Clock
from millstream.core.errors import MillstreamError
from millstream.core.jobs.ids import JobId
from millstream.core.processes.background import BackgroundTasks

log = logging.getLogger(__name__)
_LONGEST = 86_400.0  # seconds that are waited at once


class ClientLeases:
    """The leases of one dispatcher. `cancel` cancels a job, and raises MillstreamError for one that has ended."""

    def __init__(self, clock: Clock, cancel: Callable[[JobId], Awaitable[None]]) -> None:
        self._clock = clock
        self._cancel = cancel
        self._until: dict[JobId, int] = {}
        self._timers: dict[JobId, asyncio.TimerHandle] = {}
        self._background = BackgroundTasks()

    def renew(self, job_id: JobId, until_ms: int) -> None:
        """The client is alive, and reports again before this time since 1970."""
        self._until[job_id] = until_ms
        self._wait(job_id)

    def _wait(self, job_id: JobId) -> None:
        self._forget_timer(job_id)
        seconds = min(max(0.0, (self._until[job_id] - self._clock.now_ms()) / 1000), _LONGEST)
        self._timers[job_id] = asyncio.get_running_loop().call_later(seconds, self._look, job_id)

    def _look(self, job_id: JobId) -> None:
        if self._clock.now_ms() < self._until[job_id]:
            self._wait(job_id)
            return
        del self._until[job_id], self._timers[job_id]
        self._background.spawn(self._end(job_id))

    async def _end(self, job_id: JobId) -> None:
        log.warning("cancelling job %s: its client has sent no heartbeat in time", job_id)
        try:
            await self._cancel(job_id)
        except MillstreamError as error:
            log.info("did not cancel job %s: %s", job_id, error)

    def _forget_timer(self, job_id: JobId) -> None:
        timer = self._timers.pop(job_id, None)
        if timer is not None:
            timer.cancel()

    async def close(self) -> None:
        """Ends what waits."""
        for job_id in list(self._timers):
            self._forget_timer(job_id)
        await self._background.cancel()
