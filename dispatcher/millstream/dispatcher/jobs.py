"""The dispatcher's table of jobs: which wait, which job manager runs which, which have ended. Pure.

Rules:
- a job is queued until a job manager is registered, then belongs to one;
- a job that has ended never changes again: a job manager that still runs it has to abandon it, which is no
  cancellation: what the job has stored stays;
- only the most recent ended jobs are remembered.

Without high availability, a job belongs to its job manager for good:
- one that is disconnected keeps its jobs for a grace time; when it has not registered again by then, those that have
  not ended fail;
- one that registers with an unknown job adds it (the dispatcher was restarted).

With it (`recovers`), a job belongs to its leader, and all jobs are known from the store:
- the jobs of a job manager that is disconnected, and those that a new dispatcher finds, are orphaned: they may have a
  leader. They are queued again when the store has none for them, or belong to the job manager that registers with them;
- one whose leader sends no report for a grace time, while job managers are registered that could run it, is recalled:
  its leader reaches the store and its tasks, but not the dispatcher. The leader finds the recall in the store and
  leaves it. The dispatcher decides that, and not the leader alone: only the dispatcher knows of other job managers that
  could lead the job, and where there are none, or no dispatcher leads, it is better left where its tasks continue;
- of two that claim a job, the one with the higher epoch has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NewType, assert_never

from msgspec import Struct, field

from millstream.core.jobs.ids import ANY_EPOCH, JobId, JobManagerId, LeaderEpoch
from millstream.core.jobs.states import JobStatus

SessionId = NewType("SessionId", int)


class Phase(Enum):
    """Where a job is, as far as the dispatcher is concerned."""

    QUEUED = "queued"
    ASSIGNED = "assigned"
    ORPHANED = "orphaned"
    ENDED = "ended"


class Claim(Struct, frozen=True):
    """A job manager's report of a job: its state, and the epoch under which the job manager leads it."""

    status: JobStatus
    epoch: LeaderEpoch = ANY_EPOCH


class Submitted(Struct, frozen=True):
    """A client submitted a job under a new id."""

    job_id: JobId


class Recovered(Struct, frozen=True):
    """The store has a job that an earlier dispatcher took; perhaps its user wants it cancelled."""

    job_id: JobId
    cancelled: bool = False


class FoundEnded(Struct, frozen=True):
    """The store has the end of a job."""

    job_id: JobId
    status: JobStatus


class LeaderLost(Struct, frozen=True):
    """The store has no leader of a job that is watched."""

    job_id: JobId


class CancelRequested(Struct, frozen=True):
    """A client wants a job cancelled."""

    job_id: JobId


class ManagerRegistered(Struct, frozen=True):
    """A job manager opened a session and listed what it runs."""

    manager: JobManagerId
    session: SessionId
    jobs: Mapping[JobId, Claim]


class ManagerDisconnected(Struct, frozen=True):
    """A session ended."""

    manager: JobManagerId
    session: SessionId
    reason: str


class JobReported(Struct, frozen=True):
    """A job manager reported the state of a job over its session."""

    session: SessionId
    job_id: JobId
    claim: Claim


class TimePassed(Struct, frozen=True):
    """The deadline that `next_deadline` named may have come."""


Event = (
    Submitted
    | Recovered
    | FoundEnded
    | LeaderLost
    | CancelRequested
    | ManagerRegistered
    | ManagerDisconnected
    | JobReported
    | TimePassed
)


class StartJob(Struct, frozen=True):
    """The job manager is to run the job."""

    session: SessionId
    job_id: JobId


class CancelJob(Struct, frozen=True):
    """The job manager is to cancel the job."""

    session: SessionId
    job_id: JobId


class AbandonJob(Struct, frozen=True):
    """The job manager is to stop the job and to keep what it has stored.

    With an epoch, because another one has the job: unless it leads the job under a higher epoch.
    """

    session: SessionId
    job_id: JobId
    epoch: LeaderEpoch = ANY_EPOCH


class RecallJob(Struct, frozen=True):
    """The leader of the job is to leave it; `withdrawn`: not any more, as it is back."""

    job_id: JobId
    withdrawn: bool = False


class WatchLeader(Struct, frozen=True):
    """Watch for the time when the job has no leader."""

    job_id: JobId


class ForgetJob(Struct, frozen=True):
    """The job manager may forget the job, whose end is recorded."""

    session: SessionId
    job_id: JobId


class RecordReport(Struct, frozen=True):
    """What was just reported about the job is what is known about it now."""

    job_id: JobId


class EndJob(Struct, frozen=True):
    """The job ends by the dispatcher's own decision, not by a report."""

    job_id: JobId
    status: JobStatus
    reason: str


class JobOutOfTouch(Struct, frozen=True):
    """Its job manager is disconnected; the job fails unless that is back within so many seconds, if they are given."""

    job_id: JobId
    grace: float | None = None


class DropJob(Struct, frozen=True):
    """The ended job is no longer remembered."""

    job_id: JobId


Effect = (
    StartJob
    | CancelJob
    | AbandonJob
    | RecallJob
    | WatchLeader
    | ForgetJob
    | RecordReport
    | EndJob
    | JobOutOfTouch
    | DropJob
)


class _Job(Struct):
    phase: Phase = Phase.QUEUED
    manager: JobManagerId | None = None
    status: JobStatus = JobStatus.INITIALIZING
    reported: bool = False
    cancel_requested: bool = False
    epoch: LeaderEpoch = ANY_EPOCH
    heard: bool = False  # of, from the job manager that has it
    recall_at: float = 0.0  # while it is not
    recalled: bool = False

    @property
    def may_be_recalled(self) -> bool:
        return not self.heard and self.phase in (Phase.ORPHANED, Phase.ASSIGNED)


class _Manager(Struct):
    session: SessionId | None
    lost_at: float = 0.0
    reason: str = ""
    jobs: set[JobId] = field(default_factory=set)


class JobTable:
    """The state machine. `grace` is how long a disconnected job manager may take to come back."""

    def __init__(self, grace: float, capacity: int, recovers: bool = False) -> None:
        self._grace = grace
        self._recovers = recovers
        self._capacity = max(capacity, 0)
        self._jobs: dict[JobId, _Job] = {}
        self._ended: dict[JobId, None] = {}
        self._managers: dict[JobManagerId, _Manager] = {}

    def __contains__(self, job_id: JobId) -> bool:
        return job_id in self._jobs

    def phase(self, job_id: JobId) -> Phase:
        """Where a known job is."""
        return self._jobs[job_id].phase

    def session_of(self, job_id: JobId) -> SessionId | None:
        """The session of the job manager that runs the job, when there is one now."""
        job = self._jobs.get(job_id)
        if job is None or job.phase is not Phase.ASSIGNED or job.manager is None:
            return None
        return self._managers[job.manager].session

    def next_deadline(self) -> float | None:
        """When `TimePassed` is due, on the clock of `now`."""
        if self._recovers:
            unheard = [job.recall_at for job in self._jobs.values() if job.may_be_recalled]
            return min(unheard, default=None) if self._managers else None
        return min((m.lost_at for m in self._managers.values() if m.session is None), default=None)

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Handles one event and returns what has to be done, in order."""
        match event:
            case Submitted(job_id):
                return self._submitted(job_id, now)
            case Recovered(job_id, cancelled):
                recall_at = now + self._grace
                self._jobs[job_id] = _Job(
                    Phase.ORPHANED, reported=True, cancel_requested=cancelled, recall_at=recall_at
                )
                return [WatchLeader(job_id)]
            case FoundEnded(job_id, status):
                self._jobs[job_id] = _Job(status=status)
                return self._record_end(job_id)
            case LeaderLost(job_id):
                return self._leader_lost(job_id, now)
            case CancelRequested(job_id):
                return self._cancel_requested(job_id)
            case ManagerRegistered(manager, session, jobs):
                return self._registered(manager, session, jobs, now)
            case ManagerDisconnected(manager, session, reason):
                return self._disconnected(manager, session, reason, now)
            case JobReported(session, job_id, claim):
                return self._reported(session, job_id, claim)
            case TimePassed():
                return self._time_passed(now)
            case _:
                assert_never(event)

    def _submitted(self, job_id: JobId, now: float) -> list[Effect]:
        assert job_id not in self._jobs, f"job {job_id} was submitted before"
        self._jobs[job_id] = _Job()
        return self._assign_queued(now)

    def _assign_queued(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        connected = [(key, m, m.session) for key, m in self._managers.items() if m.session is not None]
        for job_id, job in self._jobs.items():
            if job.phase is Phase.QUEUED and connected:
                key, manager, session = min(connected, key=lambda entry: len(entry[1].jobs))
                job.phase, job.manager, job.heard, job.recall_at = Phase.ASSIGNED, key, False, now + self._grace
                manager.jobs.add(job_id)
                effects.append(StartJob(session, job_id))
                if job.cancel_requested:
                    effects.append(CancelJob(session, job_id))
        return effects

    def _leader_lost(self, job_id: JobId, now: float) -> list[Effect]:
        job = self._jobs.get(job_id)
        if job is None or job.phase is not Phase.ORPHANED:
            return []
        job.phase, job.recalled = Phase.QUEUED, False
        return self._assign_queued(now)

    def _cancel_requested(self, job_id: JobId) -> list[Effect]:
        job = self._jobs.get(job_id)
        if job is None or job.phase is Phase.ENDED:
            return []
        if job.phase is Phase.QUEUED and not job.reported:
            return self._end(job_id, JobStatus.CANCELED, "cancelled before it started")
        job.cancel_requested = True
        session = self.session_of(job_id)
        return [CancelJob(session, job_id)] if session is not None else []

    def _registered(
        self, key: JobManagerId, session: SessionId, claims: Mapping[JobId, Claim], now: float
    ) -> list[Effect]:
        if not self._managers:  # it was out of touch with all of them: the others may be in flight
            for job in self._jobs.values():
                job.recall_at = max(job.recall_at, now + self._grace)
        manager = self._managers.setdefault(key, _Manager(session))
        manager.session = session
        missing = [job_id for job_id in self._jobs if job_id in manager.jobs and job_id not in claims]
        effects: list[Effect] = []
        if self._recovers:
            effects += self._orphan(manager, missing, now)
        else:
            for job_id in missing:
                effects += self._no_longer_run(key, session, job_id)
        for job_id, claim in claims.items():
            effects += self._claimed(key, session, job_id, claim)
        return effects + self._assign_queued(now)

    def _no_longer_run(self, key: JobManagerId, session: SessionId, job_id: JobId) -> list[Effect]:
        job = self._jobs[job_id]
        if job.reported:
            return self._end(job_id, JobStatus.FAILED, f"job manager {key} no longer runs it")
        if job.cancel_requested:
            return self._end(job_id, JobStatus.CANCELED, "cancelled before it started")
        return [StartJob(session, job_id)]

    def _claimed(self, key: JobManagerId, session: SessionId, job_id: JobId, claim: Claim) -> list[Effect]:
        """A job manager reports that it runs a job."""
        job = self._jobs.get(job_id)
        if job is None and not self._recovers:
            job = self._jobs[job_id] = _Job()
        if job is None or job.phase is Phase.ENDED or not self._is_right(key, job, claim):
            epoch = job.epoch if job is not None and job.phase is not Phase.ENDED else ANY_EPOCH
            return [ForgetJob(session, job_id) if claim.status.is_terminal else AbandonJob(session, job_id, epoch)]
        effects = self._hand_over(key, job_id, job)
        job.epoch = claim.epoch
        effects += self._reported(session, job_id, claim)
        if job.cancel_requested and job.phase is Phase.ASSIGNED:
            effects.append(CancelJob(session, job_id))
        return effects

    def _is_right(self, key: JobManagerId, job: _Job, claim: Claim) -> bool:
        """Whether a claim stands against what is known of the job."""
        if self._recovers:
            return claim.epoch >= job.epoch
        return job.manager in (None, key)

    def _hand_over(self, key: JobManagerId, job_id: JobId, job: _Job) -> list[Effect]:
        """The job belongs to this job manager; the one that had it waits for it in vain, or does not know yet."""
        before = self._managers.get(job.manager) if job.manager not in (None, key) else None
        job.phase, job.manager = Phase.ASSIGNED, key
        self._managers[key].jobs.add(job_id)
        if before is None:
            return []
        before.jobs.discard(job_id)
        return [AbandonJob(before.session, job_id, job.epoch)] if before.session is not None else []

    def _disconnected(self, key: JobManagerId, session: SessionId, reason: str, now: float) -> list[Effect]:
        manager = self._managers.get(key)
        if manager is None or manager.session != session:
            return []
        if self._recovers:
            del self._managers[key]
            return self._orphan(manager, [job_id for job_id in self._jobs if job_id in manager.jobs], now)
        manager.session, manager.lost_at, manager.reason = None, now + self._grace, reason
        return [JobOutOfTouch(job_id, self._grace) for job_id in self._jobs if job_id in manager.jobs]

    def _orphan(self, manager: _Manager, job_ids: list[JobId], now: float) -> list[Effect]:
        for job_id in job_ids:
            manager.jobs.discard(job_id)
            job = self._jobs[job_id]
            job.phase, job.manager, job.heard, job.recall_at = Phase.ORPHANED, None, False, now + self._grace
        return [effect for job_id in job_ids for effect in (JobOutOfTouch(job_id), WatchLeader(job_id))]

    def _reported(self, session: SessionId, job_id: JobId, claim: Claim) -> list[Effect]:
        job, status = self._jobs.get(job_id), claim.status
        if job is None or self.session_of(job_id) != session:
            return self._reported_by_another(session, job_id, job, claim)
        job.status, job.reported, job.heard, job.epoch = status, True, True, max(job.epoch, claim.epoch)
        if not status.is_terminal:
            withdrawn = [RecallJob(job_id, withdrawn=True)] if job.recalled else []
            job.recalled = False
            return [RecordReport(job_id), *withdrawn]
        return [RecordReport(job_id), ForgetJob(session, job_id), *self._record_end(job_id)]

    def _reported_by_another(self, session: SessionId, job_id: JobId, job: _Job | None, claim: Claim) -> list[Effect]:
        """By a job manager that does not have the job: it may have won it since, or did not report it at first."""
        keys = [key for key, manager in self._managers.items() if manager.session == session]
        if self._recovers and keys and job is not None and job.phase is not Phase.ENDED and claim.epoch >= job.epoch:
            return self._claimed(keys[0], session, job_id, claim)
        return [ForgetJob(session, job_id)] if claim.status.is_terminal else []

    def _time_passed(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        if self._recovers:
            for job_id, job in self._jobs.items() if self._managers else ():
                if job.may_be_recalled and job.recall_at <= now:
                    job.recall_at, job.recalled = now + self._grace, True  # another may have come to lead it since
                    effects.append(RecallJob(job_id))
            return effects
        for key, manager in list(self._managers.items()):
            if manager.session is None and manager.lost_at <= now:
                for job_id in [j for j in self._jobs if j in manager.jobs]:
                    reason = f"job manager {key} was lost: {manager.reason}"
                    effects += self._end(job_id, JobStatus.FAILED, reason)
                del self._managers[key]
        return effects

    def _end(self, job_id: JobId, status: JobStatus, reason: str) -> list[Effect]:
        self._jobs[job_id].status = status
        return [EndJob(job_id, status, reason), *self._record_end(job_id)]

    def _record_end(self, job_id: JobId) -> list[Effect]:
        job = self._jobs[job_id]
        job.phase = Phase.ENDED
        if job.manager is not None:
            self._managers[job.manager].jobs.discard(job_id)
        self._ended[job_id] = None
        effects: list[Effect] = []
        while len(self._ended) > self._capacity:
            oldest = next(iter(self._ended))
            del self._ended[oldest]
            del self._jobs[oldest]
            effects.append(DropJob(oldest))
        return effects

    def validate(self) -> None:
        """Raises AssertionError when an invariant does not hold. For tests."""
        for job_id, job in self._jobs.items():
            assert (job.phase is Phase.ENDED) == job.status.is_terminal == (job_id in self._ended), (job_id, job)
            owners = [key for key, manager in self._managers.items() if job_id in manager.jobs]
            assert owners == ([job.manager] if job.phase is Phase.ASSIGNED else []), (job_id, job, owners)
            if job.phase is Phase.QUEUED:
                assert all(m.session is None for m in self._managers.values()), "queued beside a job manager"
        assert self._ended.keys() <= self._jobs.keys()
        assert len(self._ended) <= self._capacity
        for manager in self._managers.values():
            assert manager.jobs <= self._jobs.keys()
