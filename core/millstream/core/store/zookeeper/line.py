"""The candidates of one contest, in the order of their znodes."""

from __future__ import annotations

from contextlib import suppress

from kazoo.exceptions import NodeExistsError, NoNodeError, NotEmptyError
from msgspec import Struct

from millstream.core.jobs.ids import LeaderEpoch
from millstream.core.services.leader_lookup import KnownLeader
from millstream.core.store.store import Contest
from millstream.core.store.zookeeper.connection import Connection
from millstream.core.store.zookeeper.layout import in_order
from millstream.core.store.zookeeper.watches import Watch

WAITING = 0
CLAIMED = 1
"""The version of a candidate's znode, before and after it has claimed the leadership."""


class First(Struct, frozen=True):
    """The first of a line. `leader` is None while it has not claimed the leadership."""

    path: str
    leader: KnownLeader | None


class Line:
    """The line as one session sees it. Calls raise the same errors as `Connection.ask`."""

    def __init__(self, connection: Connection, contest: Contest) -> None:
        self._ask = connection.ask
        self._connection = connection
        self._path = connection.layout.line(contest)

    async def candidates(self, watch: Watch | None = None) -> list[str]:
        """Returns their paths in order."""
        try:
            names = await self._ask(lambda client: client.get_children_async(self._path, watch))
        except NoNodeError:
            return []
        return [f"{self._path}/{name}" for name in in_order(names)]

    async def addresses(self) -> list[str]:
        """Returns the addresses of the candidates in the same order, without those that leave in the meantime."""
        found: list[str] = []
        for path in await self.candidates():
            with suppress(NoNodeError):
                address, _ = await self._ask(lambda client, path=path: client.get_async(path))  # type: ignore[misc]
                found.append(address.decode())
        return found

    async def first(self) -> First | None:
        """Returns the first candidate, or None if the line is empty."""
        while candidates := await self.candidates():
            with suppress(NoNodeError):
                return await self._look(candidates[0], None)
        return None

    async def watched_first(self) -> tuple[First | None, Watch]:
        """Returns the first candidate with a watch on it, or on the empty line."""
        watches = self._connection.watches
        while True:
            if candidates := await self.candidates():
                watch = watches.on(candidates[0])
                with suppress(NoNodeError):
                    return await self._look(candidates[0], watch), watch
            else:
                watch = watches.on(self._path)
                if await self._is_empty(watch):
                    return None, watch

    async def _look(self, path: str, watch: Watch | None) -> First:
        address, stat = await self._ask(lambda client: client.get_async(path, watch))
        if stat.version != CLAIMED:
            return First(path, None)
        return First(path, KnownLeader(address.decode(), LeaderEpoch(stat.mzxid)))

    async def _is_empty(self, watch: Watch) -> bool:
        try:
            return not await self._ask(lambda client: client.get_children_async(self._path, watch))
        except NoNodeError:
            return await self._ask(lambda client: client.exists_async(self._path, watch)) is None

    # One candidate

    async def enter(self, address: str, token: str) -> str:
        """Adds a candidate to the end of the line, unless the token is in it; returns its path."""
        return await self.find(token) or await self._create(address, token)

    async def find(self, token: str) -> str | None:
        """Returns the znode of a candidate, if it exists. That of a lost session is deleted or about to be."""
        for path in await self.candidates():
            if path.startswith(f"{self._path}/{token}-") and await self._is_of_this_session(path):
                return path
        return None

    async def _is_of_this_session(self, path: str) -> bool:
        stat = await self._ask(lambda client: client.exists_async(path))
        return stat is not None and stat.ephemeralOwner == self._connection.session_id

    async def _create(self, address: str, token: str) -> str:
        path = f"{self._path}/{token}-"
        while True:
            try:
                created: str = await self._ask(
                    lambda client: client.create_async(path, address.encode(), ephemeral=True, sequence=True)
                )
                return created
            except NoNodeError:
                with suppress(NodeExistsError):
                    await self._ask(lambda client: client.create_async(self._path))

    async def left(self, path: str) -> None:
        """Waits until the candidate may have left the line, or the connection has changed."""
        watch = self._connection.watches.on(path)
        if await self._ask(lambda client: client.exists_async(path, watch)) is not None:
            await watch.fired.wait()

    async def leave(self, path: str) -> None:
        """Removes the candidate from the line."""
        with suppress(NoNodeError):
            await self._ask(lambda client: client.delete_async(path))
        with suppress(NoNodeError, NotEmptyError):  # so that nothing is left of a job that has ended
            await self._ask(lambda client: client.delete_async(self._path))
