"""Whether two services that begin a session mean the same leader: the one place where epochs are compared.

Of two services, the one that is dialled leads. It leads under an epoch, which it has for as long as it leads; whoever
follows it has a higher one. Each end says with its first message which epoch it means, and the session ends there
unless they agree. So all that comes over a session is said under one epoch: a leader that was frozen and wakes up, or
one that was found at an address of which somebody else has told, is not listened to.

Pure. An epoch of 0 is that of whoever is there: who only knows an address dials it with that.
"""

from __future__ import annotations

from millstream.core.clock import Clock
from millstream.core.jobs.ids import ANY_EPOCH, LeaderEpoch


def epoch_of_start(clock: Clock) -> LeaderEpoch:
    """Of a service that nobody else can follow: a later start of it has a higher one, as far as the clock goes on."""
    return LeaderEpoch(clock.now_ms())


def disagreement(looked_for: LeaderEpoch, leads: LeaderEpoch) -> str:
    """Why there is no session, at either end; empty when there is one."""
    if looked_for in (ANY_EPOCH, leads):
        return ""
    return f"the leader of epoch {looked_for} was looked for, and that of epoch {leads} found"


class EpochsSeen:
    """What one end that dials knows of the leaders of one role: none comes back once another has followed it."""

    def __init__(self) -> None:
        self._highest = ANY_EPOCH

    def refusal(self, looked_for: LeaderEpoch, leads: LeaderEpoch) -> str:
        """Why there is no session with the leader that was found; empty when there is one."""
        if looked_for != ANY_EPOCH and leads < self._highest:
            return f"the leader of epoch {leads} was found, which that of epoch {self._highest} has followed"
        told = disagreement(looked_for, leads)
        if not told and looked_for != ANY_EPOCH:
            self._highest = leads
        return told
