"""The JobMaster: decides everything about one job. Pure: events and time in, effects out.

The job first declares its slots and waits for all of them, then has their workers started, then deploys every task at
once (all regions of a streaming job are pipelined). A slot that is lost before that is waited for again; after that,
the first failure fails the job: the other tasks are cancelled, and when every task has ended, the slots go back. Slots
go back on every end of a job, and a job that is ending no longer asks for any.
"""

from __future__ import annotations

from typing import assert_never

from millstream.core.graph import JobGraph
from millstream.core.ids import AllocationId, TaskManagerId
from millstream.core.states import TASK_TRANSITIONS, ExecutionState, JobStatus, check_job_transition
from millstream.jobmanager import events as ev
from millstream.jobmanager.execution_graph import Execution, ExecutionGraph, Slot, SlotKey
from millstream.proto import status_pb2
from millstream.proto import taskmanager_pb2 as pb

PEER_LOST = "PeerLostError"


class JobMaster:
    """One job. `handle` is its only way in."""

    def __init__(self, graph: JobGraph, slot_timeout: float, now_ms: int) -> None:
        self.graph = graph
        self.execution_graph = ExecutionGraph(graph, now_ms)
        self.status = JobStatus.INITIALIZING
        self.state_times: dict[str, int] = {JobStatus.INITIALIZING: now_ms}
        self.failures: list[status_pb2.TaskFailure] = []
        self.message = ""
        self.slots: dict[SlotKey, Slot] = {}
        self._keys = self.execution_graph.slot_keys()
        self._slot_timeout_ms = slot_timeout * 1000
        self._needs_coordinator = any(v.source for v in graph.vertices)
        self._coordinator_ready = not self._needs_coordinator
        self._workers_started = False

    @property
    def slots_required(self) -> int:
        """How many slots the job needs in all."""
        return len(self._keys)

    def start(self, now_ms: int) -> list[ev.Effect]:
        """The first effects."""
        self._move_to(JobStatus.CREATED, now_ms)
        for execution in self.execution_graph.executions:
            execution.move_to(ExecutionState.SCHEDULED, now_ms)
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
                return self._slots_lost(lost, reason, now_ms, put_down)
            case ev.TaskManagerLost(task_manager, reason):
                lost = [k for k, s in self.slots.items() if s.task_manager == task_manager]
                return self._slots_lost(lost, f"task manager {task_manager} was lost: {reason}", now_ms)
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
                return self._fail(failure, now_ms)
            case ev.Tick():
                return self._tick(now_ms)
        assert_never(event)

    def _move_to(self, status: JobStatus, now_ms: int) -> None:
        check_job_transition(self.status, status)
        self.status = status
        self.state_times[status] = now_ms

    # Slots and workers

    def _slot_offered(self, offer: ev.SlotOffered) -> list[ev.Effect]:
        free = [key for key in self._keys if key not in self.slots]
        known = any(s.allocation_id == offer.allocation_id for s in self.slots.values())
        if known or self.status is not JobStatus.CREATED or not free:
            return [ev.AnswerOffer(offer.allocation_id, offer.task_manager, known)]
        self.slots[free[0]] = Slot(offer.allocation_id, offer.task_manager, offer.host)
        effects: list[ev.Effect] = [ev.AnswerOffer(offer.allocation_id, offer.task_manager, True)]
        if len(self.slots) < len(self._keys):
            self.message = f"waiting for slots: {len(self.slots)} of {len(self._keys)}"
            return [*effects, ev.ReportDetails()]
        self._workers_started = True
        self.message = "starting slot workers"
        effects += [ev.StartWorker(s.allocation_id, s.task_manager) for s in self.slots.values()]
        return [*effects, ev.ReportDetails()]

    def _not_enough_slots(self, available: int) -> list[ev.Effect]:
        if self.status is not JobStatus.CREATED or self._workers_started:
            return []
        self.message = f"waiting for slots: {max(available, len(self.slots))} of {self.slots_required}"
        return [ev.ReportDetails()]

    def _worker_progressed(self, allocation_id: str, message: str) -> list[ev.Effect]:
        ours = not allocation_id or any(s.allocation_id == allocation_id for s in self.slots.values())
        if not ours or self.status is not JobStatus.CREATED or self.message == message:
            return []
        self.message = message
        return [ev.ReportDetails()]

    def _worker_readied(self, allocation_id: str, address: str, now_ms: int) -> list[ev.Effect]:
        for slot in self.slots.values():
            if slot.allocation_id == allocation_id:
                slot.data_address = address
        return self._deploy_when_ready(now_ms)

    def _deploy_when_ready(self, now_ms: int) -> list[ev.Effect]:
        ready = self._workers_started and all(s.data_address for s in self.slots.values())
        if not ready or not self._coordinator_ready or self.status is not JobStatus.CREATED:
            return []
        self._move_to(JobStatus.RUNNING, now_ms)
        self.message = ""
        effects: list[ev.Effect] = []
        for key, tasks in self.execution_graph.deployments(self.slots).items():
            slot = self.slots[key]
            for execution in self.execution_graph.in_slice(key):
                execution.move_to(ExecutionState.DEPLOYING, now_ms)
                execution.task_manager, execution.host = slot.task_manager, slot.host
            effects.append(ev.Deploy(slot.allocation_id, slot.task_manager, tuple(tasks)))
        return [*effects, ev.ReportDetails()]

    def _tick(self, now_ms: int) -> list[ev.Effect]:
        waited = now_ms - self.state_times[JobStatus.INITIALIZING]
        if self.status is not JobStatus.CREATED or self._workers_started or waited < self._slot_timeout_ms:
            return []
        return self._fail(
            self._failure(
                f"NotEnoughSlots: the job needs {self.slots_required} slots and has {len(self.slots)} after waiting "
                f"{self._slot_timeout_ms / 1000:g} s (slot.request.timeout); start more task managers, give them more "
                "slots, or lower the parallelism",
                now_ms,
            ),
            now_ms,
        )

    def _slots_lost(self, keys: list[SlotKey], reason: str, now_ms: int, put_down: bool = False) -> list[ev.Effect]:
        if not keys:
            return []
        if self.status is JobStatus.CREATED and not self._workers_started:
            return self._wait_again(keys, reason)
        slots = [self.slots[key] for key in keys]
        failure = self._failure(f"SlotLost: {reason}", now_ms, slots[0].task_manager)
        for key in keys:
            for execution in self.execution_graph.in_slice(key):
                if not failure.task_name and not execution.state.is_terminal:
                    failure.task_name, failure.vertex_id = execution.name, execution.vertex.id
                    failure.subtask = execution.subtask
                self._end_task(execution, now_ms)
        ending = self.status is JobStatus.CANCELLING or (put_down and self.status is JobStatus.FAILING)
        effects = self._settle(now_ms) if ending else self._fail(failure, now_ms)
        for key, slot in zip(keys, slots, strict=True):
            if self.slots.pop(key, None) is not None:
                effects.append(ev.FreeSlot(slot.allocation_id, slot.task_manager, reason))
        return effects

    def _wait_again(self, keys: list[SlotKey], reason: str) -> list[ev.Effect]:
        lost = [self.slots.pop(key) for key in keys]
        self.message = f"waiting for slots: {len(self.slots)} of {self.slots_required}"
        effects: list[ev.Effect] = [ev.FreeSlot(s.allocation_id, s.task_manager, reason) for s in lost]
        return [*effects, ev.ReportDetails()]

    # Tasks

    def _task_changed(self, update: pb.TaskUpdate, now_ms: int) -> list[ev.Effect]:
        execution = self.execution_graph.by_attempt(update.attempt_id)
        state = ExecutionState(update.state)
        if execution is None or state not in TASK_TRANSITIONS[execution.state]:
            return []
        execution.move_to(state, now_ms)
        if state.is_terminal:
            execution.accumulators = list(update.accumulators)
            execution.metrics = update.metrics
        if state is ExecutionState.FAILED:
            slot = self.slots.get(execution.slot_key)
            failure = status_pb2.TaskFailure()
            failure.CopyFrom(update.failure)
            failure.task_manager = slot.task_manager if slot is not None else ""
            return self._fail(failure, now_ms)
        return self._settle(now_ms) or [ev.ReportDetails()]

    def _end_task(self, execution: Execution, now_ms: int) -> None:
        """A task that no longer exists, without a report of its own."""
        if not execution.state.is_terminal:
            ending = self.status in (JobStatus.CANCELLING, JobStatus.FAILING)
            execution.move_to(ExecutionState.CANCELED if ending else ExecutionState.FAILED, now_ms)

    # Ends

    def _failure(self, exception: str, now_ms: int, task_manager: str = "") -> status_pb2.TaskFailure:
        return status_pb2.TaskFailure(
            job_id=self.graph.job_id,
            exception=exception,
            traceback=exception,
            timestamp=now_ms,
            task_manager=task_manager,
        )

    def _fail(self, failure: status_pb2.TaskFailure, now_ms: int) -> list[ev.Effect]:
        if self.status.is_terminal or self.status is JobStatus.CANCELLING:
            return self._settle(now_ms)
        if self.failures and PEER_LOST in self.failures[0].exception and PEER_LOST not in failure.exception:
            self.failures.insert(0, failure)  # losing a peer is only the echo of what happened to the peer
        else:
            self.failures.append(failure)
        if self.status is JobStatus.FAILING:
            return self._settle(now_ms) or [ev.ReportDetails()]
        self._move_to(JobStatus.FAILING, now_ms)
        return self._end_all(now_ms)

    def _cancel(self, now_ms: int) -> list[ev.Effect]:
        if self.status.is_terminal or self.status is JobStatus.CANCELLING:
            return []
        self._move_to(JobStatus.CANCELLING, now_ms)
        return self._end_all(now_ms)

    def _end_all(self, now_ms: int) -> list[ev.Effect]:
        self.message = ""
        effects: list[ev.Effect] = [ev.DeclareSlots(0), ev.ReportDetails()]
        for key, slot in self.slots.items():
            deployed = []
            for execution in self.execution_graph.in_slice(key):
                if execution.state in (ExecutionState.CREATED, ExecutionState.SCHEDULED):
                    execution.move_to(ExecutionState.CANCELED, now_ms)
                elif not execution.state.is_terminal and execution.state is not ExecutionState.CANCELING:
                    execution.move_to(ExecutionState.CANCELING, now_ms)
                    deployed.append(execution.attempt_id)
            if deployed:
                effects.append(ev.CancelTasks(slot.allocation_id, slot.task_manager, tuple(deployed)))
        for execution in self.execution_graph.executions:
            if execution.state in (ExecutionState.CREATED, ExecutionState.SCHEDULED):
                execution.move_to(ExecutionState.CANCELED, now_ms)
        return effects + self._settle(now_ms)

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
        slot = self.slots.get(execution.slot_key) if execution is not None else None
        if execution is None or slot is None or execution.state.is_terminal:
            return None
        return slot.task_manager, slot.allocation_id, execution

    def collector_of(self, operator_id: str) -> tuple[TaskManagerId, AllocationId, Execution] | None:
        """Where the collect sink of this id runs; it has one subtask."""
        for vertex in self.graph.vertices:
            if any(o.id == operator_id for o in vertex.operators):
                return self.place_of(vertex.id, 0)
        return None
