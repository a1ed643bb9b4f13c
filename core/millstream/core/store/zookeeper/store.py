"""The `Store` on ZooKeeper, which provides its guarantees.

A write is one transaction: it checks that the leader's znode exists, and changes the entry in the version that its
writer has seen. ZooKeeper's versions begin with 0, which is `ABSENT` here: they are one less than those of the store.

How long others wait for a session that is cut off, the session timeout decides. It stays in line, and what it leads it
leads, until it has expired, also when it was closed or stood down meanwhile. A contest whose first candidate is cut off
before it could claim the leadership has no leader so long. The session itself learns that it has expired only when it
reaches a server again: until then it is suspended, though others may lead already.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError, RolledBackError

from millstream.core.jobs.ids import LeaderEpoch
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
    StoreError,
    check_value,
)
from millstream.core.store.zookeeper.connection import Connection
from millstream.core.store.zookeeper.elections import ZookeeperElections
from millstream.core.store.zookeeper.line import CLAIMED
from millstream.core.store.zookeeper.settings import ZookeeperSettings


class ZookeeperStore:
    """A `Store`. Created on the loop that owns it, where it connects at once; `connected` waits for that."""

    def __init__(self, settings: ZookeeperSettings) -> None:
        self._connection = Connection(settings)
        self._layout = self._connection.layout
        self._elections = ZookeeperElections(self._connection)

    # Entries

    async def read(self, key: Key) -> Entry | None:
        """See `Entries`."""
        path = self._layout.entry(key)
        try:
            value, stat = await self._connection.ask(lambda client: client.get_async(path))
        except NoNodeError:
            return None
        return Entry(value, stat.version + 1)

    async def write(self, key: Key, value: bytes, expected: int, under: Leadership) -> int:
        """See `Entries`."""
        check_value(key, value)
        path = self._layout.entry(key)

        def change(transaction: TransactionRequest) -> None:
            if expected == ABSENT:
                transaction.create(path, value)
            else:
                transaction.set_data(path, value, expected - 1)

        await self._transact(key, expected, under, change)
        return expected + 1

    async def remove(self, key: Key, expected: int, under: Leadership) -> None:
        """See `Entries`."""
        path = self._layout.entry(key)

        def change(transaction: TransactionRequest) -> None:
            if expected == ABSENT:
                transaction.create(path)  # fails if there is one: only so a transaction checks
            transaction.delete(path, max(expected - 1, 0))

        await self._transact(key, expected, under, change)

    async def _transact(
        self, key: Key, expected: int, under: Leadership, change: Callable[[TransactionRequest], None]
    ) -> None:
        claim = await self._elections.claim_of(under)
        if claim is None:
            raise FencedError(under)

        def commit(client: KazooClient) -> Any:
            transaction = client.transaction()
            transaction.check(claim, CLAIMED)
            change(transaction)
            return transaction.commit_async()

        checked, *changed = await self._connection.ask(commit)
        match checked:
            case NoNodeError() | BadVersionError():
                self._elections.forget(under)
                raise FencedError(under)
        # What is done before an error is rolled back and what comes after it is left out: those say so, as errors too.
        for result in changed:
            match result:
                case RolledBackError():
                    continue
                case NoNodeError() | NodeExistsError() | BadVersionError():
                    raise ConflictError(key, expected)
                case KazooException():
                    raise StoreError(f"ZooKeeper does not write {key}: {result!r}")

    async def names(self, kind: Kind) -> list[str]:
        """See `Entries`."""
        return sorted(await self._connection.ask(lambda client: client.get_children_async(self._layout.entries(kind))))

    # Elections

    async def campaign(self, contest: Contest, address: str) -> Leadership:
        """See `Elections`."""
        return await self._elections.campaign(contest, address)

    async def resign(self, leadership: Leadership) -> None:
        """See `Elections`."""
        await self._elections.resign(leadership)

    async def leader(self, contest: Contest) -> KnownLeader | None:
        """See `Elections`."""
        return await self._elections.leader(contest)

    async def candidates(self, contest: Contest) -> list[str]:
        """See `Elections`."""
        return await self._elections.candidates(contest)

    async def changed(self, contest: Contest, epoch: LeaderEpoch) -> KnownLeader | None:
        """See `Elections`."""
        return await self._elections.changed(contest, epoch)

    # The session

    async def connected(self) -> None:
        """See `Store`."""
        await self._connection.connected()

    async def close(self) -> None:
        """See `Store`."""
        await self._connection.close()
