"""The job manager's shell: sessions with the dispatcher, the resource manager and task managers around pure JobMasters.

Runs on one asyncio loop. It carries out what the JobMasters decide and relays events between source readers and the
coordinator processes. No user code runs here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, assert_never

import grpc

from millstream.core.background import BackgroundTasks
from millstream.core.clock import Clock, SystemClock
from millstream.core.configuration import Configuration
from millstream.core.errors import MillstreamError, UnreachableError
from millstream.core.graph import JobGraph
from millstream.core.ids import AllocationId, JobId, JobManagerId, TaskManagerId, new_id
from millstream.core.rpc import serve, service_handler
from millstream.core.session import Dialer, Session, serve_session
from millstream.jobmanager import events as ev
from millstream.jobmanager.coordinator_process import CoordinatorProcess
from millstream.jobmanager.details import job_details
from millstream.jobmanager.job_master import JobMaster
from millstream.proto import dispatcher_pb2 as dp
from millstream.proto import resourcemanager_pb2 as rm
from millstream.proto import taskmanager_pb2 as pb

log = logging.getLogger(__name__)

TaskManagerSession = Session[pb.JobManagerCommand, pb.TaskManagerMessage]
_TICK = 0.2


class JobManagerService:
    """A `millstream.core.daemon.Service`."""

    def __init__(self, configuration: Configuration, clock: Clock | None = None) -> None:
        self.address = ""
        self._id = JobManagerId(new_id())
        self._configuration = configuration
        self._clock = clock or SystemClock()
        self._host = configuration.string("jobmanager.rpc.address")
        self._server: grpc.aio.Server | None = None
        self._failed: asyncio.Future[MillstreamError] | None = None
        self._background = BackgroundTasks()
        self._masters: dict[JobId, JobMaster] = {}
        self._coordinators: dict[JobId, CoordinatorProcess] = {}
        self._task_managers: dict[TaskManagerId, TaskManagerSession] = {}
        self._dispatcher: Session[dp.JobManagerMessage, dp.DispatcherMessage] | None = None
        self._resource_manager: Session[rm.JobManagerReport, rm.JobManagerNotice] | None = None
        self._requirements: dict[JobId, int] = {}
        self._changed: set[JobId] = set()
        self._stopped = False

    async def start(self) -> None:
        """Listens, then keeps sessions with the dispatcher and the resource manager."""
        self._failed = asyncio.get_running_loop().create_future()
        handler = service_handler(pb.DESCRIPTOR.services_by_name["JobManager"], self)
        port = self._configuration.integer("jobmanager.rpc.port")
        self._server, bound = await serve(self._host, port, [handler], self._configuration, "jobmanager.rpc.port")
        self.address = f"{self._host}:{bound}"
        dispatcher = (dp.DESCRIPTOR.services_by_name["Dispatcher"], dp.JobManagerMessage)
        resource_manager = (rm.DESCRIPTOR.services_by_name["ResourceManager"], rm.JobManagerReport)
        for keeping in (
            self._keep_connected("dispatcher", *dispatcher, self._dispatcher_connected, self._dispatcher_lost),
            self._keep_connected(
                "resourcemanager", *resource_manager, self._resource_manager_connected, self._resource_manager_lost
            ),
        ):
            self._background.spawn(keeping)
        self._background.spawn(self._tick())

    async def stop(self) -> None:
        """Ends the coordinators and all sessions; task managers free the jobs' slots when this one stays away."""
        if self._stopped:
            return
        self._stopped = True
        await asyncio.gather(*(c.stop() for c in self._coordinators.values()), return_exceptions=True)
        await self._background.cancel()
        if self._server is not None:
            await self._server.stop(0.2)

    async def failure(self) -> MillstreamError:
        """A peer stayed unreachable."""
        assert self._failed is not None, "start comes first"
        return await asyncio.shield(self._failed)

    async def _keep_connected(
        self,
        peer: str,
        contract: Any,
        message_type: Callable[..., Any],
        started: Callable[[Any], Callable[[Any], None]],
        ended: Callable[[str], None],
    ) -> None:
        host = self._configuration.string(f"{peer}.rpc.address")
        port = self._configuration.integer(f"{peer}.rpc.port")
        dialer = Dialer(f"{host}:{port}", contract, "connect_job_manager", self._configuration)
        timeout = self._configuration.seconds("registration.timeout")
        reason = await dialer.keep_connected(message_type, peer, started, ended, timeout)
        if self._failed is not None and not self._failed.done():
            self._failed.set_result(UnreachableError(reason))

    async def _tick(self) -> None:
        """Time for the JobMasters, and a rhythm for reports that need not go out one by one."""
        beats = 0
        every = max(1, round(self._configuration.seconds("metrics.fetcher.update-interval") / _TICK))
        while True:
            await asyncio.sleep(_TICK)
            beats += 1
            for job_id in list(self._masters):
                self._event(job_id, ev.Tick())
                if beats % every == 0:
                    self._report(job_id)

    # The dispatcher

    def _dispatcher_connected(
        self, session: Session[dp.JobManagerMessage, dp.DispatcherMessage]
    ) -> Callable[[dp.DispatcherMessage], None]:
        self._dispatcher = session
        jobs = [job_details(master) for master in self._masters.values()]
        register = dp.RegisterJobManager(job_manager_id=self._id, address=self.address, jobs=jobs)
        session.send(dp.JobManagerMessage(register=register))
        log.info("registered at the dispatcher")
        return self._dispatcher_message

    def _dispatcher_lost(self, reason: str) -> None:
        self._dispatcher = None
        log.warning("%s; jobs go on, registering again", reason)

    def _dispatcher_message(self, message: dp.DispatcherMessage) -> None:
        match message.WhichOneof("kind"):
            case "start_job":
                self._start_job(JobGraph.from_proto(message.start_job.graph))
            case "cancel_job":
                self._event(JobId(message.cancel_job.job_id), ev.CancelRequested())
            case "forget_job":
                master = self._masters.get(JobId(message.forget_job.job_id))
                if master is not None and master.status.is_terminal:
                    del self._masters[JobId(message.forget_job.job_id)]
            case "collect":
                self._collect(message.collect)

    def _start_job(self, graph: JobGraph) -> None:
        if graph.job_id in self._masters:
            return
        configuration = self._configuration.merged(graph.configuration)
        now = self._clock.now_ms()
        master = JobMaster(graph, configuration.seconds("slot.request.timeout"), now)
        self._masters[graph.job_id] = master
        log.info("job %s (%s): %d slots needed", graph.job_id, graph.name, master.slots_required)
        self._carry_out(graph.job_id, master, master.start(now))

    def _report(self, job_id: JobId) -> None:
        master = self._masters.get(job_id)
        if master is not None and self._dispatcher is not None:
            self._dispatcher.send(dp.JobManagerMessage(job_details=job_details(master)))

    def _report_soon(self, job_id: JobId) -> None:
        """Bundles the many changes of one moment into one report."""
        if job_id not in self._changed:
            self._changed.add(job_id)
            asyncio.get_running_loop().call_soon(self._report_changed, job_id)

    def _report_changed(self, job_id: JobId) -> None:
        self._changed.discard(job_id)
        self._report(job_id)

    def _collect(self, request: dp.CollectRequest) -> None:
        master = self._masters.get(JobId(request.job_id))
        place = master.collector_of(request.operator_id) if master is not None else None
        if place is None:
            error = dp.CollectResponse(request_id=request.request_id, error="the collecting task is not running")
            if self._dispatcher is not None:
                self._dispatcher.send(dp.JobManagerMessage(collected=error))
            return
        task_manager, allocation_id, execution = place
        collect = pb.CollectFromTask(allocation_id=allocation_id, attempt_id=execution.attempt_id, request=request)
        self._command(task_manager, pb.JobManagerCommand(collect=collect))

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
        if notice.WhichOneof("kind") == "not_enough":
            self._event(JobId(notice.not_enough.job_id), ev.NotEnoughSlots(notice.not_enough.available))

    def _declare(self, job_id: JobId, slots: int) -> None:
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
                        previous.close("the task manager connected again")
                        self._task_manager_gone(task_manager, "it connected again")
                    self._task_managers[task_manager] = session
                elif connected:
                    self._task_manager_message(connected[0], message)

            return on_message

        reason = await serve_session(context, pb.JobManagerCommand, context.peer(), self._configuration, started)
        for task_manager in connected:
            self._task_manager_gone(task_manager, reason)

    def _task_manager_gone(self, task_manager: TaskManagerId, reason: str) -> None:
        session = self._task_managers.get(task_manager)
        if session is not None and not session.is_open and not self._stopped:
            del self._task_managers[task_manager]
            log.warning("task manager %s: %s", task_manager, reason)
            for job_id in list(self._masters):
                self._event(job_id, ev.TaskManagerLost(task_manager, reason))

    def _task_manager_message(self, task_manager: TaskManagerId, message: pb.TaskManagerMessage) -> None:
        match message.WhichOneof("kind"):
            case "offer":
                offer = message.offer
                job_id, allocation = JobId(offer.job_id), AllocationId(offer.allocation_id)
                if job_id in self._masters:
                    host = task_manager.rsplit(":", 1)[0]
                    self._event(job_id, ev.SlotOffered(allocation, task_manager, host))
                else:
                    self._answer(task_manager, allocation, False)
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
                event = ev.WorkerLost(AllocationId(lost.allocation_id), lost.reason, lost.put_down)
                self._by_allocation(lost.allocation_id, event)
            case "task_update":
                self._by_allocation(message.task_update.allocation_id, ev.TaskChanged(message.task_update))
            case "metrics":
                if message.metrics.tasks:
                    self._by_allocation(message.metrics.tasks[0].allocation_id, ev.MetricsReported(message.metrics))
            case "reader_event":
                coordinator = self._coordinators.get(JobId(message.reader_event.job_id))
                if coordinator is not None:
                    coordinator.send(pb.CoordinatorCommand(reader_event=message.reader_event))
            case "collected":
                if self._dispatcher is not None:
                    self._dispatcher.send(dp.JobManagerMessage(collected=message.collected))

    def _by_allocation(self, allocation_id: str, event: ev.Event) -> None:
        for job_id, master in self._masters.items():
            if any(slot.allocation_id == allocation_id for slot in master.slots.values()):
                self._event(job_id, event)
                return

    def _answer(self, task_manager: TaskManagerId, allocation_id: AllocationId, accepted: bool) -> None:
        answer = pb.OfferAnswer(allocation_id=allocation_id, accepted=accepted)
        self._command(task_manager, pb.JobManagerCommand(offer_answer=answer))

    def _command(self, task_manager: TaskManagerId, command: pb.JobManagerCommand) -> None:
        session = self._task_managers.get(task_manager)
        if session is not None:
            session.send(command)

    # JobMasters

    def _event(self, job_id: JobId, event: ev.Event) -> None:
        master = self._masters.get(job_id)
        if master is not None:
            self._carry_out(job_id, master, master.handle(event, self._clock.now_ms()))

    def _carry_out(self, job_id: JobId, master: JobMaster, effects: list[ev.Effect]) -> None:
        graph = master.graph
        for effect in effects:
            match effect:
                case ev.DeclareSlots(slots):
                    self._declare(job_id, slots)
                case ev.AnswerOffer(allocation_id, task_manager, accepted):
                    self._answer(task_manager, allocation_id, accepted)
                case ev.StartCoordinator():
                    self._start_coordinator(graph)
                case ev.StartWorker(allocation_id, task_manager):
                    start = pb.StartWorker(
                        allocation_id=allocation_id,
                        job_id=job_id,
                        artifacts=[a.to_proto() for a in graph.artifacts],
                        artifact_address=self._artifact_address,
                        configuration=graph.configuration,
                        python_path=graph.python_path,
                    )
                    self._command(task_manager, pb.JobManagerCommand(start_worker=start))
                case ev.Deploy(allocation_id, task_manager, tasks):
                    deploy = pb.DeployTasks(allocation_id=allocation_id, tasks=tasks)
                    self._command(task_manager, pb.JobManagerCommand(deploy=deploy))
                case ev.CancelTasks(allocation_id, task_manager, attempts):
                    cancel = pb.CancelTasks(allocation_id=allocation_id, attempt_ids=attempts)
                    self._command(task_manager, pb.JobManagerCommand(cancel=cancel))
                case ev.FreeSlot(allocation_id, task_manager, reason):
                    free = pb.FreeSlot(allocation_id=allocation_id, reason=reason)
                    self._command(task_manager, pb.JobManagerCommand(free_slot=free))
                case ev.ReportDetails():
                    self._report_soon(job_id)
                case ev.JobEnded():
                    log.info("job %s (%s) ended: %s", job_id, graph.name, master.status)
                    if job_id in self._coordinators:
                        self._background.spawn(self._stop_coordinator(job_id))
                case _:
                    assert_never(effect)

    @property
    def _artifact_address(self) -> str:
        host = self._configuration.string("dispatcher.rpc.address")
        return f"{host}:{self._configuration.integer('dispatcher.rpc.port')}"

    # Coordinators

    def _start_coordinator(self, graph: JobGraph) -> None:
        def on_message(message: pb.CoordinatorMessage) -> None:
            match message.WhichOneof("kind"):
                case "ready":
                    self._event(graph.job_id, ev.CoordinatorReadied())
                case "failure":
                    self._event(graph.job_id, ev.CoordinatorFailed(message.failure))
                case "event":
                    self._to_reader(graph.job_id, message.event)

        coordinator = CoordinatorProcess(
            graph,
            self._configuration,
            self._artifact_address,
            on_message,
            lambda text: self._event(graph.job_id, ev.WorkerProgressed(AllocationId(""), text)),
            self._clock,
        )
        self._coordinators[graph.job_id] = coordinator
        self._background.spawn(coordinator.run())

    async def _stop_coordinator(self, job_id: JobId) -> None:
        await self._coordinators[job_id].stop()
        del self._coordinators[job_id]

    def _to_reader(self, job_id: JobId, event: pb.CoordinatorEvent) -> None:
        master = self._masters.get(job_id)
        place = master.place_of(event.vertex_id, event.subtask) if master is not None else None
        if place is not None:
            task_manager, allocation_id, execution = place
            event.allocation_id, event.attempt_id = allocation_id, execution.attempt_id
            self._command(task_manager, pb.JobManagerCommand(coordinator_event=event))
