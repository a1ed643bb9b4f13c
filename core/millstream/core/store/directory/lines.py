"""The candidates of all contests, in one value that is replaced atomically: leaders, waiting candidates, last epoch.

Pure: the result of a change is computed here, and `folder` stores it. The last epoch and the leaders are one value, so
no crash can separate them, and no epoch is assigned twice.
"""

from __future__ import annotations

from collections.abc import Container

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from millstream.core.jobs.ids import ANY_EPOCH, LeaderEpoch
from millstream.core.store.store import Contest


class Standing(Struct, frozen=True):
    """A candidate with a unique id, and its session; it is a leader if it has an epoch."""

    candidate: str
    session: str
    contest: Contest
    address: str
    epoch: LeaderEpoch = ANY_EPOCH


class Lines(Struct, frozen=True):
    """Candidates in order of arrival: the first one of a contest leads. Revisions are unique."""

    revision: int = 0
    epoch: LeaderEpoch = ANY_EPOCH
    standings: tuple[Standing, ...] = ()

    def to_bytes(self) -> bytes:
        """Encodes for the file."""
        return msgspec.json.encode(self)

    @staticmethod
    def from_bytes(stored: bytes | None) -> Lines:
        """Decodes from the file; None stands for a new store."""
        return msgspec.json.decode(stored, type=Lines) if stored is not None else Lines()

    def leader(self, contest: Contest) -> Standing | None:
        """Returns the leader, or None."""
        return next((standing for standing in self.standings if standing.contest == contest), None)

    def of(self, candidate: str) -> Standing | None:
        """Returns a candidate, or None if it was removed."""
        return next((standing for standing in self.standings if standing.candidate == candidate), None)

    def sessions(self) -> set[str]:
        """The sessions that have candidates."""
        return {standing.session for standing in self.standings}

    def with_last(self, standing: Standing) -> Lines:
        """Returns the lines with one more candidate at the end."""
        return replace(self, standings=(*self.standings, standing))

    def without(self, candidate: str) -> Lines:
        """Returns the lines without this candidate, whether it leads or not."""
        return replace(self, standings=tuple(s for s in self.standings if s.candidate != candidate))

    def without_sessions(self, sessions: Container[str]) -> Lines:
        """Returns the lines without the candidates of these sessions."""
        return replace(self, standings=tuple(s for s in self.standings if s.session not in sessions))

    def revised(self) -> Lines:
        """Returns equal lines with a new revision."""
        return replace(self, revision=self.revision + 1)

    def settled(self) -> Lines:
        """Returns the lines with an epoch for every new leader."""
        epoch, led, standings = self.epoch, set[Contest](), []
        for standing in self.standings:
            if standing.contest not in led and standing.epoch == ANY_EPOCH:
                epoch = LeaderEpoch(epoch + 1)
                standing = replace(standing, epoch=epoch)
            led.add(standing.contest)
            standings.append(standing)
        return replace(self, epoch=epoch, standings=tuple(standings))
