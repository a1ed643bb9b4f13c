"""The dispatcher's table of jobs with high availability: a job belongs to the process that leads it."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from thoroughness import cases

from millstream.core.jobs.ids import JobId, JobManagerId, LeaderEpoch
from millstream.core.jobs.states import JobStatus
from millstream.dispatcher import jobs as ev

A = JobId("a")
ONE, TWO = JobManagerId("one"), JobManagerId("two")
S1, S2, S3 = map(ev.SessionId, (1, 2, 3))


def table() -> ev.JobTable:
    return ev.JobTable(5.0, 3, recovers=True)


def play(machine: ev.JobTable, *events: ev.Event, now: float = 0.0) -> list[ev.Effect]:
    effects: list[ev.Effect] = []
    for event in events:
        effects = machine.handle(event, now)
        machine.validate()
    return effects


def claim(epoch: int, status: JobStatus = JobStatus.RUNNING) -> ev.Claim:
    return ev.Claim(status, LeaderEpoch(epoch))


def test_a_job_whose_job_manager_is_gone_is_given_to_another_when_it_has_no_leader() -> None:
    machine = table()
    play(machine, ev.ManagerRegistered(ONE, S1, {}), ev.Submitted(A), ev.JobReported(S1, A, claim(1)))
    gone = play(machine, ev.ManagerRegistered(TWO, S2, {}), ev.ManagerDisconnected(ONE, S1, "killed"))
    assert gone == [ev.JobOutOfTouch(A), ev.WatchLeader(A)]
    assert play(machine, ev.LeaderLost(A)) == [ev.StartJob(S2, A)]
    assert play(machine, ev.LeaderLost(A)) == [], "it was looked for twice"


def test_one_that_comes_back_before_keeps_the_job() -> None:
    machine = table()
    play(machine, ev.ManagerRegistered(ONE, S1, {}), ev.Submitted(A), ev.JobReported(S1, A, claim(1)))
    play(machine, ev.ManagerDisconnected(ONE, S1, "cut"))
    assert play(machine, ev.ManagerRegistered(ONE, S2, {A: claim(1)})) == [ev.RecordReport(A)]
    assert play(machine, ev.LeaderLost(A)) == []


def test_one_that_comes_back_without_the_job_and_then_reports_its_end_is_believed() -> None:
    """The end of a job is not reported before it is durable."""
    machine = table()
    play(machine, ev.ManagerRegistered(ONE, S1, {}), ev.Submitted(A), ev.JobReported(S1, A, claim(1)))
    play(machine, ev.ManagerDisconnected(ONE, S1, "cut"), ev.ManagerRegistered(ONE, S2, {}))
    ended = play(machine, ev.JobReported(S2, A, claim(1, JobStatus.FINISHED)))
    assert ended == [ev.RecordReport(A), ev.ForgetJob(S2, A)]
    assert play(machine, ev.LeaderLost(A)) == []


def test_of_two_that_claim_a_job_the_higher_epoch_has_it() -> None:
    machine = table()
    play(machine, ev.Recovered(A), ev.ManagerRegistered(ONE, S1, {A: claim(7)}))
    assert play(machine, ev.ManagerRegistered(TWO, S2, {A: claim(5)})) == [ev.AbandonJob(S2, A, LeaderEpoch(7))]
    newer = play(machine, ev.ManagerRegistered(TWO, S3, {A: claim(9)}))
    assert newer == [ev.AbandonJob(S1, A, LeaderEpoch(7)), ev.RecordReport(A)]
    assert play(machine, ev.JobReported(S1, A, claim(7, JobStatus.FAILED))) == [ev.ForgetJob(S1, A)]
    assert machine.phase(A) is ev.Phase.ASSIGNED


def test_a_cancellation_is_passed_to_the_next_job_manager_of_the_job() -> None:
    machine = table()
    play(machine, ev.Recovered(A, cancelled=True), ev.ManagerRegistered(ONE, S1, {}))
    assert play(machine, ev.LeaderLost(A)) == [ev.StartJob(S1, A), ev.CancelJob(S1, A)]


def test_a_job_that_may_have_run_is_not_cancelled_without_a_job_manager() -> None:
    machine = table()
    play(machine, ev.Recovered(A), ev.LeaderLost(A))
    assert play(machine, ev.CancelRequested(A)) == []
    assert play(machine, ev.ManagerRegistered(ONE, S1, {})) == [ev.StartJob(S1, A), ev.CancelJob(S1, A)]


def test_an_unknown_job_has_ended() -> None:
    machine = table()
    assert play(machine, ev.ManagerRegistered(ONE, S1, {A: claim(1)})) == [ev.AbandonJob(S1, A)]
    play(machine, ev.FoundEnded(JobId("b"), JobStatus.FINISHED))
    assert machine.phase(JobId("b")) is ev.Phase.ENDED


def test_a_job_that_nothing_is_heard_of_is_recalled_after_a_grace_time_and_again() -> None:
    machine = table()
    play(machine, ev.ManagerRegistered(ONE, S1, {}), ev.Submitted(A), ev.JobReported(S1, A, claim(1)))
    play(machine, ev.ManagerRegistered(TWO, S2, {}), ev.ManagerDisconnected(ONE, S1, "cut"), now=10.0)
    assert machine.next_deadline() == 15.0
    assert play(machine, ev.TimePassed(), now=14.9) == []
    assert play(machine, ev.TimePassed(), now=15.0) == [ev.RecallJob(A)]
    assert play(machine, ev.TimePassed(), now=20.0) == [ev.RecallJob(A)], "another may have come to lead it"
    assert play(machine, ev.LeaderLost(A), now=21.0) == [ev.StartJob(S2, A)]
    assert play(machine, ev.JobReported(S2, A, claim(2)), now=21.0) == [ev.RecordReport(A)]
    assert machine.next_deadline() is None


def test_a_recall_is_withdrawn_when_the_leader_is_back() -> None:
    machine = table()
    play(machine, ev.Recovered(A), ev.ManagerRegistered(TWO, S2, {}))
    assert play(machine, ev.TimePassed(), now=5.0) == [ev.RecallJob(A)]
    back = play(machine, ev.ManagerRegistered(ONE, S1, {A: claim(1)}), now=6.0)
    assert back == [ev.RecordReport(A), ev.RecallJob(A, withdrawn=True)]
    assert play(machine, ev.JobReported(S1, A, claim(1)), now=7.0) == [ev.RecordReport(A)]
    assert machine.next_deadline() is None


def test_a_job_is_not_recalled_while_no_other_job_manager_could_run_it_nor_as_soon_as_one_could() -> None:
    machine = table()
    play(machine, ev.Recovered(A))
    assert machine.next_deadline() is None
    assert play(machine, ev.TimePassed(), now=50.0) == []
    play(machine, ev.ManagerRegistered(TWO, S2, {}), now=60.0)
    assert machine.next_deadline() == 65.0


def test_a_job_that_its_new_job_manager_waits_for_is_recalled_from_its_leader() -> None:
    machine = table()
    play(machine, ev.ManagerRegistered(ONE, S1, {}), ev.Submitted(A))
    assert play(machine, ev.TimePassed(), now=5.0) == [ev.RecallJob(A)]
    won = play(machine, ev.JobReported(S1, A, claim(3)), now=6.0)
    assert won == [ev.RecordReport(A), ev.RecallJob(A, withdrawn=True)]


class RecoveringTable(RuleBasedStateMachine):
    """Job managers come and go, lead and lose jobs, under a store that knows who leads.

    A job manager that received a job waits in line for it. Its end is reported by the leader; the table must
    believe only that, and lose no job.
    """

    def __init__(self) -> None:
        super().__init__()
        self.machine = ev.JobTable(5.0, 50, recovers=True)
        self.sessions: dict[JobManagerId, ev.SessionId] = {}
        self.line: dict[JobId, list[JobManagerId]] = {}
        self.epochs: dict[JobId, int] = {}
        self.watched: set[JobId] = set()
        self.submitted: set[JobId] = set()
        self.ended: set[JobId] = set()
        self.last_session = self.last_epoch = 0
        self.now = 0.0

    def apply(self, event: ev.Event) -> None:
        for effect in self.machine.handle(event, self.now):
            match effect:
                case ev.StartJob(session, job_id):
                    assert job_id not in self.ended
                    self._stand(self._manager(session), job_id)
                case ev.AbandonJob(session, job_id, epoch):
                    manager = self._manager(session)
                    leads = self.line.get(job_id, [])[:1] == [manager]
                    if not (leads and epoch and self.epochs[job_id] > epoch):
                        assert not leads or job_id in self.ended, "the leader gets the message to leave"
                        self._leave(manager, job_id)
                case ev.ForgetJob(session, job_id):
                    self._leave(self._manager(session), job_id)
                case ev.WatchLeader(job_id):
                    self.watched.add(job_id)
                case ev.RecallJob(job_id, withdrawn=False):
                    assert self.sessions, "no process could lead it"
                    leader = next(iter(self.line.get(job_id, [])), None)
                    if leader is not None and leader not in self.sessions:
                        self._leave(leader, job_id)
                case ev.EndJob(job_id):
                    self.ended.add(job_id)

    def _manager(self, session: ev.SessionId) -> JobManagerId:
        return next(key for key, value in self.sessions.items() if value == session)

    def _stand(self, manager: JobManagerId, job_id: JobId) -> None:
        line = self.line.setdefault(job_id, [])
        if manager not in line:
            line.append(manager)
            self._settle(job_id, len(line) == 1)

    def _leave(self, manager: JobManagerId, job_id: JobId) -> None:
        line = self.line.get(job_id, [])
        if manager in line:
            led = line[0] == manager
            line.remove(manager)
            self._settle(job_id, led and bool(line))

    def _settle(self, job_id: JobId, is_new: bool) -> None:
        if is_new:
            self.last_epoch += 1
            self.epochs[job_id] = self.last_epoch

    def _led(self, manager: JobManagerId) -> dict[JobId, ev.Claim]:
        led = [job_id for job_id, line in self.line.items() if line[:1] == [manager] and job_id not in self.ended]
        return {job_id: claim(self.epochs[job_id]) for job_id in led}

    @rule(number=st.integers(0, 9))
    def submit(self, number: int) -> None:
        job_id = JobId(f"job-{number}")
        if job_id not in self.submitted:
            self.submitted.add(job_id)
            self.apply(ev.Submitted(job_id))

    @rule(name=st.sampled_from(["x", "y", "z"]))
    def register(self, name: str) -> None:
        key = JobManagerId(name)
        if key in self.sessions:
            self.disconnect(name)
        self.last_session += 1
        self.sessions[key] = ev.SessionId(self.last_session)
        self.apply(ev.ManagerRegistered(key, self.sessions[key], self._led(key)))

    @rule(name=st.sampled_from(["x", "y", "z"]))
    def disconnect(self, name: str) -> None:
        """It stands down from what it does not lead."""
        key = JobManagerId(name)
        if key in self.sessions:
            for job_id, line in self.line.items():
                if line[:1] != [key]:
                    self._leave(key, job_id)
            self.apply(ev.ManagerDisconnected(key, self.sessions.pop(key), "cut"))

    @rule(name=st.sampled_from(["x", "y", "z"]))
    def crash(self, name: str) -> None:
        self.disconnect(name)
        for job_id in self.line:
            self._leave(JobManagerId(name), job_id)

    @precondition(lambda self: self.line)
    @rule(data=st.data(), status=st.sampled_from([JobStatus.RUNNING, JobStatus.FINISHED]))
    def report(self, data: st.DataObject, status: JobStatus) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.line)))
        leader = next(iter(self.line[job_id]), None)
        if leader in self.sessions and job_id not in self.ended:
            session = self.sessions[leader]
            self.apply(ev.JobReported(session, job_id, claim(self.epochs[job_id], status)))
            if status.is_terminal:
                assert self.machine.phase(job_id) is ev.Phase.ENDED, "the leader was not believed"
                self.ended.add(job_id)

    @rule(seconds=st.sampled_from([1.0, 6.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        deadline = self.machine.next_deadline()
        if deadline is not None and deadline <= self.now:
            self.apply(ev.TimePassed())

    @rule()
    def nobody_leads_for_ever_what_the_dispatcher_hears_nothing_of(self) -> None:
        """Once time passes, jobs are led by job managers that have a session, as long as there are any."""
        self.wait(6.0)
        self.look()
        for job_id in self.submitted - self.ended if self.sessions else ():
            assert self.line[job_id][0] in self.sessions, "it is led by one that is out of touch"

    @rule()
    def look(self) -> None:
        """The store knows which jobs have no leader."""
        for job_id in sorted(self.watched):
            if not self.line.get(job_id):
                self.watched.discard(job_id)
                self.apply(ev.LeaderLost(job_id))

    @invariant()
    def every_job_is_somewhere(self) -> None:
        self.machine.validate()
        for job_id in self.submitted - self.ended:
            phase = self.machine.phase(job_id)
            assert phase is not ev.Phase.ENDED
            if phase is ev.Phase.ORPHANED:
                assert job_id in self.watched, "its leader is not looked up"


TestRecoveringTable = RecoveringTable.TestCase
TestRecoveringTable.settings = settings(max_examples=cases(100), stateful_step_count=40)
