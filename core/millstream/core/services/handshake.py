"""Fencing by leader epochs, for sessions and for jobs: the only place where epochs are compared.

In a session, the server is the leader. It leads under an epoch, which is constant while it leads; the next leader has a
higher one. The first message of each end contains the epoch that it expects, and the session ends unless they are
equal. So all messages of a session belong to one epoch: a leader that was frozen and resumes, or one that was found at
an outdated address, is ignored.

Pure. An epoch of 0 matches any leader: a client that only knows an address uses it.
"""

from __future__ import annotations

from collections.abc import Collection

from millstream.core.clock import Clock
from millstream.core.jobs.ids import ANY_EPOCH, JobId, LeaderEpoch
from millstream.core.services.leader_lookup import KnownLeader


def epoch_of_start(clock: Clock) -> LeaderEpoch:
    """Returns the epoch of a service without standbys: higher for later starts, if the clock does not go back."""
    return LeaderEpoch(clock.now_ms())


def disagreement(looked_for: LeaderEpoch, leads: LeaderEpoch) -> str:
    """Returns why the two ends do not agree on the epoch; empty when they do."""
    if looked_for in (ANY_EPOCH, leads):
        return ""
    return f"expected the leader of epoch {looked_for}, but found that of epoch {leads}"


class EpochsSeen:
    """The highest epoch of a role that a client has seen: leaders with a lower one are rejected."""

    def __init__(self) -> None:
        self._highest = ANY_EPOCH

    def refusal(self, looked_for: LeaderEpoch, leads: LeaderEpoch) -> str:
        """Returns why the leader that was found is rejected; empty when it is accepted."""
        if looked_for != ANY_EPOCH and leads < self._highest:
            return f"found the leader of epoch {leads}, which was replaced by that of epoch {self._highest}"
        error = disagreement(looked_for, leads)
        if not error and looked_for != ANY_EPOCH:
            self._highest = leads
        return error


class JobLeaders:
    """The known leaders of jobs: a leader with a lower epoch than the known one is rejected.

    A job manager leads each job under a separate epoch, over one session for all of them. So a message about a job is
    accepted only if it comes from the address of the job's leader.
    """

    def __init__(self) -> None:
        self._leaders: dict[JobId, KnownLeader] = {}

    def refusal(self, job_id: JobId, leader: KnownLeader) -> str:
        """Sets the leader of a job; returns why it is rejected, or an empty string."""
        known = self._leaders.get(job_id)
        if known is not None and leader.epoch < known.epoch:
            return f"the leader of job {job_id} has epoch {known.epoch}, and epoch {leader.epoch} is outdated"
        self._leaders[job_id] = leader
        return ""

    def leader(self, job_id: JobId) -> KnownLeader | None:
        """Returns the known leader of a job."""
        return self._leaders.get(job_id)

    def deposed(self, job_id: JobId, address: str) -> str:
        """Returns why messages from this address are rejected; empty when it is the leader's, or none is known."""
        known = self._leaders.get(job_id)
        if known is None or known.address == address:
            return ""
        return f"the leader of job {job_id} is at {known.address}, with epoch {known.epoch}"

    def keep(self, jobs: Collection[JobId]) -> None:
        """Removes all other jobs."""
        for job_id in self._leaders.keys() - set(jobs):
            del self._leaders[job_id]
