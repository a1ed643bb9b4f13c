"""Elections: candidates are ordered by their ephemeral znodes, and the first one leads once it has claimed so.

The first candidate of a line remains the first until its znode is deleted, so it need not check that again. It claims
the leadership by writing to its znode, which makes that version 1. The epoch is ZooKeeper's number of this write: these
increase in the whole ensemble, so no contest has to wait for another to get one. For writes under a leadership,
ZooKeeper checks in the same transaction that the leader's znode exists and is claimed.

The claim is a write of the new leader after the last write of all earlier leaders, so it sees their writes.

Each client watches one znode: a candidate the one before it, others the first one.
"""

from __future__ import annotations

import uuid
from contextlib import suppress

from kazoo.exceptions import BadVersionError, NoNodeError
from kazoo.protocol.states import ZnodeStat

from millstream.core.jobs.ids import ANY_EPOCH, LeaderEpoch
from millstream.core.services.leader_lookup import KnownLeader
from millstream.core.store.store import Contest, Leadership, SessionLostError, StoreError, SuspendedError
from millstream.core.store.zookeeper.connection import Connection, State
from millstream.core.store.zookeeper.line import WAITING, Line


class ZookeeperElections:
    """The `Elections` of one session."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._won: dict[Leadership, str] = {}

    async def campaign(self, contest: Contest, address: str) -> Leadership:
        """As `Elections.campaign`."""
        token = uuid.uuid4().hex  # the same in all sessions: a znode whose creation was not confirmed is found by it
        try:
            while True:
                await self._connection.connected()
                with suppress(SuspendedError, SessionLostError):
                    return await self._lead(contest, address, token)
        except BaseException:
            self._connection.later(self._stand_down(contest, token))
            raise

    async def _lead(self, contest: Contest, address: str, token: str) -> Leadership:
        line = Line(self._connection, contest)
        mine = await line.enter(address, token)
        await self._wait_for_the_turn_of(mine, line)
        leadership = Leadership(contest, await self._claim(mine, address))
        self._won[leadership] = mine
        return leadership

    async def _wait_for_the_turn_of(self, mine: str, line: Line) -> None:
        while True:
            candidates = await line.candidates()
            if mine not in candidates:  # removed manually, never by the store: it goes to the end of the line
                raise SessionLostError
            place = candidates.index(mine)
            if place == 0:
                return
            await line.left(candidates[place - 1])

    async def _claim(self, mine: str, address: str) -> LeaderEpoch:
        stat: ZnodeStat
        try:
            stat = await self._connection.ask(lambda client: client.set_async(mine, address.encode(), WAITING))
        except BadVersionError:  # claimed before, without a response
            stat = await self._connection.ask(lambda client: client.exists_async(mine))
        except NoNodeError:
            stat = None
        if stat is None:
            raise SessionLostError
        return LeaderEpoch(stat.mzxid)

    async def _stand_down(self, contest: Contest, token: str) -> None:
        """Returns when it is certain that the candidate was removed."""
        line = Line(self._connection, contest)
        while True:
            await self._connection.connected()
            with suppress(SuspendedError, SessionLostError):
                path = await line.find(token)
                if path is not None:
                    await line.leave(path)
                return

    async def resign(self, leadership: Leadership) -> None:
        """As `Elections.resign`."""
        path = await self.claim_of(leadership)
        if path is not None:
            await Line(self._connection, leadership.contest).leave(path)
            self.forget(leadership)

    async def leader(self, contest: Contest) -> KnownLeader | None:
        """As `Elections.leader`."""
        first = await Line(self._connection, contest).first()
        return first.leader if first is not None else None

    async def candidates(self, contest: Contest) -> list[str]:
        """As `Elections.candidates`."""
        return await Line(self._connection, contest).addresses()

    async def changed(self, contest: Contest, epoch: LeaderEpoch) -> KnownLeader | None:
        """As `Elections.changed`."""
        line = Line(self._connection, contest)
        while True:
            if self._connection.state is State.CONNECTED:
                try:
                    first, watch = await line.watched_first()
                except (SuspendedError, SessionLostError):
                    continue
                except StoreError:
                    await self._connection.moved()
                    continue
                leader = first.leader if first is not None else None
                if (leader.epoch if leader is not None else ANY_EPOCH) != epoch:
                    return leader
                await watch.fired.wait()
            elif self._connection.state is State.LOST and epoch != ANY_EPOCH:
                return None
            else:
                await self._connection.moved()

    # For writes

    async def claim_of(self, leadership: Leadership) -> str | None:
        """Returns the znode that exists in version `CLAIMED` while the leadership lasts; None after its end."""
        if leadership in self._won:
            return self._won[leadership]
        await self._connection.catch_up()  # another session may have won it this moment
        first = await Line(self._connection, leadership.contest).first()
        if first is None or first.leader is None or first.leader.epoch != leadership.epoch:
            return None
        return first.path

    def forget(self, leadership: Leadership) -> None:
        """Forgets a leadership that has ended."""
        self._won.pop(leadership, None)
