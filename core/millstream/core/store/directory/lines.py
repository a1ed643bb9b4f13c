"""The candidates of all contests, in one value that is replaced at once: who leads, who waits, and the last epoch.

Pure: what comes of a change is decided here, when it is made is the folder's. The epoch and the leaders that have it
are one value, so no crash lies between them, and no epoch is given twice.
"""

from __future__ import annotations

from collections.abc import Container

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from millstream.core.jobs.ids import ANY_EPOCH, LeaderEpoch
from millstream.core.store.store import Contest


class Standing(Struct, frozen=True):
    """A candidate, by an id that no other one has, and the session that it belongs to; with an epoch, it leads."""

    candidate: str
    session: str
    contest: Contest
    address: str
    epoch: LeaderEpoch = ANY_EPOCH


class Lines(Struct, frozen=True):
    """Candidates in the order in which they came: the first one of a contest leads. No revision is like an earlier."""

    revision: int = 0
    epoch: LeaderEpoch = ANY_EPOCH
    standings: tuple[Standing, ...] = ()

    def to_bytes(self) -> bytes:
        """On the way into the file."""
        return msgspec.json.encode(self)

    @staticmethod
    def from_bytes(stored: bytes | None) -> Lines:
        """On the way out; nothing is the beginning of a store."""
        return msgspec.json.decode(stored, type=Lines) if stored is not None else Lines()

    def leader(self, contest: Contest) -> Standing | None:
        """Who leads, or None."""
        return next((standing for standing in self.standings if standing.contest == contest), None)

    def of(self, candidate: str) -> Standing | None:
        """One candidate, or None when it is in no line."""
        return next((standing for standing in self.standings if standing.candidate == candidate), None)

    def sessions(self) -> set[str]:
        """That have candidates."""
        return {standing.session for standing in self.standings}

    def with_last(self, standing: Standing) -> Lines:
        """With one more candidate, behind all others."""
        return replace(self, standings=(*self.standings, standing))

    def without(self, candidate: str) -> Lines:
        """Without this candidate, whether it leads or not."""
        return replace(self, standings=tuple(s for s in self.standings if s.candidate != candidate))

    def without_sessions(self, sessions: Container[str]) -> Lines:
        """Without all candidates of these sessions."""
        return replace(self, standings=tuple(s for s in self.standings if s.session not in sessions))

    def revised(self) -> Lines:
        """The same, to be distinguished from its source."""
        return replace(self, revision=self.revision + 1)

    def settled(self) -> Lines:
        """With an epoch for every first one of a line that has none yet."""
        epoch, led, standings = self.epoch, set[Contest](), []
        for standing in self.standings:
            if standing.contest not in led and standing.epoch == ANY_EPOCH:
                epoch = LeaderEpoch(epoch + 1)
                standing = replace(standing, epoch=epoch)
            led.add(standing.contest)
            standings.append(standing)
        return replace(self, epoch=epoch, standings=tuple(standings))
