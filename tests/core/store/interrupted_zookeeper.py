"""The store on ZooKeeper as the suites use it: each session behind a proxy, which interrupts it for real."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from store_implementations import IN_LINE
from waiting import wait_until
from zookeeper_process import ZookeeperProcess
from zookeeper_proxy import ZookeeperProxy

from millstream.core.jobs.ids import LeaderEpoch
from millstream.core.services.leader_lookup import KnownLeader, Role
from millstream.core.store.store import (
    Contest,
    Entry,
    Key,
    Kind,
    Leadership,
    SessionLostError,
    StoreError,
    SuspendedError,
)
from millstream.core.store.zookeeper.layout import Layout, in_order
from millstream.core.store.zookeeper.settings import ZookeeperSettings
from millstream.core.store.zookeeper.store import ZookeeperStore

PATIENT = 60.0
"""Seconds: no session expires by itself, however slow the machine is; tests end them."""
_roots = itertools.count(1)


class ZookeeperServer(AbstractAsyncContextManager["ZookeeperServer"]):
    """A `StoreServer`: a store of its own in the one ZooKeeper of the tests.

    Tests that create sessions enter it, so that those are closed on the loop that owns them.
    """

    def __init__(self, process: ZookeeperProcess, observer: KazooClient) -> None:
        self.process = process
        self.observer = observer
        self._sessions: list[InterruptedZookeeper] = []
        self.use_another_root()

    def use_another_root(self) -> None:
        """Switches to an empty store."""
        self.root = f"/tests/{next(_roots)}"
        self.layout = Layout(self.root)

    def connect(self) -> InterruptedZookeeper:
        self._sessions.append(InterruptedZookeeper(self))
        return self._sessions[-1]

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def settle(self) -> None:
        for session in self._sessions:
            await session.settled()

    async def close(self) -> None:
        await asyncio.gather(*(session.close() for session in self._sessions))
        for session in self._sessions:
            await asyncio.to_thread(session.proxy.close)
        self._sessions.clear()

    def candidates(self, contest: Contest) -> list[str]:
        """Their addresses, in order. Blocks."""
        line = self.layout.line(contest)
        addresses = []
        with suppress(NoNodeError):
            for name in in_order(self.observer.get_children(line)):
                with suppress(NoNodeError):
                    addresses.append(self.observer.get(f"{line}/{name}")[0].decode())
        return addresses


class InterruptedZookeeper:
    """An `InterruptedStore`.

    The session is notified of an interruption of the connection before the next call to it.
    """

    def __init__(self, server: ZookeeperServer) -> None:
        self.proxy = ZookeeperProxy(server.process.port)
        self._server = server
        self._settings = ZookeeperSettings(f"127.0.0.1:{self.proxy.port}", server.root, PATIENT)
        self._store: ZookeeperStore | None = None
        self._learning: asyncio.Task[None] | None = None
        self._interrupted = False

    # Interruptions

    def suspend(self) -> None:
        self._interrupted = True
        self.proxy.suspend()
        self._learn(self._until(SuspendedError))

    def suspend_within_write(self, takes_effect: bool) -> None:
        self.proxy.break_off_in_transaction(takes_effect)

    def lose(self) -> None:
        self._interrupted = True
        self.proxy.lose()
        self._learn(self._until(SessionLostError))

    def resume(self) -> None:
        self._interrupted = False
        self._learn(self._resumed())

    def _learn(self, work: Coroutine[Any, Any, None]) -> None:
        before = self._learning

        async def in_order() -> None:
            if before is not None:
                await before
            await work

        self._learning = asyncio.create_task(in_order())

    async def _until(self, raised: type[StoreError]) -> None:
        assert self._store is not None
        while True:
            try:
                await self._store.leader(Contest(Role.DISPATCHER))
            except raised:
                return
            except StoreError:
                pass
            await asyncio.sleep(0.001)

    async def _resumed(self) -> None:
        self.proxy.resume()
        assert self._store is not None
        with suppress(SessionLostError):
            await self._store.connected()

    async def _ready(self) -> ZookeeperStore:
        if self._store is None:
            self._store = ZookeeperStore(self._settings)
            self._learning = asyncio.create_task(self._store.connected())
        await self.settled()
        return self._store

    async def settled(self) -> None:
        """Returns when the session was notified of the interruption of its connection."""
        if self._learning is not None:
            await asyncio.shield(self._learning)

    # The store

    async def read(self, key: Key) -> Entry | None:
        return await (await self._ready()).read(key)

    async def write(self, key: Key, value: bytes, expected: int, under: Leadership) -> int:
        return await (await self._ready()).write(key, value, expected, under)

    async def remove(self, key: Key, expected: int, under: Leadership) -> None:
        await (await self._ready()).remove(key, expected, under)

    async def names(self, kind: Kind) -> list[str]:
        return await (await self._ready()).names(kind)

    async def campaign(self, contest: Contest, address: str) -> Leadership:
        async def in_line() -> None:
            await asyncio.to_thread(
                wait_until,
                lambda: self._interrupted or address in self._server.candidates(contest),
                f"{address} to be in line",
            )

        task = asyncio.current_task()
        assert task is not None
        IN_LINE[task] = in_line
        return await (await self._ready()).campaign(contest, address)

    async def resign(self, leadership: Leadership) -> None:
        await (await self._ready()).resign(leadership)

    async def leader(self, contest: Contest) -> KnownLeader | None:
        return await (await self._ready()).leader(contest)

    async def candidates(self, contest: Contest) -> list[str]:
        return await (await self._ready()).candidates(contest)

    async def changed(self, contest: Contest, epoch: LeaderEpoch) -> KnownLeader | None:
        return await (await self._ready()).changed(contest, epoch)

    async def connected(self) -> None:
        await (await self._ready()).connected()

    async def close(self) -> None:
        if self._store is not None:
            await self._store.close()
