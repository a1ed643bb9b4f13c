"""The JobMaster: makes all decisions about one job. Pure: events and time in, effects out.

The job declares its slots and waits for all of them, then starts their workers, then deploys its tasks: those whose
blocking inputs are available, which are all if every edge is pipelined (`DeploymentPlan`). If a slot is lost before
that, the job waits for a replacement. After that, the restart strategy decides about each failure:

- it gives up: the other tasks are cancelled, and the slots are released when every task has ended;
- it restarts: the pipelined regions of the failed tasks are cancelled, the others continue. When the cancelled ones
  have ended and the delay has passed, they get new attempts: the job waits for replacements of lost slots (the
  declaration remains), dead workers are restarted in their slots, and the regions are deployed with the state of the
  last checkpoint.

A job that another job manager led before waits a while for task managers that still run its tasks. If all its tasks are
found, the job continues with them (`takeover`) without a restart; otherwise the found tasks are cancelled and the job
restarts from its last checkpoint. A job that has run without completing a checkpoint restarts from the beginning if it
has a restart strategy, as after any failure; otherwise it fails.

A job that starts from a snapshot is restored from it in the same way, while it waits for its slots. A failure that a
restart would not resolve is final, regardless of the strategy.

A job manager that has lost its lease (`millstream.core.services.lease`) suspends its jobs: their tasks are stopped and
their slots released at once. They restart from the last checkpoint when the lease is renewed; a job without a restart
strategy fails. In that case, and when a job is abandoned because the dispatcher has reported it as ended, its
checkpoints are kept.

Slots are released whenever a job ends, and a job that is ending requests no more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import assert_never

from msgspec import Struct

from millstream.core.clock import Instant
from millstream.core.jobs.details import TaskMetrics
from millstream.core.jobs.failure_kinds import WorkerEnd
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import AllocationId, AttemptId, VertexId
from millstream.core.jobs.job_events import JobEvent
from millstream.core.jobs.rescales import RescaleHistory
from millstream.core.jobs.states import TASK_TRANSITIONS, ExecutionState, JobStatus, check_job_transition
from millstream.core.logs.counts import counted
from millstream.core.logs.failure_texts import cause_line
from millstream.core.messages.task_manager import TaskUpdate
from millstream.jobmanager.adaptive.bounds import Requirements
from millstream.jobmanager.failover.deployment_plan import DeploymentPlan
from millstream.jobmanager.failover.history import ExceptionHistory
from millstream.jobmanager.failover.restart_strategy import GiveUp, NoRestartStrategy, RestartStrategy
from millstream.jobmanager.failover.topology import JobTopology, Subtask
from millstream.jobmanager.job_master import events as ev
from millstream.jobmanager.job_master.execution_graph import (
    Execution,
    ExecutionGraph,
    LatestAttempt,
    Slot,
    SlotKey,
    TaskRestore,
)
from millstream.jobmanager.job_master.job_failures import job_failure, lost_failure, task_failure
from millstream.jobmanager.job_master.job_restarts import JobRestarts, PendingRestart
from millstream.jobmanager.job_master.job_slots import JobSlots, Place, free
from millstream.jobmanager.job_master.takeover import Takeover
from millstream.jobmanager.job_master.task_commands import cancel, deploy

_ENDING = (JobStatus.FAILING, JobStatus.CANCELLING)
_HOLDING = (JobStatus.CREATED, JobStatus.RUNNING, JobStatus.RESTARTING)
_RESTORING = "restoring state"
_LOOKING = "waiting for task managers to report running tasks"
_TAKING_OVER = "taking over the running tasks"


class Succeeding(Struct, frozen=True):
    """A job that another job manager led: the numbers of its latest attempts, and how long to wait for its tasks."""

    latest: LatestAttempt
    wait: float
    restarts: int = 0
    """The number of restarts that the job has had."""
    has_run: bool = True
    """Whether its tasks may have been deployed."""
    may_start_again: bool = True
    """Whether it may restart if its tasks are not found: it has a checkpoint, or a restart strategy."""


class JobMaster:
    """The state machine of one job, driven by `handle`."""

    def __init__(
        self,
        graph: JobGraph,
        slot_timeout: float,
        now: Instant,
        strategy: RestartStrategy | None = None,
        history_size: int = 16,
        restoring: bool = False,
        same_error_limit: int = 3,
        succeeding: Succeeding | None = None,
    ) -> None:
        self.graph = graph
        self.rescales = RescaleHistory()
        """The last rescales, including the first start; empty for a job that cannot be rescaled."""
        self.topology = JobTopology.of(graph)
        self.execution_graph = (
            ExecutionGraph(graph, now.date_ms, succeeding.latest)
            if succeeding is not None
            else ExecutionGraph(graph, now.date_ms)
        )
        self.status = JobStatus.INITIALIZING
        self.state_times: dict[str, int] = {JobStatus.INITIALIZING: now.date_ms}
        self.message = ""
        restarts = succeeding.restarts if succeeding is not None else 0
        self._restarts = JobRestarts(
            self.topology, strategy or NoRestartStrategy(), history_size, same_error_limit, restarts
        )
        self._all = frozenset(self.topology.subtasks())
        self._slots = JobSlots(self.execution_graph.slot_keys())
        self._slot_timeout_ms = slot_timeout * 1000
        self._waiting_since = now.steady_ms
        self._needs_enumerators = any(v.source for v in graph.vertices)
        self._enumerators_ready = not self._needs_enumerators
        self._needs_new_enumerators = restoring and self._needs_enumerators
        self._to_deploy: frozenset[Subtask] = frozenset()
        self._restores: Mapping[Subtask, TaskRestore] | None = None if restoring else {}
        self._suspended = False
        self._succeeding = succeeding
        self._takeover: Takeover | None = None
        self.keeps_checkpoints = False
        """Whether the job was suspended or abandoned, so that all its checkpoints are kept after its end."""

    @property
    def slots_required(self) -> int:
        """The total number of slots that the job needs."""
        return self._slots.required

    @property
    def slots(self) -> Mapping[SlotKey, Slot]:
        """The slots that the job holds."""
        return self._slots.held

    def holds(self, allocation_id: AllocationId) -> bool:
        """Whether the job holds the slot."""
        return self._slots.holds(allocation_id)

    @property
    def requirements(self) -> Requirements:
        """The bounds of the parallelism of the vertices that have any."""
        return {}

    @property
    def events(self) -> tuple[JobEvent, ...]:
        """The latest events of the job other than failures, oldest first."""
        return ()

    @property
    def slots_wanted(self) -> int:
        """The number of slots that the job declares while it is not ending."""
        return self._slots.wanted

    @property
    def is_suspended(self) -> bool:
        """Whether the job waits for `Resumed`."""
        return self._suspended

    @property
    def slot_supply(self) -> ev.SlotSupply | None:
        """The slots of the cluster, when they are fewer than the job needs."""
        return self._slots.supply

    @property
    def history(self) -> ExceptionHistory:
        """The exception history."""
        return self._restarts.history

    @property
    def restarts(self) -> int:
        """The number of restarts so far."""
        return self._restarts.count

    @property
    def restarts_decided(self) -> int:
        """The number of restarts, including one that waits for its delay."""
        return self._restarts.decided

    @property
    def restart_strategy(self) -> RestartStrategy:
        """The restart strategy of the job."""
        return self._restarts.strategy

    @property
    def failures(self) -> tuple[TaskFailure, ...]:
        """The recorded root causes, newest first, each with its concurrent failures."""
        return tuple(cause.as_failure() for cause in reversed(self.history.entries))

    def start(self, now: Instant) -> list[ev.Effect]:
        """Starts the job; returns the first effects."""
        self._move_to(JobStatus.CREATED, now)
        if self._succeeding is not None:
            self._takeover = Takeover(self.execution_graph, self._slots, now.steady_ms, self._succeeding.wait)
            self.message = _LOOKING
            wake_ups = [ev.WakeUpAt(at_ms) for at_ms in self._takeover.deadlines_ms]
            return [self._declaration(), *wake_ups, ev.ReportDetails()]
        for execution in self.execution_graph.executions:
            execution.move_to(ExecutionState.SCHEDULED, now.date_ms)
        self._to_deploy = self._all
        self._waiting_since = now.steady_ms
        self.message = self._slots.waiting()
        return [self._declaration(), *self._prepare(now), ev.ReportDetails()]

    def _declaration(self) -> ev.DeclareSlots:
        """The declaration of the slots of a job that is not ending."""
        return ev.DeclareSlots(self.slots_required)

    def _prepare(self, now: Instant) -> list[ev.Effect]:
        """Prepares what tasks need besides slots and workers before they are deployed: state and enumerators."""
        if self._restores is None:
            self.message = _RESTORING
            return [ev.Restore(self.restarts, self._to_deploy, self._needs_new_enumerators)]
        return [ev.StartEnumerators()] if self._needs_enumerators else []

    def handle(self, event: ev.Event, now: Instant) -> list[ev.Effect]:
        """Handles an event and returns the effects that the caller has to carry out."""
        if self._takeover is not None and (effects := self._looking(event, self._takeover, now)) is not None:
            return effects
        match event:
            case ev.SlotOffered():
                return self._slot_offered(event)
            case ev.NotEnoughSlots(available, supply):
                return self._not_enough_slots(available, supply)
            case ev.SlotsReclaimed():
                return self._slots_reclaimed()
            case ev.Suspended(reason):
                return self._suspend(reason, now)
            case ev.Resumed():
                return self._resume(now)
            case ev.Abandoned(reason):
                return self._abandon(reason, now)
            case ev.WorkerProgressed(allocation_id, message):
                return self._worker_progressed(allocation_id, message)
            case ev.WorkerReadied(allocation_id, address):
                self._slots.worker_readied(allocation_id, address)
                return self._deploy_when_ready(now)
            case ev.WorkerLost(allocation_id, reason, end):
                lost = self._slots.of_allocation(allocation_id)
                return self._workers_lost(lost, reason, now, end, slots_too=False)
            case ev.TaskManagerLost(task_manager, reason):
                lost = self._slots.of_task_manager(task_manager)
                why = f"task manager {task_manager} was lost: {reason}"
                return self._workers_lost(lost, why, now, WorkerEnd.LOST, slots_too=True)
            case ev.TaskChanged(update):
                return self._task_changed(update, now)
            case ev.MetricsReported(report):
                for task in report.tasks:
                    execution = self.execution_graph.by_attempt(task.attempt_id)
                    if execution is not None:
                        execution.reported(task, now.date_ms)
                return []
            case ev.CancelRequested():
                return self._cancel(now)
            case ev.EnumeratorsReadied():
                self._enumerators_ready = True
                return self._deploy_when_ready(now)
            case ev.EnumeratorsFailed(failure):
                return self._enumerators_lost(failure, now)
            case ev.JobFailed(failure):
                return self._fail(failure, now, self._all)
            case ev.Restored(restart):
                return self._restored(event, now) if self._waits_for(restart) else []
            case ev.RestoreFailed(restart, reason, final):
                if not self._waits_for(restart):
                    return []
                failure = job_failure(self.graph.job_id, f"RestoreFailed: {reason}", now.date_ms, final=final)
                return self._fail(failure, now, self._to_deploy)
            case ev.TaskReported() | ev.TakeoverPrepared() | ev.TakeoverRefused():
                return []  # the takeover is over
            case ev.CheckpointCompleted(records):
                return self._checkpoint_completed(records)
            case ev.RescaleRequested() | ev.RescaleCheckpointed():
                return self._rescaling(event, now)
            case ev.Tick():
                return self._tick(now)
        assert_never(event)

    def _rescaling(self, event: ev.RescaleRequested | ev.RescaleCheckpointed, now: Instant) -> list[ev.Effect]:
        """Refuses the request: this job keeps its parallelism."""
        match event:
            case ev.RescaleRequested(trigger_id):
                return [ev.RespondToRescale(trigger_id, error=f"job {self.graph.job_id} cannot be rescaled")]
            case ev.RescaleCheckpointed():
                return []
        assert_never(event)

    def _move_to(self, status: JobStatus, now: Instant) -> None:
        check_job_transition(self.status, status)
        self.status = status
        self.state_times[status] = now.date_ms

    # Tasks of an earlier leader

    @property
    def is_taking_over(self) -> bool:
        """Whether the job waits for task managers to report running tasks."""
        return self._takeover is not None

    def _looking(self, event: ev.Event, takeover: Takeover, now: Instant) -> list[ev.Effect] | None:
        """Handles an event while task managers may still report running tasks; None if the event ends the takeover."""
        effects: list[ev.Effect] = []
        match event:
            case ev.SlotOffered(allocation_id, task_manager):
                effects.append(ev.RespondToOffer(allocation_id, task_manager, takeover.offered(event)))
            case ev.TaskChanged(update):
                takeover.changed(update)
            case ev.TaskReported(message):
                takeover.received(message)
            case ev.WorkerLost(allocation_id, reason):
                takeover.lost(self._slots.of_allocation(allocation_id), reason, for_good=True)
            case ev.TaskManagerLost(task_manager, reason):
                takeover.spare_lost(task_manager)
                takeover.lost(self._slots.of_task_manager(task_manager), reason, for_good=False)
            case ev.EnumeratorsReadied():
                self._enumerators_ready = True
            case ev.EnumeratorsFailed(failure):
                self._restarts.remember(failure)
                takeover.off = failure.exception
            case ev.TakeoverPrepared(graph):
                self._fit(graph)
                takeover.is_prepared = True
            case ev.TakeoverRefused(reason):
                takeover.off = reason
            case ev.Tick():
                pass
            case ev.CancelRequested() | ev.Suspended() | ev.Abandoned() | ev.JobFailed():
                return self._end_takeover(takeover, event, now)
            case _:
                return []
        takeover.look(now.steady_ms)
        return effects + self._judge(takeover, now)

    def _judge(self, takeover: Takeover, now: Instant) -> list[ev.Effect]:
        if takeover.off:
            may_start = self._succeeding is None or self._succeeding.may_start_again
            return self._start_again(takeover, now) if may_start else self._give_up_takeover(takeover, now)
        if not takeover.is_complete:
            return []
        if not takeover.requested:
            takeover.requested = True
            self.message = _TAKING_OVER
            return [ev.TakeOver(tuple(takeover.tasks.values())), ev.ReportDetails()]
        return self._take_over(takeover, now) if takeover.is_prepared and self._enumerators_ready else []

    def _take_over(self, takeover: Takeover, now: Instant) -> list[ev.Effect]:
        self._takeover = None
        tasks = tuple(takeover.tasks.values())
        for task in tasks:
            execution = self.execution_graph.at(task.vertex_id, task.subtask)
            assert execution is not None, "only tasks of the job are taken"
            self.execution_graph.take_over(task, self.slots[execution.slot_key], now.date_ms)
        self._restores, self._needs_new_enumerators = {}, False
        self._move_to(JobStatus.RUNNING, now)
        self.message = ""
        slots = tuple((slot.allocation_id, slot.task_manager) for slot in self.slots.values())
        unneeded = [_unneeded(offer) for offer in takeover.spare]
        return [ev.TakenOver(tasks, slots), *unneeded, ev.ReportDetails(), *self._settle(now)]

    def _give_up_takeover(self, takeover: Takeover, now: Instant) -> list[ev.Effect]:
        """Fails the job: it has no checkpoint to restart from, and would process its input again."""
        failure = job_failure(
            self.graph.job_id,
            f"NotResumed: {takeover.off} after its job manager was lost or stopped, and the job is not restarted from "
            "the beginning: it has completed no checkpoint, and has no restart strategy. With "
            "execution.checkpointing.interval it continues from its last checkpoint; with restart-strategy.type it "
            "restarts from the beginning",
            now.date_ms,
            final=True,
        )
        given_up = ev.NotTakenOver(takeover.off, starts_again=False)
        return [given_up, *self._end_takeover(takeover, ev.JobFailed(failure), now)]

    def _start_again(self, takeover: Takeover, now: Instant) -> list[ev.Effect]:
        """Restarts the job from its last checkpoint, with attempts numbered after those that were found."""
        self._takeover = None
        effects: list[ev.Effect] = [ev.NotTakenOver(takeover.off)]
        if self._succeeding is not None and self._succeeding.has_run:
            reason = f"JobManagerChanged: {takeover.off} when another job manager became the leader of the job"
            self._restarts.remember(job_failure(self.graph.job_id, reason, now.date_ms))
            self._restarts.begin_again()
        effects += self._slots.give_back(f"restarting the job: {takeover.off}")
        for offer in takeover.spare:
            if not self._slots.take(offer):
                effects.append(_unneeded(offer))
        for execution in self.execution_graph.executions:
            execution.attempt += 1
            execution.move_to(ExecutionState.SCHEDULED, now.date_ms)
        self._enumerators_ready = not self._needs_enumerators
        self._needs_new_enumerators = self._needs_enumerators
        self._to_deploy, self._restores = self._all, None
        self._waiting_since = now.steady_ms
        return [*effects, *self._prepare(now), ev.ReportDetails(), *self._start_workers()]

    def _end_takeover(self, takeover: Takeover, event: ev.Event, now: Instant) -> list[ev.Effect]:
        """Ends the takeover, because the job ends or restarts for another reason."""
        self._takeover = None
        self._needs_new_enumerators, self._enumerators_ready = self._needs_enumerators, not self._needs_enumerators
        freed = self._slots.give_back("the job does not continue with the tasks that run in it")
        unneeded = [_unneeded(offer) for offer in takeover.spare]
        return [*freed, *unneeded, *self.handle(event, now)]

    def _fit(self, graph: JobGraph | None) -> None:
        if graph is not None and graph is not self.graph:
            self.graph = graph
            self.execution_graph.fit(graph)

    # Slots and workers

    def _slot_offered(self, offer: ev.SlotOffered) -> list[ev.Effect]:
        known = self._slots.holds(offer.allocation_id)
        used = offer.found is not None and bool(offer.found.tasks)  # by attempts that no longer belong to the job
        wanted = self.status in _HOLDING and not self._suspended and not used
        taken = not known and wanted and self._slots.take(offer)
        effects: list[ev.Effect] = [ev.RespondToOffer(offer.allocation_id, offer.task_manager, known or taken)]
        return [*effects, *(self._start_workers() if taken and self._to_deploy else [])]

    def _start_workers(self) -> list[ev.Effect]:
        """Starts workers in the slots that have none, once all slots are held."""
        if not self._slots.complete:
            self.message = self._slots.waiting()
            return [ev.ReportDetails()]
        effects = self._slots.start_workers()
        if not effects:
            return []
        self.message = "starting slot workers"
        return [*effects, ev.ReportDetails()]

    def _not_enough_slots(self, available: int, supply: ev.SlotSupply | None) -> list[ev.Effect]:
        self._slots.not_enough(supply)
        if not self._to_deploy or self._slots.complete:
            return []
        self.message = self._slots.waiting(available)
        return [ev.ReportDetails()]

    def _slots_reclaimed(self) -> list[ev.Effect]:
        """Releases the slots of a job that waits for more, unless its tasks still run in them."""
        idle = bool(self._to_deploy) and not any(e.is_deployed for e in self.execution_graph.executions)
        if not idle or self._slots.complete or not self.slots:
            return []
        effects = self._slots.give_back("another job can run in the slots that are too few for this one")
        self.message = self._slots.waiting()
        return [*effects, ev.ReportDetails()]

    def _worker_progressed(self, allocation_id: AllocationId, message: str) -> list[ev.Effect]:
        ours = not allocation_id or self._slots.holds(allocation_id)
        if not ours or not self._to_deploy or self.message == message:
            return []
        self.message = message
        return [ev.ReportDetails()]

    def _deploy_when_ready(self, now: Instant) -> list[ev.Effect]:
        if not self._to_deploy or not self._slots.ready:
            return []
        restores = self._restores
        if restores is None and self.message != _RESTORING:
            self.message = _RESTORING
            return [ev.ReportDetails()]
        if restores is None or not self._enumerators_ready:
            return []
        if self.status is not JobStatus.RUNNING:
            self._move_to(JobStatus.RUNNING, now)
        self.message = ""
        plan = DeploymentPlan.of(self._restarts.regions, self._to_deploy, self.execution_graph.finished())
        effects = deploy(self.execution_graph, self.slots, plan.due, restores, now.date_ms)
        self._to_deploy, self._restores = plan.waiting, restores if plan.waiting else {}
        return [*effects, ev.ReportDetails()]

    def _waits_for(self, restart: int) -> bool:
        return restart == self.restarts and self._restores is None and bool(self._to_deploy)

    def _restored(self, event: ev.Restored, now: Instant) -> list[ev.Effect]:
        self._restores = event.restores
        self._needs_new_enumerators = False
        self._fit(event.graph)
        return self._deploy_when_ready(now)

    def _tick(self, now: Instant) -> list[ev.Effect]:
        if self._restarts.pending is not None:
            return self._restart_when_due(now)
        timed_out = now.steady_ms - self._waiting_since >= self._slot_timeout_ms
        if not self._to_deploy or self._slots.complete or not timed_out:
            return []
        supply = f", with {self._slots.supply}" if self._slots.supply is not None else ""
        failure = job_failure(
            self.graph.job_id,
            f"NotEnoughSlots: the job needs {counted(self.slots_required, 'slot')} and has {len(self.slots)} after "
            f"waiting {self._slot_timeout_ms / 1000:g} s (slot.request.timeout){supply}; {self._way_out()}",
            now.date_ms,
        )
        return self._fail(failure, now, self._to_deploy)

    def _way_out(self) -> str:
        if not self.graph.slot_resources:
            return "start more task managers, give them more slots, or lower the parallelism"
        requested = [
            f"'{r.group}' requests {r.cpu_cores:g} cores and {r.memory_bytes / 2**20:g} mb of memory"
            for r in self.graph.slot_resources
        ]
        return (
            f"each slot takes its share of a task manager, and the slot sharing group {', '.join(requested)}: start "
            "more or larger task managers, or request less"
        )

    def _workers_lost(
        self, keys: list[SlotKey], reason: str, now: Instant, end: WorkerEnd, slots_too: bool
    ) -> list[ev.Effect]:
        """Handles the loss of workers, and with `slots_too` also of the slots that they ran in."""
        if not keys:
            return []
        slots = [self.slots[key] for key in keys]
        starting = bool(self._to_deploy) and any(slot.worker_started for slot in slots)
        tasks = [e for key in keys for e in self.execution_graph.in_slice(key)]
        live = [e for e in tasks if e.is_deployed]
        failing = [e for e in live if not self._is_leaving(e)]
        named = live or [e for e in tasks if not e.state.is_terminal]
        failure = lost_failure(self.graph.job_id, reason, now.date_ms, slots[0].task_manager, named, end)
        for execution in live:
            leaving = self._is_leaving(execution)
            execution.move_to(ExecutionState.CANCELED if leaving else ExecutionState.FAILED, now.date_ms)
        for slot in slots:
            slot.worker_gone()
        gone = self._slots.drop(keys) if slots_too else []
        if self.status is JobStatus.CANCELLING or (end is WorkerEnd.PUT_DOWN and not failing and not starting):
            effects = self._tasks_ended(now)
        elif failing or starting or self.status is JobStatus.FAILING or self._restarts.gives_up_on(failure):
            scheduled = [e for e in tasks if e.place in self._to_deploy]
            failed = {e.place for e in (failing or scheduled)} or self._to_deploy
            effects = self._fail(failure, now, failed)
        else:
            if live:
                self._restarts.remember(failure)
            effects = self._tasks_ended(now) or (self._start_workers() if self._to_deploy else [])
        if not slots_too and self.status not in _HOLDING:
            gone = self._slots.drop(keys)
        freed: list[ev.Effect] = [free(slot, reason) for slot in gone]
        return freed + effects if slots_too else effects + freed

    # Tasks

    def _task_changed(self, update: TaskUpdate, now: Instant) -> list[ev.Effect]:
        execution = self.execution_graph.by_attempt(update.attempt_id)
        state = update.state
        if execution is None or not execution.is_deployed or state not in TASK_TRANSITIONS[execution.state]:
            return []
        leaving = self._is_leaving(execution)
        if state in (ExecutionState.CANCELING, ExecutionState.CANCELED) and not leaving:
            return []
        execution.move_to(state, now.date_ms)
        if state.is_terminal:
            execution.accumulators = update.accumulators
            execution.metrics = update.metrics or TaskMetrics()
        if state is ExecutionState.FAILED:
            slot = self.slots.get(execution.slot_key)
            task_manager = slot.task_manager if slot is not None else ""
            failure = task_failure(self.graph.job_id, execution, update.failure, task_manager, now.date_ms)
            if not leaving or self.status in _ENDING or self._restarts.gives_up_on(failure):
                return self._fail(failure, now, {execution.place})
            self._restarts.remember(failure)
        effects = self._tasks_ended(now) or [ev.ReportDetails()]
        if state is ExecutionState.FINISHED and self.status is JobStatus.RUNNING:
            effects += self._deploy_when_ready(now)
        return effects

    def _checkpoint_completed(self, records: Mapping[AttemptId, int]) -> list[ev.Effect]:
        executions = [(self.execution_graph.by_attempt(attempt), count) for attempt, count in records.items()]
        self._restarts.checkpoint_completed({e.place: count for e, count in executions if e is not None})
        return []

    def runs_again(self, execution: Execution) -> bool:
        """Whether the task is being cancelled in order to restart."""
        return self._restarts.cancels(execution)

    def _is_leaving(self, execution: Execution) -> bool:
        """Whether the task is being cancelled or stopped."""
        return self.status in _ENDING or self._restarts.cancels(execution)

    def _tasks_ended(self, now: Instant) -> list[ev.Effect]:
        """Ends the job or restarts tasks, once the tasks that have to end first have ended."""
        return self._restart_when_due(now) if self._restarts.pending is not None else self._settle(now)

    # Failures

    def _enumerators_lost(self, failure: TaskFailure, now: Instant) -> list[ev.Effect]:
        if self._needs_new_enumerators and self.status in _HOLDING:
            self._restarts.remember(failure)
            return [ev.ReportDetails()]
        self._needs_new_enumerators, self._enumerators_ready = True, False
        return self._fail(failure, now, self._all)

    def _fail(self, failure: TaskFailure, now: Instant, failed: Collection[Subtask]) -> list[ev.Effect]:
        if self.status.is_terminal or self.status is JobStatus.CANCELLING:
            return self._settle(now)
        self._restarts.remember(failure)
        if self.status is JobStatus.FAILING:
            return self._settle(now) or [ev.ReportDetails()]
        if self._suspended and not failure.final:
            return [ev.ReportDetails()]
        decision = self._restarts.decide(failure, failed, self._to_deploy, now.steady_ms)
        if isinstance(decision, GiveUp):
            self._move_to(JobStatus.FAILING, now)
            return self._end_all(now, decision.reason)
        return self._restart(decision, failure, now)

    def _restart(self, restart: PendingRestart, failure: TaskFailure, now: Instant) -> list[ev.Effect]:
        self._to_deploy, self._restores = frozenset(), {}
        if self.status is not JobStatus.RESTARTING:
            self._move_to(JobStatus.RESTARTING, now)
        tasks = f"{len(restart.subtasks)} of {len(self._all)} tasks"
        self.message = f"restart {restart.number} in {restart.delay_ms / 1000:.1f} s, {tasks}: {cause_line(failure)}"
        effects: list[ev.Effect] = [ev.RollBack(restart.subtasks, failure.exception), ev.ReportDetails()]
        effects += cancel(self.execution_graph.of(restart.subtasks), self.slots, now.date_ms)
        if restart.at_ms > now.steady_ms:
            effects.append(ev.WakeUpAt(restart.at_ms))
        return effects + self._restart_when_due(now)

    def _restart_when_due(self, now: Instant) -> list[ev.Effect]:
        """Restarts the tasks, if the old attempts have all ended and the delay has passed."""
        subtasks = self._restarts.take_due(self.execution_graph, now.steady_ms)
        return self._run_again(subtasks, now) if subtasks is not None else []

    def _run_again(self, subtasks: frozenset[Subtask], now: Instant) -> list[ev.Effect]:
        self.execution_graph.try_again(subtasks, now.date_ms)
        self._to_deploy, self._restores = subtasks, None
        self._waiting_since = now.steady_ms
        return [*self._prepare(now), ev.ReportDetails(), *self._start_workers()]

    # Stopped from outside

    def _suspend(self, reason: str, now: Instant) -> list[ev.Effect]:
        if self.status.is_terminal or self._suspended:
            return []
        if self.status in _ENDING:
            return [*self._stop_at_once(reason, now), *self._settle(now)]
        ran = self.status is not JobStatus.CREATED
        if ran and isinstance(self.restart_strategy, NoRestartStrategy):
            return self._abandon(reason, now)
        self._restarts.remember(job_failure(self.graph.job_id, reason, now.date_ms))
        if self.status is not JobStatus.RESTARTING:
            self._move_to(JobStatus.RESTARTING, now)
        self._suspended, self.message = True, f"suspended: {reason}"
        self._needs_new_enumerators, self._enumerators_ready = self._needs_enumerators, not self._needs_enumerators
        stopped = self._stop_at_once(reason, now)
        return [ev.RollBack(self._all, reason), *stopped, ev.ReportDetails()]

    def _resume(self, now: Instant) -> list[ev.Effect]:
        if not self._suspended or self.status is not JobStatus.RESTARTING:
            return []
        self._suspended = False
        self._restarts.begin_again()
        self.execution_graph.try_again(self._all, now.date_ms)
        self._to_deploy, self._restores = self._all, None
        self._waiting_since = now.steady_ms
        return [self._declaration(), *self._prepare(now), ev.ReportDetails()]

    def _abandon(self, reason: str, now: Instant) -> list[ev.Effect]:
        if self.status.is_terminal:
            return []
        self.keeps_checkpoints = True
        self._restarts.remember(job_failure(self.graph.job_id, reason, now.date_ms))
        if self.status not in _ENDING:
            self._move_to(JobStatus.FAILING, now)
        self.message = ""
        return [*self._stop_at_once(reason, now), *self._settle(now)]

    def _stop_at_once(self, reason: str, now: Instant) -> list[ev.Effect]:
        """Releases the slots, and with them the workers, without waiting for tasks to be cancelled."""
        self._restarts.pending, self._to_deploy, self._restores = None, frozenset(), {}
        for execution in self.execution_graph.executions:
            if not execution.state.is_terminal:
                execution.move_to(ExecutionState.CANCELED, now.date_ms)
        return [ev.DeclareSlots(0), *self._slots.give_back(reason), ev.StopEnumerators()]

    # Ends

    def _cancel(self, now: Instant) -> list[ev.Effect]:
        if self.status.is_terminal or self.status is JobStatus.CANCELLING:
            return []
        self._move_to(JobStatus.CANCELLING, now)
        return self._end_all(now, "")

    def _end_all(self, now: Instant, message: str) -> list[ev.Effect]:
        self.message = message
        self._restarts.pending, self._to_deploy = None, frozenset()
        effects: list[ev.Effect] = [ev.DeclareSlots(0), ev.ReportDetails()]
        return effects + cancel(self.execution_graph.executions, self.slots, now.date_ms) + self._settle(now)

    def _settle(self, now: Instant) -> list[ev.Effect]:
        """Ends the job when all its tasks have ended."""
        executions = self.execution_graph.executions
        if self.status.is_terminal or not all(e.state.is_terminal for e in executions):
            return []
        effects: list[ev.Effect] = []
        match self.status:
            case JobStatus.CANCELLING:
                self._move_to(JobStatus.CANCELED, now)
            case JobStatus.FAILING:
                self._move_to(JobStatus.FAILED, now)
            case JobStatus.RUNNING:
                self._move_to(JobStatus.FINISHED, now)
                effects.append(ev.DeclareSlots(0))
            case _:
                return []
        effects += self._slots.give_back(f"job {self.status.lower()}")
        return [*effects, ev.ReportDetails(), ev.JobEnded()]

    # Where things are

    def place_of(self, vertex_id: VertexId, subtask: int) -> Place | None:
        """Returns where a subtask runs, or None."""
        return self._slots.place_of(self.execution_graph.at(vertex_id, subtask))

    def place_of_attempt(self, attempt_id: AttemptId) -> Place | None:
        """Returns where an attempt runs, or None if it no longer does."""
        return self._slots.place_of(self.execution_graph.by_attempt(attempt_id))

    def collector_of(self, operator_id: str) -> Place | None:
        """Returns where the collect sink with this operator id runs; it has one subtask."""
        for vertex in self.graph.vertices:
            if any(o.id == operator_id for o in vertex.operators):
                return self.place_of(vertex.id, 0)
        return None


def _unneeded(offer: ev.SlotOffered) -> ev.FreeSlot:
    return ev.FreeSlot(offer.allocation_id, offer.task_manager, "the job needs no more slots")
