"""The dispatcher's table of jobs, by example and against random histories."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from thoroughness import cases

from millstream.core.jobs.ids import JobId, JobManagerId
from millstream.core.jobs.states import JobStatus
from millstream.dispatcher import jobs as ev

A, B = JobId("a"), JobId("b")
ONE, TWO = JobManagerId("one"), JobManagerId("two")
S1, S2, S3 = ev.SessionId(1), ev.SessionId(2), ev.SessionId(3)

RUNNING, FINISHED, CANCELED = map(ev.Claim, (JobStatus.RUNNING, JobStatus.FINISHED, JobStatus.CANCELED))


def table(capacity: int = 10) -> ev.JobTable:
    return ev.JobTable(grace=5.0, capacity=capacity)


def play(machine: ev.JobTable, *events: ev.Event, now: float = 0.0) -> list[ev.Effect]:
    effects: list[ev.Effect] = []
    for event in events:
        effects = machine.handle(event, now)
        machine.validate()
    return effects


def test_a_job_waits_for_a_job_manager() -> None:
    machine = table()
    assert play(machine, ev.Submitted(A)) == []
    assert machine.phase(A) is ev.Phase.QUEUED
    assert play(machine, ev.ManagerRegistered(ONE, S1, {})) == [ev.StartJob(S1, A)]
    assert machine.session_of(A) == S1


def test_jobs_are_spread_over_job_managers() -> None:
    machine = table()
    play(machine, ev.ManagerRegistered(ONE, S1, {}), ev.ManagerRegistered(TWO, S2, {}))
    assert play(machine, ev.Submitted(A)) == [ev.StartJob(S1, A)]
    assert play(machine, ev.Submitted(B)) == [ev.StartJob(S2, B)]


def test_a_queued_job_is_cancelled_at_once() -> None:
    machine = table()
    play(machine, ev.Submitted(A))
    assert play(machine, ev.CancelRequested(A)) == [ev.EndJob(A, JobStatus.CANCELED, "cancelled before it started")]
    assert play(machine, ev.ManagerRegistered(ONE, S1, {})) == []


def test_the_end_is_recorded_then_forgotten_then_dropped() -> None:
    machine = table(capacity=0)
    play(machine, ev.ManagerRegistered(ONE, S1, {}), ev.Submitted(A))
    assert play(machine, ev.JobReported(S1, A, RUNNING)) == [ev.RecordReport(A)]
    ended = play(machine, ev.JobReported(S1, A, FINISHED))
    assert ended == [ev.RecordReport(A), ev.ForgetJob(S1, A), ev.DropJob(A)]
    assert A not in machine


def test_a_lost_job_manager_fails_its_jobs_after_the_grace_time() -> None:
    machine = table()
    play(machine, ev.ManagerRegistered(ONE, S1, {}), ev.Submitted(A))
    play(machine, ev.ManagerDisconnected(ONE, S1, "it died"), now=1.0)
    assert machine.next_deadline() == 6.0
    assert play(machine, ev.TimePassed(), now=5.9) == []
    assert play(machine, ev.TimePassed(), now=6.0) == [
        ev.EndJob(A, JobStatus.FAILED, "job manager one was lost: it died")
    ]
    assert machine.next_deadline() is None
    assert play(machine, ev.ManagerRegistered(ONE, S2, {A: RUNNING})) == [ev.AbandonJob(S2, A)]
    assert play(machine, ev.JobReported(S2, A, CANCELED)) == [ev.ForgetJob(S2, A)]


def test_a_job_manager_that_comes_back_keeps_its_jobs_and_hears_of_cancellations() -> None:
    machine = table()
    play(machine, ev.ManagerRegistered(ONE, S1, {}), ev.Submitted(A), ev.JobReported(S1, A, RUNNING))
    play(machine, ev.ManagerDisconnected(ONE, S1, "cut"))
    assert play(machine, ev.CancelRequested(A)) == []
    effects = play(machine, ev.ManagerRegistered(ONE, S2, {A: RUNNING}))
    assert effects == [ev.RecordReport(A), ev.CancelJob(S2, A)]


def test_a_start_that_never_arrived_is_sent_again() -> None:
    machine = table()
    play(machine, ev.ManagerRegistered(ONE, S1, {}), ev.Submitted(A), ev.ManagerDisconnected(ONE, S1, "cut"))
    assert play(machine, ev.ManagerRegistered(ONE, S2, {})) == [ev.StartJob(S2, A)]


def test_a_job_that_its_job_manager_no_longer_has_fails() -> None:
    machine = table()
    play(machine, ev.ManagerRegistered(ONE, S1, {}), ev.Submitted(A), ev.JobReported(S1, A, RUNNING))
    effects = play(machine, ev.ManagerRegistered(ONE, S2, {}))
    assert effects == [ev.EndJob(A, JobStatus.FAILED, "job manager one no longer runs it")]


def test_a_newer_session_replaces_an_older_one() -> None:
    machine = table()
    play(machine, ev.ManagerRegistered(ONE, S1, {}), ev.ManagerRegistered(ONE, S2, {}))
    play(machine, ev.ManagerDisconnected(ONE, S1, "old"))
    assert machine.next_deadline() is None
    assert play(machine, ev.Submitted(A)) == [ev.StartJob(S2, A)]
    assert play(machine, ev.JobReported(S1, A, RUNNING)) == []


def test_a_restarted_dispatcher_adopts_running_jobs() -> None:
    machine = table()
    assert play(machine, ev.ManagerRegistered(ONE, S1, {A: RUNNING, B: FINISHED})) == [
        ev.RecordReport(A),
        ev.RecordReport(B),
        ev.ForgetJob(S1, B),
    ]


def test_submitting_twice_is_a_bug_of_the_caller() -> None:
    machine = table()
    play(machine, ev.Submitted(A))
    with pytest.raises(AssertionError):
        machine.handle(ev.Submitted(A), 0.0)


class JobTableHistories(RuleBasedStateMachine):
    """Random submissions, cancellations, reports, losses and returns of up to three job managers.

    The model holds what each job manager really runs; the table must end every job exactly once, start a job at one
    job manager only, and never change a job that has ended for as long as it remembers it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.capacity = 3
        self.machine = ev.JobTable(grace=5.0, capacity=self.capacity)
        self.now = 0.0
        self.sessions: dict[JobManagerId, ev.SessionId] = {}
        self.running: dict[JobManagerId, dict[JobId, JobStatus]] = {}
        self.used: set[JobId] = set()
        self.submitted: set[JobId] = set()
        self.started: dict[JobId, JobManagerId] = {}
        self.ended: set[JobId] = set()
        self.next_session = 0

    def apply(self, event: ev.Event, deliver: bool = True) -> None:
        for effect in self.machine.handle(event, self.now):
            match effect:
                case ev.StartJob(session, job_id):
                    manager = self.manager_of(session)
                    assert self.started.setdefault(job_id, manager) == manager, "started at two job managers"
                    assert job_id not in self.ended
                    if deliver:
                        self.running[manager].setdefault(job_id, JobStatus.INITIALIZING)
                case ev.CancelJob(session, job_id):
                    manager = self.manager_of(session)
                    if job_id in self.running[manager]:
                        self.running[manager][job_id] = JobStatus.CANCELLING
                case ev.AbandonJob(session, job_id):
                    assert job_id in self.ended or self.started.get(job_id) != self.manager_of(session)
                    self.running[self.manager_of(session)][job_id] = JobStatus.FAILED
                case ev.ForgetJob(session, job_id):
                    self.running[self.manager_of(session)].pop(job_id, None)
                case ev.RecordReport(job_id):
                    assert job_id not in self.ended, "a job changed after its end"
                    self.submitted.add(job_id)
                    if isinstance(event, ev.JobReported) and event.claim.status.is_terminal:
                        self.ended.add(job_id)
                    if isinstance(event, ev.ManagerRegistered) and event.jobs[job_id].status.is_terminal:
                        self.ended.add(job_id)
                case ev.EndJob(job_id, status, reason):
                    assert status.is_terminal
                    assert reason
                    assert job_id not in self.ended, "a job ended twice"
                    self.ended.add(job_id)
                case ev.DropJob(job_id):
                    assert job_id not in self.machine
                    self.ended.remove(job_id)
                    self.submitted.remove(job_id)
                    self.started.pop(job_id, None)

    def manager_of(self, session: ev.SessionId) -> JobManagerId:
        (manager,) = [key for key, value in self.sessions.items() if value == session]
        return manager

    @rule(number=st.integers(0, 20), deliver=st.booleans())
    def submit(self, number: int, deliver: bool) -> None:
        job_id = JobId(f"job-{number}")
        if job_id not in self.used:
            self.used.add(job_id)
            self.submitted.add(job_id)
            self.apply(ev.Submitted(job_id), deliver)

    @precondition(lambda self: self.submitted)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.apply(ev.CancelRequested(data.draw(st.sampled_from(sorted(self.submitted)))))

    @rule(name=st.sampled_from(["x", "y", "z"]), deliver=st.booleans())
    def register(self, name: str, deliver: bool) -> None:
        key = JobManagerId(name)
        self.next_session += 1
        self.sessions[key] = ev.SessionId(self.next_session)
        running = self.running.setdefault(key, {})
        claims = {job_id: ev.Claim(status) for job_id, status in running.items()}
        self.apply(ev.ManagerRegistered(key, self.sessions[key], claims), deliver)

    @precondition(lambda self: self.sessions)
    @rule(data=st.data())
    def disconnect(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.sessions)))
        self.apply(ev.ManagerDisconnected(key, self.sessions.pop(key), "cut"))

    @precondition(lambda self: any(self.running.get(key) for key in self.sessions))
    @rule(data=st.data(), status=st.sampled_from([s for s in JobStatus if s is not JobStatus.INITIALIZING]))
    def report(self, data: st.DataObject, status: JobStatus) -> None:
        key = data.draw(st.sampled_from(sorted(k for k in self.sessions if self.running.get(k))))
        job_id = data.draw(st.sampled_from(sorted(self.running[key])))
        if not self.running[key][job_id].is_terminal:
            self.running[key][job_id] = status
            self.apply(ev.JobReported(self.sessions[key], job_id, ev.Claim(status)))

    @rule(name=st.sampled_from(["x", "y", "z"]))
    def crash(self, name: str) -> None:
        key = JobManagerId(name)
        self.running.pop(key, None)
        if key in self.sessions:
            self.apply(ev.ManagerDisconnected(key, self.sessions.pop(key), "crashed"))

    @rule(seconds=st.floats(0.1, 6.0))
    def let_time_pass(self, seconds: float) -> None:
        self.now += seconds
        self.apply(ev.TimePassed())
        deadline = self.machine.next_deadline()
        assert deadline is None or deadline > self.now

    @invariant()
    def is_consistent(self) -> None:
        self.machine.validate()
        for job_id in self.submitted - self.ended:
            assert job_id in self.machine, "a job that has not ended was dropped"
        assert all(job_id in self.machine for job_id in self.ended)
        assert len(self.ended) <= self.capacity


TestJobTableHistories = JobTableHistories.TestCase
TestJobTableHistories.settings = settings(max_examples=cases(100), stateful_step_count=30)
