"""The resource manager's daemon: sessions with task managers and job managers around the slot manager.

Everything here runs on one asyncio loop. A session's messages become events, effects become messages; a session that
ends, for whatever reason, is the loss of its peer. A peer that registers again replaces its older session.

With high availability it serves only while it leads, and knows nothing at the beginning of a term: task managers say
which of their slots are whose when they register, and job managers what their jobs need.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, assert_never

import grpc
from msgspec import Struct

from millstream.core.clock import Clock, SystemClock
from millstream.core.errors import MillstreamError
from millstream.core.jobs.ids import (
    NO_ALLOCATION,
    NO_JOB,
    AllocationId,
    JobManagerId,
    LeaderEpoch,
    TaskManagerId,
    new_id,
)
from millstream.core.logs.printable import printable
from millstream.core.messages import resource_manager as msg
from millstream.core.messages.session import Empty
from millstream.core.metrics.cluster_metrics import ServiceMetrics, slot_gauges
from millstream.core.metrics.model import MetricGroup
from millstream.core.metrics.registry import MetricRegistry
from millstream.core.metrics.reporting.reporters import Reporters
from millstream.core.processes.background import BackgroundTasks
from millstream.core.services.handshake import epoch_of_start
from millstream.core.services.inspection import inspection_handler
from millstream.core.services.leader_lookup import Role, configured_endpoint
from millstream.core.services.network import GRPC, Network
from millstream.core.services.rpc import service_handler
from millstream.core.services.session import STANDS_BY, Session, serve_session
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.scheduling import (
    RESOURCEMANAGER_PROVIDER,
    RESOURCEMANAGER_TASKMANAGER_TIMEOUT,
    SLOTMANAGER_NUMBER_OF_SLOTS_MAX,
    TASKMANAGER_NUMBER_OF_TASK_SLOTS,
)
from millstream.core.settings.options.services import RESOURCEMANAGER_RPC_PORT
from millstream.core.store.high_availability import HighAvailability, open_high_availability
from millstream.core.store.store import Contest, Leadership
from millstream.core.store.terms import StepDown, hold_office
from millstream.core.wire.contracts import (
    JOB_MANAGER_AT_RESOURCE_MANAGER,
    RESOURCE_MANAGER,
    TASK_MANAGER_AT_RESOURCE_MANAGER,
)
from millstream.resourcemanager.process_provider import ProcessProvider
from millstream.resourcemanager.providers import ResourceProvider, StandaloneProvider
from millstream.resourcemanager.slot_events import (
    AllocateSlot,
    Event,
    JobManagerLost,
    JobManagerRegistered,
    NotifyNotEnoughSlots,
    ReclaimSlots,
    ReleaseTaskManager,
    RequestTaskManagers,
    RequirementDeclared,
    SlotRefused,
    SlotReport,
    SlotRequirement,
    SlotsReported,
    TaskManagerLost,
    TaskManagerRegistered,
    TellLeader,
    Tick,
)
from millstream.resourcemanager.slot_manager import Provisioning, SlotManager

TICK = 0.25
_STOPPING = "the resource manager is stopping"
log = logging.getLogger(__name__)

TaskManagerSession = Session[msg.TaskManagerCommand, msg.TaskManagerReport]
JobManagerSession = Session[msg.JobManagerNotice, msg.JobManagerReport]


class _HeardStream:
    """A session's stream that remembers when it last heard from the peer."""

    def __init__(self, context: Any, clock: Clock) -> None:
        self._context = context
        self._clock = clock
        self.heard_at = clock.now_ms()

    async def send_initial_metadata(self, metadata: Any) -> None:
        await self._context.send_initial_metadata(metadata)

    async def read(self) -> Any:
        message = await self._context.read()
        self.heard_at = self._clock.now_ms()
        return message

    async def write(self, message: Any) -> None:
        await self._context.write(message)


class _TaskManager(Struct, frozen=True):
    session: TaskManagerSession
    stream: _HeardStream
    registration: msg.RegisterTaskManager


class ResourceManagerService:
    """Satisfies `millstream.core.processes.daemon.Service`, and serves the contract in `resourcemanager.proto`."""

    def __init__(
        self,
        configuration: Configuration,
        clock: Clock | None = None,
        provider: ResourceProvider | None = None,
        network: Network = GRPC,
        ha: HighAvailability | None = None,
    ) -> None:
        self.address = ""
        self._configuration = configuration
        self._network = network
        self._clock = clock or SystemClock()
        self._ha = ha
        self._epoch: LeaderEpoch | None = None
        self._on_demand = configuration.get(RESOURCEMANAGER_PROVIDER) == "process"
        self._provider = provider or (ProcessProvider(configuration) if self._on_demand else StandaloneProvider())
        self._slots = self._new_slots()
        self._background = BackgroundTasks()
        self._task_managers: dict[TaskManagerId, _TaskManager] = {}
        self._job_managers: dict[JobManagerId, JobManagerSession] = {}
        self._server: grpc.aio.Server | None = None
        self._ticking: asyncio.Task[None] | None = None
        self._figures = ServiceMetrics("resourcemanager", configured_endpoint(configuration, Role.RESOURCE_MANAGER)[0])
        self.metrics = MetricRegistry(self._measured)
        """All that is measured here."""
        self._reporters: Reporters | None = None

    async def start(self) -> None:
        """Listens, then lets the provider begin."""
        handlers = [service_handler(RESOURCE_MANAGER, self), inspection_handler(self._configuration, self.metrics)]
        host, port = configured_endpoint(self._configuration, Role.RESOURCE_MANAGER)
        self._server, bound = await self._network.serve(
            host, port, handlers, self._configuration, RESOURCEMANAGER_RPC_PORT
        )
        self.address = f"{host}:{bound}"
        self._reporters = Reporters("resourcemanager", self._configuration, self.metrics)
        await self._reporters.start()
        await self._provider.start(self.address)
        self._ticking = asyncio.get_running_loop().create_task(self._tick())
        self._ha = ha = self._ha or open_high_availability(self._configuration)
        if ha.recovers:
            self._background.spawn(hold_office(ha.store, Contest(Role.RESOURCE_MANAGER), self.address, self._lead))
        else:
            self._epoch = epoch_of_start(self._clock)

    def _new_slots(self) -> SlotManager:
        provisioning = _provisioning(self._configuration) if self._on_demand else None
        return SlotManager(lambda: AllocationId(new_id()), provisioning)

    async def _lead(self, leadership: Leadership) -> StepDown:
        self._epoch = leadership.epoch
        return self._step_down

    async def _step_down(self) -> None:
        sessions: list[Session[Any, Any]] = [entry.session for entry in self._task_managers.values()]
        sessions += self._job_managers.values()
        self._epoch = None
        self._task_managers, self._job_managers, self._slots = {}, {}, self._new_slots()
        for session in sessions:
            session.close("this resource manager leads no more")

    async def stop(self) -> None:
        """Ends the sessions, the server, and the task managers that the provider started."""
        if self._ticking is not None:
            self._ticking.cancel()
            await asyncio.gather(self._ticking, return_exceptions=True)
            self._ticking = None
        await self._background.cancel()
        if self._ha is not None:
            await self._ha.store.close()
        if self._reporters is not None:
            await self._reporters.stop()
        await self._provider.stop()
        for entry in self._task_managers.values():
            entry.session.close(_STOPPING)
        for session in self._job_managers.values():
            session.close(_STOPPING)
        if self._server is not None:
            await self._server.stop(grace=1.0)
            self._server = None

    async def lacks(self) -> str:
        """Does nothing: any caller is registered."""
        return ""

    async def failure(self) -> MillstreamError:
        """Returns only after a bug: a resource manager waits for its peers for as long as it runs."""
        ticking = self._ticking
        if ticking is not None:
            await asyncio.wait({ticking})
            if not ticking.cancelled() and (error := ticking.exception()) is not None:
                log.error("the slot manager failed", exc_info=error)
                return MillstreamError(f"the slot manager failed: {error!r}")
        never: asyncio.Future[MillstreamError] = asyncio.get_running_loop().create_future()
        return await never

    async def connect_task_manager(self, request_iterator: Any, context: Any) -> None:
        """A task manager's session, until it ends."""
        stream = _HeardStream(context, self._clock)
        identity: list[TaskManagerId] = []
        current: list[TaskManagerSession] = []

        def started(session: TaskManagerSession) -> Callable[[msg.TaskManagerReport], None]:
            current.append(session)
            return lambda message: self._on_task_manager_message(message, session, stream, identity)

        reason = "the connection broke"
        try:
            contract, peer = TASK_MANAGER_AT_RESOURCE_MANAGER, f"a task manager ({context.peer()})"
            reason = await serve_session(stream, contract, peer, self._configuration, self._epoch, started)
        finally:
            if identity and current:
                self._on_task_manager_end(identity[0], current[0], reason)

    async def connect_job_manager(self, request_iterator: Any, context: Any) -> None:
        """A job manager's session, until it ends."""
        identity: list[JobManagerId] = []
        current: list[JobManagerSession] = []

        def started(session: JobManagerSession) -> Callable[[msg.JobManagerReport], None]:
            current.append(session)
            return lambda message: self._on_job_manager_message(message, session, identity)

        reason = "the connection broke"
        try:
            contract, peer = JOB_MANAGER_AT_RESOURCE_MANAGER, f"a job manager ({context.peer()})"
            reason = await serve_session(context, contract, peer, self._configuration, self._epoch, started)
        finally:
            if identity and current and self._job_managers.get(identity[0]) is current[0]:
                del self._job_managers[identity[0]]
                log.warning("lost job manager %s: %s", identity[0], reason)
                self._handle(JobManagerLost(identity[0]))

    async def get_overview(self, request: Empty, context: Any) -> msg.Overview:
        """Task managers in the order in which they registered; a slot being allocated counts as taken."""
        if self._epoch is None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, STANDS_BY)
        return self._overview()

    def _overview(self) -> msg.Overview:
        known = tuple(self._info(ident, entry) for ident, entry in self._task_managers.items())
        return msg.Overview(known, self._slots.missing_slots())

    def _measured(self) -> list[MetricGroup]:
        """What is reported to the registry. A standby has no slots to report."""
        known = slot_gauges(self._overview()) if self._epoch is not None else {}
        return [self._figures.group(self._clock.monotonic(), **known)]

    def _info(self, ident: TaskManagerId, entry: _TaskManager) -> msg.TaskManagerInfo:
        registration = entry.registration
        slots = tuple(
            msg.SlotStatus(slot.index, slot.allocation_id or NO_ALLOCATION, slot.job_id or NO_JOB)
            for slot in self._slots.slots_of(ident)
        )
        return msg.TaskManagerInfo(
            ident, registration.host, registration.address, entry.stream.heard_at, registration.cpu_cores,
            registration.memory_bytes, slots
        )

    def _on_task_manager_message(
        self,
        message: msg.TaskManagerReport,
        session: TaskManagerSession,
        stream: _HeardStream,
        identity: list[TaskManagerId],
    ) -> None:
        match message:
            case msg.RegisterTaskManager(ident):
                if identity or not ident:
                    session.refuse("a registration needs a task manager id, once in a session")
                    return
                identity.append(ident)
                self._register_task_manager(ident, message, session, stream)
            case _ if not identity:
                session.refuse(_not_registered(message))
            case _ if not self._is_current(identity[0], session):
                pass  # another session has taken its place
            case msg.SlotReport(slots):
                self._handle(SlotsReported(identity[0], _reports(slots)))
            case msg.SlotRefused(allocation_id, reason):
                log.info("%s refused allocation %s: %s", session.peer, allocation_id, reason)
                self._handle(SlotRefused(identity[0], allocation_id))
            case _:
                assert_never(message)

    def _register_task_manager(
        self,
        ident: TaskManagerId,
        registration: msg.RegisterTaskManager,
        session: TaskManagerSession,
        stream: _HeardStream,
    ) -> None:
        session.peer = printable(f"task manager {ident} at {registration.address}")
        older = self._task_managers.pop(ident, None)
        self._task_managers[ident] = _TaskManager(session, stream, registration)
        if older is not None:
            older.session.close("the task manager registered again")
        log.info("registered %s with %d slots", session.peer, len(registration.slots))
        provided = self._provider.registered(registration.provider_token)
        resources = msg.Resources(registration.cpu_cores, registration.memory_bytes)
        self._handle(TaskManagerRegistered(ident, _reports(registration.slots), provided, resources))

    def _is_current(self, ident: TaskManagerId, session: TaskManagerSession) -> bool:
        entry = self._task_managers.get(ident)
        return entry is not None and entry.session is session

    def _on_task_manager_end(self, ident: TaskManagerId, session: TaskManagerSession, reason: str) -> None:
        if self._is_current(ident, session):
            entry = self._task_managers.pop(ident)
            log.warning("lost %s: %s", session.peer, reason)
            self._provider.lost(entry.registration.provider_token)
            self._handle(TaskManagerLost(ident))

    def _on_job_manager_message(
        self, message: msg.JobManagerReport, session: JobManagerSession, identity: list[JobManagerId]
    ) -> None:
        match message:
            case msg.RegisterJobManager(ident, address, requirements):
                if identity or not ident:
                    session.refuse("a registration needs a job manager id, once in a session")
                    return
                identity.append(ident)
                session.peer = printable(f"job manager {ident} at {address}")
                older = self._job_managers.get(ident)
                self._job_managers[ident] = session
                if older is not None:
                    older.close("the job manager registered again")
                log.info("registered %s", session.peer)
                self._handle(JobManagerRegistered(ident, address, tuple(map(_requirement, requirements))))
            case _ if not identity:
                session.refuse(_not_registered(message))
            case msg.Requirement():
                if self._job_managers.get(identity[0]) is session:
                    self._handle(RequirementDeclared(identity[0], _requirement(message)))
            case _:
                assert_never(message)

    def _handle(self, event: Event) -> None:
        for effect in self._slots.handle(event, self._clock.monotonic()):
            match effect:
                case AllocateSlot(task_manager_id, index, allocation_id, job_id, address, epoch):
                    log.info("allocating slot %d of task manager %s to job %s", index, task_manager_id, job_id)
                    command = msg.AllocateSlot(index, allocation_id, job_id, address, epoch)
                    self._task_managers[task_manager_id].session.send(command)
                case TellLeader(task_manager_id, job_id, address, epoch):
                    log.info("notify task manager %s that job %s is led from %s", task_manager_id, job_id, address)
                    self._task_managers[task_manager_id].session.send(msg.JobLed(job_id, address, epoch))
                case NotifyNotEnoughSlots(job_manager_id, job_id, available, required, free, total, startable, small):
                    log.info("job %s has %d of %d slots, %d of %d are free", job_id, available, required, free, total)
                    notice = msg.NotEnoughSlots(job_id, available, required, free, total, startable, small)
                    self._job_managers[job_manager_id].send(notice)
                case ReclaimSlots(job_manager_id, job_id):
                    log.info("recall slots from job %s: too few for it, enough for another job", job_id)
                    self._job_managers[job_manager_id].send(msg.GiveSlotsBack(job_id))
                case RequestTaskManagers(number):
                    self._provider.request(number)
                case ReleaseTaskManager(task_manager_id):
                    entry = self._task_managers[task_manager_id]
                    log.info("releasing idle %s", entry.session.peer)
                    entry.session.send(msg.ShutDown())
                    self._provider.release(entry.registration.provider_token)
                case _:
                    assert_never(effect)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            self._handle(Tick())


def _provisioning(configuration: Configuration) -> Provisioning:
    return Provisioning(
        slots_per_task_manager=max(1, configuration.get(TASKMANAGER_NUMBER_OF_TASK_SLOTS)),
        max_slots=configuration.get(SLOTMANAGER_NUMBER_OF_SLOTS_MAX),
        idle_timeout=configuration.get(RESOURCEMANAGER_TASKMANAGER_TIMEOUT),
    )


def _not_registered(message: object) -> str:
    return f"the first message has to be a registration, not '{type(message).__name__}'"


def _reports(slots: Iterable[msg.SlotStatus]) -> tuple[SlotReport, ...]:
    return tuple(
        SlotReport(s.index, s.allocation_id, s.job_id) if s.allocation_id else SlotReport(s.index) for s in slots
    )


def _requirement(message: msg.Requirement) -> SlotRequirement:
    return SlotRequirement(message.job_id, message.slots, message.need, message.largest, message.epoch, message.minimum)
