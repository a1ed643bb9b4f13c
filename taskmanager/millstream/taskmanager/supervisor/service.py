"""The task manager's supervisor: registers its slots, offers them to job managers, and looks after the slot workers.

Runs on one asyncio loop. It dials the resource manager and, for as long as they hold slots, job managers; it runs no
user code. Slots are freed when their job manager requests it, when it cannot be reached, and when the worker is gone.

When the session with a job manager ends, the tasks continue for a while (`millstream.core.services.lease`). If the
resource manager reports another leader of the job in that time, that leader is offered the slots with what runs in
them. From then on commands of any other job manager are refused for the job.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from typing import assert_never

import grpc
from msgspec.structs import replace

from millstream.core.errors import ConfigurationError, MillstreamError, UnreachableError
from millstream.core.files.directories import work_directory
from millstream.core.jobs.ids import NO_ALLOCATION, NO_JOB, AllocationId, JobId, TaskManagerId, new_id
from millstream.core.logs.repeats import Repeats
from millstream.core.messages import resource_manager as rm
from millstream.core.messages import task_manager as msg
from millstream.core.messages.deployment import CancelTasks, DeployTasks
from millstream.core.metrics.model import MetricGroup
from millstream.core.metrics.registry import MetricRegistry
from millstream.core.metrics.reporting.reporters import Reporters
from millstream.core.processes.background import BackgroundTasks
from millstream.core.processes.daemon import ServiceDismissed
from millstream.core.processes.job_process import Launcher, start_job_process
from millstream.core.services.handshake import JobLeaders
from millstream.core.services.identity import certificates_of_secret
from millstream.core.services.leader_lookup import KnownLeader, Leader, Role
from millstream.core.services.lease import leaderless_seconds
from millstream.core.services.network import GRPC, Network
from millstream.core.services.session import Dialer, Session
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.execution import CHECKPOINTING_LOCAL_BACKUP_ENABLED
from millstream.core.settings.options.scheduling import TASKMANAGER_NUMBER_OF_TASK_SLOTS
from millstream.core.settings.options.services import REGISTRATION_TIMEOUT, TASKMANAGER_HOST, TASKMANAGER_RPC_PORT
from millstream.core.settings.variables import PROVIDER_TOKEN
from millstream.core.store.high_availability import FoundLeaders, open_leaders
from millstream.core.wire.contracts import (
    TASK_MANAGER_AT_JOB_MANAGER,
    TASK_MANAGER_AT_RESOURCE_MANAGER,
)
from millstream.taskmanager.supervisor.inspection import HeldWorker, TaskManagerInspection
from millstream.taskmanager.supervisor.local_state import LocalState
from millstream.taskmanager.supervisor.metrics import MeasuredSlot, TaskManagerMetrics
from millstream.taskmanager.supervisor.py_spy import PySpy
from millstream.taskmanager.supervisor.slot_table import Allocation, SlotTable
from millstream.taskmanager.supervisor.supervised_worker import SupervisedWorker, WorkerOnThread
from millstream.taskmanager.supervisor.worker_logs import WorkerLogs

log = logging.getLogger(__name__)
_OFTEN = 60.0  # seconds within which a peer that is lost again is lost over and over

JobManagerSession = Session[msg.TaskManagerMessage, msg.JobManagerCommand]
ResourceManagerSession = Session[rm.TaskManagerReport, rm.TaskManagerCommand]


class TaskManagerService:
    """A `millstream.core.processes.daemon.Service`."""

    def __init__(
        self,
        configuration: Configuration,
        leaders: FoundLeaders | None = None,
        network: Network = GRPC,
        launch: Launcher = start_job_process,
        on_thread: WorkerOnThread | None = None,
    ) -> None:
        self.address = ""
        self.id = TaskManagerId("")
        self._configuration = configuration
        self._losses = Repeats(within=_OFTEN)
        self._leaders = leaders
        self._network = network
        self._launch = launch
        self._on_thread = on_thread
        self._host = configuration.get(TASKMANAGER_HOST)
        self._table = SlotTable(configuration.get(TASKMANAGER_NUMBER_OF_TASK_SLOTS))
        self._server: grpc.aio.Server | None = None
        self._failed: asyncio.Future[MillstreamError] | None = None
        self._background = BackgroundTasks()
        self._resource_manager: ResourceManagerSession | None = None
        self._job_managers: dict[str, JobManagerSession] = {}
        self._job_leaders = JobLeaders()
        self._dialled: set[str] = set()
        self._workers: dict[AllocationId, SupervisedWorker] = {}
        self._local_state: LocalState | None = None
        self._logs = WorkerLogs(configuration)
        self._figures = TaskManagerMetrics(on_thread is not None)
        self.metrics = MetricRegistry(self._measured)
        """All that is measured here."""
        self._inspection = TaskManagerInspection(self._logs, self.metrics, self._held_workers, PySpy(configuration))
        self._reporters: Reporters | None = None
        self._stopped = False

    async def start(self) -> None:
        """Listens, then keeps a session with the resource manager."""
        self._failed = asyncio.get_running_loop().create_future()
        work_directory(self._configuration)  # raises at once when it cannot be used
        self._leaders = self._leaders or open_leaders(self._configuration)
        handlers = self._inspection.handlers()
        port = self._configuration.get(TASKMANAGER_RPC_PORT)
        self._server, bound = await self._network.serve(
            self._host, port, handlers, self._configuration, TASKMANAGER_RPC_PORT
        )
        self.address = f"{self._host}:{bound}"
        self.id = TaskManagerId(f"{self.address}-{new_id()[:6]}")
        self._local_state = LocalState(self.id, self._configuration)
        self._reporters = Reporters("taskmanager", self._configuration, self.metrics)
        await self._reporters.start()
        self._background.spawn(asyncio.to_thread(self._local_state.remove_dead))
        self._background.spawn(self._keep_registered())

    async def stop(self) -> None:
        """Ends the workers first, then everything else."""
        if self._stopped:
            return
        self._stopped = True
        if self._reporters is not None:
            await self._reporters.stop()
        await asyncio.gather(*(worker.stop() for worker in self._workers.values()), return_exceptions=True)
        await self._background.cancel()
        if self._leaders is not None:
            await self._leaders.close()
        if self._local_state is not None:
            await asyncio.to_thread(self._local_state.close)
        if self._server is not None:
            await self._server.stop(0.2)

    async def lacks(self) -> str:
        """The resource manager."""
        return "" if self._resource_manager is not None else "not registered at the resource manager"

    async def failure(self) -> MillstreamError:
        """Returns when the resource manager could not be reached for too long, or has dismissed this task manager."""
        assert self._failed is not None, "start comes first"
        return await asyncio.shield(self._failed)

    def _held_workers(self) -> list[HeldWorker]:
        return [
            HeldWorker(a.index, a.job_id, self._workers[a.allocation_id])
            for a in self._table.report()
            if a is not None and a.allocation_id in self._workers
        ]

    def _measured(self) -> list[MetricGroup]:
        """The metrics for the registry."""
        slots = [
            MeasuredSlot(allocation.index, allocation.job_id, worker.job_name, worker.measured)
            for allocation_id, worker in self._workers.items()
            if worker.measured is not None and (allocation := self._table.get(allocation_id)) is not None
        ]
        total, now = len(self._table.report()), asyncio.get_running_loop().time()
        return self._figures.groups(self.id, self._host, slots, total, now)

    # The resource manager

    async def _keep_registered(self) -> None:
        assert self._leaders is not None, "start comes first"
        leader = Leader(self._leaders.lookup, Role.RESOURCE_MANAGER)
        dialer = Dialer(leader, TASK_MANAGER_AT_RESOURCE_MANAGER, self._configuration, self._network)
        reason = await dialer.keep_connected(
            "resource manager",
            self._registering,
            self._resource_manager_lost,
            self._configuration.get(REGISTRATION_TIMEOUT),
        )
        self._fail(UnreachableError(reason))

    def _fail(self, error: MillstreamError) -> None:
        if self._failed is not None and not self._failed.done():
            self._failed.set_result(error)

    def _registering(self, session: ResourceManagerSession) -> Callable[[rm.TaskManagerCommand], None]:
        self._resource_manager = session
        session.send(
            rm.RegisterTaskManager(
                self.id,
                self._host,
                self.address,
                cpu_cores=os.cpu_count() or 1,
                memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
                slots=self._slot_status(),
                provider_token=os.environ.get(PROVIDER_TOKEN, ""),
            )
        )
        log.info("registered at the resource manager")
        return self._resource_manager_command

    def _resource_manager_lost(self, reason: str) -> None:
        self._resource_manager = None
        if self._losses.is_told(reason, asyncio.get_running_loop().time()):
            log.warning("registering again, running tasks continue: %s%s", reason, self._losses.times)

    def _resource_manager_command(self, command: rm.TaskManagerCommand) -> None:
        match command:
            case rm.AllocateSlot():
                self._allocate(command)
            case rm.JobLed(job_id, address, epoch):
                self._follow(job_id, KnownLeader(address, epoch))
            case rm.ShutDown():
                self._fail(ServiceDismissed("the resource manager has dismissed this task manager"))
            case _:
                assert_never(command)

    def _allocate(self, request: rm.AllocateSlot) -> None:
        allocation_id, leader = request.allocation_id, KnownLeader(request.job_manager_address, request.epoch)
        refusal = self._job_leaders.refusal(request.job_id, leader) or self._table.allocate(
            request.slot_index, allocation_id, request.job_id, leader.address
        )
        if refusal:
            if self._resource_manager is not None:
                self._resource_manager.send(rm.SlotRefused(allocation_id, refusal))
            return
        self._report_slots()
        self._hand_over([a for a in self._table.of_job(request.job_id) if a.allocation_id == allocation_id], leader)

    def _follow(self, job_id: JobId, leader: KnownLeader) -> None:
        """Offers what is held for a job to its leader, which may be another one than before."""
        is_known = self._job_leaders.leader(job_id) == leader
        if refused := self._job_leaders.refusal(job_id, leader):
            log.warning("refusing job manager %s as the leader of job %s: %s", leader.address, job_id, refused)
            return
        held = self._table.of_job(job_id)
        self._hand_over([a for a in held if a.held_until is not None] if is_known else held, leader)

    def _hand_over(self, allocations: list[Allocation], leader: KnownLeader) -> None:
        for allocation in allocations:
            if allocation.job_manager != leader.address:
                log.info("following %s: slot %d, job %s", leader.address, allocation.index, allocation.job_id)
                allocation.job_manager, allocation.held_until = leader.address, None
        session = self._job_managers.get(leader.address)
        if session is not None:
            for allocation in allocations:
                self._offer(session, allocation)
        elif allocations and leader.address not in self._dialled:
            self._dialled.add(leader.address)
            self._background.spawn(self._keep_job_manager(leader.address))

    def _slot_status(self) -> tuple[rm.SlotStatus, ...]:
        return tuple(
            rm.SlotStatus(i, a.allocation_id if a else NO_ALLOCATION, a.job_id if a else NO_JOB)
            for i, a in enumerate(self._table.report())
        )

    def _report_slots(self) -> None:
        if self._resource_manager is not None:
            self._resource_manager.send(rm.SlotReport(self._slot_status()))

    # Job managers

    async def _keep_job_manager(self, address: str) -> None:
        """Keeps the session while the job manager holds slots; frees them when it cannot be reached.

        That is before the dispatcher reports the jobs of a job manager that it lost at the same time as failed.
        """
        dialer = Dialer(address, TASK_MANAGER_AT_JOB_MANAGER, self._configuration, self._network)
        timeout = leaderless_seconds(self._configuration)
        loop = asyncio.get_running_loop()
        reachable = loop.time()
        while self._table.of_job_manager(address) and (left := reachable + timeout - loop.time()) > 0:
            _, reason = await dialer.dial_once("job manager", lambda s: self._job_manager_connected(address, s), left)
            session = self._job_managers.pop(address, None)
            if session is not None:
                reachable = session.heard_at
                log.info("%s", reason)
                for allocation in self._table.of_job_manager(address):
                    allocation.held_until = allocation.held_until or reachable + timeout
            await asyncio.sleep(dialer.RETRY_AFTER)
        self._dialled.discard(address)
        for allocation in self._table.of_job_manager(address):
            self._free(allocation.allocation_id, f"job manager {address} was not reachable for {timeout:g} s")

    def _job_manager_connected(
        self, address: str, session: JobManagerSession
    ) -> Callable[[msg.JobManagerCommand], None]:
        self._job_managers[address] = session
        session.send(msg.RegisterAtJobManager(self.id, self._host, self.address))
        for allocation in self._table.of_job_manager(address):
            self._offer(session, allocation)
        return lambda command: self._job_manager_command(address, command)

    def _offer(self, session: JobManagerSession, allocation: Allocation) -> None:
        worker = self._workers.get(allocation.allocation_id)
        found = worker.tasks.found() if worker is not None else None
        session.send(msg.SlotOffer(allocation.allocation_id, allocation.index, allocation.job_id, found))

    def _await_leader(self, allocation: Allocation) -> None:
        """The job manager leads the job no more, or not yet: its tasks continue for a while."""
        if allocation.held_until is None:
            lease = leaderless_seconds(self._configuration)
            allocation.held_until = asyncio.get_running_loop().time() + lease
        self._background.spawn(self._free_in_time(allocation, allocation.held_until))

    async def _free_in_time(self, allocation: Allocation, held_until: float) -> None:
        """Frees the slot at that time, unless a leader of the job has connected before."""
        await asyncio.sleep(held_until - asyncio.get_running_loop().time())
        if allocation.held_until == held_until:
            self._free(allocation.allocation_id, "no job manager leads the job")

    def _job_manager_command(self, address: str, command: msg.JobManagerCommand) -> None:
        allocation = self._table.get(command.allocation_id)
        if allocation is not None and (deposed := self._job_leaders.deposed(allocation.job_id, address)):
            log.warning("refusing %s from job manager %s: %s", type(command).__name__, address, deposed)
            return
        match command:
            case msg.OfferAnswer(allocation_id, accepted=True) | msg.StartWorker(allocation_id) if (
                allocation is None
            ):
                # The job would wait for it, and refuse the slots that the resource manager allocates in its place.
                log.warning("job manager %s uses allocation %s, which was freed", address, allocation_id)
                session = self._job_managers.get(address)
                if session is not None:
                    reason = "its task manager had freed the slot"
                    session.send(msg.WorkerLost(allocation_id, reason, slot_freed=True))
            case msg.OfferAnswer(allocation_id, accepted=True):
                self._table.accepted(allocation_id)
            case msg.OfferAnswer(allocation_id, unknown_job=True) if (
                allocation is not None and allocation_id in self._workers
            ):
                self._await_leader(allocation)
            case msg.OfferAnswer(allocation_id):
                self._free(allocation_id, "the job manager has refused the offer")
            case msg.StartWorker():
                self._start_worker(command)
            case msg.FreeSlot(allocation_id, reason):
                self._free(allocation_id, reason)
            case msg.TasksTakenOver(allocation_id):
                self._request_again(allocation_id)
            case _:
                self._to_worker(command)

    def _to_worker(self, command: msg.ToTasks) -> None:
        worker = self._workers.get(command.allocation_id)
        if worker is None:
            return
        worker.tasks.sent(command)
        match command:
            case DeployTasks():
                worker.deploy(command)
            case CancelTasks():
                self._background.spawn(worker.cancel(command))
            case _:
                worker.send(command)

    def _request_again(self, allocation_id: AllocationId) -> None:
        """Repeats the requests of readers to an enumerator that is gone."""
        allocation, worker = self._table.get(allocation_id), self._workers.get(allocation_id)
        if allocation is not None and worker is not None:
            for request in worker.tasks.open_requests():
                self._to_job_manager(allocation, request)

    def _to_job_manager(self, allocation: Allocation, message: msg.TaskManagerMessage) -> None:
        session = self._job_managers.get(allocation.job_manager)
        if session is not None:
            session.send(message)

    # Workers

    def _start_worker(self, start: msg.StartWorker) -> None:
        allocation = self._table.get(start.allocation_id)
        assert allocation is not None, "it was checked before"
        worker = self._workers.get(allocation.allocation_id)
        if worker is not None:
            if worker.tasks.data_address:  # an earlier leader had it started, and was sent this
                self._to_job_manager(allocation, msg.WorkerReady(allocation.allocation_id, worker.tasks.data_address))
            return
        if self._stopped:  # it would be left behind: the job manager learns that this task manager is gone
            return
        configuration = self._configuration.for_job(start.configuration).merged(
            {**self._logs.options, **certificates_of_secret(self._configuration)}
        )
        copies = configuration.get(CHECKPOINTING_LOCAL_BACKUP_ENABLED)
        worker = SupervisedWorker(
            replace(
                start,
                configuration=configuration.to_dict(),
                local_state_folder=self._local_state_folder(allocation.allocation_id) if copies else "",
            ),
            self._host,
            configuration,
            lambda message: self._to_job_manager(allocation, message),
            lambda text: self._to_job_manager(allocation, msg.WorkerProgress(allocation.allocation_id, text)),
            lambda: self._logs.open(allocation.job_id, allocation.index),
            self._launch,
            self._on_thread,
        )
        jobs = {a.job_id for a in self._table.report() if a is not None}
        self._background.spawn(asyncio.to_thread(self._logs.remove_old, jobs))
        self._workers[allocation.allocation_id] = worker
        self._background.spawn(self._supervise(allocation, worker))

    def _local_state_folder(self, allocation_id: AllocationId) -> str:
        """Empty when it cannot be created: the job runs without copies."""
        assert self._local_state is not None, "start comes first"
        try:
            return str(self._local_state.folder(allocation_id))
        except (OSError, ConfigurationError) as error:
            log.warning("running allocation %s without local copies of state: %s", allocation_id, error)
            return ""

    async def _supervise(self, allocation: Allocation, worker: SupervisedWorker) -> None:
        try:
            reason = await worker.run()
        except Exception as error:
            log.exception("failed to supervise the slot worker of slot %d, job %s", allocation.index, allocation.job_id)
            reason = f"supervising the slot worker failed: {error!r}"
        finally:
            del self._workers[allocation.allocation_id]
        log.info("lost the slot worker of slot %d, job %s: %s", allocation.index, allocation.job_id, reason)
        if self._stopped:
            reason = "its task manager was stopped"
        if self._table.get(allocation.allocation_id) is not None:
            self._to_job_manager(allocation, msg.WorkerLost(allocation.allocation_id, reason, worker.end))
        else:
            self._freed(allocation.allocation_id)

    def _free(self, allocation_id: AllocationId, reason: str) -> None:
        if not self._table.ending(allocation_id):
            return
        log.info("freeing allocation %s: %s", allocation_id, reason)
        worker = self._workers.get(allocation_id)
        if worker is None:
            self._freed(allocation_id)
        else:
            self._background.spawn(worker.stop())

    def _freed(self, allocation_id: AllocationId) -> None:
        self._table.freed(allocation_id)
        self._job_leaders.keep([a.job_id for a in self._table.report() if a is not None])
        self._report_slots()
        if self._local_state is not None:
            self._background.spawn(asyncio.to_thread(self._local_state.remove, allocation_id))
