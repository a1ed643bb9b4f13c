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

The JobMaster dispatches events to its parts, which share the `JobState`: `Deployment`, `JobLife` (tasks, failures and
the end), `Rescaling`, `Adaptation`, and `Succession`.
"""

from __future__ import annotations

from typing import assert_never

from millstream.core.clock import Instant
from millstream.core.jobs.failure_kinds import WorkerEnd
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.rescales import RescaleCause
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.jobmanager.adaptive.bounds import Requirements, initial_requirements
from millstream.jobmanager.adaptive.fitting import graph_at, most_slots, uppers
from millstream.jobmanager.adaptive.scheduler import AdaptiveScheduler
from millstream.jobmanager.failover.restart_strategy import NoRestartStrategy, RestartStrategy
from millstream.jobmanager.job_master import events as ev
from millstream.jobmanager.job_master.adaptation import Adaptation
from millstream.jobmanager.job_master.deployment import Deployment
from millstream.jobmanager.job_master.job_failures import job_failure
from millstream.jobmanager.job_master.job_life import JobLife
from millstream.jobmanager.job_master.job_state import JobState
from millstream.jobmanager.job_master.rescaling import Rescaling
from millstream.jobmanager.job_master.settings import JobMasterSettings, Succeeding
from millstream.jobmanager.job_master.succession import Succession


class JobMaster(JobState):
    """The state machine of one job, driven by `handle`.

    `restoring`: it starts from a snapshot. `submitted` is the job as it was submitted, which is `graph` if it has not
    been rescaled. `bounds` are those that an earlier leader of the job has accepted.
    """

    def __init__(
        self,
        graph: JobGraph,
        settings: JobMasterSettings,
        now: Instant,
        strategy: RestartStrategy | None = None,
        restoring: bool = False,
        succeeding: Succeeding | None = None,
        submitted: JobGraph | None = None,
        bounds: Requirements | None = None,
    ) -> None:
        super().__init__(graph, settings, now, strategy or NoRestartStrategy(), succeeding)
        scheduler = AdaptiveScheduler(settings.adaptive) if settings.adaptive is not None else None
        self._take_bounds(submitted or graph, bounds)
        self._deployment = Deployment(self, now, restoring, scheduler)
        self._life = JobLife(self, self._deployment)
        self._rescaling = self._life.rescaling = Rescaling(self, self._deployment, self._life)
        self._succession: Succession | None = None
        if succeeding is not None:
            self._succession = Succession(self, self._deployment, self._life, succeeding, self.handle)
        if scheduler is not None:
            self._rescaling.adapt = Adaptation(self, self._deployment, self._life, self._rescaling, scheduler).adapt
            self.slot_table.want(most_slots(graph, self.bounds))

    def _take_bounds(self, submitted: JobGraph, accepted: Requirements | None) -> None:
        adaptive = self.settings.adaptive
        self.bounds = initial_requirements(self.graph)
        if adaptive is not None:
            self.bounds = initial_requirements(submitted, adaptive.reactive)
        if accepted and adaptive is None and graph_at(self.graph, uppers(accepted)) != self.graph:
            self.left_over = accepted
        elif accepted:
            self.bounds = accepted

    def start(self, now: Instant) -> list[ev.Effect]:
        """Starts the job; returns the first effects."""
        self.move_to(JobStatus.CREATED, now)
        if self._succession is not None:
            effects = self._succession.start(now)
            self._rescaling.record(RescaleCause.RECOVERABLE_FAILOVER, self.graph, self.graph, now)
        else:
            for execution in self.execution_graph.executions:
                execution.move_to(ExecutionState.SCHEDULED, now.date_ms)
            self._deployment.wait_for(self.all_subtasks, now)
            self.message = self.slot_table.waiting()
            effects = [self._deployment.declaration(), *self._deployment.prepare(now), ev.ReportDetails()]
            self._rescaling.record(RescaleCause.INITIAL_SCHEDULE, None, self.graph, now)
        return [*effects, *self._rescaling.go_on(now)]

    def handle(self, event: ev.Event, now: Instant) -> list[ev.Effect]:
        """Handles an event and returns the effects that the caller has to carry out."""
        if self.takeover is not None and isinstance(event, ev.RescaleRequested):
            why = f"job {self.graph.job_id} has a new job manager, which is taking over its tasks; try again"
            return [ev.RespondToRescale(event.trigger_id, error=why)]
        effects = self._handle(event, now)
        more = self._rescaling.go_on(now)  # a rescale may have waited for the event
        return [*more, *effects] if self.status.is_terminal else [*effects, *more]

    def _handle(self, event: ev.Event, now: Instant) -> list[ev.Effect]:
        if self.takeover is not None and self._succession is not None:
            return self._succession.handle(event, self.takeover, now)
        match event:
            case ev.SlotOffered():
                return self._deployment.slot_offered(event)
            case ev.NotEnoughSlots(available, supply):
                return self._deployment.not_enough_slots(available, supply)
            case ev.SlotsReclaimed():
                return self._deployment.slots_reclaimed()
            case ev.Suspended(reason):
                return self._life.suspend(reason, now)
            case ev.Resumed():
                return self._life.resume(now)
            case ev.Abandoned(reason):
                return self._life.abandon(reason, now)
            case ev.WorkerProgressed(allocation_id, message):
                return self._deployment.worker_progressed(allocation_id, message)
            case ev.WorkerReadied(allocation_id, address):
                self.slot_table.worker_readied(allocation_id, address)
                return self._deployment.deploy_when_ready(now)
            case ev.WorkerLost(allocation_id, reason, end, slot_freed):
                lost = self.slot_table.of_allocation(allocation_id)
                return self._life.workers_lost(lost, reason, now, end, slots_too=slot_freed)
            case ev.TaskManagerLost(task_manager, reason):
                lost = self.slot_table.of_task_manager(task_manager)
                why = f"task manager {task_manager} was lost: {reason}"
                return self._life.workers_lost(lost, why, now, WorkerEnd.LOST, slots_too=True)
            case ev.TaskChanged(update):
                return self._life.task_changed(update, now)
            case ev.MetricsReported(report):
                for task in report.tasks:
                    execution = self.execution_graph.by_attempt(task.attempt_id)
                    if execution is not None:
                        execution.reported(task, now.date_ms)
                return []
            case ev.CancelRequested():
                return self._life.cancel(now)
            case ev.EnumeratorsReadied():
                self._deployment.enumerators_ready = True
                return self._deployment.deploy_when_ready(now)
            case ev.EnumeratorsFailed(failure):
                return self._life.enumerators_lost(failure, now)
            case ev.JobFailed(failure):
                return self._life.fail(failure, now, self.all_subtasks)
            case ev.Restored(restart):
                return self._deployment.restored(event, now) if self._deployment.waits_for(restart) else []
            case ev.RestoreFailed(restart, reason, final):
                if not self._deployment.waits_for(restart):
                    return []
                failure = job_failure(self.graph.job_id, f"RestoreFailed: {reason}", now.date_ms, final=final)
                return self._life.fail(failure, now, self._deployment.to_deploy)
            case ev.TaskReported() | ev.TakeoverPrepared() | ev.TakeoverRefused():
                return []  # the takeover is over
            case ev.CheckpointCompleted(records):
                return self._life.checkpoint_completed(records)
            case ev.RescaleRequested() | ev.RescaleCheckpointed():
                return self._rescaling.handle(event, now)
            case ev.Tick():
                return self._life.tick(now)
        assert_never(event)
