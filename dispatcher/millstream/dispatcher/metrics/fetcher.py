"""Fetches the metrics of all processes: at most once in an interval, and only while somebody asks.

As Flink's MetricFetcher. All processes are asked at once, and those that do not answer in time are left out: one that
hangs holds no answer up for longer than that. Who asks while a round is under way waits for that round. Owned by the
dispatcher's loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

import grpc
from msgspec import Struct

from millstream.core.clock import Clock
from millstream.core.errors import MillstreamError
from millstream.core.messages.metrics import ProcessMetrics
from millstream.core.messages.session import Empty
from millstream.core.metrics.model import decode_groups
from millstream.core.services.rpc import Stub, explain, open_channel
from millstream.core.settings.configuration import Configuration
from millstream.core.wire.contract import ServiceContract
from millstream.core.wire.contracts import JOB_MANAGER, TASK_MANAGER
from millstream.dispatcher.cluster_view import ClusterView
from millstream.dispatcher.lifecycle import JobLifecycle
from millstream.dispatcher.metrics.store import MetricStore

log = logging.getLogger(__name__)
TIMEOUT = 2.0
_INTERVALS_KEPT = 5
_LEAST_KEPT = 10.0


class Process(Struct, frozen=True):
    """One to ask."""

    address: str
    contract: ServiceContract


Ask = Callable[[Process], Awaitable[bytes]]
Processes = Callable[[], Awaitable[list[Process]]]


class MetricFetcher:
    """Keeps a store up to date while it is looked at. `ask` gets the encoded groups of a process."""

    def __init__(self, interval: float, processes: Processes, ask: Ask, clock: Clock) -> None:
        self.store = MetricStore(max(_INTERVALS_KEPT * interval, _LEAST_KEPT))
        self._interval = interval
        self._processes = processes
        self._ask = ask
        self._clock = clock
        self._fetched_at: float | None = None
        self._round: asyncio.Task[None] | None = None
        self._silent: set[str] = set()

    async def fresh(self) -> MetricStore:
        """The store, with nothing in it that is older than the interval, but for processes that do not answer."""
        if self._round is None and (
            self._fetched_at is None or self._clock.monotonic() - self._fetched_at >= self._interval
        ):
            self._round = asyncio.get_running_loop().create_task(self._fetch())
        if self._round is not None:
            await asyncio.shield(self._round)
        return self.store

    async def close(self) -> None:
        """Ends a round that is under way."""
        if self._round is not None:
            self._round.cancel()
            await asyncio.gather(self._round, return_exceptions=True)

    async def _fetch(self) -> None:
        try:
            processes = {process.address: process for process in await self._processes()}
            self.store.keep(processes, self._clock.monotonic())
            self._silent &= processes.keys()
            await asyncio.gather(*(self._fetch_one(process) for process in processes.values()))
        finally:
            self._fetched_at = self._clock.monotonic()
            self._round = None

    async def _fetch_one(self, process: Process) -> None:
        try:
            async with asyncio.timeout(TIMEOUT):
                groups = decode_groups(await self._ask(process))
        except (grpc.RpcError, MillstreamError, TimeoutError, OSError) as error:
            if process.address not in self._silent:
                self._silent.add(process.address)
                why = explain(error) if isinstance(error, grpc.RpcError) else error
                log.warning("the process at %s does not tell its metrics: %s", process.address, why or "too late")
            return
        self._silent.discard(process.address)
        self.store.put(process.address, groups, self._clock.monotonic())


class ClusterProcesses:
    """The processes of a cluster, over connections that are kept while they are there."""

    def __init__(self, lifecycle: JobLifecycle, cluster: ClusterView, configuration: Configuration) -> None:
        self._lifecycle = lifecycle
        self._cluster = cluster
        self._configuration = configuration
        self._channels: dict[str, grpc.aio.Channel] = {}

    async def known(self) -> list[Process]:
        """Task managers that are registered, and job managers that are connected."""
        overview = await self._cluster.overview()
        found = [Process(manager.address, TASK_MANAGER) for manager in overview.task_managers]
        found += [Process(address, JOB_MANAGER) for address in self._lifecycle.job_managers]
        await self._let_go({process.address: process for process in found})
        return found

    async def ask(self, process: Process) -> bytes:
        """What it measures."""
        channel = self._channels.get(process.address)
        if channel is None:
            channel = self._channels[process.address] = open_channel(process.address, self._configuration)
        answer: ProcessMetrics = await Stub(channel, process.contract).get_metrics(Empty(), timeout=TIMEOUT)
        return answer.groups

    async def close(self) -> None:
        """Releases the connections."""
        await self._let_go({})

    async def _let_go(self, wanted: Mapping[str, Process]) -> None:
        gone = [address for address in self._channels if address not in wanted]
        for address in gone:
            await self._channels.pop(address).close()
