"""Drives one JobMaster and checks every effect against what the job manager has to be able to rely on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any, TypeVar, assert_never

from millstream.core.clock import Instant
from millstream.core.jobs.failure_kinds import FailureKind, WorkerEnd
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import NO_ALLOCATION, AllocationId, AttemptId, TaskManagerId, VertexId
from millstream.core.jobs.states import JOB_TRANSITIONS, TASK_TRANSITIONS, ExecutionState, JobStatus
from millstream.core.messages.rescaling import VertexBounds
from millstream.core.messages.takeover import FoundSlot, FoundTask
from millstream.core.messages.task_manager import TaskUpdate
from millstream.jobmanager.adaptive.bounds import Requirements
from millstream.jobmanager.adaptive.settings import AdaptiveSettings, RescaleSettings
from millstream.jobmanager.failover.restart_strategy import create_restart_strategy
from millstream.jobmanager.failover.settings import NoRestart, RestartSettings
from millstream.jobmanager.failover.topology import Subtask
from millstream.jobmanager.job_master import events as ev
from millstream.jobmanager.job_master.execution_graph import Execution, TaskRestore
from millstream.jobmanager.job_master.job_master import JobMaster
from millstream.jobmanager.job_master.settings import JobMasterSettings, Succeeding

E = TypeVar("E")


def legal(table: Mapping[Any, frozenset[Any]], start: Any, end: Any) -> bool:
    """Whether legal steps lead from one state to the other."""
    seen, pending = {start}, [start]
    while pending:
        following = table[pending.pop()] - seen
        seen |= following
        pending.extend(following)
    return end in seen


def of_type(effects: list[ev.Effect], kind: type[E]) -> list[E]:
    return [e for e in effects if isinstance(e, kind)]


class JobDriver:
    """Records the effects that the JobMaster returned; raises AssertionError at the first thing that it must not do."""

    def __init__(
        self,
        graph: JobGraph,
        slot_timeout: float = 10.0,
        restart: RestartSettings | None = None,
        restoring: bool = False,
        succeeding: Succeeding | None = None,
        rescaling: RescaleSettings | None = None,
        adaptive: AdaptiveSettings | None = None,
        bounds: Requirements | None = None,
    ) -> None:
        self.now = 1_000
        self.ahead = 1_700_000_000_000  # of the wall clock
        strategy = create_restart_strategy(restart or NoRestart(), Random(7))
        settings = JobMasterSettings(slot_timeout, rescaling=rescaling or RescaleSettings(), adaptive=adaptive)
        self.master = JobMaster(
            graph, settings, self.instant, strategy, restoring=restoring, succeeding=succeeding, bounds=bounds
        )
        self.latest = succeeding.latest if succeeding is not None else None
        self.asked: list[ev.TakeOver] = []
        self.taken_over = self.started_again = False
        self.declared: int | None = None
        self.held: dict[AllocationId, TaskManagerId] = {}
        self.freed: Counter[AllocationId] = Counter()
        self.started: set[AllocationId] = set()
        self.deployed: dict[AttemptId, AllocationId] = {}
        self.addresses: set[AllocationId] = set()
        self.restores: list[ev.Restore] = []
        self.answered = True
        self.enumerator_starts = 0
        self.ended = False
        self.extra = 0
        self.checkpoint_wanted: int | None = None
        self.waiting_for_rescale: set[str] = set()
        self.rescales: dict[str, ev.RespondToRescale] = {}

    @property
    def instant(self) -> Instant:
        return Instant(self.now + self.ahead, self.now)

    def start(self) -> list[ev.Effect]:
        return self._checked(self.master.start(self.instant), None)

    def tell(self, event: ev.Event) -> list[ev.Effect]:
        job, tasks = self.master.status, self.task_states()
        over = self.ended
        if self.master.is_taking_over and isinstance(event, ev.TaskManagerLost):  # it may come back with what it has
            given_up = {s.allocation_id for s in self.master.slots.values()} if self.asked else set()
            self.held = {a: tm for a, tm in self.held.items() if tm != event.task_manager or a in given_up}
        if isinstance(event, ev.Restored) and event.restart == self.restores[-1].restart:
            self.answered = True
        effects = self.master.handle(event, self.instant)
        assert legal(JOB_TRANSITIONS, job, self.master.status), f"{job} -> {self.master.status}"
        for attempt, state in self.task_states().items():
            if attempt in tasks:
                assert legal(TASK_TRANSITIONS, tasks[attempt], state), f"{tasks[attempt]} -> {state}"
            elif not any(isinstance(effect, ev.TakenOver) for effect in effects):
                assert state in (ExecutionState.SCHEDULED, ExecutionState.DEPLOYING, ExecutionState.CANCELED)
        if over:
            answers = [e for e in effects if not (isinstance(e, ev.RespondToRescale) and e.error)]
            assert all(isinstance(e, ev.RespondToOffer) and not e.accepted for e in answers), effects
        return self._checked(effects, event)

    # What happens to the job

    def offer(self, allocation: str, task_manager: str = "tm1:1-a", found: FoundSlot | None = None) -> list[ev.Effect]:
        return self.tell(ev.SlotOffered(AllocationId(allocation), TaskManagerId(task_manager), "host", found))

    def ready(self, allocation: str) -> list[ev.Effect]:
        self.addresses.add(AllocationId(allocation))
        return self.tell(ev.WorkerReadied(AllocationId(allocation), f"address of {allocation}"))

    def ready_all(self) -> None:
        for allocation in list(self.held):
            self.ready(allocation)

    def update(
        self, execution: Execution, state: ExecutionState, exception: str = "ValueError: bad",
        raised: Mapping[str, Any] | None = None, **more: Any
    ) -> list[ev.Effect]:  # fmt: skip
        failure = None
        if state is ExecutionState.FAILED:
            kind = FailureKind.PEER_LOST if exception.startswith("PeerLostError:") else FailureKind.ORDINARY
            failure = TaskFailure(
                exception=exception, traceback=exception, task_name=execution.name, kind=kind, **(raised or {})
            )
        allocation = self.deployed.get(execution.attempt_id, NO_ALLOCATION)
        return self.tell(ev.TaskChanged(TaskUpdate(allocation, execution.attempt_id, state, failure, **more)))

    def cancel(self) -> list[ev.Effect]:
        return self.tell(ev.CancelRequested())

    def lose_worker(
        self, allocation: str, reason: str = "killed by SIGSEGV", end: WorkerEnd = WorkerEnd.LOST
    ) -> list[ev.Effect]:
        self.started.discard(AllocationId(allocation))
        self.addresses.discard(AllocationId(allocation))
        return self.tell(ev.WorkerLost(AllocationId(allocation), reason, end))

    def lose_task_manager(self, task_manager: str = "tm1:1-a", reason: str = "no heartbeat") -> list[ev.Effect]:
        return self.tell(ev.TaskManagerLost(TaskManagerId(task_manager), reason))

    def restored(
        self, restores: Mapping[Subtask, TaskRestore] | None = None, graph: JobGraph | None = None
    ) -> list[ev.Effect]:
        return self.tell(ev.Restored(self.restores[-1].restart, restores or {}, graph))

    def restore_failed(self, final: bool = False) -> list[ev.Effect]:
        return self.tell(ev.RestoreFailed(self.restores[-1].restart, "no such file", final))

    def rescale(self, parallelism: int, trigger: str = "t", waits: bool = True) -> list[ev.Effect]:
        self.waiting_for_rescale.add(trigger)
        return self.tell(ev.RescaleRequested(trigger, "it was asked for", parallelism, waits=waits))

    def bound(self, bounds: Mapping[str, tuple[int, int]], trigger: str = "t", waits: bool = True) -> list[ev.Effect]:
        told = tuple(VertexBounds(VertexId(vertex), *bound) for vertex, bound in bounds.items())
        self.waiting_for_rescale.add(trigger)
        return self.tell(ev.RescaleRequested(trigger, "it was asked for", bounds=told, waits=waits))

    def checkpointed(self, error: str = "", final: bool = False) -> list[ev.Effect]:
        assert self.checkpoint_wanted is not None
        number, self.checkpoint_wanted = self.checkpoint_wanted, None
        return self.tell(ev.RescaleCheckpointed(number, error, final))

    def offer_missing(self, most: int | None = None, task_manager: str = "tm1:1-a") -> None:
        """So many slots, or until the job has all that it wants."""
        missing = self.master.slots_wanted - len(self.held)
        for _ in range(missing if most is None else most):
            self.extra += 1
            self.offer(f"extra{self.extra}", task_manager)

    def run_tasks(self) -> None:
        """All tasks that are deployed run."""
        for execution in self.executions:
            if execution.state is ExecutionState.DEPLOYING:
                self.update(execution, ExecutionState.RUNNING)

    def tick(self, seconds: float = 0.2) -> list[ev.Effect]:
        self.now += round(seconds * 1000)
        return self.tell(ev.Tick())

    def answer_cancels(self) -> list[ev.Effect]:
        """All tasks that are to be cancelled are."""
        cancelling = [e for e in self.executions if e.state is ExecutionState.CANCELING]
        return [effect for e in cancelling for effect in self.update(e, ExecutionState.CANCELED)]

    # Shortcuts into a state

    def give_slots(self, task_managers: int = 1) -> None:
        """All slots that are needed, named a0, a1, ... and dealt out to task managers tm1, tm2, ..."""
        for number in range(self.master.slots_required):
            self.offer(f"a{number}", f"tm{number % task_managers + 1}:1-a")

    def deploy(self, task_managers: int = 1) -> None:
        """Up to the deployment."""
        if self.master.status is JobStatus.INITIALIZING:
            self.start()
        self.give_slots(task_managers)
        self.tell(ev.EnumeratorsReadied())
        self.ready_all()

    def restart(self) -> list[ev.Effect]:
        """From a failure to the deployment of the tasks that run again, with the state that is there."""
        self.answer_cancels()
        self.tick(1)
        return self.restored()

    def run(self, task_managers: int = 1) -> None:
        """Up to all tasks running."""
        self.deploy(task_managers)
        for execution in self.executions:
            self.update(execution, ExecutionState.INITIALIZING)
            self.update(execution, ExecutionState.RUNNING)

    # What is so now

    @property
    def executions(self) -> list[Execution]:
        return self.master.execution_graph.executions

    def task_states(self) -> dict[AttemptId, ExecutionState]:
        return {e.attempt_id: e.state for e in self.executions}

    def states(self) -> list[ExecutionState]:
        return [e.state for e in self.executions]

    def execution(self, vertex: str, subtask: int = 0) -> Execution:
        execution = self.master.execution_graph.at(vertex, subtask)
        assert execution is not None
        return execution

    def _checked(self, effects: list[ev.Effect], event: ev.Event | None) -> list[ev.Effect]:
        for effect in effects:
            assert not self.ended or isinstance(effect, ev.RespondToOffer | ev.RespondToRescale), (
                f"{effect} after the end"
            )
            match effect:
                case ev.DeclareSlots(slots):
                    self.declared = slots
                case ev.RespondToOffer(allocation, task_manager, accepted):
                    assert isinstance(event, ev.SlotOffered)
                    assert (allocation, task_manager) == (event.allocation_id, event.task_manager)
                    if accepted:
                        assert allocation not in self.freed, "a slot that was given back was taken again"
                        self.held.setdefault(allocation, task_manager)
                case ev.StartEnumerators():
                    assert event is None or not self.restores
                    self.enumerator_starts += 1
                    assert self.enumerator_starts == 1
                case ev.StopEnumerators():
                    assert not self.master.slots, "the end of a job that is stopped at once"
                case ev.StartWorker(allocation, task_manager):
                    assert self.held[allocation] == task_manager
                    assert allocation not in self.started
                    self.started.add(allocation)
                case ev.Deploy(allocation, task_manager, tasks):
                    assert self.held[allocation] == task_manager
                    assert allocation in self.addresses, "tasks for a worker that is not there"
                    assert tasks
                    assert self.answered, "tasks without the state that they continue from"
                    for task in tasks:
                        assert task.attempt_id not in self.deployed
                        self.deployed[task.attempt_id] = allocation
                case ev.CancelTasks(allocation, task_manager, attempts):
                    assert self.held[allocation] == task_manager
                    assert attempts
                    assert {self.deployed[a] for a in attempts} == {allocation}
                case ev.FreeSlot(allocation, task_manager, reason):
                    assert self.held.pop(allocation) == task_manager
                    assert reason
                    self.freed[allocation] += 1
                case ev.RollBack(subtasks):
                    assert subtasks
                    assert self.master.status is JobStatus.RESTARTING
                case ev.Restore(restart, subtasks, start_enumerators):
                    assert not self.restores or restart > self.restores[-1].restart
                    assert all(e.state is ExecutionState.SCHEDULED for e in self.master.execution_graph.of(subtasks))
                    self.restores.append(effect)
                    self.answered = False
                    self.enumerator_starts += start_enumerators
                case ev.TakeOver(tasks):
                    self._check_found(tasks)
                    self.asked.append(effect)
                case ev.TakenOver(tasks, slots):
                    self._check_found(tasks)
                    assert self.asked
                    assert not self.started_again
                    assert dict(slots).items() <= self.held.items()
                    self.taken_over = True
                    for execution in self.executions if self.master.slots else ():  # none: all had finished
                        allocation = self.master.slots[execution.slot_key].allocation_id
                        self.deployed[execution.attempt_id] = allocation
                        self.started.add(allocation)
                        self.addresses.add(allocation)
                case ev.NotTakenOver(reason):
                    assert reason
                    assert not self.taken_over
                    self.started_again = True
                case ev.TakeCheckpoint(number):
                    assert self.master.status is JobStatus.RUNNING
                    assert all(e.state in (ExecutionState.RUNNING, ExecutionState.FINISHED) for e in self.executions)
                    self.checkpoint_wanted = number
                case ev.ChangeGraph(graph):
                    assert graph is self.master.graph
                    new = (ExecutionState.SCHEDULED, ExecutionState.DEPLOYING)  # the second: by the same event
                    assert all(e.state in new for e in self.executions), self.states()
                case ev.RespondToRescale(trigger_id, message, error):
                    assert bool(message) != bool(error)
                    assert trigger_id in self.waiting_for_rescale, "a request is answered once"
                    self.waiting_for_rescale.discard(trigger_id)
                    self.rescales[trigger_id] = effect
                case ev.WakeUpAt(at_ms):
                    assert at_ms > self.now
                case ev.ReportDetails():
                    pass
                case ev.JobEnded():
                    assert effect is effects[-1]
                    self.ended = True
                case _:
                    assert_never(effect)
        self._check_state()
        return effects

    def _check_found(self, tasks: tuple[FoundTask, ...]) -> None:
        """All of the job, in the latest attempts: nothing else may be taken over."""
        assert self.latest is not None
        places = {Subtask(task.vertex_id, task.subtask): task for task in tasks}
        assert len(tasks) == len(places)
        assert set(places) == {e.place for e in self.executions}
        assert all(task.attempt == self.latest(task.vertex_id, task.subtask) for task in tasks)
        assert {task.state for task in tasks} <= {ExecutionState.RUNNING, ExecutionState.FINISHED}

    def _check_state(self) -> None:
        master = self.master
        assert self.ended == master.status.is_terminal
        taken = {s.allocation_id for s in master.slots.values()}
        if master.is_taking_over:
            assert taken <= set(self.held)
            assert not self.deployed
            assert master.status is JobStatus.CREATED
        else:
            assert taken == set(self.held)
            assert len(self.held) <= master.slots_wanted
        assert all(count == 1 for count in self.freed.values()), self.freed
        if master.status in (JobStatus.FAILING, JobStatus.CANCELLING) or self.ended:
            assert self.declared == 0, "a job that ends asks for slots"
        elif master.is_suspended:
            assert (self.declared, self.held) == (0, {}), "a job that may not run has or wants slots"
            assert all(state.is_terminal for state in self.states()), self.states()
        elif self.declared is not None:
            assert self.declared == master.slots_wanted, "a job that continues declares something else than it takes"
        if self.ended:
            assert not self.waiting_for_rescale, "whoever wanted the job to be rescaled is not told of its end"
            assert not self.held
            assert all(state.is_terminal for state in self.states()), self.states()
            assert bool(master.failures) or master.status is not JobStatus.FAILED
        if master.status is JobStatus.FINISHED:
            assert set(self.states()) == {ExecutionState.FINISHED}
