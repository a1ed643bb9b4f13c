"""The JobMaster under any order of events: `JobDriver` checks each step, and a cancelled job always ends."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from job_driver import JobDriver
from job_graphs import edge, job, pipeline, vertex
from msgspec.structs import replace
from thoroughness import cases

from millstream.core.jobs.failure_kinds import FailureKind
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import NO_ALLOCATION, AllocationId
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.core.messages.task_manager import AttemptMetrics, TaskMetricsReport
from millstream.jobmanager.adaptive.settings import AdaptiveSettings, RescaleSettings
from millstream.jobmanager.failover.settings import ExponentialDelay, FixedDelay, NoRestart, RestartSettings
from millstream.jobmanager.job_master import events as ev
from millstream.jobmanager.job_master.details import job_details

GRAPHS: list[JobGraph] = [
    job(
        [replace(vertex("a", 1, source=True), max_parallelism=4), replace(vertex("b", 1), max_parallelism=3)],
        [edge("a", "b", "HASH")],
    ),
    pipeline(1),
    pipeline(2, source=True),
    pipeline(1, 3, 2, source=True),
    job([vertex("a", 2), vertex("b", 1, "other")], [edge("a", "b", "FORWARD")]),
    job([vertex("a", 3, source=True), vertex("b", 3)], [edge("a", "b", "FORWARD")]),
]
RESTARTS: list[RestartSettings] = [
    NoRestart(),
    FixedDelay(attempts=3, delay_ms=0),
    FixedDelay(attempts=100, delay_ms=1_000),
    ExponentialDelay(initial_ms=500, max_ms=2_000),
]
ADAPTIVE: list[AdaptiveSettings | None] = [
    None,
    AdaptiveSettings(False, 5_000, 1_000, 2_000, 2_000),
    AdaptiveSettings(True, None, 0, 0, 0),
]
TASK_MANAGERS = ["tm1:1-a", "tm2:1-a", "tm3:1-a"]
REPORTED = [s for s in ExecutionState if s not in (ExecutionState.CREATED, ExecutionState.SCHEDULED)]
EXCEPTIONS = ["ValueError: root", "PeerLostError: echo"]


class JobMasterMachine(RuleBasedStateMachine):
    """Events come as the shells can send them: late, twice, and about things that are gone."""

    @initialize(
        graph=st.sampled_from(GRAPHS),
        restart=st.sampled_from(RESTARTS),
        restoring=st.booleans(),
        adaptive=st.sampled_from(ADAPTIVE),
    )
    def begin(
        self, graph: JobGraph, restart: RestartSettings, restoring: bool, adaptive: AdaptiveSettings | None
    ) -> None:
        rescaling = RescaleSettings(slot_timeout_ms=5_000, has_checkpoints=not restoring)
        self.driver = JobDriver(graph, 10.0, restart, restoring, rescaling=rescaling, adaptive=adaptive)
        self.driver.start()
        assert bool(self.driver.restores) == (restoring and adaptive is None)
        self.offers = self.requests = 0

    @rule(parallelism=st.integers(0, 4), waits=st.booleans())
    def somebody_wants_another_parallelism(self, parallelism: int, waits: bool) -> None:
        self.requests += 1
        self.driver.rescale(parallelism, f"t{self.requests}", waits)

    @rule(lower=st.integers(0, 2), upper=st.integers(1, 4))
    def somebody_wants_other_bounds(self, lower: int, upper: int) -> None:
        self.requests += 1
        vertices = [vertex.id for vertex in self.driver.master.graph.vertices]
        self.driver.bound(dict.fromkeys(vertices, (lower, upper)), f"t{self.requests}", waits=False)
        assert f"t{self.requests}" in self.driver.rescales

    @precondition(lambda self: self.driver.checkpoint_wanted is not None)
    @rule(error=st.sampled_from(["", "", "declined"]), final=st.booleans())
    def the_checkpoint_is_taken_or_not(self, error: str, final: bool) -> None:
        self.driver.checkpointed(error, final)

    @rule(task_manager=st.sampled_from(TASK_MANAGERS))
    def a_slot_is_offered(self, task_manager: str) -> None:
        self.offers += 1
        self.driver.offer(f"a{self.offers}", task_manager)

    @precondition(lambda self: self.driver.held)
    @rule(data=st.data())
    def a_slot_is_offered_again(self, data: st.DataObject) -> None:
        allocation, task_manager = data.draw(st.sampled_from(list(self.driver.held.items())))
        (response,) = self.driver.offer(allocation, task_manager)
        assert isinstance(response, ev.RespondToOffer)
        assert response.accepted

    @rule()
    def all_slots_and_workers_come(self) -> None:
        master = self.driver.master
        if not master.is_suspended and master.status in (JobStatus.CREATED, JobStatus.RUNNING, JobStatus.RESTARTING):
            while len(self.driver.held) < self.driver.master.slots_wanted:
                self.a_slot_is_offered(TASK_MANAGERS[self.offers % 3])
            for allocation in list(self.driver.held):
                if allocation in self.driver.started:
                    self.driver.ready(allocation)

    @precondition(lambda self: self.driver.restores)
    @rule(succeeds=st.integers(0, 5))
    def state_is_restored(self, succeeds: int) -> None:
        if succeeds > 1:
            self.driver.restored()
        else:
            is_current = self.driver.restores[-1].restart == self.driver.master.restarts  # adaptive: later
            waits = is_current and not self.driver.answered and ExecutionState.SCHEDULED in self.driver.states()
            self.driver.restore_failed(final=succeeds == 1)
            if succeeds == 1 and waits:
                going_back = self.driver.master.events and self.driver.master.status is JobStatus.RESTARTING
                assert going_back or self.driver.master.status in (JobStatus.FAILING, JobStatus.FAILED)

    @rule()
    def tasks_end_as_they_are_told(self) -> None:
        self.driver.answer_cancels()

    @rule()
    def the_checkpoints_fail_the_job(self) -> None:
        self.driver.tell(ev.JobFailed(TaskFailure(exception="CheckpointFailure: too many")))

    @rule(available=st.integers(0, 4))
    def the_resource_manager_has_not_enough(self, available: int) -> None:
        self.driver.tell(ev.NotEnoughSlots(available))

    @rule()
    def the_resource_manager_wants_slots_back(self) -> None:
        running = [e for e in self.driver.master.execution_graph.executions if e.is_deployed]
        effects = self.driver.tell(ev.SlotsReclaimed())
        assert not effects or not running

    @rule(action=st.integers(0, 9))
    def the_job_manager_may_not_act_and_may_again(self, action: int) -> None:
        if action < 3:
            self.driver.tell(ev.Suspended("no dispatcher"))
            assert self.driver.master.is_suspended or self.driver.ended
        elif action < 9:
            self.driver.tell(ev.Resumed())
            assert not self.driver.master.is_suspended or self.driver.ended
        else:
            self.driver.tell(ev.Abandoned("reported as failed"))
            assert self.driver.ended

    @rule(number=st.integers(1, 8))
    def a_worker_progresses(self, number: int) -> None:
        self.driver.tell(ev.WorkerProgressed(AllocationId(f"a{number}"), "installing"))

    @rule(number=st.integers(1, 8))
    def a_worker_is_ready(self, number: int) -> None:
        if f"a{number}" in self.driver.started:
            self.driver.ready(f"a{number}")

    @rule(number=st.integers(1, 8))
    def a_worker_is_lost(self, number: int) -> None:
        if f"a{number}" in self.driver.started:
            self.driver.lose_worker(f"a{number}")

    @rule(task_manager=st.sampled_from(TASK_MANAGERS))
    def a_task_manager_is_lost(self, task_manager: str) -> None:
        self.driver.lose_task_manager(task_manager)

    @precondition(lambda self: self.driver.deployed)
    @rule(data=st.data(), state=st.sampled_from(REPORTED), exception=st.sampled_from(EXCEPTIONS))
    def a_task_reports(self, data: st.DataObject, state: ExecutionState, exception: str) -> None:
        execution = data.draw(st.sampled_from(self.driver.executions))
        if state is ExecutionState.CANCELED and execution.state is not ExecutionState.CANCELING:
            return
        self.driver.update(execution, state, exception)

    @precondition(lambda self: self.driver.deployed)
    @rule(number=st.integers(1, 3))
    def tasks_go_on(self, number: int) -> None:
        running = {ExecutionState.DEPLOYING: ExecutionState.RUNNING, ExecutionState.RUNNING: ExecutionState.FINISHED}
        for execution in self.driver.executions[:number]:
            if execution.state in running:
                self.driver.update(execution, running[execution.state])

    @rule()
    def metrics_come(self) -> None:
        updates = tuple(AttemptMetrics(attempt) for attempt in self.driver.deployed)
        assert self.driver.tell(ev.MetricsReported(TaskMetricsReport(NO_ALLOCATION, updates))) == []

    @rule()
    def the_enumerators_are_ready(self) -> None:
        self.driver.tell(ev.EnumeratorsReadied())

    @rule()
    def the_enumerators_fail(self) -> None:
        self.driver.tell(ev.EnumeratorsFailed(TaskFailure(exception="OSError: source")))

    @rule(seconds=st.sampled_from([0.2, 3.0]))
    def time_passes(self, seconds: float) -> None:
        self.driver.tick(seconds)

    @rule(hours=st.sampled_from([-1, 1]))
    def the_wall_clock_is_set(self, hours: int) -> None:
        self.driver.ahead += hours * 3_600_000

    @rule()
    def the_user_cancels(self) -> None:
        self.driver.cancel()

    def teardown(self) -> None:
        """Whatever happened: a job that is cancelled ends as soon as the task managers have responded."""
        if not hasattr(self, "driver"):
            return
        driver = self.driver
        details = job_details(driver.master)
        assert details.slots_held == len(driver.held)
        for entry in driver.master.history.entries:
            echoes = [f.kind is FailureKind.PEER_LOST for f in (entry.failure, *entry.concurrent)]
            assert not echoes[0] or all(echoes)
        driver.cancel()
        for execution in driver.executions:
            if not execution.state.is_terminal:
                assert execution.state is ExecutionState.CANCELING
                driver.update(execution, ExecutionState.CANCELED)
        assert driver.ended


TestJobMasterMachine = JobMasterMachine.TestCase
TestJobMasterMachine.settings = settings(max_examples=cases(150), stateful_step_count=40)
