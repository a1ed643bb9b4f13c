"""One job in the job manager: connects its JobMaster, its checkpoints and its sources.

Owned by the job manager's loop. Carries out the effects of the JobMaster; the sessions with other services belong to
the service, and are reached through `Links`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from random import Random
from typing import assert_never

from msgspec.structs import replace

from millstream.core.clock import Clock, Instant
from millstream.core.errors import MillstreamError
from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import AllocationId, TaskManagerId, VertexId
from millstream.core.jobs.job_events import JobEventKind
from millstream.core.jobs.stalls import ended
from millstream.core.logs.logs import REPORTED
from millstream.core.messages import task_manager as msg
from millstream.core.messages.checkpoints import CheckpointAck, CheckpointDecline, CommitFailed, InputsEnded
from millstream.core.messages.deployment import CancelTasks, DeployTasks
from millstream.core.messages.queries import JobQuery, JobQueryResult, JobView
from millstream.core.messages.rescaling import RescaleRequest, RescaleResult
from millstream.core.messages.resource_manager import Requirement
from millstream.core.messages.snapshots import SnapshotRequest, SnapshotResult
from millstream.core.messages.sources import EnumeratorsCommand, ReaderEvent, RunningReader, WatermarkReport
from millstream.core.metrics.model import MetricGroup, Number, Scope
from millstream.core.processes.background import BackgroundTasks
from millstream.core.processes.job_process import Launcher, start_job_process
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.metrics import METRICS_FETCHER_UPDATE_INTERVAL
from millstream.jobmanager.adaptive.bounds import Bounds
from millstream.jobmanager.autoscaler.autoscaler import Autoscaler
from millstream.jobmanager.autoscaling import BY_ITSELF, Autoscaling
from millstream.jobmanager.checkpoint_reports import CheckpointReports
from millstream.jobmanager.failover.restart_log import RestartLog
from millstream.jobmanager.failover.restart_strategy import NoRestartStrategy, create_restart_strategy
from millstream.jobmanager.job_checkpoints.job_checkpoints import FromTask, JobCheckpoints
from millstream.jobmanager.job_master import events as ev
from millstream.jobmanager.job_master.details import job_details
from millstream.jobmanager.job_master.job_master import JobMaster
from millstream.jobmanager.job_master.job_slots import slot_needs
from millstream.jobmanager.job_master.settings import Succeeding
from millstream.jobmanager.job_metrics import checkpoint_gauges
from millstream.jobmanager.job_settings import JobSettings
from millstream.jobmanager.job_times import JobTimes
from millstream.jobmanager.led_job import LedJob, last_graph
from millstream.jobmanager.links import Links
from millstream.jobmanager.restore_points import Led
from millstream.jobmanager.resuming import Resuming
from millstream.jobmanager.sources.job_sources import JobSources
from millstream.jobmanager.stall.facts import checkpoint_facts, job_facts
from millstream.jobmanager.stall.findings import explain
from millstream.jobmanager.stored_bounds import StoredBounds

log = logging.getLogger(__name__)

ForTheJob = ReaderEvent | WatermarkReport | FromTask
"""The messages of its tasks that concern its checkpoints or sources and not the JobMaster."""


class RunningJob(LedJob):
    """A job from its submission until the dispatcher no longer remembers it.

    If another job manager led it before, its running tasks are taken over. Raises MillstreamError when its settings are
    invalid: it is refused then.
    """

    def __init__(
        self,
        submitted: JobGraph,
        cluster: Configuration,
        links: Links,
        background: BackgroundTasks,
        clock: Clock,
        led: Led,
        launch: Launcher = start_job_process,
    ) -> None:
        graph = last_graph(submitted, led)
        settings = self._settings = JobSettings.read(cluster, graph, led, links.checkpoint_directory)
        now = Instant.of(clock)
        strategy = create_restart_strategy(settings.restart, Random())
        restarts = not isinstance(strategy, NoRestartStrategy)
        succeeding = None
        if led.follows:
            succeeding = Succeeding(
                led.stored.attempt,
                settings.takeover_timeout,
                led.stored.restarts,
                led.stored.has_run,
                may_start_again=bool(led.left) or restarts or not led.stored.has_run,
            )
        master = JobMaster(
            graph,
            settings.master,
            now,
            strategy,
            restoring=settings.recovery is not None,
            succeeding=succeeding,
            submitted=submitted,
            bounds={VertexId(vertex): Bounds(*both) for vertex, both in led.stored.bounds.items()},
        )
        super().__init__(graph, master, links, clock, led)
        self.checkpoints = JobCheckpoints(
            master, settings.checkpoints, self, background, clock, led.points, restarts, settings.recovery, led.follows
        )
        self._background = background
        self._sources = JobSources(
            master, self.checkpoints, settings.configuration, links, background, clock, launch, self.tell
        )
        self._autoscaling: Autoscaling | None = None
        if settings.autoscaler is not None:
            self._autoscaling = Autoscaling(Autoscaler(settings.autoscaler), master, self.tell)
        self._bounds = StoredBounds(master, led.points, background)
        self._resuming = Resuming(master, self.checkpoints, led, restarts, settings.starting_snapshot)
        self._times = JobTimes(master.status, now.steady_ms)
        self._restart_log = RestartLog()
        self._wake_ups: set[asyncio.TimerHandle] = set()

    def start(self) -> None:
        """Starts the job."""
        self._resumed, self._resumed_from = self._resuming.now(self._links.recovers), self.checkpoints.restore_point
        self._carry_out(self.master.start(Instant.of(self._clock)))
        self.checkpoints.start()

    async def stop(self) -> None:
        """Stops the job's enumerator process and checkpoints, because the job manager stops."""
        for wake_up in self._wake_ups:
            wake_up.cancel()
        latest, folder = self.checkpoints.kept.places()
        if folder and not self.master.status.is_terminal:
            what = f"its last checkpoint is {latest}" if latest else "it has completed no checkpoint"
            log.warning("job %s: stopping with its job manager; %s; %s is kept", self.graph.job_id, what, folder)
        self.checkpoints.suspend()
        await self._sources.close()

    def tell(self, event: ev.Event) -> None:
        """Passes an event to the JobMaster, and carries out the effects."""
        self._carry_out(self.master.handle(event, Instant.of(self._clock)))
        if isinstance(event, ev.TaskChanged):
            execution = self.master.execution_graph.by_attempt(event.update.attempt_id)
            if execution is not None:
                self.checkpoints.task_changed(execution)

    def snapshot(self, request: SnapshotRequest) -> None:
        """Takes a snapshot, and sends the result when it has completed or failed."""
        status = self.master.status
        if status.is_terminal:
            why_not = f"job {self.graph.job_id} has ended, it is {status}"
            self.send_snapshot_result(SnapshotResult(request.trigger_id, error=why_not))
        else:
            self.checkpoints.requested.take(request)

    def rescale(self, request: RescaleRequest) -> None:
        """Rescales the job; the result is sent when it has completed or failed, without `wait` when it is accepted."""
        bounds, reason = request.bounds, "requested by a user"
        self.tell(ev.RescaleRequested(request.trigger_id, reason, request.parallelism, bounds, request.wait))

    def scale_automatically(self) -> None:
        """Passes the latest measurements to the autoscaler, if the job has one, and applies its decision."""
        if self._autoscaling is not None and self._autoscaling.observe(Instant.of(self._clock)):
            self._links.report_soon(self.graph.job_id)

    def query(self, query: JobQuery) -> JobQueryResult:
        """Returns the result of a query about the job."""
        if query.kind is JobView.STALL:
            return JobQueryResult(query.request_id, self._stall())
        try:
            return JobQueryResult(query.request_id, self._reports().query(query, Instant.of(self._clock)))
        except MillstreamError as error:
            return JobQueryResult(query.request_id, error=str(error))

    def _stall(self) -> bytes:
        """Returns what holds the job back, as JSON in the shape of the REST API."""
        now_ms = self._clock.now_ms()
        if self.master.status.is_terminal:
            return json.dumps(ended(self.details(), now_ms).as_json()).encode()
        taken = checkpoint_facts(self.checkpoints.settings, self.checkpoints.coordinator.statistics)
        interval_ms = round(self._settings.configuration.get(METRICS_FETCHER_UPDATE_INTERVAL) * 1000)
        return json.dumps(explain(job_facts(self.master, taken, now_ms, interval_ms)).as_json()).encode()

    def suspend(self, reason: str) -> None:
        """Suspends the job until `resume` is called."""
        if not self.master.status.is_terminal and not self.master.is_suspended:
            latest, _ = self.checkpoints.kept.places()
            kept = f"; its last checkpoint is kept: {latest}" if latest else ""
            self.tell(ev.Suspended(f"{reason}{kept}"))

    def resume(self) -> None:
        """Resumes the job, if it was suspended."""
        if self.master.is_suspended:
            self.tell(ev.Resumed())

    def details(self) -> JobDetails:
        """Returns the details of the job; when it has ended, including those of its checkpoints."""
        latest, directory = self.checkpoints.kept.places()
        ended = self.master.status.is_terminal
        return replace(
            job_details(self.master),
            message=self.checkpoints.kept.last_words() if ended else self.master.message,
            latest_checkpoint=self.checkpoints.kept.kept() if ended else latest,
            resumption=self._resuming.now(self._links.recovers),
            restore_point=self.checkpoints.restore_point,
            resumed=self._resumed,
            resumed_from=self._resumed_from,
            checkpoint_directory=directory,
            checkpoints=self._reports().everything(Instant.of(self._clock)) if ended else b"",
            epoch=self.epoch,
        )

    def metrics(self) -> list[MetricGroup]:
        """Returns the metrics of the job as a whole, and of the coordinators of its sources."""
        now, restarts = Instant.of(self._clock), self.master.restarts_decided
        gauges: dict[str, Number] = {"numRestarts": restarts, "fullRestarts": restarts}
        gauges |= self._times.gauges(now.steady_ms)
        gauges |= checkpoint_gauges(self.checkpoints.coordinator.statistics, now)
        job: dict[str, str] = {"job_id": self.graph.job_id, "job_name": self.graph.name}
        return [MetricGroup(Scope.JOB, job, gauges=gauges), *self._sources.metrics(self.graph, job)]

    def _reports(self) -> CheckpointReports:
        statistics = self.checkpoints.coordinator.statistics
        return CheckpointReports(statistics, self.checkpoints.settings, self._settings.state_backend)

    def holds(self, allocation_id: AllocationId) -> bool:
        """Whether this job holds the slot."""
        return self.master.holds(allocation_id)

    def task_manager_message(self, message: ForTheJob) -> None:
        """Handles a message for the checkpoints or the sources of this job."""
        match message:
            case ReaderEvent() | InputsEnded() if self.master.is_taking_over:
                self.tell(ev.TaskReported(message))
            case ReaderEvent():
                if self._sources.is_current(message):
                    self.enumerators(message)
                else:
                    log.debug("job %s: ignoring an event of the former %s", self.graph.job_id, message.attempt_id)
            case WatermarkReport():
                self._sources.align(message)
            case CheckpointAck() | CheckpointDecline() | InputsEnded() | CommitFailed():
                self.checkpoints.received(message)
            case _:
                assert_never(message)

    def _carry_out(self, effects: list[ev.Effect]) -> None:
        graph, job_id = self.graph, self.graph.job_id
        for effect in effects:
            match effect:
                case ev.DeclareSlots(slots, minimum):
                    self._links.declare(Requirement(job_id, slots, *slot_needs(graph), self.epoch, minimum))
                case ev.RespondToOffer(allocation_id, task_manager, accepted):
                    self.command(task_manager, msg.OfferAnswer(allocation_id, accepted))
                case ev.StartEnumerators():
                    self.start_enumerators({})
                case ev.StopEnumerators():
                    self._sources.stop()
                case ev.StartWorker(allocation_id, task_manager):
                    self._resuming.begins_to_run(self._background)
                    start = msg.StartWorker(
                        allocation_id,
                        job_id,
                        job_name=graph.name,
                        artifacts=graph.artifacts,
                        artifact_address=self._links.artifact_address,
                        configuration=self._settings.worker_options(graph),
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
                    self._sources.rolled_back(subtasks)
                    self.checkpoints.rolled_back(effect)
                case ev.Restore():
                    self.checkpoints.restoration.restore(effect)
                case ev.TakeOver(tasks):
                    log.info("%s: taking over %d running tasks", self.name, len(tasks))
                    self.checkpoints.restoration.take_over(effect)
                case ev.TakenOver():
                    self._taken_over(effect)
                case ev.NotTakenOver(reason, starts_again):
                    outcome = f"it {self._resuming.in_words()}" if starts_again else "it is not restarted"
                    self._remember_failover(f"{outcome}: {reason}")
                    log.warning("%s: %s: %s", self.name, outcome, reason)
                case ev.TakeCheckpoint(number):
                    self.checkpoints.requested.take_to_rescale(number)
                case ev.ChangeGraph():
                    log.info("job %s runs at parallelism %s", job_id, [v.parallelism for v in effect.graph.vertices])
                    self.graph = graph = effect.graph
                    self.checkpoints.rescaled(graph)
                case ev.RespondToRescale(trigger_id, message, error) if trigger_id == BY_ITSELF:
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
        self._bounds.observe()

    async def _accept_rescale(self, result: RescaleResult) -> None:
        error = await self._bounds.store()
        self._links.send_rescale_result(RescaleResult(result.trigger_id, error=error) if error else result)

    def _taken_over(self, effect: ev.TakenOver) -> None:
        log.info("%s: continuing with its %d tasks", self.name, len(effect.tasks))
        self._remember_failover(f"it continues with its {len(effect.tasks)} tasks")
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
            log.log(level, "%s: %d tasks, %s", self.name, tasks, report.line, extra=REPORTED)

    def _job_ended(self) -> None:
        self._log_end(self.checkpoints.kept.last_words())
        self._sources.stop()
        self.checkpoints.restoration.interrupt()
        self._background.spawn(self._record_end())

    async def _record_end(self) -> None:
        await self.checkpoints.conclude()  # so that the recorded statistics are final
        if await self._store_end(self.details()):
            self.checkpoints.job_ended(self.master.status, self.master.keeps_checkpoints)
            self._links.report_soon(self.graph.job_id)

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
        return self._sources.send(command)

    def start_enumerators(
        self, states: Mapping[VertexId, bytes], readers: Mapping[VertexId, tuple[RunningReader, ...]] | None = None
    ) -> None:
        """Starts the enumerator process, replacing one that failed; with `readers`, for these running readers."""
        self._sources.start(self.graph, states, readers)
