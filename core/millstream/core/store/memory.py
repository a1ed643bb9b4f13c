"""The store in memory: for one process, and for tests, which interrupt its sessions. It ends with the process.

Without injected failures, only `campaign` and `changed` wait: all other calls complete before they yield to the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from enum import Enum

from msgspec import Struct

from millstream.core.jobs.ids import ANY_EPOCH, LeaderEpoch
from millstream.core.services.leader_lookup import KnownLeader
from millstream.core.store.store import (
    ABSENT,
    ConflictError,
    Contest,
    Entry,
    FencedError,
    Key,
    Kind,
    Leadership,
    SessionLostError,
    StoreError,
    SuspendedError,
    check_value,
)


class _Connection(Enum):
    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


class _Candidate(Struct, eq=False):
    """`epoch` is set when it becomes the leader; `over` when its session has ended."""

    session: MemorySession
    address: str
    epoch: LeaderEpoch = ANY_EPOCH
    over: bool = False


class MemoryStore:
    """The state that all sessions share."""

    def __init__(self) -> None:
        self._entries: dict[Key, Entry] = {}
        self._lines: dict[Contest, list[_Candidate]] = {}  # the first one leads
        self._epoch = 0
        self._moved = asyncio.Event()

    def connect(self) -> MemorySession:
        """Opens a session for a service."""
        return MemorySession(self)

    # What sessions do when they are connected

    def entry(self, key: Key) -> Entry | None:
        """As `Entries.read`."""
        return self._entries.get(key)

    def replace(self, key: Key, value: bytes | None, expected: int, under: Leadership) -> int:
        """As `Entries.write`, and as `remove` with None."""
        if self._epoch_of(under.contest) != under.epoch:
            raise FencedError(under)
        entry = self._entries.get(key)
        if (entry.version if entry is not None else ABSENT) != expected:
            raise ConflictError(key, expected)
        if value is None:
            self._entries.pop(key, None)
            return ABSENT
        self._entries[key] = Entry(value, expected + 1)
        return expected + 1

    def names(self, kind: Kind) -> list[str]:
        """As `Entries.names`."""
        return sorted(key.name for key in self._entries if key.kind is kind)

    def leader(self, contest: Contest) -> KnownLeader | None:
        """As `Elections.leader`."""
        line = self._lines.get(contest)
        return KnownLeader(line[0].address, line[0].epoch) if line else None

    def candidates(self, contest: Contest) -> list[str]:
        """As `Elections.candidates`."""
        return [candidate.address for candidate in self._lines.get(contest, ())]

    def _epoch_of(self, contest: Contest) -> LeaderEpoch:
        leader = self.leader(contest)
        return leader.epoch if leader is not None else ANY_EPOCH

    # Candidates

    def enter(self, contest: Contest, candidate: _Candidate) -> None:
        """Adds the candidate to the end of the queue."""
        self._lines.setdefault(contest, []).append(candidate)
        self._settle(contest)

    def leave(self, contest: Contest, candidate: _Candidate) -> None:
        """Removes the candidate, whether it leads or not."""
        if candidate in self._lines.get(contest, ()):
            self._lines[contest].remove(candidate)
            self._settle(contest)

    def leave_all(self, session: MemorySession) -> None:
        """Removes all candidates of a session that has ended."""
        for contest, line in list(self._lines.items()):
            for candidate in [c for c in line if c.session is session]:
                candidate.over = True
                self.leave(contest, candidate)
        self.move()

    def resign(self, leadership: Leadership) -> None:
        """As `Elections.resign`."""
        if self._epoch_of(leadership.contest) == leadership.epoch:
            self.leave(leadership.contest, self._lines[leadership.contest][0])

    def _settle(self, contest: Contest) -> None:
        line = self._lines[contest]
        if not line:
            del self._lines[contest]
        elif line[0].epoch == ANY_EPOCH:
            self._epoch += 1
            line[0].epoch = LeaderEpoch(self._epoch)
        self.move()

    def move(self) -> None:
        """Wakes waiting calls, because leaders or connections have changed."""
        self._moved.set()
        self._moved = asyncio.Event()

    async def moved(self) -> None:
        """Returns after the next `move`."""
        await self._moved.wait()


class MemorySession:
    """A `Store`. Tests interrupt it with `suspend`, `suspend_within_write`, `lose` and `resume`."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._connection = _Connection.CONNECTED
        self._closed = False
        self._breaks_off: bool | None = None

    # Entries

    async def read(self, key: Key) -> Entry | None:
        """See `Entries`."""
        self._check()
        return self._store.entry(key)

    async def write(self, key: Key, value: bytes, expected: int, under: Leadership) -> int:
        """See `Entries`."""
        check_value(key, value)
        return self._replace(key, value, expected, under)

    async def remove(self, key: Key, expected: int, under: Leadership) -> None:
        """See `Entries`."""
        self._replace(key, None, expected, under)

    def _replace(self, key: Key, value: bytes | None, expected: int, under: Leadership) -> int:
        self._check()
        takes_effect, self._breaks_off = self._breaks_off, None
        if takes_effect is None:
            return self._store.replace(key, value, expected, under)
        if takes_effect:
            with contextlib.suppress(StoreError):
                self._store.replace(key, value, expected, under)
        self.suspend()
        raise SuspendedError

    async def names(self, kind: Kind) -> list[str]:
        """See `Entries`."""
        self._check()
        return self._store.names(kind)

    # Elections

    async def campaign(self, contest: Contest, address: str) -> Leadership:
        """See `Elections`."""
        while True:
            await self.connected()
            candidate = _Candidate(self, address)
            self._store.enter(contest, candidate)
            leads = False
            try:
                while candidate.epoch == ANY_EPOCH and not candidate.over:
                    await self._store.moved()
                await self.connected()
                leads = not candidate.over
            finally:
                if not leads:
                    self._store.leave(contest, candidate)
            if leads:
                return Leadership(contest, candidate.epoch)

    async def resign(self, leadership: Leadership) -> None:
        """See `Elections`."""
        self._check()
        self._store.resign(leadership)

    async def leader(self, contest: Contest) -> KnownLeader | None:
        """See `Elections`."""
        self._check()
        return self._store.leader(contest)

    async def candidates(self, contest: Contest) -> list[str]:
        """See `Elections`."""
        self._check()
        return self._store.candidates(contest)

    async def changed(self, contest: Contest, epoch: LeaderEpoch) -> KnownLeader | None:
        """See `Elections`."""
        while True:
            if self._connection is not _Connection.SUSPENDED:
                known = self._store.leader(contest) if self._connection is _Connection.CONNECTED else None
                if (known.epoch if known is not None else ANY_EPOCH) != epoch:
                    return known
            await self._store.moved()

    # The session

    async def connected(self) -> None:
        """See `Store`."""
        while self._connection is not _Connection.CONNECTED:
            if self._closed:
                raise SessionLostError
            await self._store.moved()

    async def close(self) -> None:
        """See `Store`."""
        self._closed = True
        self.lose()

    def _check(self) -> None:
        if self._connection is _Connection.SUSPENDED:
            raise SuspendedError
        if self._connection is _Connection.LOST:
            raise SessionLostError

    # For tests

    def suspend(self) -> None:
        """Stops responding; the session keeps its leaderships."""
        self._connection = _Connection.SUSPENDED
        self._store.move()

    def suspend_within_write(self, takes_effect: bool) -> None:
        """Stops responding at the next write, after or before it takes effect."""
        self._breaks_off = takes_effect

    def lose(self) -> None:
        """Ends the session, as the store would."""
        self._connection = _Connection.LOST
        self._store.leave_all(self)

    def resume(self) -> None:
        """Responds again: to this session if it was suspended, to a new one if it was lost."""
        if not self._closed:
            self._connection = _Connection.CONNECTED
            self._store.move()
