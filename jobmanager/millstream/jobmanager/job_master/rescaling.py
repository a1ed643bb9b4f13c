"""The rescales of one job, on request or when the available slots change. Pure.

A rescale neither loses nor duplicates data, because it is a restart from a completed checkpoint. The job runs until
everything it needs is available: slots, workers in them, and a checkpoint of its own (after too many failed ones, the
last completed checkpoint is used). Then its tasks are cancelled, the execution graph is rebuilt, and all tasks are
restored from the checkpoint, like those of a job that starts from a snapshot at another parallelism. Slots that are no
longer needed are released when all tasks run. If anything fails before that, the job continues at its previous
parallelism: without a restart while its tasks still run, otherwise with a restart from the checkpoint. The restart
strategy is not consulted about that. As long as its tasks still run, a rescale is replaced by the next request: it may
be waiting for slots that never become available.

Bounds are stored and outlive the job manager, since their requester has been notified that they are accepted. A rescale
that was in progress when another job manager became the leader begins again when all tasks run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from millstream.core.clock import Instant
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.job_events import JobEventKind
from millstream.core.jobs.rescales import RescaleCause, RescaleEnd
from millstream.core.jobs.states import JobStatus
from millstream.core.logs.failure_texts import cause_line
from millstream.jobmanager.adaptive.bounds import (
    Requirements,
    RequirementsError,
    at_parallelism,
    requested_requirements,
)
from millstream.jobmanager.adaptive.fitting import graph_at, in_words, most_slots, parallelism_of, uppers
from millstream.jobmanager.failover.topology import JobTopology
from millstream.jobmanager.job_master import events as ev
from millstream.jobmanager.job_master.deployment import Deployment
from millstream.jobmanager.job_master.job_life import JobLife
from millstream.jobmanager.job_master.job_state import NOT_ENDING, JobState
from millstream.jobmanager.job_master.rescale import Phase, Rescale
from millstream.jobmanager.job_master.task_commands import cancel

_STILL_RUNNING = (Phase.GATHERING, Phase.CHECKPOINTING)
_STATES = {
    Phase.GATHERING: "WaitingForResources", Phase.CHECKPOINTING: "Executing", Phase.CANCELLING: "Restarting",
    Phase.STARTING: "CreatingExecutionGraph",
}  # fmt: skip
"""Flink's names of the corresponding states of its scheduler."""
_ENDS = {
    JobStatus.FINISHED: RescaleEnd.JOB_FINISHED, JobStatus.FAILED: RescaleEnd.JOB_FAILED,
    JobStatus.FAILING: RescaleEnd.JOB_FAILED, JobStatus.CANCELED: RescaleEnd.JOB_CANCELED,
    JobStatus.CANCELLING: RescaleEnd.JOB_CANCELED,
}  # fmt: skip
_CHECKPOINT_RETRY_MS = 1_000


class Rescaling:
    """`adapt`, which is set before the first event, lets the adaptive scheduler act."""

    adapt: Callable[[Instant], list[ev.Effect]]

    def __init__(self, job: JobState, deployment: Deployment, life: JobLife) -> None:
        self._job = job
        self._deployment = deployment
        self._life = life
        self._number = 0

    def handle(self, event: ev.RescaleRequested | ev.RescaleCheckpointed, now: Instant) -> list[ev.Effect]:
        """Handles a request, or the result of a checkpoint for a rescale."""
        match event:
            case ev.RescaleRequested():
                try:
                    return self._requested(event, now)
                except RequirementsError as error:
                    return [ev.RespondToRescale(event.trigger_id, error=str(error))]
            case ev.RescaleCheckpointed(number, error, is_final):
                return self._checkpointed(number, error, is_final, now)
        assert_never(event)

    def _requested(self, event: ev.RescaleRequested, now: Instant) -> list[ev.Effect]:
        if self._job.status not in NOT_ENDING:
            raise RequirementsError(f"job {self._job.graph.job_id} is {self._job.status}")
        before = self._job.rescale
        if before is not None and before.phase not in _STILL_RUNNING:
            under_way = f"it is being rescaled to parallelism {before.words}"
            raise RequirementsError(f"job {self._job.graph.job_id}: {under_way}; try again when it has ended")
        bounds = (
            requested_requirements(self._job.graph, event.bounds)
            if event.bounds
            else at_parallelism(
                self._job.graph, before.bounds_before if before else self._job.requirements, event.parallelism
            )
        )
        target = graph_at(self._job.graph, uppers(bounds))
        runs = self._job.status is JobStatus.RUNNING and not self._job.suspended
        if self._deployment.adaptive is None and target != self._job.graph and not runs:
            is_now = "suspended" if self._job.suspended else str(self._job.status)
            raise RequirementsError(f"job {self._job.graph.job_id} is {is_now}; try again when it runs")
        replaced: list[ev.Effect] = []
        if before is not None and (self._deployment.adaptive is None or bounds != self._job.bounds):
            before.outcome = RescaleEnd.RESOURCE_REQUIREMENTS_UPDATED
            replaced = self._give_up("another parallelism has been requested since", now)
        return [*replaced, *self._accept(event, bounds, target, now)]

    def _accept(
        self, event: ev.RescaleRequested, bounds: Requirements, target: JobGraph, now: Instant
    ) -> list[ev.Effect]:
        if self._deployment.adaptive is None and target != self._job.graph:
            self._job.left_over = None
            accepted = [] if event.waits else [ev.RespondToRescale(event.trigger_id, "accepted")]
            trigger_id = event.trigger_id if event.waits else ""
            return [*accepted, *self.begin(target, bounds, event.reason, trigger_id, now)]
        if bounds != self._job.requirements:
            words = in_words(self._job.graph, parallelism_of(target))
            self._job.remember(JobEventKind.REQUIREMENTS_CHANGED, f"parallelism up to {words}: {event.reason}", now)
        self._job.bounds, self._job.left_over = bounds, None
        if self._deployment.adaptive is None:
            return [ev.RespondToRescale(event.trigger_id, "the job runs at this parallelism"), ev.ReportDetails()]
        freed = self._job.slot_table.want(most_slots(self._job.graph, bounds))
        message = "accepted: the adaptive scheduler rescales the job when slots are available and the cooldown is over"
        declared: list[ev.Effect] = [] if self._job.suspended else [self._deployment.declaration()]
        return [*declared, *freed, ev.RespondToRescale(event.trigger_id, message), ev.ReportDetails()]

    # The steps of a rescale

    def begin(
        self,
        target: JobGraph,
        bounds: Requirements,
        reason: str,
        trigger_id: str,
        now: Instant,
        cause: RescaleCause = RescaleCause.UPDATE_REQUIREMENT,
    ) -> list[ev.Effect]:
        """Begins a rescale to this graph, with these bounds."""
        self._number += 1
        words = in_words(self._job.graph, parallelism_of(target))
        self._job.rescale = Rescale(
            self._number, target, self._job.graph, self._job.bounds, words, reason, trigger_id, now.steady_ms
        )
        self._job.bounds = bounds
        self.record(cause, self._job.graph, target, now)
        self._job.remember(JobEventKind.RESCALE_STARTED, f"to parallelism {words}: {reason}", now)
        if self._deployment.adaptive is not None:
            return [ev.ReportDetails()]
        before = self._job.slot_table.wanted
        freed = self._job.slot_table.want(max(target.slots_required(), self._job.slots_required))
        return [
            *freed,
            *([self._deployment.declaration()] if self._job.slot_table.wanted != before else []),
            ev.ReportDetails(),
        ]

    def record(self, cause: RescaleCause, before: JobGraph | None, target: JobGraph, now: Instant) -> None:
        """Records the beginning of a rescale, of the first start, or of a start in other slots."""
        bounds = {vertex: (one.lower, one.upper) for vertex, one in self._job.requirements.items()}
        self._job.rescales.begin(cause, before, target, bounds, now.date_ms)
        self._job.rescales.step(_STATES[Phase.GATHERING], now.date_ms)

    def _step(self, rescale: Rescale, phase: Phase, now: Instant) -> None:
        rescale.move_to(phase, now.steady_ms)
        self._job.rescales.step(_STATES[phase], now.date_ms, rescale.error)

    def _record_start(self, now: Instant) -> None:
        """Records the job's first start, and a restart in fewer or more slots."""
        if self._job.rescale is not None or self._job.rescales.under_way is None:
            return
        if self._job.status.is_terminal:
            self._job.rescales.end(_ENDS[self._job.status], self._job.graph, now.date_ms)
        elif self._job.status is JobStatus.RUNNING and self._job.all_up:
            self._job.rescales.end(RescaleEnd.SUCCEEDED, self._job.graph, now.date_ms)

    def go_on(self, now: Instant) -> list[ev.Effect]:
        """Takes the next step of a rescale, if one is due."""
        self._record_start(now)
        if self._job.status not in NOT_ENDING or self._job.suspended:
            why = "the job was suspended" if self._job.suspended else f"the job is {self._job.status}"
            return self._conclude(why, now) if self._job.rescale is not None else []
        if self._job.left_over is not None and self._job.status is JobStatus.RUNNING and self._job.all_up:
            bounds, self._job.left_over = self._job.left_over, None
            target, reason = graph_at(self._job.graph, uppers(bounds)), "an earlier job manager had accepted it"
            return [*self.begin(target, bounds, reason, "", now), *self.go_on(now)]
        effects = self._advance(self._job.rescale, now) if self._job.rescale is not None else []
        if self._deployment.adaptive is None:
            return effects
        before = self._job.rescale
        effects += self.adapt(now)
        following = self._job.rescale
        if following is not None and following is not before:  # continue at once with the new rescale
            effects += self._advance(following, now)
        return effects

    def _advance(self, rescale: Rescale, now: Instant) -> list[ev.Effect]:
        waited = now.steady_ms - rescale.since_ms
        match rescale.phase:
            case Phase.GATHERING if self._job.status is JobStatus.RUNNING:
                return self._gather(rescale, waited, now)
            case Phase.CHECKPOINTING:
                limit = self._job.settings.rescaling.checkpoint_timeout_ms
                if limit is not None and waited >= limit:
                    return self._without_checkpoint(rescale, f"no checkpoint within {limit / 1000:g} s", now)
            case Phase.STARTING:
                if self._job.status is JobStatus.RUNNING and self._job.all_up:
                    return self._rescaled(rescale, now)
        return []

    def _gather(self, rescale: Rescale, waited: int, now: Instant) -> list[ev.Effect]:
        needed = rescale.target.slots_required()
        there = self._job.slot_table.complete and len(self._job.slots) >= needed
        effects = self._job.slot_table.start_workers(in_spares=True) if there else []
        if there and self._job.all_up and self._job.slot_table.all_ready and now.steady_ms >= rescale.not_before_ms:
            self._step(rescale, Phase.CHECKPOINTING, now)
            return [
                *effects,
                *self._job.show(f"rescaling to {rescale.words}: taking a checkpoint"),
                self._checkpoint(),
            ]
        if waited >= self._job.settings.rescaling.slot_timeout_ms:
            limit = f"{self._job.settings.rescaling.slot_timeout_ms / 1000:g} s (slot.request.timeout)"
            supply = f", with {self._job.slot_table.supply}" if self._job.slot_table.supply is not None else ""
            return [*effects, *self._give_up(f"{len(self._job.slots)} of {needed} slots after {limit}{supply}", now)]
        what = "starting slot workers" if there else f"waiting for slots: {len(self._job.slots)} of {needed}"
        return [*effects, *self._job.show(f"rescaling to {rescale.words}: {what}")]

    def _checkpoint(self) -> ev.TakeCheckpoint:
        return ev.TakeCheckpoint(self._number)

    def _checkpointed(self, number: int, error: str, is_final: bool, now: Instant) -> list[ev.Effect]:
        rescale = self._job.rescale
        if rescale is None or number != rescale.number or rescale.phase is not Phase.CHECKPOINTING:
            return []
        if not error:
            return self._stop_tasks(rescale, now)
        rescale.failed_checkpoints += 1
        if is_final:
            return self._give_up(error, now)
        if rescale.failed_checkpoints >= self._job.settings.rescaling.checkpoint_failures:
            return self._without_checkpoint(rescale, error, now)
        self._step(rescale, Phase.GATHERING, now)
        rescale.not_before_ms = now.steady_ms + _CHECKPOINT_RETRY_MS
        return []

    def _without_checkpoint(self, rescale: Rescale, why: str, now: Instant) -> list[ev.Effect]:
        """Rescales from the last completed checkpoint, if the job takes periodic ones."""
        return (
            self._stop_tasks(rescale, now) if self._job.settings.rescaling.has_checkpoints else self._give_up(why, now)
        )

    def _stop_tasks(self, rescale: Rescale, now: Instant) -> list[ev.Effect]:
        self._step(rescale, Phase.CANCELLING, now)
        rescale.stopped_ms = now.steady_ms
        self._job.restarting.restart_all(self._job.all_subtasks, now.steady_ms)
        self._deployment.clear()
        if self._job.status is not JobStatus.RESTARTING:
            self._job.move_to(JobStatus.RESTARTING, now)
        self._job.message = f"rescaling to {rescale.words}: {rescale.reason}"
        if rescale.error:
            self._job.message = f"returning to the previous parallelism: {rescale.error}"
        effects: list[ev.Effect] = [ev.RollBack(self._job.all_subtasks, self._job.message), ev.ReportDetails()]
        effects += cancel(self._job.execution_graph.executions, self._job.slots, now.date_ms)
        return effects + self._life.restart_when_due(now)

    def run_again(self, rescale: Rescale, now: Instant) -> list[ev.Effect]:
        """Restarts all tasks at the new parallelism, or at the previous one, once they were cancelled."""
        effects = self.take_graph(rescale.before if rescale.error else rescale.target, now)
        self._deployment.wait_again(self._job.all_subtasks, now)
        if rescale.error:
            effects += self._end_at(rescale.bounds_before, rescale.error, now)
        else:
            self._step(rescale, Phase.STARTING, now)
        return [*effects, *self._deployment.prepare_decided(), ev.ReportDetails(), *self._deployment.start_workers()]

    def take_graph(self, graph: JobGraph, now: Instant) -> list[ev.Effect]:
        """Replaces the job graph while no task runs."""
        self._job.graph, self._job.topology = graph, JobTopology.of(graph)
        self._job.execution_graph.rescale(graph, now.date_ms)
        self._job.all_subtasks = frozenset(self._job.topology.subtasks())
        self._job.restarting.rescaled(self._job.topology)
        self._job.slot_table.rearrange(self._job.execution_graph.slot_keys())
        return [ev.ChangeGraph(graph)]

    def _rescaled(self, rescale: Rescale, now: Instant) -> list[ev.Effect]:
        if self._deployment.adaptive is not None:
            self._deployment.adaptive.started(now.steady_ms)
        return self._end_at(self._job.bounds, "", now)

    # Ends of a rescale

    def _give_up(self, why: str, now: Instant) -> list[ev.Effect]:
        """Gives up the rescale; the tasks, which still run, continue."""
        assert self._job.rescale is not None
        self._job.message = ""
        if self._deployment.adaptive is not None:
            self._deployment.adaptive.started(now.steady_ms)
        return [*self._end_at(self._job.rescale.bounds_before, why, now), ev.ReportDetails()]

    def _end_at(self, bounds: Requirements, error: str, now: Instant) -> list[ev.Effect]:
        """Ends the rescale at these bounds and releases the slots that are no longer needed."""
        concluded, before = self._conclude(error, now), self._job.slot_table.wanted
        if self._deployment.adaptive is None:
            self._job.bounds = bounds
        wanted = (
            most_slots(self._job.graph, bounds) if self._deployment.adaptive is not None else self._job.slots_required
        )
        freed = self._job.slot_table.want(wanted)
        return [
            *([self._deployment.declaration()] if self._job.slot_table.wanted != before else []),
            *freed,
            *concluded,
        ]

    def _conclude(self, error: str, now: Instant) -> list[ev.Effect]:
        rescale, self._job.rescale = self._job.rescale, None
        assert rescale is not None
        end = rescale.outcome or _ENDS.get(self._job.status, RescaleEnd.EXCEPTION_OCCURRED)
        self._job.rescales.end(end if error else RescaleEnd.SUCCEEDED, self._job.graph, now.date_ms, error)
        seconds = (now.steady_ms - rescale.stopped_ms) / 1000
        if error:
            message = f"to parallelism {rescale.words}: {error}"
            message += "; the job continues as before" if self._job.status in NOT_ENDING else ""
            self._job.remember(JobEventKind.RESCALE_FAILED, message, now)
        else:
            message = f"the job runs at parallelism {rescale.words}"
            self._job.remember(
                JobEventKind.RESCALE_COMPLETED, f"{message}; its tasks ran again after {seconds:.1f} s", now
            )
        if not rescale.trigger_id:
            return [ev.ReportDetails()] if self._job.status in NOT_ENDING else []
        if error:
            return [ev.RespondToRescale(rescale.trigger_id, error=f"the job was not rescaled {message}")]
        return [ev.RespondToRescale(rescale.trigger_id, message), ev.ReportDetails()]

    def failed(self, failure: TaskFailure, now: Instant) -> tuple[bool, list[ev.Effect]]:
        """Gives up the rescale, or returns to the previous parallelism, which is all that the failure needs then."""
        rescale = self._job.rescale
        if rescale is not None and self._job.status in NOT_ENDING and not self._job.suspended:
            match rescale.phase:
                case Phase.GATHERING | Phase.CHECKPOINTING:
                    return False, self._give_up(cause_line(failure), now)
                case Phase.STARTING:
                    self._job.restarting.remember(failure)
                    rescale.error = cause_line(failure)
                    return True, self._stop_tasks(rescale, now)
                case Phase.CANCELLING:
                    pass
                case _:
                    assert_never(rescale.phase)
        return False, []
