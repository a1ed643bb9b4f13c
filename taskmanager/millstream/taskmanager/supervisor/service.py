"""The task manager's supervisor: registers its slots, offers them to job managers, and looks after the slot workers.

Runs on one asyncio loop. It dials the resource manager and, for as long as they hold slots, job managers; it runs no
user code. Slots are freed when their job manager says so, when it stays away, and when the worker is gone.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Any

import grpc

from millstream.core.errors import ConfigurationError, MillstreamError, UnreachableError
from millstream.core.files.directories import work_directory
from millstream.core.jobs.ids import AllocationId, JobId, TaskManagerId, new_id
from millstream.core.logs.log_reading import LIMIT
from millstream.core.processes.background import BackgroundTasks
from millstream.core.processes.daemon import ServiceDismissed
from millstream.core.services.leader_lookup import ConfiguredLeaders, Leader, LeaderLookup, Role
from millstream.core.services.lease import lease_seconds
from millstream.core.services.rpc import serve, service_handler
from millstream.core.services.session import Dialer, Session
from millstream.core.settings.configuration import Configuration
from millstream.core.wire.raw import raw_contract
from millstream.proto import resourcemanager_pb2 as rm
from millstream.proto import taskmanager_pb2 as pb
from millstream.proto.session_pb2 import Empty
from millstream.taskmanager.supervisor.local_state import LocalState
from millstream.taskmanager.supervisor.slot_table import Allocation, SlotTable
from millstream.taskmanager.supervisor.supervised_worker import SupervisedWorker
from millstream.taskmanager.supervisor.worker_logs import WorkerLogs

log = logging.getLogger(__name__)

JobManagerSession = Session[pb.TaskManagerMessage, pb.JobManagerCommand]
ResourceManagerSession = Session[rm.TaskManagerReport, rm.TaskManagerCommand]


class TaskManagerService:
    """A `millstream.core.processes.daemon.Service`."""

    def __init__(self, configuration: Configuration, leaders: LeaderLookup | None = None) -> None:
        self.address = ""
        self.id = TaskManagerId("")
        self._configuration = configuration
        self._leaders = leaders or ConfiguredLeaders(configuration)
        self._host = configuration.string("taskmanager.host")
        self._table = SlotTable(configuration.integer("taskmanager.numberOfTaskSlots"))
        self._server: grpc.aio.Server | None = None
        self._failed: asyncio.Future[MillstreamError] | None = None
        self._background = BackgroundTasks()
        self._resource_manager: ResourceManagerSession | None = None
        self._job_managers: dict[str, JobManagerSession] = {}
        self._dialled: set[str] = set()
        self._workers: dict[AllocationId, SupervisedWorker] = {}
        self._local_state: LocalState | None = None
        self._logs = WorkerLogs(configuration)
        self._stopped = False

    async def start(self) -> None:
        """Listens, then keeps a session with the resource manager."""
        self._failed = asyncio.get_running_loop().create_future()
        work_directory(self._configuration)  # says at once when it cannot be used
        handler = service_handler(pb.DESCRIPTOR.services_by_name["TaskManager"], self)
        port = self._configuration.integer("taskmanager.rpc.port")
        self._server, bound = await serve(self._host, port, [handler], self._configuration, "taskmanager.rpc.port")
        self.address = f"{self._host}:{bound}"
        self.id = TaskManagerId(f"{self.address}-{new_id()[:6]}")
        self._local_state = LocalState(self.id, self._configuration)
        self._background.spawn(asyncio.to_thread(self._local_state.remove_dead))
        self._background.spawn(self._keep_registered())

    async def stop(self) -> None:
        """Ends the workers first, then everything else."""
        if self._stopped:
            return
        self._stopped = True
        await asyncio.gather(*(worker.stop() for worker in self._workers.values()), return_exceptions=True)
        await self._background.cancel()
        if self._local_state is not None:
            await asyncio.to_thread(self._local_state.close)
        if self._server is not None:
            await self._server.stop(0.2)

    async def failure(self) -> MillstreamError:
        """The resource manager stayed away, or let this task manager go."""
        assert self._failed is not None, "start comes first"
        return await asyncio.shield(self._failed)

    async def read_log(self, request: pb.ReadLogRequest, context: Any) -> pb.LogContent:
        """A piece of a log file, or the end of it."""
        offset = request.offset if request.HasField("offset") else None
        piece = await asyncio.to_thread(self._logs.read, request.name, offset, request.length or LIMIT)
        if piece is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"this task manager has no log '{request.name[:200]}'")
            raise AssertionError("abort raises")
        return pb.LogContent(content=piece.content, start=piece.start, size=piece.size)

    async def list_logs(self, request: Empty, context: Any) -> pb.LogList:
        """Its log files and those of its workers."""
        files = await asyncio.to_thread(self._logs.files)
        return pb.LogList(files=[pb.LogFile(name=f.name, size=f.size, modified=f.modified) for f in files])

    # The resource manager

    async def _keep_registered(self) -> None:
        leader = Leader(self._leaders, Role.RESOURCE_MANAGER)
        service = rm.DESCRIPTOR.services_by_name["ResourceManager"]
        dialer = Dialer(leader, raw_contract(service, "ConnectTaskManager"), self._configuration)
        reason = await dialer.keep_connected(
            "resource manager",
            self._registering,
            self._resource_manager_lost,
            self._configuration.seconds("registration.timeout"),
        )
        self._fail(UnreachableError(reason))

    def _fail(self, error: MillstreamError) -> None:
        if self._failed is not None and not self._failed.done():
            self._failed.set_result(error)

    def _registering(self, session: ResourceManagerSession) -> Callable[[rm.TaskManagerCommand], None]:
        self._resource_manager = session
        session.send(
            rm.TaskManagerReport(
                register=rm.RegisterTaskManager(
                    task_manager_id=self.id,
                    host=self._host,
                    address=self.address,
                    cpu_cores=os.cpu_count() or 1,
                    memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
                    slots=self._slot_status(),
                    provider_token=os.environ.get("MILLSTREAM_PROVIDER_TOKEN", ""),
                )
            )
        )
        log.info("registered at the resource manager")
        return self._resource_manager_command

    def _resource_manager_lost(self, reason: str) -> None:
        self._resource_manager = None
        log.warning("%s; running tasks go on, registering again", reason)

    def _resource_manager_command(self, command: rm.TaskManagerCommand) -> None:
        match command.WhichOneof("kind"):
            case "allocate":
                self._allocate(command.allocate)
            case "shut_down":
                self._fail(ServiceDismissed("the resource manager let this task manager go"))

    def _allocate(self, request: rm.AllocateSlot) -> None:
        allocation_id = AllocationId(request.allocation_id)
        refusal = self._table.allocate(
            request.slot_index, allocation_id, JobId(request.job_id), request.job_manager_address
        )
        if refusal is not None:
            if self._resource_manager is not None:
                refused = rm.SlotRefused(allocation_id=allocation_id, reason=refusal)
                self._resource_manager.send(rm.TaskManagerReport(refused=refused))
            return
        self._report_slots()
        session = self._job_managers.get(request.job_manager_address)
        if session is not None:
            allocation = self._table.get(allocation_id)
            if allocation is not None:
                self._offer(session, allocation)
        elif request.job_manager_address not in self._dialled:
            self._dialled.add(request.job_manager_address)
            self._background.spawn(self._keep_job_manager(request.job_manager_address))

    def _slot_status(self) -> list[rm.SlotStatus]:
        return [
            rm.SlotStatus(index=i, allocation_id=a.allocation_id if a else "", job_id=a.job_id if a else "")
            for i, a in enumerate(self._table.report())
        ]

    def _report_slots(self) -> None:
        if self._resource_manager is not None:
            report = rm.SlotReport(slots=self._slot_status())
            self._resource_manager.send(rm.TaskManagerReport(slots=report))

    # Job managers

    async def _keep_job_manager(self, address: str) -> None:
        """Holds the session while the job manager holds slots; frees them when it stays away.

        That is before the dispatcher reports the jobs of a job manager that it lost at the same time as failed.
        """
        contract = raw_contract(pb.DESCRIPTOR.services_by_name["JobManager"], "ConnectTaskManager")
        dialer = Dialer(address, contract, self._configuration)
        timeout = lease_seconds(self._configuration)
        loop = asyncio.get_running_loop()
        reachable = loop.time()
        while self._table.of_job_manager(address) and loop.time() - reachable < timeout:
            _, reason = await dialer.dial_once("job manager", lambda s: self._job_manager_connected(address, s))
            session = self._job_managers.pop(address, None)
            if session is not None:
                reachable = session.heard_at
                log.info("%s", reason)
            await asyncio.sleep(dialer.RETRY_AFTER)
        self._dialled.discard(address)
        for allocation in self._table.of_job_manager(address):
            self._free(allocation.allocation_id, f"job manager {address} stayed away for {timeout:g} s")

    def _job_manager_connected(
        self, address: str, session: JobManagerSession
    ) -> Callable[[pb.JobManagerCommand], None]:
        self._job_managers[address] = session
        register = pb.RegisterAtJobManager(task_manager_id=self.id, host=self._host, address=self.address)
        session.send(pb.TaskManagerMessage(register=register))
        for allocation in self._table.of_job_manager(address):
            self._offer(session, allocation)
        return self._job_manager_command

    def _offer(self, session: JobManagerSession, allocation: Allocation) -> None:
        offer = pb.SlotOffer(
            allocation_id=allocation.allocation_id, slot_index=allocation.index, job_id=allocation.job_id
        )
        session.send(pb.TaskManagerMessage(offer=offer))

    def _job_manager_command(self, command: pb.JobManagerCommand) -> None:
        match command.WhichOneof("kind"):
            case "offer_answer":
                answer = command.offer_answer
                if answer.accepted:
                    self._table.accepted(AllocationId(answer.allocation_id))
                else:
                    self._free(AllocationId(answer.allocation_id), "the job manager does not want it")
            case "start_worker":
                self._start_worker(command.start_worker)
            case "free_slot":
                self._free(AllocationId(command.free_slot.allocation_id), command.free_slot.reason)
            case "deploy":
                worker = self._workers.get(AllocationId(command.deploy.allocation_id))
                if worker is not None:
                    worker.deploy(command.deploy)
            case "cancel":
                worker = self._workers.get(AllocationId(command.cancel.allocation_id))
                if worker is not None:
                    self._background.spawn(worker.cancel(command.cancel))
            case "enumerator_event" | "collect" | "trigger_checkpoint" | "checkpoint_notice" as kind:
                content = getattr(command, kind)
                self._to_worker(content.allocation_id, pb.WorkerCommand(**{kind: content}))

    def _to_worker(self, allocation_id: str, command: pb.WorkerCommand) -> None:
        worker = self._workers.get(AllocationId(allocation_id))
        if worker is not None:
            worker.send(command)

    def _to_job_manager(self, allocation: Allocation, message: pb.TaskManagerMessage) -> None:
        session = self._job_managers.get(allocation.job_manager)
        if session is not None:
            session.send(message)

    # Workers

    def _start_worker(self, start: pb.StartWorker) -> None:
        allocation = self._table.get(AllocationId(start.allocation_id))
        if allocation is None:
            log.warning("asked to start a worker in a slot that is not allocated: %s", start.allocation_id)
            return
        if allocation.allocation_id in self._workers:
            return
        configuration = self._configuration.for_job(start.configuration).merged(self._logs.options)
        merged = configuration.to_dict()
        start.configuration.clear()
        start.configuration.update(merged)
        if configuration.boolean("execution.checkpointing.local-backup.enabled"):
            start.local_state_folder = self._local_state_folder(allocation.allocation_id)
        worker = SupervisedWorker(
            start,
            self._host,
            configuration,
            lambda message: self._worker_message(allocation, message),
            lambda text: self._to_job_manager(
                allocation,
                pb.TaskManagerMessage(progress=pb.WorkerProgress(allocation_id=start.allocation_id, message=text)),
            ),
            lambda: self._logs.open(allocation.job_id, allocation.index),
        )
        jobs = {a.job_id for a in self._table.report() if a is not None}
        self._background.spawn(asyncio.to_thread(self._logs.remove_old, jobs))
        self._workers[allocation.allocation_id] = worker
        self._background.spawn(self._supervise(allocation, worker))

    def _local_state_folder(self, allocation_id: AllocationId) -> str:
        """Empty when there can be none: the job goes on without copies."""
        assert self._local_state is not None, "start comes first"
        try:
            return str(self._local_state.folder(allocation_id))
        except (OSError, ConfigurationError) as error:
            log.warning("no local copies of state: %s", error)
            return ""

    async def _supervise(self, allocation: Allocation, worker: SupervisedWorker) -> None:
        try:
            reason = await worker.run()
        except Exception as error:
            log.exception("supervising a slot worker failed")
            reason = f"supervising the slot worker failed: {error!r}"
        finally:
            del self._workers[allocation.allocation_id]
        log.info("slot %d, job %s: %s", allocation.index, allocation.job_id, reason)
        if self._stopped:
            reason = "its task manager was stopped"
        if self._table.get(allocation.allocation_id) is not None:
            lost = pb.WorkerLost(
                allocation_id=allocation.allocation_id,
                reason=reason,
                end=worker.end.value,
            )
            self._to_job_manager(allocation, pb.TaskManagerMessage(worker_lost=lost))
        else:
            self._freed(allocation.allocation_id)

    def _worker_message(self, allocation: Allocation, message: pb.WorkerMessage) -> None:
        """Nearly all go on as they are, under the same names."""
        match message.WhichOneof("kind"):
            case "ready":
                message.ready.allocation_id = allocation.allocation_id
                out = pb.TaskManagerMessage(worker_ready=message.ready)
            case None:
                return
            case kind:
                out = pb.TaskManagerMessage(**{kind: getattr(message, kind)})
        self._to_job_manager(allocation, out)

    def _free(self, allocation_id: AllocationId, reason: str) -> None:
        if not self._table.ending(allocation_id):
            return
        log.info("freeing %s: %s", allocation_id, reason)
        worker = self._workers.get(allocation_id)
        if worker is None:
            self._freed(allocation_id)
        else:
            self._background.spawn(worker.stop())

    def _freed(self, allocation_id: AllocationId) -> None:
        self._table.freed(allocation_id)
        self._report_slots()
        if self._local_state is not None:
            self._background.spawn(asyncio.to_thread(self._local_state.remove, allocation_id))
