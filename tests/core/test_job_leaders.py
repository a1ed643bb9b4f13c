"""Which leader of a job is followed."""

from __future__ import annotations

from millstream.core.jobs.ids import JobId, LeaderEpoch
from millstream.core.services.handshake import JobLeaders
from millstream.core.services.leader_lookup import KnownLeader

JOB, OTHER = JobId("job"), JobId("other")


def leader(address: str, epoch: int) -> KnownLeader:
    return KnownLeader(address, LeaderEpoch(epoch))


def test_a_replaced_leader_does_not_return() -> None:
    leaders = JobLeaders()
    assert leaders.deposed(JOB, "old") == ""
    assert leaders.refusal(JOB, leader("old", 3)) == ""
    assert leaders.refusal(JOB, leader("new", 5)) == ""
    assert leaders.refusal(JOB, leader("old", 3)) == "the leader of job job has epoch 5, and epoch 3 is outdated"
    assert leaders.leader(JOB) == leader("new", 5)
    assert leaders.deposed(JOB, "old") == "the leader of job job is at new, with epoch 5"
    assert leaders.deposed(JOB, "new") == ""


def test_each_job_has_its_own_leader_and_ended_jobs_are_forgotten() -> None:
    leaders = JobLeaders()
    leaders.refusal(JOB, leader("one", 9))
    leaders.refusal(OTHER, leader("other", 2))
    assert leaders.deposed(OTHER, "one") != ""
    leaders.keep([OTHER])
    assert leaders.refusal(JOB, leader("two", 1)) == ""
    assert leaders.leader(OTHER) == leader("other", 2)
