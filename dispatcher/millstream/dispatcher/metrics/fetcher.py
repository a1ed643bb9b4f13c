"""Fetches the metrics of all processes: at most once in an interval, and only while clients request them.

As Flink's MetricFetcher. All processes are queried at once, and those that do not respond in time are left out: one
that hangs delays no request for longer than that. A request that finds everything too old waits for the round that is
in progress. Periodic requests, as dashboards send them, do not: after a round that was requested, the next one begins
by itself, in time to be over when the result of the last one is too old. Owned by the dispatcher's loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection

from millstream.core.clock import Clock
from millstream.core.errors import MillstreamError
from millstream.core.metrics.model import decode_groups
from millstream.dispatcher.metrics.store import MetricStore

log = logging.getLogger(__name__)
TIMEOUT = 2.0
_INTERVALS_KEPT = 5
_LEAST_KEPT = 10.0
_ROOM = 2.0  # times what a round took last


Fetch = Callable[[str], Awaitable[bytes]]
Processes = Callable[[], Awaitable[Collection[str]]]


class MetricFetcher:
    """Keeps a store up to date while it is read. `fetch` gets the encoded groups of the process at an address."""

    def __init__(self, interval: float, processes: Processes, fetch: Fetch, clock: Clock) -> None:
        self.store = MetricStore(max(_INTERVALS_KEPT * interval, _LEAST_KEPT))
        self._interval = interval
        self._processes = processes
        self._fetch_from = fetch
        self._clock = clock
        self._fetched_at: float | None = None
        self._is_wanted = False
        self._round: asyncio.Task[None] | None = None
        self._next: asyncio.TimerHandle | None = None
        self._silent: set[str] = set()

    async def fresh(self) -> MetricStore:
        """The store, with nothing in it that is older than the interval, but for processes that do not respond."""
        self._is_wanted = True
        if self._fetched_at is None or self._clock.monotonic() - self._fetched_at >= self._interval:
            await asyncio.shield(self._begin())
        return self.store

    def _begin(self) -> asyncio.Task[None]:
        """The round that is in progress, or a new one."""
        if self._round is None:
            self._round = asyncio.get_running_loop().create_task(self._fetch())
        return self._round

    def _begin_if_wanted(self) -> None:
        wanted, self._is_wanted = self._is_wanted, False
        if wanted:
            self._begin()

    async def close(self) -> None:
        """Ends a round that is in progress, and begins no other."""
        if self._round is not None:
            self._round.cancel()
            await asyncio.gather(self._round, return_exceptions=True)
        if self._next is not None:
            self._next.cancel()

    async def _fetch(self) -> None:
        began = self._clock.monotonic()
        if self._next is not None:
            self._next.cancel()
        try:
            addresses = set(await self._processes())
            self.store.keep(addresses, self._clock.monotonic())
            self._silent &= addresses
            await asyncio.gather(*map(self._fetch_one, addresses))
        finally:
            self._fetched_at = now = self._clock.monotonic()
            self._round = None
            pause = max(self._interval - _ROOM * (now - began), self._interval / 2)
            self._next = asyncio.get_running_loop().call_later(pause, self._begin_if_wanted)

    async def _fetch_one(self, address: str) -> None:
        try:
            async with asyncio.timeout(TIMEOUT):
                groups = decode_groups(await self._fetch_from(address))
        except (MillstreamError, TimeoutError, OSError) as error:
            if address not in self._silent:
                self._silent.add(address)
                log.warning("cannot fetch metrics of the process at %s: %s", address, str(error) or "timed out")
            return
        self._silent.discard(address)
        self.store.put(address, groups, self._clock.monotonic())
