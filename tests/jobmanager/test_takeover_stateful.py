"""A new leader under any order of reports, losses and late responses: all latest attempts continue, or none."""

from __future__ import annotations

from found_tasks import WAIT, attempt_of, found_slot, without_last
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from job_driver import JobDriver
from job_graphs import edge, job, pipeline, vertex
from thoroughness import cases

from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import NO_ALLOCATION
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.core.messages.task_manager import TaskUpdate
from millstream.jobmanager.adaptive.settings import AdaptiveSettings
from millstream.jobmanager.failover.settings import FixedDelay, NoRestart, RestartSettings
from millstream.jobmanager.job_master import events as ev
from millstream.jobmanager.job_master.execution_graph import SlotKey
from millstream.jobmanager.job_master.settings import Succeeding

GRAPHS: list[JobGraph] = [
    pipeline(1),
    pipeline(2, source=True),
    pipeline(1, 3, source=True),
    job([vertex("a", 3, source=True), vertex("b", 3)], [edge("a", "b", "FORWARD")]),
]
FOUND = [ExecutionState.RUNNING] * 9 + [ExecutionState.FINISHED, ExecutionState.INITIALIZING, ExecutionState.FAILED]
LATEST = 2


class TakeoverMachine(RuleBasedStateMachine):
    """Task managers have what an earlier leader left there, more or less."""

    @initialize(
        graph=st.sampled_from(GRAPHS),
        restart=st.sampled_from([NoRestart(), FixedDelay(3, 0)]),
        adaptive=st.sampled_from([None, AdaptiveSettings(False, 5_000, 1_000, 2_000, 2_000)]),
    )
    def begin(self, graph: JobGraph, restart: RestartSettings, adaptive: AdaptiveSettings | None) -> None:
        succeeding = Succeeding(lambda _vertex, _subtask: LATEST, WAIT)
        self.driver = JobDriver(graph, restart=restart, succeeding=succeeding, adaptive=adaptive)
        self.driver.start()
        self.offers = 0
        self.keys = list(self.driver.master.execution_graph.slot_keys())
        self.placed: dict[SlotKey, tuple[str, str]] = {}

    @rule(parallelism=st.integers(1, 4))
    def somebody_wants_another_parallelism(self, parallelism: int) -> None:
        self.driver.rescale(parallelism, f"t{parallelism}", waits=False)
        assert f"t{parallelism}" in self.driver.rescales

    def _new_slot(self) -> str:
        self.offers += 1
        return f"b{self.offers}"

    @rule(data=st.data(), state=st.sampled_from(FOUND), place=st.integers(1, 3))
    def a_slot_is_found(self, data: st.DataObject, state: ExecutionState, place: int) -> None:
        key = data.draw(st.sampled_from(self.keys))
        if not self.driver.master.is_taking_over:
            return
        allocation, task_manager = self.placed.setdefault(key, (f"a{key.index}", f"tm{place}"))
        if allocation not in self.driver.freed:
            self.driver.offer(allocation, task_manager, found_slot(self.driver, key, state))

    @rule(state=st.sampled_from(FOUND[:10]))
    def all_that_is_left_is_found(self, state: ExecutionState) -> None:
        for key in self.keys:
            if self.driver.master.is_taking_over and key not in self.placed:
                self.placed[key] = (f"a{key.index}", "tm1")
                self.driver.offer(*self.placed[key], found_slot(self.driver, key, state))

    @rule()
    def all_goes_well(self) -> None:
        self.all_that_is_left_is_found(ExecutionState.RUNNING)
        if self.driver.asked:
            self.driver.tell(ev.TakeoverPrepared())
            self.driver.tell(ev.EnumeratorsReadied())

    @rule(data=st.data(), kind=st.integers(0, 3))
    def something_else_is_found(self, data: st.DataObject, kind: int) -> None:
        key = data.draw(st.sampled_from(self.keys))
        found = found_slot(self.driver, key, behind=1 if kind == 0 else 0)
        if not found.tasks:  # a rescaled job has no such slot any more
            return
        taking_over = self.driver.master.is_taking_over
        effects = self.driver.offer(self._new_slot(), "tm2", {1: None, 2: without_last(found)}.get(kind, found))
        if kind == 0 or (kind == 3 and not taking_over):
            (response,) = [effect for effect in effects if isinstance(effect, ev.RespondToOffer)]
            assert not response.accepted, "attempts that are not the job's are never taken"
        elif effects and taking_over and kind == 3 and key not in self.placed:
            self.placed[key] = (f"b{self.offers}", "tm2")

    @rule(data=st.data(), state=st.sampled_from(FOUND))
    def a_found_task_reports(self, data: st.DataObject, state: ExecutionState) -> None:
        execution = data.draw(st.sampled_from(self.driver.executions))
        attempt = attempt_of(execution, LATEST)
        failure = TaskFailure(exception="ValueError: bad") if state is ExecutionState.FAILED else None
        self.driver.tell(ev.TaskChanged(TaskUpdate(NO_ALLOCATION, attempt, state, failure)))

    @rule(number=st.integers(1, 9))  # most are of task managers that the job has nothing to do with
    def a_task_manager_is_lost(self, number: int) -> None:
        self.driver.lose_task_manager(f"tm{number}")

    @rule(data=st.data(), chance=st.integers(0, 9))
    def a_worker_is_lost(self, data: st.DataObject, chance: int) -> None:
        if self.driver.held and chance == 0:
            self.driver.lose_worker(data.draw(st.sampled_from(sorted(self.driver.held))))

    @rule(response=st.integers(0, 11))
    def the_shell_responds(self, response: int) -> None:
        """After a request; enumerators that start for something else than the takeover may be ready at any time."""
        match response:
            case 0 if self.driver.asked:
                self.driver.tell(ev.TakeoverRefused("it assigned splits"))
            case 1:
                self.driver.tell(ev.EnumeratorsFailed(TaskFailure(exception="OSError: source")))
            case _ if response % 2 and self.driver.asked:
                self.driver.tell(ev.TakeoverPrepared())
            case _:
                self.driver.tell(ev.EnumeratorsReadied())

    @rule()
    def a_slot_for_a_new_start_comes(self) -> None:
        self.driver.offer(self._new_slot(), "tm3")

    @rule()
    def workers_and_states_are_there(self) -> None:
        for allocation in list(self.driver.started):
            if allocation in self.driver.held:
                self.driver.ready(allocation)
        if self.driver.restores:
            self.driver.restored()

    @rule(seconds=st.sampled_from([0.2, 0.2, 0.2, 6.0]))
    def time_passes(self, seconds: float) -> None:
        self.driver.tick(seconds)

    @rule()
    def tasks_end_as_they_are_told(self) -> None:
        self.driver.answer_cancels()

    @rule(number=st.integers(0, 9))
    def the_job_is_stopped_from_outside(self, number: int) -> None:
        match number:
            case 0:
                self.driver.cancel()
            case 1:
                self.driver.tell(ev.Suspended("no dispatcher"))
            case 2:
                self.driver.tell(ev.Resumed())
            case _:
                pass

    @invariant()
    def it_is_decided_once_and_in_time(self) -> None:
        if not hasattr(self, "driver"):
            return
        driver = self.driver
        assert not (driver.taken_over and driver.started_again)
        if driver.master.is_taking_over and not driver.asked:
            assert driver.now < 1_000 + WAIT * 1000
        attempts = {e.attempt for e in driver.executions}
        assert attempts != {LATEST} or driver.taken_over or not driver.deployed

    def teardown(self) -> None:
        """Whatever happened: a job that is cancelled ends as soon as the task managers have responded."""
        if not hasattr(self, "driver"):
            return
        self.driver.cancel()
        self.driver.answer_cancels()
        assert self.driver.ended
        assert not self.driver.held
        assert self.driver.master.status in (JobStatus.CANCELED, JobStatus.FAILED, JobStatus.FINISHED)


TestTakeoverMachine = TakeoverMachine.TestCase
TestTakeoverMachine.settings = settings(max_examples=cases(150), stateful_step_count=30)
