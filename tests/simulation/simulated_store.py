"""The store that all simulated services share: that of `core.store.memory`, some way off, with trouble on the way.

A call takes time to get there and back, and belongs to the store while it does: a write of a process that is frozen or
killed meanwhile may take effect without a response. Sessions are suspended, lost and resumed by faults; that of a
process that stands still is lost when it has stood still for the `session_timeout`.

Every write is seen by those who `watch`: what must never be stored is found out in the moment in which it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from story import must
from virtual_loop import VirtualProcess
from world import World

from millstream.core.jobs.ids import LeaderEpoch
from millstream.core.services.leader_lookup import KnownLeader
from millstream.core.store.memory import MemorySession, MemoryStore, _Connection
from millstream.core.store.store import Contest, Entry, Key, Kind, Leadership, StoreError, check_value

T = TypeVar("T")
LONGEST_TROUBLE = 4.0
_LATENCY = 0.002
_SLOW_NEWS = 0.5
Watch = Callable[[Key, bytes | None], None]


class SimulatedStore(MemoryStore):
    """What all sessions share."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.process = world.loop.process("store")
        self.session_timeout = 4.0 * world.scale
        self.sessions: dict[VirtualProcess, SimulatedSession] = {}
        self._is_healed = False
        self._watches: list[Watch] = []

    def watch(self, seen: Watch) -> None:
        self._watches.append(seen)

    def session_of(self, process: VirtualProcess) -> SimulatedSession:
        """One for each process, for as long as that lives."""
        if process not in self.sessions:
            self.sessions[process] = SimulatedSession(self, process)
        return self.sessions[process]

    def process_died(self, process: VirtualProcess) -> None:
        """The store notices when it hears nothing more."""
        session = self.sessions.pop(process, None)
        if session is not None:
            delay = self.world.random.uniform(0, self.session_timeout)
            self.world.later(self.process, delay, session.lose)

    def lose(self, session: SimulatedSession, after: float) -> None:
        """The session is suspended, then over; a new one begins later."""
        session.suspend()
        self.world.later(self.process, after, self.end, session)

    def end(self, session: SimulatedSession) -> None:
        """Now; a new one begins later."""
        if not self._is_healed:
            session.lose()
            self.world.later(self.process, self.world.up_to(LONGEST_TROUBLE), session.resume)

    def stood_still(self, process: VirtualProcess, seconds: float) -> None:
        """It hears nothing of a process for a time. What that learns of it, it learns afterwards."""
        session = self.sessions.get(process)
        if session is not None and seconds > self.session_timeout:
            self.world.later(self.process, self.session_timeout, self.end, session)

    def heal(self) -> None:
        """No more trouble: all sessions continue, or begin again."""
        self._is_healed = True
        for session in self.sessions.values():
            session.heal()

    def replace(self, key: Key, value: bytes | None, expected: int, under: Leadership) -> int:
        leader = self.leader(under.contest)
        version = super().replace(key, value, expected, under)
        leads = leader is not None and leader.epoch == under.epoch
        must(leads, f"epoch {under.epoch} of {under.contest} wrote {key}, and {leader} leads", key.name)
        for seen in self._watches:
            seen(key, value)
        return version


class SimulatedSession(MemorySession):
    """One process's."""

    def __init__(self, store: SimulatedStore, process: VirtualProcess) -> None:
        super().__init__(store)
        self.process = process
        self.is_lost_then = False
        """When it is suspended the next time."""
        self._shared = store

    @property
    def is_connected(self) -> bool:
        return self._connection is _Connection.CONNECTED

    def suspend(self) -> None:
        """For a while, however it comes about."""
        super().suspend()
        store, world = self._shared, self._shared.world
        if self.is_lost_then:
            self.is_lost_then = False
            world.later(store.process, world.up_to(store.session_timeout), store.end, self)
        else:
            world.later(store.process, world.up_to(LONGEST_TROUBLE), self.resume)

    def heal(self) -> None:
        """It continues, or a new one begins, and nothing more comes in between."""
        self._breaks_off = None
        self.resume()

    async def read(self, key: Key) -> Entry | None:
        return await self._ask(lambda: self._shared.entry(key))

    async def write(self, key: Key, value: bytes, expected: int, under: Leadership) -> int:
        check_value(key, value)
        return await self._ask(lambda: self._replace(key, value, expected, under))

    async def remove(self, key: Key, expected: int, under: Leadership) -> None:
        await self._ask(lambda: self._replace(key, None, expected, under))

    async def names(self, kind: Kind) -> list[str]:
        return await self._ask(lambda: self._shared.names(kind))

    async def resign(self, leadership: Leadership) -> None:
        await self._ask(lambda: self._shared.resign(leadership))

    async def leader(self, contest: Contest) -> KnownLeader | None:
        return await self._ask(lambda: self._shared.leader(contest))

    async def candidates(self, contest: Contest) -> list[str]:
        return await self._ask(lambda: self._shared.candidates(contest))

    async def changed(self, contest: Contest, epoch: LeaderEpoch) -> KnownLeader | None:
        """Notifications take time as well, and often more than messages on other connections."""
        known = await super().changed(contest, epoch)
        world = self._shared.world
        await asyncio.sleep(world.up_to(_SLOW_NEWS) if world.mishap(0.5) else _LATENCY)
        return known

    async def _ask(self, ask: Callable[[], T]) -> T:
        """A request and its response; raises what happens to the session meanwhile."""
        self._check()
        loop, world = self._shared.world.loop, self._shared.world
        answer: asyncio.Future[T] = loop.create_future()

        def at_the_store() -> None:
            try:
                self._check()
                value = ask()
            except StoreError as error:
                if not answer.cancelled():
                    answer.set_exception(error)
            else:
                if not answer.cancelled():
                    answer.set_result(value)

        loop.call_later(world.random.uniform(0, _LATENCY), at_the_store, context=self._shared.process.context)
        result = await answer
        await asyncio.sleep(world.random.uniform(0, _LATENCY))
        self._check()
        return result
