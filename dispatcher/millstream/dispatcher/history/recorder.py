"""Records the history of jobs once in a slot, for as long as this dispatcher leads. Owned by the dispatcher's loop.

A round costs some microseconds a figure, and nothing is sent for it: job managers report jobs anyway. Only metrics that
a page has plotted, and that reports do not hold, are fetched, every ten seconds.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from millstream.core.clock import Clock
from millstream.core.errors import MillstreamError
from millstream.core.jobs.details import JobDetails
from millstream.core.metrics.model import Number
from millstream.dispatcher.history.history import History, Place
from millstream.dispatcher.history.rings import SLOT_S
from millstream.dispatcher.metrics.fetcher import MetricFetcher

log = logging.getLogger(__name__)
_FETCHED_EVERY = 5


class Jobs(Protocol):
    """What is recorded: the jobs of the dispatcher."""

    @property
    def leads(self) -> bool:
        """Whether it knows them."""

    def all(self) -> list[JobDetails]:
        """All of them; only while it leads."""


class HistoryRecorder:
    """`history` is that of the time since this dispatcher leads; it is empty when it leads again."""

    def __init__(self, jobs: Jobs, fetcher: MetricFetcher, clock: Clock) -> None:
        self._jobs = jobs
        self._fetcher = fetcher
        self._clock = clock
        self._fetched: dict[Place, dict[str, Number]] = {}
        self._rounds = 0
        self._task: asyncio.Task[None] | None = None
        self.history = self._empty()

    def _slot(self) -> int:
        return int(self._clock.monotonic() / SLOT_S)

    def _empty(self) -> History:
        return History(self._slot(), self._clock.now_ms())

    def start(self) -> None:
        """Records from now on."""
        self._task = asyncio.create_task(self._record_repeatedly())

    async def close(self) -> None:
        """Ends it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _record_repeatedly(self) -> None:
        while True:
            await self.record()
            await asyncio.sleep((self._slot() + 1) * SLOT_S - self._clock.monotonic())

    async def record(self) -> None:
        """Records the slot that it is now, or forgets everything while another dispatcher leads."""
        if not self._jobs.leads:
            self.history = self._empty()
            self._rounds = 0
            return
        self.history.tick(self._slot(), self._clock.now_ms(), self._jobs.all())
        if self._rounds % _FETCHED_EVERY == 0:
            await self._fetch()
        self._rounds += 1
        for place, values in self._fetched.items():
            self.history.put(place, values)

    async def _fetch(self) -> None:
        watched, self._fetched = self.history.watched, {}
        if not watched:
            return
        try:
            store = await self._fetcher.fresh()
        except MillstreamError as error:
            log.debug("recording no metrics now: %s", error)
            return
        for job_id, vertex in watched:
            of_vertex = store.vertex(job_id, vertex)
            self._fetched[job_id, vertex] = {
                f"{subtask}.{name}": value for subtask, values in of_vertex.items() for name, value in values.items()
            }
