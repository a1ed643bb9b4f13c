"""The job manager's shell: sessions with the dispatcher, the resource manager and task managers around running jobs.

Runs on one asyncio loop. What happens on the sessions goes to the jobs that it concerns; what the jobs want goes out
(`millstream.jobmanager.running_job`). No user code runs here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc

from millstream.core.clock import Clock, SystemClock
from millstream.core.errors import MillstreamError, UnreachableError
from millstream.core.jobs.failure_kinds import WorkerEnd
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import AllocationId, JobId, JobManagerId, TaskManagerId, new_id
from millstream.core.logs.printable import printable
from millstream.core.processes.background import BackgroundTasks
from millstream.core.services.handshake import epoch_of_start
from millstream.core.services.leader_lookup import ConfiguredLeaders, Leader, LeaderLookup, Role, configured_endpoint
from millstream.core.services.lease import Lease, lease_seconds
from millstream.core.services.rpc import serve, service_handler
from millstream.core.services.session import Dialer, Session, serve_session
from millstream.core.settings.configuration import Configuration
from millstream.core.wire.contract import SessionContract
from millstream.core.wire.raw import raw_contract
from millstream.jobmanager import events as ev
from millstream.jobmanager.running_job import RunningJob
from millstream.jobmanager.snapshot_requests import SnapshotResults
from millstream.proto import dispatcher_pb2 as dp
from millstream.proto import resourcemanager_pb2 as rm
from millstream.proto import taskmanager_pb2 as pb

log = logging.getLogger(__name__)

TaskManagerSession = Session[pb.JobManagerCommand, pb.TaskManagerMessage]
_TICK = 0.2
_TASK_MANAGERS = raw_contract(pb.DESCRIPTOR.services_by_name["JobManager"], "ConnectTaskManager")
_NOT_COLLECTING = "the collecting task is not running"


@dataclass(frozen=True, slots=True)
class _TaskManager:
    """One that is connected."""

    session: TaskManagerSession
    host: str


class JobManagerService:
    """A `millstream.core.processes.daemon.Service`."""

    def __init__(
        self, configuration: Configuration, clock: Clock | None = None, leaders: LeaderLookup | None = None
    ) -> None:
        self.address = ""
        self.artifact_address = ""
        """The dispatcher's, where it was found last; what jobs there are came from it."""
        self._id = JobManagerId(new_id())
        self._configuration = configuration
        self._clock = clock or SystemClock()
        self._epoch = epoch_of_start(self._clock)
        self._leaders = leaders or ConfiguredLeaders(configuration)
        self._server: grpc.aio.Server | None = None
        self._failed: asyncio.Future[MillstreamError] | None = None
        self._background = BackgroundTasks()
        self.jobs: dict[JobId, RunningJob] = {}
        self._task_managers: dict[TaskManagerId, _TaskManager] = {}
        self._dispatcher: Session[dp.JobManagerMessage, dp.DispatcherMessage] | None = None
        self._resource_manager: Session[rm.JobManagerReport, rm.JobManagerNotice] | None = None
        self._requirements: dict[JobId, int] = {}
        self._changed: set[JobId] = set()
        self._collecting: dict[str, tuple[TaskManagerId, str]] = {}
        self._snapshots = SnapshotResults()
        self._lease: Lease | None = None
        self._registered_at = 0.0
        self._stopped = False

    async def start(self) -> None:
        """Listens, then keeps sessions with the dispatcher and the resource manager."""
        loop = asyncio.get_running_loop()
        self._failed = loop.create_future()
        self._lease = Lease(lease_seconds(self._configuration), _TICK, loop.time())
        handler = service_handler(pb.DESCRIPTOR.services_by_name["JobManager"], self)
        host, port = configured_endpoint(self._configuration, Role.JOB_MANAGER)
        self._server, bound = await serve(host, port, [handler], self._configuration, "jobmanager.rpc.port")
        self.address = f"{host}:{bound}"
        dispatcher = raw_contract(dp.DESCRIPTOR.services_by_name["Dispatcher"], "ConnectJobManager")
        resource_manager = raw_contract(rm.DESCRIPTOR.services_by_name["ResourceManager"], "ConnectJobManager")
        for keeping in (
            self._keep_connected(Role.DISPATCHER, dispatcher, self._dispatcher_connected, self._dispatcher_lost),
            self._keep_connected(
                Role.RESOURCE_MANAGER, resource_manager, self._resource_manager_connected, self._resource_manager_lost
            ),
        ):
            self._background.spawn(keeping)
        self._background.spawn(self._tick())

    async def stop(self) -> None:
        """Ends enumerator processes and sessions; task managers free the jobs' slots when this one stays away."""
        if self._stopped:
            return
        self._stopped = True
        await asyncio.gather(*(job.stop() for job in self.jobs.values()), return_exceptions=True)
        await self._background.cancel()
        if self._server is not None:
            await self._server.stop(0.2)

    async def failure(self) -> MillstreamError:
        """A peer stayed unreachable."""
        assert self._failed is not None, "start comes first"
        return await asyncio.shield(self._failed)

    async def _keep_connected(
        self,
        peer: Role,
        contract: SessionContract[Any, Any],
        started: Callable[[Any], Callable[[Any], None]],
        ended: Callable[[str], None],
    ) -> None:
        dialer = Dialer(Leader(self._leaders, peer), contract, self._configuration)
        timeout = self._configuration.seconds("registration.timeout")
        reason = await dialer.keep_connected(peer, started, ended, timeout)
        if self._failed is not None and not self._failed.done():
            self._failed.set_result(UnreachableError(reason))

    async def _tick(self) -> None:
        """Time for the JobMasters, and a rhythm for reports that need not go out one by one."""
        beats = 0
        every = max(1, round(self._configuration.seconds("metrics.fetcher.update-interval") / _TICK))
        while True:
            await asyncio.sleep(_TICK)
            beats += 1
            self._keep_lease()
            for job_id in list(self.jobs):
                self._event(job_id, ev.Tick())
                if beats % every == 0:
                    self._report(job_id)

    # The lease from the dispatcher, which has jobs that it hears nothing of for too long reported as failed

    def in_charge(self) -> bool:
        """Whether the dispatcher cannot have given this job manager up."""
        assert self._lease is not None, "start comes first"
        if self._dispatcher is not None:
            self._lease.renew(self._dispatcher.confirmed_at)
        return self._lease.holds(asyncio.get_running_loop().time())

    def _keep_lease(self) -> None:
        assert self._lease is not None, "start comes first"
        in_charge, is_over = self.in_charge(), self._lease.is_over(asyncio.get_running_loop().time())
        if in_charge:
            for job in list(self.jobs.values()):
                job.resume()
        elif is_over:
            reason = (
                f"the job manager has not heard from the dispatcher at {self.artifact_address} for "
                f"{self._lease.duration:g} s, and has stopped the job before that reports it as failed "
                "(heartbeat.timeout)"
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
        jobs = [job.details() for job in self.jobs.values()]
        register = dp.RegisterJobManager(job_manager_id=self._id, address=self.address, jobs=jobs)
        session.send(dp.JobManagerMessage(register=register))
        self._snapshots.connected(lambda result: session.send(dp.JobManagerMessage(snapshot_result=result)))
        log.info("registered at the dispatcher")
        return self._dispatcher_message

    def _dispatcher_lost(self, reason: str) -> None:
        self.in_charge()  # with what it confirmed last
        self._dispatcher = None
        self._snapshots.disconnected()
        log.warning("%s; jobs go on for now, registering again", reason)

    def _dispatcher_message(self, message: dp.DispatcherMessage) -> None:
        self._handle_dispatcher_message(message)
        assert self._lease is not None, "start comes first"
        self._lease.renew(self._registered_at)  # it speaks only to whom it has registered

    def _handle_dispatcher_message(self, message: dp.DispatcherMessage) -> None:
        match message.WhichOneof("kind"):
            case "start_job":
                self._start_job(JobGraph.from_proto(message.start_job.graph))
            case "cancel_job":
                self._event(JobId(message.cancel_job.job_id), ev.CancelRequested())
            case "abandon_job":
                self._event(JobId(message.abandon_job.job_id), ev.Abandoned(message.abandon_job.reason))
            case "forget_job":
                job = self.jobs.get(JobId(message.forget_job.job_id))
                if job is not None and job.master.status.is_terminal:
                    del self.jobs[job.graph.job_id]
            case "collect":
                self._collect(message.collect)
            case "snapshot":
                self._snapshot(message.snapshot)
            case "checkpoint_query":
                self._query(message.checkpoint_query)

    def _start_job(self, graph: JobGraph) -> None:
        if graph.job_id in self.jobs:
            return
        job = self.jobs[graph.job_id] = RunningJob(graph, self._configuration, self, self._background, self._clock)
        name = printable(graph.name)
        log.info("job %s (%s): %d slots needed", graph.job_id, name, job.master.slots_required)
        job.start()

    def _report(self, job_id: JobId) -> None:
        job = self.jobs.get(job_id)
        if job is not None and self._dispatcher is not None:
            self._dispatcher.send(dp.JobManagerMessage(job_details=job.details()))

    def report_soon(self, job_id: JobId) -> None:
        """Bundles the many changes of one moment into one report."""
        if job_id not in self._changed:
            self._changed.add(job_id)
            asyncio.get_running_loop().call_soon(self._report_changed, job_id)

    def _report_changed(self, job_id: JobId) -> None:
        self._changed.discard(job_id)
        self._report(job_id)

    def _snapshot(self, request: dp.SnapshotRequest) -> None:
        if self._snapshots.answer_again(request.trigger_id):
            return
        job = self.jobs.get(JobId(request.job_id))
        if job is not None:
            job.snapshot(request)
        else:
            unknown = f"the job manager does not run job {request.job_id}"
            self.answer_snapshot(dp.SnapshotResult(trigger_id=request.trigger_id, error=unknown))

    def answer_snapshot(self, result: dp.SnapshotResult) -> None:
        """Tells the dispatcher, now or when it is back."""
        self._snapshots.add(result)

    def _query(self, query: dp.CheckpointQuery) -> None:
        job = self.jobs.get(JobId(query.job_id))
        if job is not None:
            answer = job.checkpoint_answer(query)
        else:
            unknown = f"the job manager does not run job {query.job_id}"
            answer = dp.CheckpointAnswer(request_id=query.request_id, error=unknown)
        if self._dispatcher is not None:
            self._dispatcher.send(dp.JobManagerMessage(checkpoint_answer=answer))

    def _collect(self, request: dp.CollectRequest) -> None:
        job = self.jobs.get(JobId(request.job_id))
        place = job.master.collector_of(request.operator_id) if job is not None else None
        if place is None:
            self._collected(dp.CollectResponse(request_id=request.request_id, error=_NOT_COLLECTING))
            return
        task_manager, allocation_id, execution = place
        self._collecting[request.request_id] = (task_manager, allocation_id)
        collect = pb.CollectFromTask(allocation_id=allocation_id, attempt_id=execution.attempt_id, request=request)
        self.command(task_manager, pb.JobManagerCommand(collect=collect))

    def _collected(self, response: dp.CollectResponse) -> None:
        self._collecting.pop(response.request_id, None)
        if self._dispatcher is not None:
            self._dispatcher.send(dp.JobManagerMessage(collected=response))

    def _lost(self, task_manager: TaskManagerId, allocation_id: str | None = None) -> None:
        """Nobody there answers requests for results any more."""
        for request_id, (asked, slot) in list(self._collecting.items()):
            if asked == task_manager and allocation_id in (None, slot):
                self._collected(dp.CollectResponse(request_id=request_id, error=_NOT_COLLECTING))

    # The resource manager

    def _resource_manager_connected(
        self, session: Session[rm.JobManagerReport, rm.JobManagerNotice]
    ) -> Callable[[rm.JobManagerNotice], None]:
        self._resource_manager = session
        wanted = [rm.Requirement(job_id=job, slots=slots) for job, slots in self._requirements.items()]
        register = rm.RegisterJobManager(job_manager_id=self._id, address=self.address, requirements=wanted)
        session.send(rm.JobManagerReport(register=register))
        log.info("registered at the resource manager")
        return self._resource_manager_notice

    def _resource_manager_lost(self, reason: str) -> None:
        self._resource_manager = None
        log.warning("%s; jobs go on, registering again", reason)

    def _resource_manager_notice(self, notice: rm.JobManagerNotice) -> None:
        match notice.WhichOneof("kind"):
            case "not_enough":
                told = notice.not_enough
                supply = ev.SlotSupply(told.free, told.total, told.startable)
                self._event(JobId(told.job_id), ev.NotEnoughSlots(told.available, supply))
            case "give_back":
                self._event(JobId(notice.give_back.job_id), ev.SlotsReclaimed())

    def declare(self, job_id: JobId, slots: int) -> None:
        """Tells the resource manager how many slots a job wants in all, now and whenever it comes back."""
        if slots:
            self._requirements[job_id] = slots
        else:
            self._requirements.pop(job_id, None)
        if self._resource_manager is not None:
            requirement = rm.Requirement(job_id=job_id, slots=slots)
            self._resource_manager.send(rm.JobManagerReport(requirement=requirement))

    # Task managers

    async def connect_task_manager(self, _requests: Any, context: Any) -> None:
        """A task manager that holds slots for jobs of this job manager."""
        connected: list[TaskManagerId] = []

        def started(session: TaskManagerSession) -> Callable[[pb.TaskManagerMessage], None]:
            def on_message(message: pb.TaskManagerMessage) -> None:
                if message.WhichOneof("kind") == "register":
                    task_manager = TaskManagerId(message.register.task_manager_id)
                    connected.append(task_manager)
                    previous = self._task_managers.get(task_manager)
                    if previous is not None:  # what was under way on it is lost: an end, before the new beginning
                        previous.session.close("the task manager connected again")
                        self._task_manager_gone(task_manager, "it connected again")
                    self._task_managers[task_manager] = _TaskManager(session, message.register.host)
                elif connected:
                    self._task_manager_message(connected[0], message)

            return on_message

        reason = await serve_session(
            context, _TASK_MANAGERS, context.peer(), self._configuration, self._epoch, started
        )
        for task_manager in connected:
            self._task_manager_gone(task_manager, reason)

    def _task_manager_gone(self, task_manager: TaskManagerId, reason: str) -> None:
        known = self._task_managers.get(task_manager)
        if known is not None and not known.session.is_open and not self._stopped:
            del self._task_managers[task_manager]
            log.warning("task manager %s: %s", task_manager, reason)
            self._lost(task_manager)
            for job_id in list(self.jobs):
                self._event(job_id, ev.TaskManagerLost(task_manager, reason))

    def _task_manager_message(self, task_manager: TaskManagerId, message: pb.TaskManagerMessage) -> None:
        match message.WhichOneof("kind"):
            case "offer":
                offer = message.offer
                job_id, allocation = JobId(offer.job_id), AllocationId(offer.allocation_id)
                if job_id in self.jobs:
                    self._event(job_id, ev.SlotOffered(allocation, task_manager, self._host_of(task_manager)))
                else:
                    refusal = pb.OfferAnswer(allocation_id=allocation, accepted=False)
                    self.command(task_manager, pb.JobManagerCommand(offer_answer=refusal))
            case "progress":
                progress = message.progress
                self._by_allocation(
                    progress.allocation_id, ev.WorkerProgressed(AllocationId(progress.allocation_id), progress.message)
                )
            case "worker_ready":
                ready = message.worker_ready
                self._by_allocation(
                    ready.allocation_id, ev.WorkerReadied(AllocationId(ready.allocation_id), ready.data_address)
                )
            case "worker_lost":
                lost = message.worker_lost
                event = ev.WorkerLost(AllocationId(lost.allocation_id), lost.reason, WorkerEnd(lost.end))
                self._lost(task_manager, lost.allocation_id)
                self._by_allocation(lost.allocation_id, event)
            case "task_update":
                self._by_allocation(message.task_update.allocation_id, ev.TaskChanged(message.task_update))
            case "metrics":
                if message.metrics.tasks:
                    self._by_allocation(message.metrics.tasks[0].allocation_id, ev.MetricsReported(message.metrics))
            case "reader_event":
                job = self.jobs.get(JobId(message.reader_event.job_id))
                if job is not None:
                    job.task_manager_message(message)
            case "checkpoint_ack":
                self._to_holder(message.checkpoint_ack.allocation_id, message)
            case "checkpoint_decline":
                self._to_holder(message.checkpoint_decline.allocation_id, message)
            case "inputs_ended":
                self._to_holder(message.inputs_ended.allocation_id, message)
            case "commit_failed":
                self._to_holder(message.commit_failed.allocation_id, message)
            case "collected":
                self._collected(message.collected)

    def _by_allocation(self, allocation_id: str, event: ev.Event) -> None:
        for job in self.jobs.values():
            if job.holds(allocation_id):
                job.tell(event)
                return

    def _to_holder(self, allocation_id: str, message: pb.TaskManagerMessage) -> None:
        for job in self.jobs.values():
            if job.holds(allocation_id):
                job.task_manager_message(message)
                return

    def _host_of(self, task_manager: TaskManagerId) -> str:
        connected = self._task_managers.get(task_manager)
        return connected.host if connected is not None else ""

    def command(self, task_manager: TaskManagerId, command: pb.JobManagerCommand) -> None:
        """Tells a task manager something, if it is connected."""
        connected = self._task_managers.get(task_manager)
        if connected is not None:
            connected.session.send(command)

    def _event(self, job_id: JobId, event: ev.Event) -> None:
        job = self.jobs.get(job_id)
        if job is not None:
            job.tell(event)
