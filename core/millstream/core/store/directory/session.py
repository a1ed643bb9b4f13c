"""A service's session with the store in a directory."""

from __future__ import annotations

import asyncio
import contextlib

from millstream.core.jobs.ids import ANY_EPOCH, LeaderEpoch, new_id
from millstream.core.services.leader_lookup import KnownLeader
from millstream.core.store.directory.connection import Connection
from millstream.core.store.directory.lines import Standing
from millstream.core.store.store import (
    Contest,
    Entry,
    Key,
    Kind,
    Leadership,
    SessionLostError,
    StoreError,
    SuspendedError,
    check_value,
)


class DirectorySession:
    """A `Store`; `DirectoryStore.connect` makes one."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._shared = connection.shared

    # Entries

    async def read(self, key: Key) -> Entry | None:
        """See `Entries`."""
        return await self._connection.turn(lambda folder, _: folder.read(key))

    async def write(self, key: Key, value: bytes, expected: int, under: Leadership) -> int:
        """See `Entries`."""
        check_value(key, value)
        return await self._connection.turn(lambda folder, _: folder.replace(key, value, expected, under))

    async def remove(self, key: Key, expected: int, under: Leadership) -> None:
        """See `Entries`."""
        await self._connection.turn(lambda folder, _: folder.replace(key, None, expected, under))

    async def names(self, kind: Kind) -> list[str]:
        """See `Entries`."""
        return await self._connection.turn(lambda folder, _: folder.names(kind))

    # Elections

    async def campaign(self, contest: Contest, address: str) -> Leadership:
        """See `Elections`."""
        while True:
            epoch = await self._stand(contest, address)
            if epoch is not None:
                return Leadership(contest, epoch)
            await self.connected()

    async def _stand(self, contest: Contest, address: str) -> LeaderEpoch | None:
        """Runs one candidacy; returns the epoch, or None if the session ends before."""
        candidate = new_id()
        epoch: LeaderEpoch | None = None
        try:
            with contextlib.suppress(SuspendedError, SessionLostError):
                epoch = await self._lead(contest, candidate, address)
        finally:
            if epoch is None:  # or it was cancelled, and the result is not needed
                self._shared.later(lambda folder: folder.leave(candidate))
        return epoch

    async def _lead(self, contest: Contest, candidate: str, address: str) -> LeaderEpoch | None:
        """Waits until the candidate leads; returns the epoch, or None if it was removed."""
        moved = self._shared.next_move()
        epoch = await self._connection.turn(
            lambda folder, session: folder.enter(Standing(candidate, session, contest, address))
        )
        while epoch == ANY_EPOCH:
            await self._shared.wait(moved)
            moved = self._shared.next_move()
            epoch = await self._epoch_of(candidate)
        return epoch

    async def _epoch_of(self, candidate: str) -> LeaderEpoch | None:
        while True:
            try:
                return await self._connection.turn(lambda folder, _: folder.epoch_of(candidate))
            except SuspendedError:
                await self.connected()

    async def resign(self, leadership: Leadership) -> None:
        """See `Elections`."""
        await self._connection.turn(lambda folder, _: folder.resign(leadership))

    async def leader(self, contest: Contest) -> KnownLeader | None:
        """See `Elections`."""
        return await self._connection.turn(lambda folder, _: folder.leader(contest))

    async def candidates(self, contest: Contest) -> list[str]:
        """See `Elections`."""
        return await self._connection.turn(lambda folder, _: folder.candidates(contest))

    async def changed(self, contest: Contest, epoch: LeaderEpoch) -> KnownLeader | None:
        """See `Elections`."""
        while True:
            moved = self._shared.next_move()
            try:
                known = await self.leader(contest)
            except SuspendedError:
                with contextlib.suppress(SessionLostError):
                    await self.connected()
                continue
            except SessionLostError:
                if epoch != ANY_EPOCH:
                    return None
                await self._new_session()
                continue
            except StoreError:
                pass  # the file is damaged: its repair is noticed
            else:
                if (known.epoch if known is not None else ANY_EPOCH) != epoch:
                    return known
            await self._shared.wait(moved)

    async def _new_session(self) -> None:
        """Waits for a new session; after `close`, forever."""
        try:
            await self.connected()
        except SessionLostError:
            await asyncio.Event().wait()

    # The session

    async def connected(self) -> None:
        """See `Store`."""
        await self._connection.connected()

    async def close(self) -> None:
        """See `Store`."""
        await self._connection.close()
