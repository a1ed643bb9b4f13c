"""Leader lookup and candidacy through the store."""

from __future__ import annotations

from msgspec import Struct

from millstream.core.errors import UnreachableError
from millstream.core.jobs.ids import ANY_EPOCH
from millstream.core.services.leader_lookup import KnownLeader, Role
from millstream.core.store.store import Contest, Elections, Leadership, Store, StoreError


class Candidate(Struct, frozen=True):
    """A service that may become the leader: its session with the store, and its address."""

    store: Store
    address: str

    async def campaign(self, contest: Contest) -> Leadership:
        """As `Elections.campaign`."""
        return await self.store.campaign(contest, self.address)


class StoredLeaders:
    """A `LeaderLookup` that reads the store."""

    def __init__(self, elections: Elections) -> None:
        self._elections = elections

    async def leader_of(self, role: Role) -> KnownLeader:
        """Returns the leader. Raises UnreachableError when there is none, or the store is unreachable."""
        try:
            leader = await self._elections.leader(Contest(role))
        except StoreError as error:
            raise UnreachableError(f"the leading {role} is unknown: {error}") from error
        if leader is None:
            raise UnreachableError(f"there is no leading {role} now")
        return leader

    async def standing_by(self, role: Role) -> list[str]:
        """Returns the standbys. Empty while the store is unreachable."""
        try:
            return (await self._elections.candidates(Contest(role)))[1:]
        except StoreError:
            return []

    async def changed(self, role: Role, leader: KnownLeader) -> KnownLeader:
        """Waits for another leader, also while there is none or the store is unreachable."""
        epoch = leader.epoch
        while True:
            found = await self._elections.changed(Contest(role), epoch)
            if found is not None and found != leader:
                return found
            epoch = found.epoch if found is not None else ANY_EPOCH
