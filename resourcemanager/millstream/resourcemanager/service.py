"""The resource manager's daemon: sessions with task managers and job managers around the slot manager.

Everything here runs on one asyncio loop. A session's messages become events, effects become messages; a session that
ends, for whatever reason, is the loss of its peer. A peer that registers again replaces its older session.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, assert_never

import grpc

from millstream.core.clock import Clock, SystemClock
from millstream.core.errors import MillstreamError
from millstream.core.jobs.ids import AllocationId, JobId, JobManagerId, TaskManagerId, new_id
from millstream.core.services.leader_lookup import Role, configured_endpoint
from millstream.core.services.rpc import serve, service_handler
from millstream.core.services.session import Session, serve_session
from millstream.core.settings.configuration import Configuration
from millstream.proto import resourcemanager_pb2 as pb
from millstream.proto.session_pb2 import Empty
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
    Tick,
)
from millstream.resourcemanager.slot_manager import Provisioning, SlotManager

TICK = 0.25
_STOPPING = "the resource manager is stopping"
log = logging.getLogger(__name__)

TaskManagerSession = Session[pb.TaskManagerCommand, pb.TaskManagerReport]
JobManagerSession = Session[pb.JobManagerNotice, pb.JobManagerReport]


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


@dataclass(frozen=True, slots=True)
class _TaskManager:
    session: TaskManagerSession
    stream: _HeardStream
    registration: pb.RegisterTaskManager


class ResourceManagerService:
    """Satisfies `millstream.core.processes.daemon.Service`, and serves the contract in `resourcemanager.proto`."""

    def __init__(
        self, configuration: Configuration, clock: Clock | None = None, provider: ResourceProvider | None = None
    ) -> None:
        self.address = ""
        self._configuration = configuration
        self._clock = clock or SystemClock()
        on_demand = configuration.string("resourcemanager.provider") == "process"
        self._provider = provider or (ProcessProvider(configuration) if on_demand else StandaloneProvider())
        self._slots = SlotManager(lambda: AllocationId(new_id()), _provisioning(configuration) if on_demand else None)
        self._task_managers: dict[TaskManagerId, _TaskManager] = {}
        self._job_managers: dict[JobManagerId, JobManagerSession] = {}
        self._server: grpc.aio.Server | None = None
        self._ticking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listens, then lets the provider begin."""
        handler = service_handler(pb.DESCRIPTOR.services_by_name["ResourceManager"], self)
        host, port = configured_endpoint(self._configuration, Role.RESOURCE_MANAGER)
        self._server, bound = await serve(host, port, [handler], self._configuration, "resourcemanager.rpc.port")
        self.address = f"{host}:{bound}"
        await self._provider.start(self.address)
        self._ticking = asyncio.get_running_loop().create_task(self._tick())

    async def stop(self) -> None:
        """Ends the sessions, the server, and the task managers that the provider started."""
        if self._ticking is not None:
            self._ticking.cancel()
            await asyncio.gather(self._ticking, return_exceptions=True)
            self._ticking = None
        await self._provider.stop()
        for entry in self._task_managers.values():
            entry.session.close(_STOPPING)
        for session in self._job_managers.values():
            session.close(_STOPPING)
        if self._server is not None:
            await self._server.stop(grace=1.0)
            self._server = None

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

        def started(session: TaskManagerSession) -> Callable[[pb.TaskManagerReport], None]:
            current.append(session)
            return lambda message: self._on_task_manager_message(message, session, stream, identity)

        reason = "the connection broke"
        try:
            reason = await serve_session(stream, pb.TaskManagerCommand, "a task manager", self._configuration, started)
        finally:
            if identity and current:
                self._on_task_manager_end(identity[0], current[0], reason)

    async def connect_job_manager(self, request_iterator: Any, context: Any) -> None:
        """A job manager's session, until it ends."""
        identity: list[JobManagerId] = []
        current: list[JobManagerSession] = []

        def started(session: JobManagerSession) -> Callable[[pb.JobManagerReport], None]:
            current.append(session)
            return lambda message: self._on_job_manager_message(message, session, identity)

        reason = "the connection broke"
        try:
            reason = await serve_session(context, pb.JobManagerNotice, "a job manager", self._configuration, started)
        finally:
            if identity and current and self._job_managers.get(identity[0]) is current[0]:
                del self._job_managers[identity[0]]
                log.warning("lost job manager %s: %s", identity[0], reason)
                self._handle(JobManagerLost(identity[0]))

    async def get_overview(self, request: Empty, context: Any) -> pb.Overview:
        """Task managers in the order in which they registered; a slot that is on its way to a job counts as taken."""
        return pb.Overview(
            task_managers=[
                pb.TaskManagerInfo(
                    task_manager_id=task_manager_id,
                    host=entry.registration.host,
                    address=entry.registration.address,
                    last_heartbeat=entry.stream.heard_at,
                    cpu_cores=entry.registration.cpu_cores,
                    memory_bytes=entry.registration.memory_bytes,
                    slots=[
                        pb.SlotStatus(index=s.index, allocation_id=s.allocation_id or "", job_id=s.job_id or "")
                        for s in self._slots.slots_of(task_manager_id)
                    ],
                )
                for task_manager_id, entry in self._task_managers.items()
            ],
            pending_slots=self._slots.missing_slots(),
        )

    def _on_task_manager_message(
        self,
        message: pb.TaskManagerReport,
        session: TaskManagerSession,
        stream: _HeardStream,
        identity: list[TaskManagerId],
    ) -> None:
        kind = message.WhichOneof("kind")
        if kind == "register":
            if identity or not message.register.task_manager_id:
                _refuse(session, "a registration needs a task manager id, once in a session")
                return
            identity.append(TaskManagerId(message.register.task_manager_id))
            self._register_task_manager(identity[0], message.register, session, stream)
        elif not identity:
            _refuse(session, f"the first message has to be a registration, not '{kind}'")
        elif self._is_current(identity[0], session):
            if kind == "slots":
                self._handle(SlotsReported(identity[0], _reports(message.slots.slots)))
            elif kind == "refused":
                refused = message.refused
                log.info("%s refused allocation %s: %s", session.peer, refused.allocation_id, refused.reason)
                self._handle(SlotRefused(identity[0], AllocationId(refused.allocation_id)))

    def _register_task_manager(
        self,
        ident: TaskManagerId,
        registration: pb.RegisterTaskManager,
        session: TaskManagerSession,
        stream: _HeardStream,
    ) -> None:
        session.peer = f"task manager {ident} at {registration.address}"
        older = self._task_managers.pop(ident, None)
        self._task_managers[ident] = _TaskManager(session, stream, registration)
        if older is not None:
            older.session.close("the task manager registered again")
        log.info("registered %s with %d slots", session.peer, len(registration.slots))
        provided = self._provider.registered(registration.provider_token)
        self._handle(TaskManagerRegistered(ident, _reports(registration.slots), provided))

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
        self, message: pb.JobManagerReport, session: JobManagerSession, identity: list[JobManagerId]
    ) -> None:
        kind = message.WhichOneof("kind")
        if kind == "register":
            if identity or not message.register.job_manager_id:
                _refuse(session, "a registration needs a job manager id, once in a session")
                return
            ident = JobManagerId(message.register.job_manager_id)
            identity.append(ident)
            session.peer = f"job manager {ident} at {message.register.address}"
            older = self._job_managers.get(ident)
            self._job_managers[ident] = session
            if older is not None:
                older.close("the job manager registered again")
            log.info("registered %s", session.peer)
            requirements = tuple(_requirement(r) for r in message.register.requirements)
            self._handle(JobManagerRegistered(ident, message.register.address, requirements))
        elif not identity:
            _refuse(session, f"the first message has to be a registration, not '{kind}'")
        elif kind == "requirement" and self._job_managers.get(identity[0]) is session:
            self._handle(RequirementDeclared(identity[0], _requirement(message.requirement)))

    def _handle(self, event: Event) -> None:
        for effect in self._slots.handle(event, self._clock.monotonic()):
            match effect:
                case AllocateSlot(task_manager_id, index, allocation_id, job_id, address):
                    log.info("allocating slot %d of task manager %s to job %s", index, task_manager_id, job_id)
                    command = pb.AllocateSlot(
                        slot_index=index, allocation_id=allocation_id, job_id=job_id, job_manager_address=address
                    )
                    self._task_managers[task_manager_id].session.send(pb.TaskManagerCommand(allocate=command))
                case NotifyNotEnoughSlots(job_manager_id, job_id, available, required, free, total, startable):
                    log.info("job %s has %d of %d slots, %d of %d are free", job_id, available, required, free, total)
                    notice = pb.NotEnoughSlots(
                        job_id=job_id,
                        available=available,
                        required=required,
                        free=free,
                        total=total,
                        startable=startable,
                    )
                    self._job_managers[job_manager_id].send(pb.JobManagerNotice(not_enough=notice))
                case ReclaimSlots(job_manager_id, job_id):
                    log.info("job %s is asked for slots that are not enough for it, but for another job", job_id)
                    give_back = pb.GiveSlotsBack(job_id=job_id)
                    self._job_managers[job_manager_id].send(pb.JobManagerNotice(give_back=give_back))
                case RequestTaskManagers(number):
                    self._provider.request(number)
                case ReleaseTaskManager(task_manager_id):
                    entry = self._task_managers[task_manager_id]
                    log.info("releasing idle %s", entry.session.peer)
                    entry.session.send(pb.TaskManagerCommand(shut_down=Empty()))
                    self._provider.release(entry.registration.provider_token)
                case _:
                    assert_never(effect)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            self._handle(Tick())


def _provisioning(configuration: Configuration) -> Provisioning:
    return Provisioning(
        slots_per_task_manager=max(1, configuration.integer("taskmanager.numberOfTaskSlots")),
        max_slots=configuration.integer("slotmanager.number-of-slots.max"),
        idle_timeout=configuration.seconds("resourcemanager.taskmanager-timeout"),
    )


def _refuse(session: Session[Any, Any], reason: str) -> None:
    log.warning("closing the session with %s: %s", session.peer, reason)
    session.close(reason)


def _reports(slots: Any) -> tuple[SlotReport, ...]:
    return tuple(
        SlotReport(s.index, AllocationId(s.allocation_id), JobId(s.job_id)) if s.allocation_id else SlotReport(s.index)
        for s in slots
    )


def _requirement(message: pb.Requirement) -> SlotRequirement:
    return SlotRequirement(JobId(message.job_id), message.slots)
