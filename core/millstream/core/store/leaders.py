"""Leaders as the store knows them: for those who look for one, and for those who want to be one."""

from __future__ import annotations

from msgspec import Struct

from millstream.core.errors import UnreachableError
from millstream.core.jobs.ids import ANY_EPOCH
from millstream.core.services.leader_lookup import KnownLeader, Role
from millstream.core.store.store import Contest, Elections, Leadership, Store, StoreError


class Candidate(Struct, frozen=True):
    """A service that may lead: its session with the store, and where others reach it."""

    store: Store
    address: str

    async def campaign(self, contest: Contest) -> Leadership:
        """As `Elections.campaign`."""
        return await self.store.campaign(contest, self.address)


class StoredLeaders:
    """A `LeaderLookup` by the store."""

    def __init__(self, elections: Elections) -> None:
        self._elections = elections

    async def leader_of(self, role: Role) -> KnownLeader:
        """Who leads now. Raises UnreachableError when there is no leader, or the store is unreachable."""
        try:
            leader = await self._elections.leader(Contest(role))
        except StoreError as error:
            raise UnreachableError(f"who leads as {role} is not known: {error}") from error
        if leader is None:
            raise UnreachableError(f"there is no leading {role} now")
        return leader

    async def standing_by(self, role: Role) -> list[str]:
        """The others in line. Empty while the store is unreachable."""
        try:
            return (await self._elections.candidates(Contest(role)))[1:]
        except StoreError:
            return []

    async def changed(self, role: Role, leader: KnownLeader) -> KnownLeader:
        """Returns with the next leader; a time without a leader, or with an unreachable store, is waited out."""
        epoch = leader.epoch
        while True:
            found = await self._elections.changed(Contest(role), epoch)
            if found is not None and found != leader:
                return found
            epoch = found.epoch if found is not None else ANY_EPOCH
