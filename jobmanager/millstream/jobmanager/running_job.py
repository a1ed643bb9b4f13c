"""One job in the job manager: connects its JobMaster, its checkpoints and its enumerator process.

Owned by the job manager's loop. Carries out the effects of the JobMaster; the sessions with other services belong to
the service, and are reached through `Links`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Mapping
from random import Random
from typing import Protocol, assert_never

from msgspec.structs import replace

from millstream.core.clock import Clock, Instant
from millstream.core.errors import MillstreamError
from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.earlier_attempts import AttemptHistory
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import NO_ALLOCATION, AllocationId, JobId, LeaderEpoch, TaskManagerId, VertexId
from millstream.core.jobs.job_events import JobEventKind
from millstream.core.jobs.kept_checkpoint import IN_MEMORY, kept_text
from millstream.core.jobs.resumption import Resumption
from millstream.core.jobs.stalls import ended
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.core.logs.failure_texts import cause_line, has_traceback, repetition
from millstream.core.logs.logs import REPORTED
from millstream.core.logs.printable import printable
from millstream.core.messages import task_manager as msg
from millstream.core.messages.checkpoints import CheckpointAck, CheckpointDecline, CommitFailed, InputsEnded
from millstream.core.messages.deployment import CancelTasks, DeployTasks
from millstream.core.messages.rescaling import RescaleRequest, RescaleResult, VertexBounds
from millstream.core.messages.resource_manager import Requirement
from millstream.core.messages.snapshots import CheckpointAnswer, CheckpointQuery, SnapshotRequest, SnapshotResult
from millstream.core.messages.sources import (
    EnumeratorEvent,
    EnumeratorFigures,
    EnumeratorsCommand,
    EnumeratorsMessage,
    EnumeratorsSnapshot,
    ReaderEvent,
    Ready,
    RunningReader,
    TakeoverRefused,
    WatermarkLimit,
    WatermarkReport,
)
from millstream.core.metrics.model import MetricGroup, Number, Scope
from millstream.core.processes.background import BackgroundTasks
from millstream.core.processes.job_process import Launcher, start_job_process
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.execution import STATE_BACKEND_TYPE, STATE_RECOVERY_PATH
from millstream.core.settings.options.metrics import METRICS_FETCHER_UPDATE_INTERVAL
from millstream.core.settings.options.scheduling import SLOT_REQUEST_TIMEOUT
from millstream.core.settings.options.services import JOBMANAGER_TAKEOVER_TIMEOUT
from millstream.core.settings.options.tasks import (
    JOBMANAGER_EXECUTION_ATTEMPTS_HISTORY_SIZE,
    WEB_EXCEPTION_HISTORY_SIZE,
)
from millstream.core.snapshot.storage.uri_files import plain_uri
from millstream.core.store.store import Leadership, StoreError
from millstream.jobmanager.adaptive.bounds import Bounds
from millstream.jobmanager.adaptive.fitting import graph_at
from millstream.jobmanager.adaptive.settings import adaptive_settings, rescale_settings
from millstream.jobmanager.autoscaler.autoscaler import Autoscaler, Decision
from millstream.jobmanager.autoscaler.measured import Reading
from millstream.jobmanager.autoscaler.settings import autoscaler_settings
from millstream.jobmanager.checkpoint_reports import CheckpointReports
from millstream.jobmanager.checkpoints.settings import CheckpointSettings
from millstream.jobmanager.failover.restart_log import RestartLog
from millstream.jobmanager.failover.restart_strategy import NoRestartStrategy, create_restart_strategy
from millstream.jobmanager.failover.settings import restart_settings, same_error_limit
from millstream.jobmanager.failover.topology import Subtask
from millstream.jobmanager.job_checkpoints import JobCheckpoints
from millstream.jobmanager.job_master import events as ev
from millstream.jobmanager.job_master.details import job_details
from millstream.jobmanager.job_master.job_failures import job_failure
from millstream.jobmanager.job_master.job_master import Succeeding
from millstream.jobmanager.job_master.job_slots import slot_needs
from millstream.jobmanager.job_master.scaling_job_master import ScalingJobMaster
from millstream.jobmanager.job_metrics import checkpoint_gauges, coordinator_groups
from millstream.jobmanager.job_times import JobTimes
from millstream.jobmanager.restore_points import Led
from millstream.jobmanager.restoring.starting_snapshot import RecoverySettings
from millstream.jobmanager.sources.alignment import AlignmentGroups
from millstream.jobmanager.sources.enumerator_process import EnumeratorProcess
from millstream.jobmanager.stall.facts import CheckpointFacts, checkpoint_facts, job_facts
from millstream.jobmanager.stall.findings import explain

log = logging.getLogger(__name__)

_BY_ITSELF = "autoscaler"
ForTheJob = ReaderEvent | WatermarkReport | CheckpointAck | CheckpointDecline | InputsEnded | CommitFailed
"""The messages of its tasks that concern its checkpoints or sources and not the JobMaster."""


class Links(Protocol):
    """The connections of the job manager to the other services."""

    @property
    def artifact_address(self) -> str:
        """The address from which artifacts are fetched."""
        ...

    @property
    def checkpoint_directory(self) -> str:
        """The directory of checkpoints of jobs that set none; empty: they are kept in memory."""
        ...

    async def record_end(self, details: JobDetails, leadership: Leadership) -> None:
        """Stores the result of the job durably. Raises StoreError when this job manager has lost the leadership."""
        ...

    def command(self, task_manager: TaskManagerId, command: msg.JobManagerCommand) -> None:
        """Sends a command to a task manager; does nothing without a session."""
        ...

    def declare(self, requirement: Requirement) -> None:
        """Declares to the resource manager how many slots a job wants."""
        ...

    def report_soon(self, job_id: JobId) -> None:
        """Schedules a report of the job to the dispatcher."""
        ...

    def send_snapshot_result(self, result: SnapshotResult) -> None:
        """Sends the result of a requested snapshot to the dispatcher."""
        ...

    def send_rescale_result(self, result: RescaleResult) -> None:
        """Sends the result of a requested rescale to the dispatcher."""
        ...

    def in_charge(self) -> bool:
        """Whether this job manager still holds its lease from the dispatcher."""
        ...

    @property
    def recovers(self) -> bool:
        """Whether another job manager can become the leader of the job after this one."""
        ...


class RunningJob:
    """A job from its submission until the dispatcher no longer remembers it.

    If another job manager led it before, its running tasks are taken over.
    """

    def __init__(
        self,
        graph: JobGraph,
        cluster: Configuration,
        links: Links,
        background: BackgroundTasks,
        clock: Clock,
        led: Led,
        launch: Launcher = start_job_process,
    ) -> None:
        submitted = graph
        if led.follows:  # the graph as an earlier leader ran it last, possibly rescaled
            known = led.stored.attempts
            graph = graph_at(graph, {v.id: len(known.get(v.id, ())) or v.parallelism for v in graph.vertices})
        self.graph = graph
        self._led = led
        self.is_recorded = False
        """Whether the job has ended, and its result is stored."""
        self.report_not_before = 0.0
        """The earliest time of the next report on the loop's clock: large jobs report less often, as it costs more."""
        self._configuration = cluster
        self._links = links
        self._background = background
        self._clock = clock
        self._launch = launch
        self._enumerators: EnumeratorProcess | None = None
        self._enumerators_ready = False
        self._figures: dict[VertexId, EnumeratorFigures] = {}
        self._alignment = AlignmentGroups()
        self._wake_ups: set[asyncio.TimerHandle] = set()
        self._restart_log = RestartLog()
        now = Instant.of(clock)
        slot_timeout = cluster.get(SLOT_REQUEST_TIMEOUT)
        self.checkpoints: JobCheckpoints | None = None
        self._autoscaler: Autoscaler | None = None
        self._refused = self._state_backend = ""
        self._restarts = False
        self._has_run = led.stored.has_run
        self._worker_options = dict(graph.configuration)
        try:
            self._configuration = configuration = cluster.for_job(graph.configuration)
            slot_timeout = configuration.get(SLOT_REQUEST_TIMEOUT)
            settings = CheckpointSettings.from_configuration(configuration)
            if links.checkpoint_directory:
                settings = settings.kept_in(links.checkpoint_directory)
            self._worker_options |= settings.agreed_options()
            strategy = create_restart_strategy(restart_settings(configuration, settings.enabled), Random())
            history = configuration.get(WEB_EXCEPTION_HISTORY_SIZE)
            recovery = RecoverySettings.from_configuration(configuration)
            if led.left:
                recovery = RecoverySettings.of_pointers(led.left)
            limit = same_error_limit(configuration)
            self._restarts = restarts = not isinstance(strategy, NoRestartStrategy)
            succeeding = None
            if led.follows:
                succeeding = Succeeding(
                    led.stored.attempt,
                    configuration.get(JOBMANAGER_TAKEOVER_TIMEOUT),
                    led.stored.restarts,
                    led.stored.has_run,
                    may_start_again=bool(led.left) or restarts or not led.stored.has_run,
                )
            rescaling = rescale_settings(configuration, settings.enabled)
            adaptive = adaptive_settings(configuration)
            again = recovery is not None
            autoscaling = autoscaler_settings(configuration)
            self._autoscaler = Autoscaler(autoscaling) if autoscaling is not None else None
            bounds = {VertexId(vertex): Bounds(*both) for vertex, both in led.stored.bounds.items()}
            self.master = ScalingJobMaster(
                graph,
                slot_timeout,
                now,
                strategy,
                history,
                again,
                limit,
                succeeding,
                rescaling,
                adaptive,
                submitted,
                bounds,
            )
            kept = configuration.get(JOBMANAGER_EXECUTION_ATTEMPTS_HISTORY_SIZE)
            self.master.execution_graph.earlier = AttemptHistory(kept)
            self.checkpoints = JobCheckpoints(
                self.master, settings, self, background, clock, led.points, restarts, recovery, follows=led.follows
            )
            self._state_backend = configuration.get(STATE_BACKEND_TYPE)
        except MillstreamError as error:
            self.master = ScalingJobMaster(graph, slot_timeout, now)
            self._refused = str(error)
        if led.stored.terms.began_ms:  # the stored value, which all leaders report
            self.master.state_times[JobStatus.INITIALIZING] = led.stored.terms.began_ms
        self._times = JobTimes(self.master.status, now.steady_ms)
        self._kept_bounds = self.master.requirements
        self._keeping_bounds = asyncio.Lock()
        self._resumed, self._resumed_from = Resumption.UNKNOWN, 0

    def start(self) -> None:
        """Starts the job; one whose settings are invalid fails with the reason."""
        self._resumed, self._resumed_from = self._resumption(), self._restore_point
        self._carry_out(self.master.start(Instant.of(self._clock)))
        if self.checkpoints is not None:
            self.checkpoints.start()
        if self._refused:
            self.tell(ev.JobFailed(job_failure(self.graph.job_id, self._refused, self._clock.now_ms())))

    async def stop(self) -> None:
        """Stops the job's enumerator process and checkpoints, because the job manager stops."""
        for wake_up in self._wake_ups:
            wake_up.cancel()
        if self.checkpoints is not None:
            latest, folder = self.checkpoints.places()
            if folder and not self.master.status.is_terminal:
                what = f"its last checkpoint is {latest}" if latest else "it has completed no checkpoint"
                log.warning("job %s: stopping with its job manager; %s; %s is kept", self.graph.job_id, what, folder)
            self.checkpoints.suspend()
        if self._enumerators is not None:
            await self._enumerators.stop()

    @property
    def epoch(self) -> LeaderEpoch:
        """The epoch of this leadership of the job."""
        return self._led.leadership.epoch

    @property
    def is_reportable(self) -> bool:
        """Whether the dispatcher may be notified of its state: the result of an ended job must be stored before."""
        return self.is_recorded or not self.master.status.is_terminal

    async def resign(self, reason: str) -> None:
        """Resigns the leadership to the next candidate, and stops the tasks of the job."""
        slots = list(self.master.slots.values())
        await self.leave()
        for slot in slots:
            self.command(slot.task_manager, msg.FreeSlot(slot.allocation_id, reason))
        await self._resign_leadership()

    async def hand_over(self) -> None:
        """Resigns the leadership to another job manager, with the running tasks."""
        await self.leave()
        await self._resign_leadership()

    async def _resign_leadership(self) -> None:
        with contextlib.suppress(StoreError):  # the leadership was lost already
            await self._led.points.resign()

    async def leave(self) -> None:
        """Stops running the job here, because another job manager may be its leader; stored data is kept.

        Its tasks continue for a while, so that the next leader can take them over. That may be this job manager again,
        so all messages are sent at once: messages sent after the enumerators have stopped could be attributed to the
        next term.
        """
        self._links.declare(Requirement(self.graph.job_id, 0, epoch=self._led.leadership.epoch))
        for slot in list(self.master.slots.values()):
            self.command(slot.task_manager, msg.OfferAnswer(slot.allocation_id, accepted=False, unknown_job=True))
        await self.stop()

    def tell(self, event: ev.Event) -> None:
        """Passes an event to the JobMaster, and carries out the effects."""
        self._carry_out(self.master.handle(event, Instant.of(self._clock)))
        if isinstance(event, ev.TaskChanged) and self.checkpoints is not None:
            execution = self.master.execution_graph.by_attempt(event.update.attempt_id)
            if execution is not None:
                self.checkpoints.task_changed(execution)

    def snapshot(self, request: SnapshotRequest) -> None:
        """Takes a snapshot, and sends the result when it has completed or failed."""
        status, why_not = self.master.status, ""
        if status.is_terminal:
            why_not = f"job {self.graph.job_id} has ended, it is {status}"
        elif self.checkpoints is None:
            why_not = f"job {self.graph.job_id}: snapshots are disabled: {self._refused}"
        else:
            self.checkpoints.snapshot(request)
        if why_not:
            self.send_snapshot_result(SnapshotResult(request.trigger_id, error=why_not))

    def rescale(self, request: RescaleRequest) -> None:
        """Rescales the job; the result is sent when it has completed or failed, without `wait` when it is accepted."""
        bounds, reason = request.bounds, "requested by a user"
        self.tell(ev.RescaleRequested(request.trigger_id, reason, request.parallelism, bounds, request.wait))

    def scale_automatically(self) -> None:
        """Passes the latest measurements to the autoscaler, if the job has one, and applies its decision."""
        master, autoscaler, now = self.master, self._autoscaler, Instant.of(self._clock)
        if autoscaler is None:
            return
        executions = master.execution_graph.executions
        up = (ExecutionState.RUNNING, ExecutionState.FINISHED)  # a reader without splits has finished
        if master.is_rescaling or not all(e.state in up for e in executions):
            autoscaler.disturbed()
            return
        decision = autoscaler.observe(self.graph, Reading.of(executions, now.steady_ms))
        if decision is None or self._is_known(decision):
            return
        acts = autoscaler.settings.acts
        idle = "" if acts or not decision.parallelism else " (job.autoscaler.scaling.enabled is false)"
        words = f"{decision.reason}{idle}"
        log.info("job %s: decision of the autoscaler: %s", self.graph.job_id, words)
        master.remember(JobEventKind.SCALING_DECISION, words, now)
        if acts and decision.parallelism:
            bounds = tuple(
                VertexBounds(vertex, 1 if vertex in decision.parallelism else bound.lower, wanted)
                for vertex, bound in master.requirements.items()
                for wanted in (decision.parallelism.get(vertex, bound.upper),)
            )
            autoscaler.disturbed()
            self.tell(ev.RescaleRequested(_BY_ITSELF, "requested by the autoscaler", bounds=bounds))
        self._links.report_soon(self.graph.job_id)

    def _is_known(self, decision: Decision) -> bool:
        """Whether the decision was applied before and waits for slots, or cannot be applied and was reported before."""
        if not decision.parallelism:
            return any(event.message == decision.reason for event in self.master.events)
        return all(self.master.requirements[v].upper == p for v, p in decision.parallelism.items())

    def query_checkpoints(self, query: CheckpointQuery) -> CheckpointAnswer:
        """Returns the result of a query about the job's checkpoints."""
        reports = self._reports()
        if reports is None:
            refused = f"job {query.job_id}: checkpoints are disabled: {self._refused}"
            return CheckpointAnswer(query.request_id, error=refused)
        try:
            return CheckpointAnswer(query.request_id, reports.query(query, Instant.of(self._clock)))
        except MillstreamError as error:
            return CheckpointAnswer(query.request_id, error=str(error))

    def stall(self) -> bytes:
        """Returns what holds the job back, as JSON in the shape of the REST API."""
        now_ms = self._clock.now_ms()
        if self.master.status.is_terminal:
            return json.dumps(ended(self.details(), now_ms).as_json()).encode()
        taken = CheckpointFacts()
        if self.checkpoints is not None:
            taken = checkpoint_facts(self.checkpoints.settings, self.checkpoints.coordinator.statistics)
        interval_ms = round(self._configuration.get(METRICS_FETCHER_UPDATE_INTERVAL) * 1000)
        return json.dumps(explain(job_facts(self.master, taken, now_ms, interval_ms)).as_json()).encode()

    def suspend(self, reason: str) -> None:
        """Suspends the job until `resume` is called."""
        if not self.master.status.is_terminal and not self.master.is_suspended:
            latest = self.checkpoints.places()[0] if self.checkpoints is not None else ""
            kept = f"; its last checkpoint is kept: {latest}" if latest else ""
            self.tell(ev.Suspended(f"{reason}{kept}"))

    def resume(self) -> None:
        """Resumes the job, if it was suspended."""
        if self.master.is_suspended:
            self.tell(ev.Resumed())

    def details(self) -> JobDetails:
        """Returns the details of the job; when it has ended, including those of its checkpoints."""
        latest, directory = self.checkpoints.places() if self.checkpoints is not None else ("", "")
        ended = self.master.status.is_terminal
        reports = self._reports() if ended else None
        return replace(
            job_details(self.master),
            message=self._last_words() if ended else self.master.message,
            latest_checkpoint=self._kept() if ended else latest,
            resumption=self._resumption(),
            restore_point=self._restore_point,
            resumed=self._resumed,
            resumed_from=self._resumed_from,
            checkpoint_directory=directory,
            checkpoints=reports.everything(Instant.of(self._clock)) if reports is not None else b"",
            epoch=self._led.leadership.epoch,
        )

    def _kept(self) -> str:
        """Returns the last checkpoint that is kept after the job has ended."""
        master = self.master
        return self.checkpoints.kept(master.status, master.keeps_checkpoints) if self.checkpoints is not None else ""

    def _last_words(self) -> str:
        """Returns what to report of the ended job besides its failure."""
        kept, master, checkpoints = self._kept(), self.master, self.checkpoints
        about = kept_text(kept) if kept else ""
        if checkpoints is not None and checkpoints.is_lost(master.status, master.keeps_checkpoints):
            about = IN_MEMORY
        return "; ".join(text for text in (master.message, about) if text)

    def metrics(self) -> list[MetricGroup]:
        """Returns the metrics of the job as a whole, and of the coordinators of its sources."""
        now, restarts = Instant.of(self._clock), self.master.restarts_decided
        gauges: dict[str, Number] = {"numRestarts": restarts, "fullRestarts": restarts}
        gauges |= self._times.gauges(now.steady_ms)
        if self.checkpoints is not None:
            gauges |= checkpoint_gauges(self.checkpoints.coordinator.statistics, now)
        job: dict[str, str] = {"job_id": self.graph.job_id, "job_name": self.graph.name}
        groups = [MetricGroup(Scope.JOB, job, gauges=gauges)]
        for vertex in self.graph.vertices:
            if vertex.id in self._figures:
                groups += coordinator_groups(vertex, self._figures[vertex.id], job)
        return groups

    def _reports(self) -> CheckpointReports | None:
        if self.checkpoints is None:
            return None
        statistics = self.checkpoints.coordinator.statistics
        return CheckpointReports(statistics, self.checkpoints.settings, self._state_backend)

    def holds(self, allocation_id: AllocationId) -> bool:
        """Whether this job holds the slot."""
        return self.master.holds(allocation_id)

    def task_manager_message(self, message: ForTheJob) -> None:
        """Handles a message for the checkpoints or the sources of this job."""
        match message:
            case ReaderEvent() | InputsEnded() if self.master.is_taking_over:
                self.tell(ev.TaskReported(message))
            case ReaderEvent():
                self._reader_event(message)
            case WatermarkReport():
                self._align(message)
            case _ if self.checkpoints is None:
                pass  # the job was refused: none of its tasks runs
            case CheckpointAck():
                self.checkpoints.acknowledged(message)
            case CheckpointDecline():
                self.checkpoints.declined(message)
            case InputsEnded():
                self.checkpoints.inputs_ended(message)
            case CommitFailed():
                self.checkpoints.commit_failed(message)
            case _:
                assert_never(message)

    def _reader_event(self, event: ReaderEvent) -> None:
        """Forwards an event to the enumerator, unless an earlier attempt of the reader sent it."""
        execution = self.master.execution_graph.by_attempt(event.attempt_id)
        current = execution is not None and execution.is_deployed
        if current and execution is not None and execution.place == Subtask(event.vertex_id, event.subtask):
            self.enumerators(event)
        else:
            log.debug("job %s: ignoring an event of the former attempt %s", self.graph.job_id, event.attempt_id)

    def _align(self, report: WatermarkReport) -> None:
        """Responds to a reader's watermark report with its limit; ignores readers of earlier attempts."""
        place = self.master.place_of_attempt(report.attempt_id)
        if place is not None:
            task_manager, allocation_id, execution = place
            limit = self._alignment.reported(execution.place, report)
            self.command(task_manager, WatermarkLimit(allocation_id, report.attempt_id, limit))

    def _carry_out(self, effects: list[ev.Effect]) -> None:
        graph, job_id = self.graph, self.graph.job_id
        for effect in effects:
            match effect:
                case ev.DeclareSlots(slots, minimum):
                    epoch = self._led.leadership.epoch
                    self._links.declare(Requirement(job_id, slots, *slot_needs(graph), epoch, minimum))
                case ev.RespondToOffer(allocation_id, task_manager, accepted):
                    self.command(task_manager, msg.OfferAnswer(allocation_id, accepted))
                case ev.StartEnumerators():
                    self.start_enumerators({})
                case ev.StopEnumerators():
                    self._stop_enumerators()
                case ev.StartWorker(allocation_id, task_manager):
                    self._begins_to_run()
                    start = msg.StartWorker(
                        allocation_id,
                        job_id,
                        job_name=graph.name,
                        artifacts=graph.artifacts,
                        artifact_address=self._links.artifact_address,
                        configuration=self._worker_options,
                        python_path=graph.python_path,
                    )
                    self.command(task_manager, start)
                case ev.Deploy(allocation_id, task_manager, tasks):
                    self.command(task_manager, DeployTasks(allocation_id, tasks))
                case ev.CancelTasks(allocation_id, task_manager, attempts):
                    self.command(task_manager, CancelTasks(allocation_id, attempts))
                case ev.FreeSlot(allocation_id, task_manager, reason):
                    self.command(task_manager, msg.FreeSlot(allocation_id, reason))
                case ev.RollBack(subtasks, reason):
                    self._report_restart(len(subtasks), reason)
                    self._alignment.forget(subtasks)
                    if self.checkpoints is not None:
                        self.checkpoints.rolled_back(effect)
                case ev.Restore():
                    if self.checkpoints is not None:
                        self.checkpoints.restore(effect)
                case ev.TakeOver(tasks):
                    log.info("%s: taking over %d running tasks", self._name, len(tasks))
                    if self.checkpoints is not None:
                        self.checkpoints.take_over(effect)
                case ev.TakenOver():
                    self._taken_over(effect)
                case ev.NotTakenOver(reason, starts_again):
                    outcome = f"it {self._in_words()}" if starts_again else "it is not restarted"
                    self._remember_failover(f"{outcome}: {reason}")
                    log.warning("%s: %s: %s", self._name, outcome, reason)
                case ev.TakeCheckpoint(number):
                    if self.checkpoints is not None:
                        self.checkpoints.checkpoint_to_rescale(number)
                case ev.ChangeGraph():
                    log.info("job %s runs at parallelism %s", job_id, [v.parallelism for v in effect.graph.vertices])
                    self.graph = graph = effect.graph
                    if self.checkpoints is not None:
                        self.checkpoints.rescaled(graph)
                case ev.RespondToRescale(trigger_id, message, error) if trigger_id == _BY_ITSELF:
                    log.info("job %s: result of the autoscaler's request: %s", job_id, error or message)
                case ev.RespondToRescale(trigger_id, message, error) if error:
                    self._links.send_rescale_result(RescaleResult(trigger_id, message, error))
                case ev.RespondToRescale(trigger_id, message):
                    self._background.spawn(self._accept_rescale(RescaleResult(trigger_id, message)))
                case ev.WakeUpAt(at_ms):
                    self._wake_up_at(at_ms)
                case ev.ReportDetails():
                    self._links.report_soon(job_id)
                case ev.JobEnded():
                    self._job_ended()
                case _:
                    assert_never(effect)

        self._times.observe(self.master.status, Instant.of(self._clock).steady_ms)
        changed = self.master.requirements != self._kept_bounds and not self.master.status.is_terminal
        if changed and not self._keeping_bounds.locked():
            self._background.spawn(self._keep_bounds())

    async def _keep_bounds(self) -> str:
        """Stores the bounds of the parallelism; returns an error if that fails, otherwise an empty string."""
        async with self._keeping_bounds:
            try:
                while (bounds := self.master.requirements) != self._kept_bounds:
                    await self._led.points.require({vertex: (b.lower, b.upper) for vertex, b in bounds.items()})
                    self._kept_bounds = bounds
            except StoreError as error:
                return f"another job manager leads the job now, and may or may not rescale it: {error}"
        return ""

    async def _accept_rescale(self, result: RescaleResult) -> None:
        error = await self._keep_bounds()
        self._links.send_rescale_result(RescaleResult(result.trigger_id, error=error) if error else result)

    def _begins_to_run(self) -> None:
        """Stores once that the job has run, so that the next leader does not run it as if for the first time."""
        if not self._has_run:
            self._has_run = True
            self._background.spawn(self._store_that_it_runs())

    async def _store_that_it_runs(self) -> None:
        try:
            await self._led.points.deploying(self.master.execution_graph.attempts(), self.master.restarts)
        except StoreError as error:
            log.warning("%s: the leadership is lost: %s", self._name, error)

    def _resumption(self) -> Resumption:
        """How the job would be resumed if the whole cluster stopped now."""
        if self.master.status.is_terminal:
            return Resumption.UNKNOWN
        if not self._links.recovers:
            return Resumption.LOST
        if self._restore_point:
            return Resumption.CHECKPOINT
        if not self._has_run:
            return Resumption.NOT_STARTED
        if not self._restarts:
            return Resumption.NONE
        return Resumption.SNAPSHOT if self._starting_snapshot else Resumption.BEGINNING

    @property
    def _starting_snapshot(self) -> str:
        return self._configuration.get(STATE_RECOVERY_PATH)

    @property
    def _restore_point(self) -> int:
        return self.checkpoints.restore_point if self.checkpoints is not None else 0

    def _in_words(self) -> str:
        """Describes how the job continues when the tasks of an earlier leader are not taken over."""
        if self._restore_point:
            return f"restarts from checkpoint {self._restore_point}"
        if not self._has_run:
            return "starts: it has not run before"
        path = self._starting_snapshot
        start = f"from {plain_uri(path)}, which it was started from" if path else "from the beginning"
        return f"restarts {start}, since it has completed no checkpoint"

    @property
    def _name(self) -> str:
        return f"job {self.graph.job_id} ({printable(self.graph.name)})"

    def _taken_over(self, effect: ev.TakenOver) -> None:
        log.info("%s: continuing with its %d tasks", self._name, len(effect.tasks))
        self._remember_failover(f"it continues with its {len(effect.tasks)} tasks")
        if self.checkpoints is not None:
            self.checkpoints.taken_over(effect)
        for allocation_id, task_manager in effect.slots:
            self.command(task_manager, msg.TasksTakenOver(allocation_id))

    def _remember_failover(self, outcome: str) -> None:
        message = f"another job manager leads the job (leader number {self._led.failovers + 1}): {outcome}"
        self.master.remember(JobEventKind.LEADER_CHANGED, message, Instant.of(self._clock))

    def _report_restart(self, tasks: int, reason: str) -> None:
        now = Instant.of(self._clock)
        report = self._restart_log.report(next(iter(self.master.failures), None), reason, now)
        if report.event:
            remember = self.master.remember_again if report.is_again else self.master.remember
            remember(JobEventKind.RESTARTED, report.event, now)
        if report.line:
            level = logging.ERROR if report.event else logging.WARNING  # a failure of the job, or a consequence of one
            log.log(level, "%s: %d tasks, %s", self._name, tasks, report.line, extra=REPORTED)

    def _job_ended(self) -> None:
        name, status = self._name, self.master.status
        cause = next(iter(self.master.failures), None) if status is JobStatus.FAILED else None
        if cause is None:
            log.info("%s ended: %s", name, status)
        else:
            again = f" ({repetition(cause)})" if cause.times > 1 else ""
            trace = f"\n{cause.traceback.rstrip()}" if has_traceback(cause) and not again else ""
            last_words = self._last_words()
            why = f"; {last_words}" if last_words else ""
            text = f"{name} ended: {status}{again}: {cause_line(cause)}{why}{trace}"
            log.error("%s", text, extra=REPORTED)
            self.master.remember(JobEventKind.FAILED, f"{cause_line(cause)}{why}", Instant.of(self._clock))
        self._stop_enumerators()
        if self.checkpoints is not None:
            self.checkpoints.interrupt()
        self._background.spawn(self._record_end())

    async def _record_end(self) -> None:
        """Stores the result before files are deleted and it is reported: a next leader must not run the job again."""
        if self.checkpoints is not None:
            await self.checkpoints.conclude()  # so that the recorded statistics are final
        try:
            await self._links.record_end(self.details(), self._led.leadership)
        except StoreError as error:
            log.warning("job %s: leaving its end to the current leader: %s", self.graph.job_id, error)
            return
        self.is_recorded = True
        if self.checkpoints is not None:
            self.checkpoints.job_ended(self.master.status, self.master.keeps_checkpoints)
        else:
            with contextlib.suppress(StoreError):
                await self._led.points.leave(keeps_pointers=False)
        self._links.report_soon(self.graph.job_id)

    def _stop_enumerators(self) -> None:
        if self._enumerators is not None:
            self._background.spawn(self._enumerators.stop())
            self._enumerators = None

    def _wake_up_at(self, at_ms: int) -> None:
        def wake_up() -> None:
            self._wake_ups.discard(handle)
            self.tell(ev.Tick())

        delay = max(0, at_ms - Instant.of(self._clock).steady_ms) / 1000
        handle = asyncio.get_running_loop().call_later(delay, wake_up)
        self._wake_ups.add(handle)

    # Surroundings of the checkpoints

    def command(self, task_manager: TaskManagerId, command: msg.JobManagerCommand) -> None:
        """Sends a command to a task manager."""
        self._links.command(task_manager, command)

    def send_snapshot_result(self, result: SnapshotResult) -> None:
        """Sends the result of a requested snapshot to the dispatcher."""
        self._links.send_snapshot_result(result)

    def in_charge(self) -> bool:
        """Whether checkpoints may complete."""
        return self._links.in_charge()

    def enumerators(self, command: EnumeratorsCommand) -> bool:
        """Sends a command to the enumerator process; returns false when there is none."""
        if self._enumerators is None:
            return False
        self._enumerators.send(command)
        return True

    def start_enumerators(
        self, states: Mapping[VertexId, bytes], readers: Mapping[VertexId, tuple[RunningReader, ...]] | None = None
    ) -> None:
        """Starts the enumerator process, replacing one that failed; with `readers`, for these running readers."""
        if self._enumerators is not None:
            self._background.spawn(self._enumerators.stop())
        self._enumerators_ready = False
        self._figures.clear()

        def on_message(message: EnumeratorsMessage) -> None:
            if self._enumerators is enumerators:  # messages of an earlier process are ignored
                self._enumerators_message(message)

        enumerators = self._enumerators = EnumeratorProcess(
            self.graph,
            self._configuration,
            self._links.artifact_address,
            on_message,
            lambda text: self.tell(ev.WorkerProgressed(NO_ALLOCATION, text)),
            self._clock,
            states,
            self._launch,
            readers,
        )
        self._background.spawn(enumerators.run())

    def _enumerators_message(self, message: EnumeratorsMessage) -> None:
        match message:
            case Ready() if not self._enumerators_ready:
                self._enumerators_ready = True
                self.tell(ev.EnumeratorsReadied())
            case Ready():
                if self.checkpoints is not None:
                    self.checkpoints.sources.confirmed()
            case TakeoverRefused(reason):
                self.tell(ev.TakeoverRefused(reason))
            case TaskFailure():
                self.tell(ev.EnumeratorsFailed(message))
            case EnumeratorsSnapshot():
                if self.checkpoints is not None:
                    self.checkpoints.snapshotted(message)
            case EnumeratorEvent():
                self._to_reader(message)
            case EnumeratorFigures(vertex_id):
                self._figures[vertex_id] = message
            case _:
                assert_never(message)

    def _to_reader(self, event: EnumeratorEvent) -> None:
        if self.checkpoints is not None and not self.checkpoints.sources.to_reader(event):
            return
        place = self.master.place_of(event.vertex_id, event.subtask)
        if place is not None:
            task_manager, allocation_id, execution = place
            self.command(task_manager, replace(event, allocation_id=allocation_id, attempt_id=execution.attempt_id))
