"""The JobMaster: decides everything about one job. Pure: events and time in, effects out.

The job declares its slots and waits for all of them, then has their workers started, then deploys every task at once
(all regions of a streaming job are pipelined). A slot that is lost before that is waited for again. After that, the
restart strategy decides about each failure:

- it gives up: the other tasks are cancelled, and when every task has ended, the slots go back;
- it restarts: the pipelined regions of the failed tasks are cancelled, the others go on. When the cancelled ones have
  ended and the delay has passed, they get new attempts, lost slots are waited for again (the declaration stands), dead
  workers are started again in their slots, and with the state of the last checkpoint the regions are deployed.

Slots go back on every end of a job, and a job that is ending no longer asks for any. An allocation that was lost is
never taken again: what runs in it belongs to attempts that count as dead.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import assert_never

from millstream.core.graph import JobGraph
from millstream.core.ids import AllocationId, TaskManagerId
from millstream.core.states import TASK_TRANSITIONS, ExecutionState, JobStatus, check_job_transition
from millstream.jobmanager import events as ev
from millstream.jobmanager.execution_graph import Execution, ExecutionGraph, Slot, SlotKey, TaskRestore
from millstream.jobmanager.failover.history import ExceptionHistory
from millstream.jobmanager.failover.regions import PipelinedRegions
from millstream.jobmanager.failover.restart_strategy import GiveUp, NoRestartStrategy, RestartStrategy
from millstream.jobmanager.failover.topology import JobTopology, Subtask
from millstream.jobmanager.failure_messages import all_messages, to_failure
from millstream.proto import status_pb2
from millstream.proto import taskmanager_pb2 as pb

_ENDING = (JobStatus.FAILING, JobStatus.CANCELLING)
_HOLDING = (JobStatus.CREATED, JobStatus.RUNNING, JobStatus.RESTARTING)


@dataclass(slots=True)
class _PendingRestart:
    """Subtasks that are being cancelled, to run again at a time."""

    subtasks: frozenset[Subtask]
    at_ms: int


class JobMaster:
    """One job. `handle` is its only way in."""

    def __init__(
        self,
        graph: JobGraph,
        slot_timeout: float,
        now_ms: int,
        strategy: RestartStrategy | None = None,
        history_size: int = 16,
    ) -> None:
        self.graph = graph
        self.topology = JobTopology.of(graph)
        self.execution_graph = ExecutionGraph(graph, now_ms)
        self.status = JobStatus.INITIALIZING
        self.state_times: dict[str, int] = {JobStatus.INITIALIZING: now_ms}
        self.history = ExceptionHistory(history_size)
        self.message = ""
        self.slots: dict[SlotKey, Slot] = {}
        self.restarts = 0
        self._strategy = strategy or NoRestartStrategy()
        self._regions = PipelinedRegions(self.topology)
        self._all = frozenset(self.topology.subtasks())
        self._keys = self.execution_graph.slot_keys()
        self._lost_allocations: set[AllocationId] = set()
        self._slot_timeout_ms = slot_timeout * 1000
        self._waiting_since = now_ms
        self._needs_coordinator = any(v.source for v in graph.vertices)
        self._coordinator_ready = not self._needs_coordinator
        self._coordinator_failed = False
        self._restart: _PendingRestart | None = None
        self._to_deploy: frozenset[Subtask] = frozenset()
        self._restores: Mapping[Subtask, TaskRestore] | None = {}

    @property
    def slots_required(self) -> int:
        """How many slots the job needs in all."""
        return len(self._keys)

    @property
    def failures(self) -> list[status_pb2.TaskFailure]:
        """All that is remembered, the newest root cause first."""
        return all_messages(self.history, self.graph.job_id)

    def start(self, now_ms: int) -> list[ev.Effect]:
        """The first effects."""
        self._move_to(JobStatus.CREATED, now_ms)
        for execution in self.execution_graph.executions:
            execution.move_to(ExecutionState.SCHEDULED, now_ms)
        self._to_deploy = self._all
        self._waiting_since = now_ms
        self.message = f"waiting for slots: 0 of {self.slots_required}"
        effects: list[ev.Effect] = [ev.DeclareSlots(self.slots_required)]
        if self._needs_coordinator:
            effects.append(ev.StartCoordinator())
        return [*effects, ev.ReportDetails()]

    def handle(self, event: ev.Event, now_ms: int) -> list[ev.Effect]:
        """What has to be done about an event."""
        match event:
            case ev.SlotOffered():
                return self._slot_offered(event)
            case ev.NotEnoughSlots(available):
                return self._not_enough_slots(available)
            case ev.WorkerProgressed(allocation_id, message):
                return self._worker_progressed(allocation_id, message)
            case ev.WorkerReadied(allocation_id, address):
                return self._worker_readied(allocation_id, address, now_ms)
            case ev.WorkerLost(allocation_id, reason, put_down):
                lost = [k for k, s in self.slots.items() if s.allocation_id == allocation_id]
                return self._workers_lost(lost, reason, now_ms, put_down, slots_too=False)
            case ev.TaskManagerLost(task_manager, reason):
                lost = [k for k, s in self.slots.items() if s.task_manager == task_manager]
                why = f"task manager {task_manager} was lost: {reason}"
                return self._workers_lost(lost, why, now_ms, put_down=False, slots_too=True)
            case ev.TaskChanged(update):
                return self._task_changed(update, now_ms)
            case ev.MetricsReported(report):
                for update in report.tasks:
                    execution = self.execution_graph.by_attempt(update.attempt_id)
                    if execution is not None:
                        execution.metrics = update.metrics
                return []
            case ev.CancelRequested():
                return self._cancel(now_ms)
            case ev.CoordinatorReadied():
                self._coordinator_ready = True
                return self._deploy_when_ready(now_ms)
            case ev.CoordinatorFailed(failure):
                return self._coordinator_lost(failure, now_ms)
            case ev.JobFailed(failure):
                return self._fail(failure, now_ms, self._all)
            case ev.Restored(restart, restores):
                if restart == self.restarts and self._restores is None:
                    self._restores = restores
                    return self._deploy_when_ready(now_ms)
                return []
            case ev.RestoreFailed(restart, reason):
                if restart == self.restarts and self._restores is None:
                    return self._fail(self._failure(f"RestoreFailed: {reason}", now_ms), now_ms, self._to_deploy)
                return []
            case ev.Tick():
                return self._tick(now_ms)
        assert_never(event)

    def _move_to(self, status: JobStatus, now_ms: int) -> None:
        check_job_transition(self.status, status)
        self.status = status
        self.state_times[status] = now_ms

    # Slots and workers

    @property
    def _has_all_slots(self) -> bool:
        return len(self.slots) == len(self._keys)

    def _slot_offered(self, offer: ev.SlotOffered) -> list[ev.Effect]:
        free = [key for key in self._keys if key not in self.slots]
        known = any(s.allocation_id == offer.allocation_id for s in self.slots.values())
        lost = offer.allocation_id in self._lost_allocations
        if known or lost or self.status not in _HOLDING or not free:
            return [ev.AnswerOffer(offer.allocation_id, offer.task_manager, known)]
        self.slots[free[0]] = Slot(offer.allocation_id, offer.task_manager, offer.host)
        effects: list[ev.Effect] = [ev.AnswerOffer(offer.allocation_id, offer.task_manager, True)]
        return [*effects, *(self._start_workers() if self._to_deploy else [])]

    def _start_workers(self) -> list[ev.Effect]:
        """Once all slots are there: in those that have no worker."""
        if not self._has_all_slots:
            self.message = f"waiting for slots: {len(self.slots)} of {len(self._keys)}"
            return [ev.ReportDetails()]
        idle = [slot for slot in self.slots.values() if not slot.worker_started]
        if not idle:
            return []
        self.message = "starting slot workers"
        for slot in idle:
            slot.worker_started = True
        return [*(ev.StartWorker(s.allocation_id, s.task_manager) for s in idle), ev.ReportDetails()]

    def _not_enough_slots(self, available: int) -> list[ev.Effect]:
        if not self._to_deploy or self._has_all_slots:
            return []
        self.message = f"waiting for slots: {max(available, len(self.slots))} of {self.slots_required}"
        return [ev.ReportDetails()]

    def _worker_progressed(self, allocation_id: str, message: str) -> list[ev.Effect]:
        ours = not allocation_id or any(s.allocation_id == allocation_id for s in self.slots.values())
        if not ours or not self._to_deploy or self.message == message:
            return []
        self.message = message
        return [ev.ReportDetails()]

    def _worker_readied(self, allocation_id: str, address: str, now_ms: int) -> list[ev.Effect]:
        for slot in self.slots.values():
            if slot.allocation_id == allocation_id:
                slot.data_address = address
        return self._deploy_when_ready(now_ms)

    def _deploy_when_ready(self, now_ms: int) -> list[ev.Effect]:
        workers = self._has_all_slots and all(s.data_address for s in self.slots.values())
        restores = self._restores
        if not self._to_deploy or not workers or not self._coordinator_ready or restores is None:
            return []
        self._move_to(JobStatus.RUNNING, now_ms)
        self.message = ""
        effects: list[ev.Effect] = []
        for key, tasks in self.execution_graph.deployments(self.slots, self._to_deploy, restores).items():
            slot = self.slots[key]
            for execution in self.execution_graph.in_slice(key):
                if execution.place in self._to_deploy:
                    execution.move_to(ExecutionState.DEPLOYING, now_ms)
                    execution.task_manager, execution.host = slot.task_manager, slot.host
            effects.append(ev.Deploy(slot.allocation_id, slot.task_manager, tuple(tasks)))
        self._to_deploy, self._restores = frozenset(), {}
        return [*effects, ev.ReportDetails()]

    def _tick(self, now_ms: int) -> list[ev.Effect]:
        if self._restart is not None:
            return self._restart_when_due(now_ms)
        timed_out = now_ms - self._waiting_since >= self._slot_timeout_ms
        if not self._to_deploy or self._has_all_slots or not timed_out:
            return []
        failure = self._failure(
            f"NotEnoughSlots: the job needs {self.slots_required} slots and has {len(self.slots)} after waiting "
            f"{self._slot_timeout_ms / 1000:g} s (slot.request.timeout); start more task managers, give them more "
            "slots, or lower the parallelism",
            now_ms,
        )
        return self._fail(failure, now_ms, self._to_deploy)

    def _workers_lost(
        self, keys: list[SlotKey], reason: str, now_ms: int, put_down: bool, slots_too: bool
    ) -> list[ev.Effect]:
        """Workers are gone, and with `slots_too` also the slots that they ran in."""
        if not keys:
            return []
        slots = {key: self.slots[key] for key in keys}
        starting = bool(self._to_deploy) and any(slot.worker_started for slot in slots.values())
        tasks = [e for key in keys for e in self.execution_graph.in_slice(key)]
        live = [e for e in tasks if e.is_deployed]
        failing = [e for e in live if not self._is_leaving(e)]
        named = live or [e for e in tasks if not e.state.is_terminal]
        failure = self._failure(f"SlotLost: {reason}", now_ms, slots[keys[0]].task_manager)
        if named:
            failure.task_name, failure.vertex_id = named[0].name, named[0].vertex.id
            failure.subtask, failure.attempt = named[0].subtask, named[0].attempt
        for execution in live:
            leaving = self._is_leaving(execution)
            execution.move_to(ExecutionState.CANCELED if leaving else ExecutionState.FAILED, now_ms)
        for key, slot in slots.items():
            slot.worker_gone()
            if slots_too:
                del self.slots[key]
        if self.status is JobStatus.CANCELLING or (put_down and not failing and not starting):
            effects = self._tasks_ended(now_ms)
        elif failing or starting or self.status is JobStatus.FAILING:
            scheduled = [e for e in tasks if e.place in self._to_deploy]
            failed = {e.place for e in (failing or scheduled)} or self._to_deploy
            effects = self._fail(failure, now_ms, failed)
        else:
            if live:
                self.history.failed(to_failure(failure))
            effects = self._tasks_ended(now_ms) or (self._start_workers() if self._to_deploy else [])
        unneeded = {k: s for k, s in slots.items() if self.status not in _HOLDING and self.slots.get(k) is s}
        for key in unneeded:
            del self.slots[key]
        gone = slots if slots_too else unneeded
        self._lost_allocations.update(slot.allocation_id for slot in gone.values())
        freed: list[ev.Effect] = [ev.FreeSlot(s.allocation_id, s.task_manager, reason) for s in gone.values()]
        return freed + effects if slots_too else effects + freed

    # Tasks

    def _task_changed(self, update: pb.TaskUpdate, now_ms: int) -> list[ev.Effect]:
        execution = self.execution_graph.by_attempt(update.attempt_id)
        state = ExecutionState(update.state)
        if execution is None or not execution.is_deployed or state not in TASK_TRANSITIONS[execution.state]:
            return []
        leaving = self._is_leaving(execution)
        if state in (ExecutionState.CANCELING, ExecutionState.CANCELED) and not leaving:
            return []
        execution.move_to(state, now_ms)
        if state.is_terminal:
            execution.accumulators = list(update.accumulators)
            execution.metrics = update.metrics
        if state is ExecutionState.FAILED:
            failure = self._failure_of(execution, update.failure, now_ms)
            if not leaving or self.status in _ENDING:
                return self._fail(failure, now_ms, {execution.place})
            self.history.failed(to_failure(failure))
        return self._tasks_ended(now_ms) or [ev.ReportDetails()]

    def _failure_of(
        self, execution: Execution, reported: status_pb2.TaskFailure, now_ms: int
    ) -> status_pb2.TaskFailure:
        slot = self.slots.get(execution.slot_key)
        failure = status_pb2.TaskFailure()
        failure.CopyFrom(reported)
        failure.task_manager = slot.task_manager if slot is not None else ""
        failure.vertex_id, failure.subtask = execution.vertex.id, execution.subtask
        failure.attempt = execution.attempt
        failure.timestamp = failure.timestamp or now_ms
        return failure

    def _is_leaving(self, execution: Execution) -> bool:
        """Whether the task was told to end."""
        return self.status in _ENDING or (self._restart is not None and execution.place in self._restart.subtasks)

    def _tasks_ended(self, now_ms: int) -> list[ev.Effect]:
        """Ends the job, or runs tasks again, when all that has to end for it has ended."""
        return self._restart_when_due(now_ms) if self._restart is not None else self._settle(now_ms)

    # Failures

    def _failure(self, exception: str, now_ms: int, task_manager: str = "") -> status_pb2.TaskFailure:
        return status_pb2.TaskFailure(
            job_id=self.graph.job_id,
            exception=exception,
            traceback=exception,
            timestamp=now_ms,
            task_manager=task_manager,
        )

    def _coordinator_lost(self, failure: status_pb2.TaskFailure, now_ms: int) -> list[ev.Effect]:
        if self._coordinator_failed and self.status in _HOLDING:
            self.history.failed(to_failure(failure))
            return [ev.ReportDetails()]
        self._coordinator_failed, self._coordinator_ready = True, False
        return self._fail(failure, now_ms, self._all)

    def _fail(self, failure: status_pb2.TaskFailure, now_ms: int, failed: Collection[Subtask]) -> list[ev.Effect]:
        if self.status.is_terminal or self.status is JobStatus.CANCELLING:
            return self._settle(now_ms)
        self.history.failed(to_failure(failure))
        if self.status is JobStatus.FAILING:
            return self._settle(now_ms) or [ev.ReportDetails()]
        decision = self._strategy.failed(now_ms)
        if isinstance(decision, GiveUp):
            self._move_to(JobStatus.FAILING, now_ms)
            final = "" if isinstance(self._strategy, NoRestartStrategy) else decision.reason
            return self._end_all(now_ms, final)
        return self._restart_after(decision.delay_ms, failed, failure.exception, now_ms)

    def _restart_after(
        self, delay_ms: int, failed: Collection[Subtask], reason: str, now_ms: int
    ) -> list[ev.Effect]:
        before = self._restart or _PendingRestart(frozenset(), now_ms)
        affected = before.subtasks | self._regions.affected(failed) | self._to_deploy
        restart = self._restart = _PendingRestart(affected, max(before.at_ms, now_ms + delay_ms))
        self._to_deploy, self._restores = frozenset(), {}
        if self.status is not JobStatus.RESTARTING:
            self._move_to(JobStatus.RESTARTING, now_ms)
        self.message = f"restarting {len(affected)} of {len(self._all)} tasks"
        effects: list[ev.Effect] = [ev.RollBack(affected, reason), ev.ReportDetails()]
        effects += self._cancel_tasks(affected, now_ms)
        if restart.at_ms > now_ms:
            effects.append(ev.WakeUpAt(restart.at_ms))
        return effects + self._restart_when_due(now_ms)

    def _restart_when_due(self, now_ms: int) -> list[ev.Effect]:
        """New attempts, when the old ones have all ended and the delay has passed."""
        restart = self._restart
        if restart is None or now_ms < restart.at_ms:
            return []
        if not all(e.state.is_terminal for e in self.execution_graph.of(restart.subtasks)):
            return []
        self._restart = None
        self.history.handled()
        self.restarts += 1
        self.execution_graph.try_again(restart.subtasks, now_ms)
        self._to_deploy, self._restores = restart.subtasks, None
        self._waiting_since = now_ms
        start_coordinator, self._coordinator_failed = self._coordinator_failed, False
        effects: list[ev.Effect] = [ev.Restore(self.restarts, restart.subtasks, start_coordinator)]
        self.message = "restoring state"
        return [*effects, ev.ReportDetails(), *self._start_workers()]

    # Ends

    def _cancel(self, now_ms: int) -> list[ev.Effect]:
        if self.status.is_terminal or self.status is JobStatus.CANCELLING:
            return []
        self._move_to(JobStatus.CANCELLING, now_ms)
        return self._end_all(now_ms, "")

    def _end_all(self, now_ms: int, message: str) -> list[ev.Effect]:
        self.message = message
        self._restart, self._to_deploy = None, frozenset()
        effects: list[ev.Effect] = [ev.DeclareSlots(0), ev.ReportDetails()]
        return effects + self._cancel_tasks(self._all, now_ms) + self._settle(now_ms)

    def _cancel_tasks(self, subtasks: Collection[Subtask], now_ms: int) -> list[ev.Effect]:
        """Tells the deployed ones to end; the others have ended with this."""
        deployed: dict[SlotKey, list[Execution]] = {}
        for execution in self.execution_graph.of(subtasks):
            if execution.state in (ExecutionState.CREATED, ExecutionState.SCHEDULED):
                execution.move_to(ExecutionState.CANCELED, now_ms)
            elif not execution.state.is_terminal and execution.state is not ExecutionState.CANCELING:
                execution.move_to(ExecutionState.CANCELING, now_ms)
                deployed.setdefault(execution.slot_key, []).append(execution)
        effects: list[ev.Effect] = []
        for key, slot in self.slots.items():
            if key in deployed:
                attempts = tuple(e.attempt_id for e in deployed[key])
                effects.append(ev.CancelTasks(slot.allocation_id, slot.task_manager, attempts))
        return effects

    def _settle(self, now_ms: int) -> list[ev.Effect]:
        """Ends the job when all its tasks have ended."""
        executions = self.execution_graph.executions
        if self.status.is_terminal or not all(e.state.is_terminal for e in executions):
            return []
        effects: list[ev.Effect] = []
        match self.status:
            case JobStatus.CANCELLING:
                self._move_to(JobStatus.CANCELED, now_ms)
            case JobStatus.FAILING:
                self._move_to(JobStatus.FAILED, now_ms)
            case JobStatus.RUNNING:
                self._move_to(JobStatus.FINISHED, now_ms)
                effects.append(ev.DeclareSlots(0))
            case _:
                return []
        reason = f"job {self.status.lower()}"
        effects += [ev.FreeSlot(s.allocation_id, s.task_manager, reason) for s in self.slots.values()]
        self.slots.clear()
        return [*effects, ev.ReportDetails(), ev.JobEnded()]

    # Where things are

    def place_of(self, vertex_id: str, subtask: int) -> tuple[TaskManagerId, AllocationId, Execution] | None:
        """Where a subtask runs, for messages to it."""
        execution = self.execution_graph.at(vertex_id, subtask)
        return self._deployed_at(execution)

    def place_of_attempt(self, attempt_id: str) -> tuple[TaskManagerId, AllocationId, Execution] | None:
        """Where an attempt runs, if it still does."""
        return self._deployed_at(self.execution_graph.by_attempt(attempt_id))

    def _deployed_at(self, execution: Execution | None) -> tuple[TaskManagerId, AllocationId, Execution] | None:
        slot = self.slots.get(execution.slot_key) if execution is not None else None
        if execution is None or slot is None or not execution.is_deployed:
            return None
        return slot.task_manager, slot.allocation_id, execution

    def collector_of(self, operator_id: str) -> tuple[TaskManagerId, AllocationId, Execution] | None:
        """Where the collect sink of this id runs; it has one subtask."""
        for vertex in self.graph.vertices:
            if any(o.id == operator_id for o in vertex.operators):
                return self.place_of(vertex.id, 0)
        return None
