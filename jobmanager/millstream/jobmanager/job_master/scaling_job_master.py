"""A JobMaster whose job can be rescaled, on request or when the available slots change. Pure, like its base class.

A rescale neither loses nor duplicates data, because it is a restart from a completed checkpoint. The job runs until
everything it needs is available: slots, workers in them, and a checkpoint of its own (after too many failed ones, the
last completed checkpoint is used). Then its tasks are cancelled, the execution graph is rebuilt, and all tasks are
restored from the checkpoint, like those of a job that starts from a snapshot at another parallelism. Slots that are no
longer needed are released when all tasks run. If anything fails before that, the job continues at its previous
parallelism: without a restart while its tasks still run, otherwise with a restart from the checkpoint. The restart
strategy is not consulted about that. As long as its tasks still run, a rescale is replaced by the next request: it may
be waiting for slots that never become available.

With the adaptive scheduler the job declares all slots that it can use and gets the available ones. Before its tasks are
deployed, `AdaptiveScheduler` decides when it has waited long enough, and the job's parallelism is what fits into the
slots that it holds. While it runs, slots beyond those that it needs are spare ones; when the scheduler decides that the
job uses them, the job is rescaled as on a request.

Bounds are stored and outlive the job manager, since their requester has been notified that they are accepted. A rescale
that was in progress when another job manager became the leader begins again when all tasks run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import assert_never

from millstream.core.clock import Instant
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.job_events import JobEvent, JobEventKind
from millstream.core.jobs.rescales import RescaleCause, RescaleEnd
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.core.logs.counts import counted
from millstream.core.logs.failure_texts import cause_line
from millstream.jobmanager.adaptive.bounds import (
    Requirements,
    RequirementsError,
    at_parallelism,
    initial_requirements,
    requested_requirements,
)
from millstream.jobmanager.adaptive.fitting import (
    fit,
    graph_at,
    in_words,
    least_slots,
    most_slots,
    parallelism_of,
    uppers,
)
from millstream.jobmanager.adaptive.scheduler import AdaptiveScheduler, Verdict
from millstream.jobmanager.adaptive.settings import AdaptiveSettings, RescaleSettings
from millstream.jobmanager.failover.restart_strategy import RestartStrategy
from millstream.jobmanager.failover.topology import JobTopology, Subtask
from millstream.jobmanager.job_master import events as ev
from millstream.jobmanager.job_master.job_failures import job_failure
from millstream.jobmanager.job_master.job_master import JobMaster, Succeeding
from millstream.jobmanager.job_master.rescale import Phase, Rescale
from millstream.jobmanager.job_master.takeover import Takeover
from millstream.jobmanager.job_master.task_commands import cancel

_NOT_ENDING = (JobStatus.CREATED, JobStatus.RUNNING, JobStatus.RESTARTING)
_STILL_RUNNING = (Phase.GATHERING, Phase.CHECKPOINTING)
_UP = (ExecutionState.RUNNING, ExecutionState.FINISHED)
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
_REMEMBERED = 64
_CHECKPOINT_RETRY_MS = 1_000


class ScalingJobMaster(JobMaster):
    """`adaptive` is None for a job that waits for all its slots; `submitted` is the job as it was submitted.

    `bounds` are those that an earlier leader of the job has accepted.
    """

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
        rescaling: RescaleSettings | None = None,
        adaptive: AdaptiveSettings | None = None,
        submitted: JobGraph | None = None,
        bounds: Requirements | None = None,
    ) -> None:
        super().__init__(graph, slot_timeout, now, strategy, history_size, restoring, same_error_limit, succeeding)
        self._settings = rescaling or RescaleSettings()
        self._adaptive = AdaptiveScheduler(adaptive) if adaptive is not None else None
        self._bounds: Requirements = initial_requirements(graph)
        if adaptive is not None:
            self._bounds = initial_requirements(submitted or graph, adaptive.reactive)
        self._left_over: Requirements | None = None
        if bounds and adaptive is None and graph_at(graph, uppers(bounds)) != graph:
            self._left_over = bounds
        elif bounds:
            self._bounds = bounds
        self._rescale: Rescale | None = None
        self._rescales = 0
        self._undecided = False
        self._events: deque[JobEvent] = deque(maxlen=_REMEMBERED)
        if self._adaptive is not None:
            self._slots.want(most_slots(graph, self._bounds))

    @property
    def requirements(self) -> Requirements:
        """The bounds of the parallelism of every vertex."""
        return self._left_over or self._bounds

    @property
    def events(self) -> tuple[JobEvent, ...]:
        """The latest events of the job, oldest first."""
        return tuple(self._events)

    @property
    def is_rescaling(self) -> bool:
        """Whether a rescale is in progress."""
        return self._rescale is not None

    def remember(self, kind: JobEventKind, message: str, now: Instant) -> None:
        """Adds to the job's events."""
        self._events.append(JobEvent(now.date_ms, kind, message))

    def remember_again(self, kind: JobEventKind, message: str, now: Instant) -> None:
        """Replaces the last event of this kind by one that counts its repetitions."""
        for index in reversed(range(len(self._events))):
            if self._events[index].kind is kind:
                del self._events[index]
                break
        self.remember(kind, message, now)

    def start(self, now: Instant) -> list[ev.Effect]:
        """Starts the job; returns the first effects."""
        effects = super().start(now)
        if self._takeover is None:
            self._record(RescaleCause.INITIAL_SCHEDULE, None, self.graph, now)
        else:
            self._record(RescaleCause.RECOVERABLE_FAILOVER, self.graph, self.graph, now)
        return [*effects, *self._continue_rescale(now)]

    def handle(self, event: ev.Event, now: Instant) -> list[ev.Effect]:
        """Handles an event, and continues a rescale that waited for it."""
        if self._takeover is not None and isinstance(event, ev.RescaleRequested):
            why = f"job {self.graph.job_id} has a new job manager, which is taking over its tasks; try again"
            return [ev.RespondToRescale(event.trigger_id, error=why)]
        effects = super().handle(event, now)
        more = self._continue_rescale(now)
        return [*more, *effects] if self.status.is_terminal else [*effects, *more]

    def _take_over(self, takeover: Takeover, now: Instant) -> list[ev.Effect]:
        if self._adaptive is not None:
            self._adaptive.started(now.steady_ms)
        return super()._take_over(takeover, now)

    def _declaration(self) -> ev.DeclareSlots:
        least = least_slots(self.graph, self._bounds) if self._adaptive is not None else 0
        return ev.DeclareSlots(self.slots_wanted, least)

    # Requests

    def _rescaling(self, event: ev.RescaleRequested | ev.RescaleCheckpointed, now: Instant) -> list[ev.Effect]:
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
        if self.status not in _NOT_ENDING:
            raise RequirementsError(f"job {self.graph.job_id} is {self.status}")
        before = self._rescale
        if before is not None and before.phase not in _STILL_RUNNING:
            under_way = f"it is being rescaled to parallelism {before.words}"
            raise RequirementsError(f"job {self.graph.job_id}: {under_way}; try again when it has ended")
        bounds = (
            requested_requirements(self.graph, event.bounds)
            if event.bounds
            else at_parallelism(self.graph, before.bounds_before if before else self.requirements, event.parallelism)
        )
        target = graph_at(self.graph, uppers(bounds))
        runs = self.status is JobStatus.RUNNING and not self._suspended
        if self._adaptive is None and target != self.graph and not runs:
            is_now = "suspended" if self._suspended else str(self.status)
            raise RequirementsError(f"job {self.graph.job_id} is {is_now}; try again when it runs")
        replaced: list[ev.Effect] = []
        if before is not None and (self._adaptive is None or bounds != self._bounds):
            before.outcome = RescaleEnd.RESOURCE_REQUIREMENTS_UPDATED
            replaced = self._give_up("another parallelism has been requested since", now)
        return [*replaced, *self._accept(event, bounds, target, now)]

    def _accept(
        self, event: ev.RescaleRequested, bounds: Requirements, target: JobGraph, now: Instant
    ) -> list[ev.Effect]:
        if self._adaptive is None and target != self.graph:
            self._left_over = None
            accepted = [] if event.waits else [ev.RespondToRescale(event.trigger_id, "accepted")]
            trigger_id = event.trigger_id if event.waits else ""
            return [*accepted, *self._begin_rescale(target, bounds, event.reason, trigger_id, now)]
        if bounds != self.requirements:
            words = in_words(self.graph, parallelism_of(target))
            self.remember(JobEventKind.REQUIREMENTS_CHANGED, f"parallelism up to {words}: {event.reason}", now)
        self._bounds, self._left_over = bounds, None
        if self._adaptive is None:
            return [ev.RespondToRescale(event.trigger_id, "the job runs at this parallelism"), ev.ReportDetails()]
        freed = self._slots.want(most_slots(self.graph, bounds))
        message = "accepted: the adaptive scheduler rescales the job when slots are available and the cooldown is over"
        declared: list[ev.Effect] = [] if self._suspended else [self._declaration()]
        return [*declared, *freed, ev.RespondToRescale(event.trigger_id, message), ev.ReportDetails()]

    # The steps of a rescale

    def _begin_rescale(
        self,
        target: JobGraph,
        bounds: Requirements,
        reason: str,
        trigger_id: str,
        now: Instant,
        cause: RescaleCause = RescaleCause.UPDATE_REQUIREMENT,
    ) -> list[ev.Effect]:
        self._rescales += 1
        words = in_words(self.graph, parallelism_of(target))
        self._rescale = Rescale(
            self._rescales, target, self.graph, self._bounds, words, reason, trigger_id, now.steady_ms
        )
        self._bounds = bounds
        self._record(cause, self.graph, target, now)
        self.remember(JobEventKind.RESCALE_STARTED, f"to parallelism {words}: {reason}", now)
        if self._adaptive is not None:
            return [ev.ReportDetails()]
        before = self._slots.wanted
        freed = self._slots.want(max(target.slots_required(), self.slots_required))
        return [*freed, *([self._declaration()] if self._slots.wanted != before else []), ev.ReportDetails()]

    def _record(self, cause: RescaleCause, before: JobGraph | None, target: JobGraph, now: Instant) -> None:
        bounds = {vertex: (one.lower, one.upper) for vertex, one in self.requirements.items()}
        self.rescales.begin(cause, before, target, bounds, now.date_ms)
        self.rescales.step(_STATES[Phase.GATHERING], now.date_ms)

    def _step(self, rescale: Rescale, phase: Phase, now: Instant) -> None:
        rescale.move_to(phase, now.steady_ms)
        self.rescales.step(_STATES[phase], now.date_ms, rescale.error)

    def _record_start(self, now: Instant) -> None:
        """Records the job's first start, and a restart in fewer or more slots."""
        if self._rescale is not None or self.rescales.under_way is None:
            return
        if self.status.is_terminal:
            self.rescales.end(_ENDS[self.status], self.graph, now.date_ms)
        elif self.status is JobStatus.RUNNING and self._all_up:
            self.rescales.end(RescaleEnd.SUCCEEDED, self.graph, now.date_ms)

    def _continue_rescale(self, now: Instant) -> list[ev.Effect]:
        """Takes the next step of a rescale, if one is due."""
        self._record_start(now)
        if self.status not in _NOT_ENDING or self._suspended:
            why = "the job was suspended" if self._suspended else f"the job is {self.status}"
            return self._conclude(why, now) if self._rescale is not None else []
        if self._left_over is not None and self.status is JobStatus.RUNNING and self._all_up:
            bounds, self._left_over = self._left_over, None
            target, reason = graph_at(self.graph, uppers(bounds)), "an earlier job manager had accepted it"
            return [*self._begin_rescale(target, bounds, reason, "", now), *self._continue_rescale(now)]
        effects = self._advance(self._rescale, now) if self._rescale is not None else []
        if self._adaptive is None:
            return effects
        rescaling = self._rescale
        effects += self._adapt(self._adaptive, now)
        if self._rescale is not None and self._rescale is not rescaling:  # continue at once with the new rescale
            effects += self._advance(self._rescale, now)
        return effects

    def _advance(self, rescale: Rescale, now: Instant) -> list[ev.Effect]:
        waited = now.steady_ms - rescale.since_ms
        match rescale.phase:
            case Phase.GATHERING if self.status is JobStatus.RUNNING:
                return self._gather(rescale, waited, now)
            case Phase.CHECKPOINTING:
                limit = self._settings.checkpoint_timeout_ms
                if limit is not None and waited >= limit:
                    return self._without_checkpoint(rescale, f"no checkpoint within {limit / 1000:g} s", now)
            case Phase.STARTING:
                if self.status is JobStatus.RUNNING and self._all_up:
                    return self._rescaled(rescale, now)
        return []

    def _gather(self, rescale: Rescale, waited: int, now: Instant) -> list[ev.Effect]:
        needed = rescale.target.slots_required()
        there = self._slots.complete and len(self.slots) >= needed
        effects = self._slots.start_workers(in_spares=True) if there else []
        if there and self._all_up and self._slots.all_ready and now.steady_ms >= rescale.not_before_ms:
            self._step(rescale, Phase.CHECKPOINTING, now)
            return [
                *effects,
                *self._set_message(f"rescaling to {rescale.words}: taking a checkpoint"),
                self._checkpoint(),
            ]
        if waited >= self._settings.slot_timeout_ms:
            limit = f"{self._settings.slot_timeout_ms / 1000:g} s (slot.request.timeout)"
            supply = f", with {self._slots.supply}" if self._slots.supply is not None else ""
            return [*effects, *self._give_up(f"{len(self.slots)} of {needed} slots after {limit}{supply}", now)]
        what = "starting slot workers" if there else f"waiting for slots: {len(self.slots)} of {needed}"
        return [*effects, *self._set_message(f"rescaling to {rescale.words}: {what}")]

    @property
    def _all_up(self) -> bool:
        return all(e.state in _UP for e in self.execution_graph.executions)

    def _checkpoint(self) -> ev.TakeCheckpoint:
        return ev.TakeCheckpoint(self._rescales)

    def _set_message(self, message: str) -> list[ev.Effect]:
        if self.message == message:
            return []
        self.message = message
        return [ev.ReportDetails()]

    def _checkpointed(self, number: int, error: str, is_final: bool, now: Instant) -> list[ev.Effect]:
        rescale = self._rescale
        if rescale is None or number != rescale.number or rescale.phase is not Phase.CHECKPOINTING:
            return []
        if not error:
            return self._stop_tasks(rescale, now)
        rescale.failed_checkpoints += 1
        if is_final:
            return self._give_up(error, now)
        if rescale.failed_checkpoints >= self._settings.checkpoint_failures:
            return self._without_checkpoint(rescale, error, now)
        self._step(rescale, Phase.GATHERING, now)
        rescale.not_before_ms = now.steady_ms + _CHECKPOINT_RETRY_MS
        return []

    def _without_checkpoint(self, rescale: Rescale, why: str, now: Instant) -> list[ev.Effect]:
        """Rescales from the last completed checkpoint, if the job takes periodic ones."""
        return self._stop_tasks(rescale, now) if self._settings.has_checkpoints else self._give_up(why, now)

    def _stop_tasks(self, rescale: Rescale, now: Instant) -> list[ev.Effect]:
        self._step(rescale, Phase.CANCELLING, now)
        rescale.stopped_ms = now.steady_ms
        self._restarts.restart_all(self._all, now.steady_ms)
        self._to_deploy, self._restores = frozenset(), {}
        if self.status is not JobStatus.RESTARTING:
            self._move_to(JobStatus.RESTARTING, now)
        self.message = f"rescaling to {rescale.words}: {rescale.reason}"
        if rescale.error:
            self.message = f"returning to the previous parallelism: {rescale.error}"
        effects: list[ev.Effect] = [ev.RollBack(self._all, self.message), ev.ReportDetails()]
        effects += cancel(self.execution_graph.executions, self.slots, now.date_ms)
        return effects + self._restart_when_due(now)

    def _run_again(self, subtasks: frozenset[Subtask], now: Instant) -> list[ev.Effect]:
        rescale = self._rescale
        if rescale is None or rescale.phase is not Phase.CANCELLING:
            return super()._run_again(subtasks, now)
        effects = self._take_graph(rescale.before if rescale.error else rescale.target, now)
        self._to_deploy, self._restores = self._all, None
        self._waiting_since = now.steady_ms
        if rescale.error:
            effects += self._end_at(rescale.bounds_before, rescale.error, now)
        else:
            self._step(rescale, Phase.STARTING, now)
        return [*effects, *super()._prepare(now), ev.ReportDetails(), *self._start_workers()]

    def _take_graph(self, graph: JobGraph, now: Instant) -> list[ev.Effect]:
        """Replaces the job graph while no task runs."""
        self.graph, self.topology = graph, JobTopology.of(graph)
        self.execution_graph.rescale(graph, now.date_ms)
        self._all = frozenset(self.topology.subtasks())
        self._restarts.rescaled(self.topology)
        self._slots.rearrange(self.execution_graph.slot_keys())
        return [ev.ChangeGraph(graph)]

    def _rescaled(self, rescale: Rescale, now: Instant) -> list[ev.Effect]:
        if self._adaptive is not None:
            self._adaptive.started(now.steady_ms)
        return self._end_at(self._bounds, "", now)

    # Ends of a rescale

    def _give_up(self, why: str, now: Instant) -> list[ev.Effect]:
        """Gives up the rescale; the tasks, which still run, continue."""
        assert self._rescale is not None
        self.message = ""
        if self._adaptive is not None:
            self._adaptive.started(now.steady_ms)
        return [*self._end_at(self._rescale.bounds_before, why, now), ev.ReportDetails()]

    def _end_at(self, bounds: Requirements, error: str, now: Instant) -> list[ev.Effect]:
        """Ends the rescale at these bounds and releases the slots that are no longer needed."""
        concluded, before = self._conclude(error, now), self._slots.wanted
        if self._adaptive is None:
            self._bounds = bounds
        wanted = most_slots(self.graph, bounds) if self._adaptive is not None else self.slots_required
        freed = self._slots.want(wanted)
        return [*([self._declaration()] if self._slots.wanted != before else []), *freed, *concluded]

    def _conclude(self, error: str, now: Instant) -> list[ev.Effect]:
        rescale, self._rescale = self._rescale, None
        assert rescale is not None
        end = rescale.outcome or _ENDS.get(self.status, RescaleEnd.EXCEPTION_OCCURRED)
        self.rescales.end(end if error else RescaleEnd.SUCCEEDED, self.graph, now.date_ms, error)
        seconds = (now.steady_ms - rescale.stopped_ms) / 1000
        if error:
            message = f"to parallelism {rescale.words}: {error}"
            message += "; the job continues as before" if self.status in _NOT_ENDING else ""
            self.remember(JobEventKind.RESCALE_FAILED, message, now)
        else:
            message = f"the job runs at parallelism {rescale.words}"
            self.remember(JobEventKind.RESCALE_COMPLETED, f"{message}; its tasks ran again after {seconds:.1f} s", now)
        if not rescale.trigger_id:
            return [ev.ReportDetails()] if self.status in _NOT_ENDING else []
        if error:
            return [ev.RespondToRescale(rescale.trigger_id, error=f"the job was not rescaled {message}")]
        return [ev.RespondToRescale(rescale.trigger_id, message), ev.ReportDetails()]

    def _fail(self, failure: TaskFailure, now: Instant, failed: Collection[Subtask]) -> list[ev.Effect]:
        rescale = self._rescale
        if rescale is not None and self.status in _NOT_ENDING and not self._suspended:
            match rescale.phase:
                case Phase.GATHERING | Phase.CHECKPOINTING:
                    given_up = self._give_up(cause_line(failure), now)
                    return [*given_up, *super()._fail(failure, now, self._whole_if_slots_miss(failed))]
                case Phase.STARTING:
                    self._restarts.remember(failure)
                    rescale.error = cause_line(failure)
                    return self._stop_tasks(rescale, now)
                case Phase.CANCELLING:
                    pass
                case _:
                    assert_never(rescale.phase)
        return super()._fail(failure, now, self._whole_if_slots_miss(failed))

    # The adaptive scheduler

    def _whole_if_slots_miss(self, failed: Collection[Subtask]) -> Collection[Subtask]:
        """Returns all subtasks if slots are missing: a job that may continue in fewer slots restarts as a whole."""
        return self._all if self._adaptive is not None and not self._slots.complete else failed

    def _prepare(self, now: Instant) -> list[ev.Effect]:
        if self._adaptive is None:
            return super()._prepare(now)
        self._undecided = True
        self._adaptive.wait(now.steady_ms)
        return []

    def _deploy_when_ready(self, now: Instant) -> list[ev.Effect]:
        if self._undecided:
            return []
        effects = super()._deploy_when_ready(now)
        if self._adaptive is not None and effects and self.status is JobStatus.RUNNING:
            self._adaptive.started(now.steady_ms)
        return effects

    def _tick(self, now: Instant) -> list[ev.Effect]:
        if self._undecided and self._restarts.pending is None:
            return []
        return super()._tick(now)

    def _adapt(self, adaptive: AdaptiveScheduler, now: Instant) -> list[ev.Effect]:
        if self._to_deploy and not self._undecided and not self._slots.complete:
            self._restarts.renumber()
            self._restores = None
            self._prepare(now)
        there, most = len(self.slots), most_slots(self.graph, self._bounds)
        fitting = fit(self.graph, self._bounds, there)
        if self._to_deploy and self._undecided:
            match adaptive.verdict(fitting is not None, there >= most, now.steady_ms):
                case Verdict.WAIT:
                    why = f" ({self._slots.supply})" if self._slots.supply is not None else ""
                    return self._set_message(f"waiting for slots: {there} of {most}{why}")
                case Verdict.FAIL:
                    return self._fail(self._too_few(there, now), now, self._all)
                case Verdict.GO:
                    assert fitting is not None
                    return self._start_at(graph_at(self.graph, fitting), now)
        if self.status is not JobStatus.RUNNING or self._to_deploy or self._rescale is not None:
            return []
        differs = fitting is not None and fitting != parallelism_of(self.graph)
        if fitting is None or not adaptive.rescales(differs, there >= most, now.steady_ms):
            return []
        reason = f"{there} slots are available, and the job can use up to {most}"
        target, cause = graph_at(self.graph, fitting), RescaleCause.NEW_RESOURCE_AVAILABLE
        return self._begin_rescale(target, self._bounds, reason, "", now, cause)

    def _start_at(self, graph: JobGraph, now: Instant) -> list[ev.Effect]:
        """Starts the job at the parallelism of `graph`, in the slots that it holds."""
        self._undecided = False
        effects: list[ev.Effect] = []
        if graph != self.graph:
            words = in_words(self.graph, parallelism_of(graph))
            message = f"the job starts at parallelism {words}, in {len(self.slots)} available slots"
            self.remember(JobEventKind.PARALLELISM_CHOSEN, message, now)
            is_first = self.rescales.under_way is not None
            cause = RescaleCause.INITIAL_SCHEDULE if is_first else RescaleCause.RECOVERABLE_FAILOVER
            self._record(cause, None if is_first else self.graph, graph, now)
            effects += self._take_graph(graph, now)
            self._to_deploy = self._all
        elif not self._slots.complete:  # a spare one replaces one that was lost
            self._slots.rearrange(self.execution_graph.slot_keys())
        return [
            *effects,
            *super()._prepare(now),
            ev.ReportDetails(),
            *self._start_workers(),
            *self._deploy_when_ready(now),
        ]

    def _too_few(self, there: int, now: Instant) -> TaskFailure:
        limit = self._adaptive.settings.wait_timeout_ms if self._adaptive is not None else None
        least = least_slots(self.graph, self._bounds)
        return job_failure(
            self.graph.job_id,
            f"NotEnoughSlots: the job needs at least {counted(least, 'slot')} and has {there} after waiting "
            f"{(limit or 0) / 1000:g} s (jobmanager.adaptive-scheduler.submission.resource-wait-timeout); "
            f"{self._way_out()}",
            now.date_ms,
        )
