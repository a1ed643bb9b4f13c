"""The job manager's shell: sessions with the dispatcher, the resource manager and task managers around running jobs.

Runs on one asyncio loop. Messages of the sessions are passed to the jobs that they concern, and messages of the jobs
(`millstream.jobmanager.running_job`) are sent on the sessions. No user code runs here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, TypeVar, assert_never

import grpc

from millstream.core.clock import Clock, SystemClock
from millstream.core.errors import MillstreamError, UnreachableError
from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import JobId, JobManagerId, LeaderEpoch, TaskManagerId, new_id
from millstream.core.logs.printable import printable
from millstream.core.logs.repeats import Repeats
from millstream.core.messages import dispatcher as dp
from millstream.core.messages import resource_manager as rm
from millstream.core.messages import task_manager as tm
from millstream.core.messages.queries import JobQuery, JobQueryResult
from millstream.core.messages.rescaling import RescaleRequest, RescaleResult
from millstream.core.messages.results import CollectRequest, CollectResponse
from millstream.core.messages.snapshots import SnapshotRequest, SnapshotResult
from millstream.core.metrics.cluster_metrics import ServiceMetrics
from millstream.core.metrics.model import MetricGroup
from millstream.core.metrics.registry import MetricRegistry
from millstream.core.metrics.reporting.reporters import Reporters
from millstream.core.processes.background import BackgroundTasks
from millstream.core.processes.job_process import Launcher, start_job_process
from millstream.core.services.handshake import epoch_of_start
from millstream.core.services.inspection import inspection_handler
from millstream.core.services.leader_lookup import Leader, Role, configured_endpoint
from millstream.core.services.lease import Lease, lease_seconds
from millstream.core.services.network import GRPC, Network
from millstream.core.services.rpc import service_handler
from millstream.core.services.session import Dialer, Session
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.metrics import METRICS_FETCHER_UPDATE_INTERVAL
from millstream.core.settings.options.services import JOBMANAGER_RPC_PORT, REGISTRATION_TIMEOUT
from millstream.core.store.checkpoint_pointers import JobPointers
from millstream.core.store.high_availability import HighAvailability, open_high_availability
from millstream.core.store.store import Leadership
from millstream.core.wire.contract import SessionContract
from millstream.core.wire.contracts import (
    JOB_MANAGER,
    JOB_MANAGER_AT_DISPATCHER,
    JOB_MANAGER_AT_RESOURCE_MANAGER,
)
from millstream.jobmanager.candidacies import Candidacies
from millstream.jobmanager.collecting import Collecting
from millstream.jobmanager.ended_jobs import delete_left_over
from millstream.jobmanager.job_master import events as ev
from millstream.jobmanager.jobs import Job, create_job
from millstream.jobmanager.recalls import Recalls
from millstream.jobmanager.restore_points import Led
from millstream.jobmanager.snapshot_requests import RequestResults
from millstream.jobmanager.task_managers import TaskManagers

log = logging.getLogger(__name__)

M = TypeVar("M")
_TICK = 0.2
_OFTEN = 60.0  # seconds within which repeated losses of a peer are logged less often
_SUBTASKS_REPORTED = 10_000  # per second, at most: each takes some 30 µs here, and more at the dispatcher


class JobManagerService:
    """A `millstream.core.processes.daemon.Service`."""

    def __init__(
        self,
        configuration: Configuration,
        clock: Clock | None = None,
        network: Network = GRPC,
        launch: Launcher = start_job_process,
        ha: HighAvailability | None = None,
    ) -> None:
        self.address = ""
        self._losses, self._dispatcher_losses = Repeats(within=_OFTEN), Repeats(within=_OFTEN)
        self.artifact_address = ""
        """The address of the dispatcher, from which artifacts are fetched."""
        self._id = JobManagerId(new_id())
        self._configuration = configuration
        self._clock = clock or SystemClock()
        self._epoch = epoch_of_start(self._clock)
        self._ha = ha
        self._candidacies: Candidacies | None = None
        self._recalls: Recalls | None = None
        self._network = network
        self._launch = launch
        self._server: grpc.aio.Server | None = None
        self._failed: asyncio.Future[MillstreamError] | None = None
        self._background = BackgroundTasks()
        self.jobs: dict[JobId, Job] = {}
        self._deferred: dict[JobId, list[dp.DispatcherMessage]] = {}  # for jobs whose leadership is not won yet
        self._task_managers = TaskManagers(self, configuration, self._epoch)
        self.collecting = Collecting(self.command, self._to_dispatcher)
        self._dispatcher: Session[dp.JobManagerMessage, dp.DispatcherMessage] | None = None
        self._resource_manager: Session[rm.JobManagerReport, rm.JobManagerNotice] | None = None
        self._requirements: dict[JobId, rm.Requirement] = {}
        self._changed: set[JobId] = set()
        self._snapshots = RequestResults[SnapshotResult]()
        self._rescales = RequestResults[RescaleResult]()
        self._host, _ = configured_endpoint(configuration, Role.JOB_MANAGER)
        self._figures = ServiceMetrics("jobmanager", self._host)
        self.metrics = MetricRegistry(self._measured)
        """The metrics of this service and its jobs."""
        self._reporters: Reporters | None = None
        self._lease: Lease | None = None
        self._registered_at = 0.0
        self.is_stopped = False

    async def start(self) -> None:
        """Listens, then maintains sessions with the dispatcher and the resource manager."""
        loop = asyncio.get_running_loop()
        self._failed = loop.create_future()
        self._lease = Lease(lease_seconds(self._configuration), _TICK, loop.time())
        self._ha = self._ha or open_high_availability(self._configuration)
        handlers = [service_handler(JOB_MANAGER, self), inspection_handler(self._configuration, self.metrics)]
        host, port = configured_endpoint(self._configuration, Role.JOB_MANAGER)
        self._server, bound = await self._network.serve(
            host, port, handlers, self._configuration, JOBMANAGER_RPC_PORT
        )
        self.address = f"{host}:{bound}"
        self._reporters = Reporters("jobmanager", self._configuration, self.metrics)
        await self._reporters.start()
        self._candidacies = Candidacies(self._ha, self.address, self, self._clock)
        self._recalls = Recalls(self._ha.store, self._configuration, self._could_be_left, self._hand_over)
        for keeping in (
            self._keep_connected(
                Role.DISPATCHER, JOB_MANAGER_AT_DISPATCHER, self._dispatcher_connected, self._dispatcher_lost
            ),
            self._keep_connected(
                Role.RESOURCE_MANAGER,
                JOB_MANAGER_AT_RESOURCE_MANAGER,
                self._resource_manager_connected,
                self._resource_manager_lost,
            ),
        ):
            self._background.spawn(keeping)
        self._background.spawn(self._tick())
        if self.recovers:
            self._background.spawn(self._recalls.watch())

    async def stop(self) -> None:
        """Stops enumerator processes and sessions; task managers free the jobs' slots after a timeout."""
        if self.is_stopped:
            return
        self.is_stopped = True
        if self._reporters is not None:
            await self._reporters.stop()
        await asyncio.gather(*(job.stop() for job in self.jobs.values()), return_exceptions=True)
        if self._candidacies is not None:
            await self._candidacies.close()
        await self._background.cancel()
        if self._ha is not None:
            await self._ha.store.close()
        if self._server is not None:
            await self._server.stop(0.2)

    def _measured(self) -> list[MetricGroup]:
        """Collects the metrics for the registry, except those of ended jobs."""
        running = [job for job in self.jobs.values() if not job.master.status.is_terminal]
        own = self._figures.group(self._clock.monotonic())
        return [own, *[group.about({"host": self._host}) for job in running for group in job.metrics()]]

    def _unless_stopped(self, handle: Callable[[M], None]) -> Callable[[M], None]:
        """Ignores messages once the job manager stops: it would start jobs or end checkpoints without a store."""

        def handle_message(message: M) -> None:
            if not self.is_stopped:
                handle(message)

        return handle_message

    async def lacks(self) -> str:
        """Returns which registration is missing for readiness, or an empty string."""
        if self._dispatcher is None:
            return "not registered at the dispatcher"
        return "" if self._resource_manager is not None else "not registered at the resource manager"

    async def failure(self) -> MillstreamError:
        """Returns when a peer has remained unreachable, with the error."""
        assert self._failed is not None, "start is called first"
        return await asyncio.shield(self._failed)

    async def _keep_connected(
        self,
        peer: Role,
        contract: SessionContract[Any, Any],
        started: Callable[[Any], Callable[[Any], None]],
        ended: Callable[[str], None],
    ) -> None:
        assert self._ha is not None, "start is called first"
        dialer = Dialer(Leader(self._ha.leaders, peer), contract, self._configuration, self._network)
        timeout = None if self.recovers else self._configuration.get(REGISTRATION_TIMEOUT)
        reason = await dialer.keep_connected(peer, started, ended, timeout)
        if self._failed is not None and not self._failed.done():
            self._failed.set_result(UnreachableError(reason))

    async def _tick(self) -> None:
        """Periodically passes ticks to the JobMasters and sends bundled reports.

        The reports of many jobs are spread over the interval, so that the dispatcher can handle other messages.
        """
        beats = 0
        every = max(1, round(self._configuration.get(METRICS_FETCHER_UPDATE_INTERVAL) / _TICK))
        while True:
            await asyncio.sleep(_TICK)
            beats += 1
            self._keep_lease()
            for number, job_id in enumerate(list(self.jobs)):
                self._event(job_id, ev.Tick())
                if (beats + number) % every == 0:
                    self.jobs[job_id].scale_automatically()
                    self._report(job_id)

    # The lease from the dispatcher, which reports jobs as failed when it receives no heartbeats for too long

    def in_charge(self) -> bool:
        """Whether this job manager still holds its lease. With high availability, the store decides."""
        if self.recovers:
            return True
        assert self._lease is not None, "start is called first"
        if self._dispatcher is not None:
            self._lease.renew(self._dispatcher.confirmed_at)
        return self._lease.holds(asyncio.get_running_loop().time())

    def _keep_lease(self) -> None:
        if self.recovers:
            return
        assert self._lease is not None, "start is called first"
        in_charge, is_over = self.in_charge(), self._lease.is_over(asyncio.get_running_loop().time())
        if in_charge:
            for job in list(self.jobs.values()):
                job.resume()
        elif is_over:
            reason = (
                f"no heartbeat from the dispatcher at {self.artifact_address} for {self._lease.duration:g} s; the "
                "job manager has stopped the job before the dispatcher reports it as failed (heartbeat.timeout)"
            )
            for job in list(self.jobs.values()):
                job.suspend(reason)

    # The dispatcher

    def _dispatcher_connected(
        self, session: Session[dp.JobManagerMessage, dp.DispatcherMessage]
    ) -> Callable[[dp.DispatcherMessage], None]:
        self._dispatcher = session
        self.artifact_address = session.address
        self._registered_at = asyncio.get_running_loop().time()
        jobs = tuple(job.details() for job in self.jobs.values() if job.is_reportable)
        session.send(dp.RegisterJobManager(self._id, self.address, jobs))
        self._snapshots.connected(session.send)
        self._rescales.connected(session.send)
        if self._recalls is not None:
            self._recalls.in_touch()
        log.info("registered at the dispatcher")
        return self._unless_stopped(self._dispatcher_message)

    def _dispatcher_lost(self, reason: str) -> None:
        self.in_charge()  # renews the lease with the last confirmation
        self._dispatcher = None
        if self._recalls is not None:
            self._recalls.out_of_touch()
        self._snapshots.disconnected()
        self._rescales.disconnected()
        self._leading().withdraw_all()  # the dispatcher assigns jobs that are not won yet again
        self._deferred.clear()
        if self._dispatcher_losses.is_told(reason, asyncio.get_running_loop().time()):
            log.warning("%s%s; jobs continue for now, registering again", reason, self._dispatcher_losses.times)

    def _dispatcher_message(self, message: dp.DispatcherMessage) -> None:
        self._handle_dispatcher_message(message)
        assert self._lease is not None, "start is called first"
        self._lease.renew(self._registered_at)  # it sends messages only to registered job managers

    def _handle_dispatcher_message(self, message: dp.DispatcherMessage) -> None:
        match message:
            case dp.StartJob(graph):
                if graph.job_id not in self.jobs:
                    self._leading().run_for(graph)
            case (
                dp.CancelJob(job_id=job_id)
                | SnapshotRequest(job_id=job_id)
                | JobQuery(job_id=job_id)
                | RescaleRequest(job_id=job_id)
            ) if self._leading().is_candidate(job_id):
                self._deferred.setdefault(job_id, []).append(message)
            case dp.CancelJob(job_id):
                self._event(job_id, ev.CancelRequested())
            case dp.AbandonJob(job_id, reason, epoch):
                self._abandon(job_id, reason, epoch)
            case dp.ForgetJob(job_id):
                job = self.jobs.get(job_id)
                if job is not None and job.master.status.is_terminal:
                    del self.jobs[job_id]
            case CollectRequest(job_id, operator_id):
                job = self.jobs.get(job_id)
                self.collecting.request(message, job.master.collector_of(operator_id) if job is not None else None)
            case SnapshotRequest():
                self._snapshot(message)
            case JobQuery():
                self._query(message)
            case RescaleRequest():
                self._rescale(message)
            case _:
                assert_never(message)

    # The jobs that are led

    @property
    def recovers(self) -> bool:
        """See `Links`."""
        return self._ha is not None and self._ha.recovers

    def _leading(self) -> Candidacies:
        assert self._candidacies is not None, "start is called first"
        return self._candidacies

    def won(self, graph: JobGraph, led: Led) -> None:
        """See `candidacies.Manager`."""
        job = self.jobs[graph.job_id] = create_job(
            graph, self._configuration, self, self._background, self._clock, led, self._launch
        )
        name = printable(graph.name)
        log.info("job %s (%s): %d slots needed", graph.job_id, name, job.master.slots_required)
        job.start()
        for message in self._deferred.pop(graph.job_id, ()):
            self._handle_dispatcher_message(message)

    def found_ended(self, result: JobDetails) -> None:
        """See `candidacies.Manager`."""
        if self._dispatcher is not None:
            self._dispatcher.send(result)

    def delete_left_over(self, graph: JobGraph, result: JobDetails, stored: JobPointers) -> None:
        """See `candidacies.Manager`."""
        delete_left_over(graph, result.state, stored, self._configuration, self.checkpoint_directory)

    def lost(self, job_id: JobId) -> None:
        """See `candidacies.Manager`."""
        job = self.jobs.get(job_id)
        if job is not None and not job.is_recorded and not self.is_stopped:
            self._drop(job_id, "this job manager has lost the leadership of the job")

    def _drop(self, job_id: JobId, reason: str) -> None:
        """Stops running a job, and registers again so that the dispatcher assigns it to a job manager."""
        log.warning("job %s: %s", job_id, reason)
        self._leading().left(job_id)
        self._background.spawn(self.jobs.pop(job_id).leave())
        if self._dispatcher is not None:
            self._dispatcher.close(f"registering again: {reason}")

    def _could_be_left(self) -> dict[JobId, LeaderEpoch]:
        """Returns the jobs that may be left; ended ones are left by themselves once their result is stored."""
        return {job_id: job.epoch for job_id, job in self.jobs.items() if not job.master.status.is_terminal}

    def _hand_over(self, job_id: JobId) -> None:
        log.warning("job %s: resigning the leadership, since the dispatcher cannot reach this job manager", job_id)
        self._leading().left(job_id)
        self._background.spawn(self.jobs.pop(job_id).hand_over())

    @property
    def checkpoint_directory(self) -> str:
        """See `Links`."""
        return self._ha.checkpoints if self._ha is not None else ""

    async def record_end(self, details: JobDetails, leadership: Leadership) -> None:
        """See `Links`."""
        await self._leading().record_end(details, leadership)

    def _abandon(self, job_id: JobId, reason: str, epoch: LeaderEpoch) -> None:
        """Abandons a job that was reported as ended, or that another job manager leads in a later epoch."""
        self._leading().withdraw(job_id)
        self._deferred.pop(job_id, None)
        job = self.jobs.get(job_id)
        if job is None or (epoch and job.epoch > epoch):
            return
        if self.recovers:
            self._leading().left(job_id)
            self._background.spawn(self.jobs.pop(job_id).resign(reason))
        else:
            job.tell(ev.Abandoned(reason))

    def _report(self, job_id: JobId) -> None:
        job = self.jobs.get(job_id)
        if job is not None and self._dispatcher is not None and job.is_reportable:
            subtasks = len(job.master.execution_graph.executions)
            job.report_not_before = asyncio.get_running_loop().time() + subtasks / _SUBTASKS_REPORTED
            self._dispatcher.send(job.details())

    def report_soon(self, job_id: JobId) -> None:
        """Bundles changes of the same moment into one report, for large jobs over a longer time."""
        job = self.jobs.get(job_id)
        if job is not None and job_id not in self._changed:
            self._changed.add(job_id)
            loop = asyncio.get_running_loop()
            loop.call_later(max(0.0, job.report_not_before - loop.time()), self._report_changed, job_id)

    def _report_changed(self, job_id: JobId) -> None:
        self._changed.discard(job_id)
        self._report(job_id)

    def _snapshot(self, request: SnapshotRequest) -> None:
        if self._snapshots.resend(request.trigger_id):
            return
        job = self.jobs.get(request.job_id)
        if job is not None:
            job.snapshot(request)
        else:
            unknown = f"the job manager does not run job {request.job_id}"
            self.send_snapshot_result(SnapshotResult(request.trigger_id, error=unknown))

    def send_snapshot_result(self, result: SnapshotResult) -> None:
        """Sends the result to the dispatcher, now or after the next registration."""
        self._snapshots.add(result)

    def _rescale(self, request: RescaleRequest) -> None:
        if self._rescales.resend(request.trigger_id):
            return
        job = self.jobs.get(request.job_id)
        if job is not None:
            job.rescale(request)
        else:
            unknown = f"the job manager does not run job {request.job_id}"
            self.send_rescale_result(RescaleResult(request.trigger_id, error=unknown))

    def send_rescale_result(self, result: RescaleResult) -> None:
        """Sends the result to the dispatcher, now or after the next registration."""
        self._rescales.add(result)

    def _query(self, query: JobQuery) -> None:
        job = self.jobs.get(query.job_id)
        result = JobQueryResult(query.request_id, error=f"the job manager does not run job {query.job_id}")
        self._to_dispatcher(job.query(query) if job is not None else result)

    def _to_dispatcher(self, message: JobQueryResult | CollectResponse) -> None:
        if self._dispatcher is not None:
            self._dispatcher.send(message)

    # The resource manager

    def _resource_manager_connected(
        self, session: Session[rm.JobManagerReport, rm.JobManagerNotice]
    ) -> Callable[[rm.JobManagerNotice], None]:
        self._resource_manager = session
        session.send(rm.RegisterJobManager(self._id, self.address, tuple(self._requirements.values())))
        log.info("registered at the resource manager")
        return self._unless_stopped(self._resource_manager_notice)

    def _resource_manager_lost(self, reason: str) -> None:
        self._resource_manager = None
        if self._losses.is_told(reason, asyncio.get_running_loop().time()):
            log.warning("%s%s; jobs continue, registering again", reason, self._losses.times)

    def _resource_manager_notice(self, notice: rm.JobManagerNotice) -> None:
        match notice:
            case rm.NotEnoughSlots(job_id, available):
                supply = ev.SlotSupply(notice.free, notice.total, notice.startable, notice.too_small)
                self._event(job_id, ev.NotEnoughSlots(available, supply))
            case rm.GiveSlotsBack(job_id):
                self._event(job_id, ev.SlotsReclaimed())
            case _:
                assert_never(notice)

    def declare(self, requirement: rm.Requirement) -> None:
        """Declares to the resource manager how many slots a job wants, now and after each registration."""
        if requirement.slots:
            self._requirements[requirement.job_id] = requirement
        else:
            self._requirements.pop(requirement.job_id, None)
        if self._resource_manager is not None:
            self._resource_manager.send(requirement)

    # Task managers

    async def connect_task_manager(self, _requests: Any, context: Any) -> None:
        """Serves the session of a task manager that holds slots for jobs of this job manager."""
        await self._task_managers.serve(context)

    def command(self, task_manager: TaskManagerId, command: tm.JobManagerCommand) -> None:
        """Sends a command to a task manager, if it is connected."""
        self._task_managers.command(task_manager, command)

    def _event(self, job_id: JobId, event: ev.Event) -> None:
        job = self.jobs.get(job_id)
        if job is not None:
            job.tell(event)
