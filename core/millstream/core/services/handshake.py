"""Whether two services mean the same leader, of a session or of a job: the one place where epochs are compared.

Of two services, the one that is dialled leads. It leads under an epoch, which it has for as long as it leads; whoever
follows it has a higher one. Each end says with its first message which epoch it means, and the session ends there
unless they agree. So all that comes over a session is said under one epoch: a leader that was frozen and wakes up, or
one that was found at an address of which somebody else has told, is not listened to.

Pure. An epoch of 0 is that of whoever is there: who only knows an address dials it with that.
"""

from __future__ import annotations

from collections.abc import Collection

from millstream.core.clock import Clock
from millstream.core.jobs.ids import ANY_EPOCH, JobId, LeaderEpoch
from millstream.core.services.leader_lookup import KnownLeader


def epoch_of_start(clock: Clock) -> LeaderEpoch:
    """Of a service that nobody else can follow: a later start of it has a higher one, as far as the clock continues."""
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


class JobLeaders:
    """Who leads which job, as one end knows that works for jobs: nobody comes back once another has followed.

    A job manager leads job by job, each under an epoch of its own, over one session for all of them. So what is said
    about a job counts only if it comes from where the job is led.
    """

    def __init__(self) -> None:
        self._leaders: dict[JobId, KnownLeader] = {}

    def refusal(self, job_id: JobId, leader: KnownLeader) -> str:
        """Why this one is not followed; empty when it is from now on."""
        known = self._leaders.get(job_id)
        if known is not None and leader.epoch < known.epoch:
            return f"job {job_id} is led under epoch {known.epoch}, and epoch {leader.epoch} is over"
        self._leaders[job_id] = leader
        return ""

    def leader(self, job_id: JobId) -> KnownLeader | None:
        """Who is followed."""
        return self._leaders.get(job_id)

    def deposed(self, job_id: JobId, address: str) -> str:
        """Why what is said from this address is not listened to; empty when it is, or nobody is followed."""
        known = self._leaders.get(job_id)
        if known is None or known.address == address:
            return ""
        return f"job {job_id} is led from {known.address}, under epoch {known.epoch}"

    def keep(self, jobs: Collection[JobId]) -> None:
        """The others are forgotten: nothing is held or wanted for them any more."""
        for job_id in self._leaders.keys() - set(jobs):
            del self._leaders[job_id]
