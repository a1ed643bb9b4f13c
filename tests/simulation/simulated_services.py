"""The shells of the resource manager, the job manager and the task manager over a virtual network.

Each wraps the machine that the real service wraps and does what the real service does about sessions: who dials whom,
what is sent on registering, what the end of a session means. The messages are the machines' own events and effects.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, assert_never

from virtual_network import SessionEnd, World

from millstream.core.jobs.failure_kinds import FailureKind
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import AllocationId, AttemptId, JobId, JobManagerId, TaskManagerId
from millstream.core.jobs.states import ExecutionState
from millstream.core.messages.deployment import TaskDeployment
from millstream.core.messages.task_manager import TaskUpdate
from millstream.jobmanager import events as ev
from millstream.jobmanager.failover.restart_strategy import create_restart_strategy
from millstream.jobmanager.failover.settings import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    RestartSettings,
)
from millstream.jobmanager.job_master import JobMaster
from millstream.resourcemanager import slot_events as rm
from millstream.resourcemanager.slot_manager import SlotManager
from millstream.taskmanager.supervisor.slot_table import Allocation, SlotTable

RETRY_AFTER = 0.2
HEARTBEAT_TIMEOUT = 5.0
SLOT_TIMEOUT = 20.0
TICK = 1.0
RESTARTS: tuple[RestartSettings, ...] = (
    NoRestart(),
    FixedDelay(attempts=1, delay_ms=0),
    FixedDelay(attempts=4, delay_ms=1_000),
    FailureRate(max_failures=3, interval_ms=600_000, delay_ms=500),
    ExponentialDelay(initial_ms=500, max_ms=4_000, attempts_before_reset=4),
)


@dataclass(frozen=True, slots=True)
class Register:
    """The first message of a task manager at a job manager."""

    task_manager: TaskManagerId


@dataclass(frozen=True, slots=True)
class Offer:
    """A slot for a job."""

    allocation_id: AllocationId
    job_id: JobId


class ResourceManager:
    """As `millstream.resourcemanager.service`."""

    def __init__(self, world: World, allocation_ids: itertools.count[int]) -> None:
        self.world = world
        self.slots = SlotManager(lambda: AllocationId(f"a{next(allocation_ids)}"))
        self.task_managers: dict[TaskManagerId, SessionEnd] = {}
        self.job_managers: dict[JobManagerId, SessionEnd] = {}
        self.is_up = True
        self._sessions: list[SessionEnd] = []
        self._tick()

    def accept(self, end: SessionEnd) -> None:
        self._sessions.append(end)
        end.on_message = lambda message: self._message(end, message)
        end.on_end = lambda: self._ended(end)

    def crash(self) -> None:
        self.is_up = False
        for end in self._sessions:
            if end.is_open:
                end.vanish()

    def _tick(self) -> None:
        if self.is_up:
            self._handle(rm.Tick())
            self.world.later(TICK, "resource manager: tick", self._tick, background=True)

    def _message(self, end: SessionEnd, message: rm.Event) -> None:
        older: SessionEnd | None = None
        match message:
            case rm.TaskManagerRegistered(task_manager):
                older = self.task_managers.pop(task_manager, None)
                self.task_managers[task_manager] = end
            case rm.JobManagerRegistered(job_manager):
                older = self.job_managers.get(job_manager)
                self.job_managers[job_manager] = end
            case rm.SlotsReported(task_manager) | rm.SlotRefused(task_manager):
                if self.task_managers.get(task_manager) is not end:
                    return
            case rm.RequirementDeclared(job_manager):
                if self.job_managers.get(job_manager) is not end:
                    return
        if older is not None:
            older.close()
        self._handle(message)

    def _ended(self, end: SessionEnd) -> None:
        for task_manager, session in list(self.task_managers.items()):
            if session is end:
                del self.task_managers[task_manager]
                self._handle(rm.TaskManagerLost(task_manager))
        for job_manager, session in list(self.job_managers.items()):
            if session is end:
                del self.job_managers[job_manager]
                self._handle(rm.JobManagerLost(job_manager))

    def _handle(self, event: rm.Event) -> None:
        effects = self.slots.handle(event, self.world.now)
        self.slots.validate()
        for effect in effects:
            match effect:
                case rm.AllocateSlot():
                    self.task_managers[effect.task_manager_id].send(effect)
                case rm.NotifyNotEnoughSlots() | rm.ReclaimSlots():
                    self.job_managers[effect.job_manager_id].send(effect)
                case rm.RequestTaskManagers() | rm.ReleaseTaskManager():
                    raise AssertionError("nothing was provisioned")
                case _:
                    assert_never(effect)


class JobManager:
    """As `millstream.jobmanager.service`; jobs have no enumerator process here."""

    def __init__(self, world: World, name: str, resource_manager: Callable[[], ResourceManager]) -> None:
        self.world = world
        self.name = name
        self.is_up = True
        self.masters: dict[JobId, JobMaster] = {}
        self._resource_manager_of = resource_manager
        self._resource_manager: SessionEnd | None = None
        self._requirements: dict[JobId, int] = {}
        self._task_managers: dict[TaskManagerId, SessionEnd] = {}
        self._sessions: list[SessionEnd] = []
        self.world.later(0, f"{name}: dial the resource manager", self._dial)
        self._tick()

    def crash(self) -> None:
        self.is_up = False
        for end in [*self._sessions, *([self._resource_manager] if self._resource_manager else [])]:
            if end.is_open:
                end.vanish()

    def start_job(self, graph: JobGraph) -> None:
        strategy = create_restart_strategy(self.world.random.choice(RESTARTS), self.world.random)
        master = JobMaster(graph, SLOT_TIMEOUT, self.world.instant(), strategy)
        self.masters[graph.job_id] = master
        self._carry_out(graph.job_id, master.start(self.world.instant()))

    def cancel(self, job_id: JobId) -> None:
        self._event(job_id, ev.CancelRequested())

    def forget(self, job_id: JobId) -> None:
        if self.masters[job_id].status.is_terminal:
            del self.masters[job_id]

    def _tick(self) -> None:
        if self.is_up:
            for job_id in list(self.masters):
                self._event(job_id, ev.Tick())
            self.world.later(TICK, f"{self.name}: tick", self._tick, background=True)

    # The resource manager

    def _dial(self) -> None:
        if not self.is_up:
            return
        resource_manager = self._resource_manager_of()
        if not resource_manager.is_up:
            self._dial_later()
            return
        ours, theirs = self.world.connect(self.name, "resource manager")
        resource_manager.accept(theirs)
        ours.on_message = self._notice
        ours.on_end = self._resource_manager_lost
        self._resource_manager = ours
        wanted = tuple(rm.SlotRequirement(job, slots) for job, slots in self._requirements.items())
        ours.send(rm.JobManagerRegistered(JobManagerId(self.name), self.name, wanted))

    def _dial_later(self) -> None:
        self.world.later(RETRY_AFTER, f"{self.name}: dial the resource manager", self._dial)

    def _resource_manager_lost(self) -> None:
        self._resource_manager = None
        self._dial_later()

    def _notice(self, notice: rm.NotifyNotEnoughSlots | rm.ReclaimSlots) -> None:
        match notice:
            case rm.NotifyNotEnoughSlots(_, job_id, available, _, free, total):
                self._event(job_id, ev.NotEnoughSlots(available, ev.SlotSupply(free, total)))
            case rm.ReclaimSlots(_, job_id):
                self._event(job_id, ev.SlotsReclaimed())

    def _declare(self, job_id: JobId, slots: int) -> None:
        if slots:
            self._requirements[job_id] = slots
        else:
            self._requirements.pop(job_id, None)
        if self._resource_manager is not None:
            requirement = rm.SlotRequirement(job_id, slots)
            self._resource_manager.send(rm.RequirementDeclared(JobManagerId(self.name), requirement))

    # Task managers

    def accept(self, end: SessionEnd) -> None:
        connected: list[TaskManagerId] = []
        self._sessions.append(end)

        def on_message(message: Any) -> None:
            if isinstance(message, Register):
                connected.append(message.task_manager)
                previous = self._task_managers.pop(message.task_manager, None)
                if previous is not None:
                    previous.close()
                    self._lost(message.task_manager)
                self._task_managers[message.task_manager] = end
            elif connected:
                self._task_manager_message(connected[0], message)

        def on_end() -> None:
            for task_manager in connected:
                if self._task_managers.get(task_manager) is end:
                    del self._task_managers[task_manager]
                    self._lost(task_manager)

        end.on_message, end.on_end = on_message, on_end

    def _lost(self, task_manager: TaskManagerId) -> None:
        for job_id in list(self.masters):
            self._event(job_id, ev.TaskManagerLost(task_manager, "the session ended"))

    def _task_manager_message(self, task_manager: TaskManagerId, message: Any) -> None:
        match message:
            case Offer(allocation_id, job_id):
                if job_id in self.masters:
                    self._event(job_id, ev.SlotOffered(allocation_id, task_manager, "host"))
                else:
                    self._command(task_manager, ev.AnswerOffer(allocation_id, task_manager, False))
            case ev.WorkerReadied(allocation_id) | ev.WorkerLost(allocation_id):
                self._by_allocation(allocation_id, message)
            case ev.TaskChanged(update):
                self._by_allocation(update.allocation_id, message)
            case _:
                raise AssertionError(message)

    def _by_allocation(self, allocation_id: str, event: ev.Event) -> None:
        for job_id, master in self.masters.items():
            if any(slot.allocation_id == allocation_id for slot in master.slots.values()):
                self._event(job_id, event)
                return

    def _command(self, task_manager: TaskManagerId, command: ev.Effect) -> None:
        session = self._task_managers.get(task_manager)
        if session is not None:
            session.send(command)

    # JobMasters

    def _event(self, job_id: JobId, event: ev.Event) -> None:
        master = self.masters.get(job_id)
        if master is not None:
            self._carry_out(job_id, master.handle(event, self.world.instant()))

    def _carry_out(self, job_id: JobId, effects: list[ev.Effect]) -> None:
        for effect in effects:
            match effect:
                case ev.DeclareSlots(slots):
                    self._declare(job_id, slots)
                case (
                    ev.AnswerOffer(task_manager=task_manager)
                    | ev.StartWorker(task_manager=task_manager)
                    | ev.Deploy(task_manager=task_manager)
                    | ev.CancelTasks(task_manager=task_manager)
                    | ev.FreeSlot(task_manager=task_manager)
                ):
                    self._command(task_manager, effect)
                case ev.Restore(restart):
                    self._restore_later(job_id, restart)
                case ev.ReportDetails() | ev.JobEnded() | ev.RollBack() | ev.WakeUpAt():
                    pass
                case ev.StartEnumerators() | ev.StopEnumerators():
                    raise AssertionError("the jobs of a simulation have no sources")
                case _:
                    assert_never(effect)


    def _restore_later(self, job_id: JobId, restart: int) -> None:
        """Reading a checkpoint takes its time, and sometimes fails."""
        answer: ev.Event = ev.Restored(restart)
        if self.world.random.random() < 0.1:
            answer = ev.RestoreFailed(restart, "no such file")
        delay = self.world.random.uniform(0, 2)
        self.world.later(delay, f"{self.name}: restored", lambda: self._event(job_id, answer) if self.is_up else None)


@dataclass(slots=True)
class Worker:
    """A slot worker: its tasks and how far they are."""

    allocation: Allocation
    is_ready: bool = False
    stopping: bool = False
    is_dead: bool = False
    tasks: dict[str, ExecutionState] = field(default_factory=dict)


class TaskManager:
    """As `millstream.taskmanager.supervisor.service`, with workers that take their time."""

    def __init__(
        self,
        world: World,
        name: str,
        slots: int,
        resource_manager: Callable[[], ResourceManager],
        job_manager_at: Callable[[str], JobManager | None],
    ) -> None:
        self.world = world
        self.id = TaskManagerId(name)
        self.is_up = True
        self.table = SlotTable(slots)
        self.workers: dict[AllocationId, Worker] = {}
        self._resource_manager_of = resource_manager
        self._job_manager_at = job_manager_at
        self._resource_manager: SessionEnd | None = None
        self._job_managers: dict[str, SessionEnd] = {}
        self._dialled: set[str] = set()
        self._later(0, "dial the resource manager", self._dial_resource_manager)

    def crash(self) -> None:
        self.is_up = False
        for end in [*self._job_managers.values(), *([self._resource_manager] if self._resource_manager else [])]:
            if end.is_open:
                end.vanish()

    def validate(self) -> None:
        """A slot runs at most one worker, and only for the job that holds it."""
        indices = [worker.allocation.index for worker in self.workers.values()]
        assert len(indices) == len(set(indices)), f"{self.id}: two workers in one slot"
        held = self.table.report()
        for worker in self.workers.values():
            assert held[worker.allocation.index] is worker.allocation, f"{self.id}: a worker in a slot that is free"

    def _later(self, delay: float, name: str, action: Callable[[], None]) -> None:
        self.world.later(delay, f"{self.id}: {name}", lambda: action() if self.is_up else None)

    # The resource manager

    def _dial_resource_manager(self) -> None:
        resource_manager = self._resource_manager_of()
        if not resource_manager.is_up:
            self._later(RETRY_AFTER, "dial the resource manager", self._dial_resource_manager)
            return
        ours, theirs = self.world.connect(self.id, "resource manager")
        resource_manager.accept(theirs)
        ours.on_message = self._allocate
        ours.on_end = self._resource_manager_lost
        self._resource_manager = ours
        ours.send(rm.TaskManagerRegistered(self.id, self._reports()))

    def _resource_manager_lost(self) -> None:
        self._resource_manager = None
        self._later(RETRY_AFTER, "dial the resource manager", self._dial_resource_manager)

    def _allocate(self, request: rm.AllocateSlot) -> None:
        address = request.job_manager_address
        refusal = self.table.allocate(request.slot_index, request.allocation_id, request.job_id, address)
        if refusal is not None:
            if self._resource_manager is not None:
                self._resource_manager.send(rm.SlotRefused(self.id, request.allocation_id))
            return
        self._report_slots()
        session = self._job_managers.get(address)
        if session is not None:
            allocation = self.table.get(request.allocation_id)
            if allocation is not None:
                session.send(Offer(allocation.allocation_id, allocation.job_id))
        elif address not in self._dialled:
            self._dialled.add(address)
            self._later(0, f"dial {address}", lambda: self._keep_job_manager(address, self.world.now))

    def _reports(self) -> tuple[rm.SlotReport, ...]:
        return tuple(
            rm.SlotReport(i, a.allocation_id, a.job_id) if a else rm.SlotReport(i)
            for i, a in enumerate(self.table.report())
        )

    def _report_slots(self) -> None:
        if self._resource_manager is not None:
            self._resource_manager.send(rm.SlotsReported(self.id, self._reports()))

    # Job managers

    def _keep_job_manager(self, address: str, reachable: float) -> None:
        """One turn of the loop that dials, and gives the slots up when the job manager stays away."""
        held = self.table.of_job_manager(address)
        if not held or self.world.now - reachable >= HEARTBEAT_TIMEOUT:
            self._dialled.discard(address)
            for allocation in held:
                self._free(allocation.allocation_id)
            return
        job_manager = self._job_manager_at(address)
        if job_manager is None:
            self._later(RETRY_AFTER, f"dial {address}", lambda: self._keep_job_manager(address, reachable))
            return
        ours, theirs = self.world.connect(self.id, address)
        job_manager.accept(theirs)
        ours.on_message = self._command
        ours.on_end = lambda: self._job_manager_lost(address)
        self._job_managers[address] = ours
        ours.send(Register(self.id))
        for allocation in held:
            ours.send(Offer(allocation.allocation_id, allocation.job_id))

    def _job_manager_lost(self, address: str) -> None:
        self._job_managers.pop(address, None)
        reachable = self.world.now
        self._later(RETRY_AFTER, f"dial {address}", lambda: self._keep_job_manager(address, reachable))

    def _command(self, command: ev.Effect) -> None:
        match command:
            case ev.AnswerOffer(allocation_id, _, accepted):
                if accepted:
                    self.table.accepted(allocation_id)
                else:
                    self._free(allocation_id)
            case ev.FreeSlot(allocation_id):
                self._free(allocation_id)
            case ev.StartWorker(allocation_id):
                allocation = self.table.get(allocation_id)
                if allocation is not None and allocation_id not in self.workers:
                    worker = self.workers[allocation_id] = Worker(allocation)
                    self._later(self.world.random.uniform(0, 1), "worker ready", lambda: self._ready(worker))
            case ev.Deploy(allocation_id, _, tasks):
                if allocation_id in self.workers:
                    for task in tasks:
                        self._deploy(self.workers[allocation_id], task)
            case ev.CancelTasks(allocation_id, _, attempts):
                if allocation_id in self.workers:
                    worker = self.workers[allocation_id]
                    for attempt in attempts:
                        self._cancel_later(worker, attempt)
            case _:
                raise AssertionError(command)

    def _to_job_manager(self, allocation: Allocation, message: ev.Event) -> None:
        session = self._job_managers.get(allocation.job_manager)
        if session is not None:
            session.send(message)

    # Workers

    def lose_worker(self, worker: Worker) -> None:
        """It dies, is killed, or cannot be started."""
        if worker.is_dead:
            return
        worker.is_dead = True
        allocation_id = worker.allocation.allocation_id
        del self.workers[allocation_id]
        if self.table.get(allocation_id) is not None:
            self._to_job_manager(worker.allocation, ev.WorkerLost(allocation_id, "killed"))
        else:
            self._freed(allocation_id)

    def update(self, worker: Worker, attempt: str, state: ExecutionState, exception: str = "") -> None:
        """A task reports; nothing when it or its worker is no more."""
        if worker.is_dead or worker.tasks[attempt].is_terminal:
            return
        worker.tasks[attempt] = state
        kind = FailureKind.PEER_LOST if exception.startswith("PeerLostError:") else FailureKind.ORDINARY
        failure = TaskFailure(exception=exception, kind=kind)
        update = TaskUpdate(worker.allocation.allocation_id, AttemptId(attempt), state, failure)
        self._to_job_manager(worker.allocation, ev.TaskChanged(update))

    def _ready(self, worker: Worker) -> None:
        if not worker.is_dead and not worker.stopping:
            worker.is_ready = True
            allocation_id = worker.allocation.allocation_id
            self._to_job_manager(worker.allocation, ev.WorkerReadied(allocation_id, f"address of {allocation_id}"))

    def _deploy(self, worker: Worker, task: TaskDeployment) -> None:
        assert worker.is_ready, "tasks for a worker that is not ready"
        assert task.job_id == worker.allocation.job_id, "a task of another job"
        worker.tasks[task.attempt_id] = ExecutionState.DEPLOYING
        self.update(worker, task.attempt_id, ExecutionState.INITIALIZING)
        run = self.world.random.expovariate(1.0)
        attempt = task.attempt_id
        self._later(0.01, "task runs", lambda: self.update(worker, attempt, ExecutionState.RUNNING))
        self._later(0.02 + run, "task finishes", lambda: self.update(worker, attempt, ExecutionState.FINISHED))

    def _cancel_later(self, worker: Worker, attempt: str) -> None:
        if self.world.random.random() < 0.1:  # it does not return, and is killed in the end
            self._later(5, "worker killed", lambda: self.lose_worker(worker))
        else:
            self._later(0.1, "task cancelled", lambda: self._cancelled(worker, attempt))

    def _cancelled(self, worker: Worker, attempt: str) -> None:
        if attempt in worker.tasks:
            self.update(worker, attempt, ExecutionState.CANCELED)

    def _free(self, allocation_id: AllocationId) -> None:
        if not self.table.ending(allocation_id):
            return
        worker = self.workers.get(allocation_id)
        if worker is None:
            self._freed(allocation_id)
        elif not worker.stopping:
            worker.stopping = True
            self._later(self.world.random.uniform(0, 2), "worker ends", lambda: self.lose_worker(worker))

    def _freed(self, allocation_id: AllocationId) -> None:
        self.table.freed(allocation_id)
        self._report_slots()


