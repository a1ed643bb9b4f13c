"""The sessions with the task managers that hold slots for jobs of this job manager. Owned by its loop."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol, assert_never

from msgspec import Struct

from millstream.core.jobs.ids import AllocationId, JobId, LeaderEpoch, TaskManagerId
from millstream.core.messages import task_manager as tm
from millstream.core.messages.checkpoints import CheckpointAck, CheckpointDecline, CommitFailed, InputsEnded
from millstream.core.messages.results import CollectResponse
from millstream.core.messages.sources import ReaderEvent, WatermarkReport
from millstream.core.services.session import Session, serve_session
from millstream.core.settings.configuration import Configuration
from millstream.core.wire.contracts import TASK_MANAGER_AT_JOB_MANAGER
from millstream.jobmanager.collecting import Collecting
from millstream.jobmanager.job_master import events as ev
from millstream.jobmanager.jobs import Job

log = logging.getLogger(__name__)

TaskManagerSession = Session[tm.JobManagerCommand, tm.TaskManagerMessage]
_Registered = tm.SlotOffer | tm.WorkerProgress | tm.WorkerReady | tm.WorkerLost | tm.FromTasks
"""The messages of a registered task manager."""


class Owner(Protocol):
    """The job manager, as its sessions with task managers use it."""

    jobs: dict[JobId, Job]
    collecting: Collecting

    @property
    def is_stopped(self) -> bool:
        """Whether the job manager stops: messages would start jobs or end checkpoints without a store."""
        ...


class _TaskManager(Struct, frozen=True):
    """A connected task manager."""

    session: TaskManagerSession
    host: str


class TaskManagers:
    """`command` sends to a task manager; what one sends is passed to the job that it concerns."""

    def __init__(self, owner: Owner, configuration: Configuration, epoch: LeaderEpoch) -> None:
        self._owner = owner
        self._configuration = configuration
        self._epoch = epoch
        self._connected: dict[TaskManagerId, _TaskManager] = {}

    async def serve(self, context: Any) -> None:
        """Serves the session of a task manager until it ends."""
        connected: list[TaskManagerId] = []

        def started(session: TaskManagerSession) -> Callable[[tm.TaskManagerMessage], None]:
            def on_message(message: tm.TaskManagerMessage) -> None:
                if self._owner.is_stopped:
                    return
                match message:
                    case tm.RegisterAtJobManager(task_manager, host):
                        if connected or not task_manager:
                            session.refuse("a registration needs a task manager id, once in a session")
                            return
                        connected.append(task_manager)
                        self._registered(task_manager, _TaskManager(session, host))
                    case _ if connected:
                        self._received(connected[0], message)
                    case _:
                        name = type(message).__name__
                        session.refuse(f"the first message has to be a registration, not '{name}'")

            return on_message

        reason = await serve_session(
            context, TASK_MANAGER_AT_JOB_MANAGER, context.peer(), self._configuration, self._epoch, started
        )
        for task_manager in connected:
            self._lost(task_manager, reason)

    def command(self, task_manager: TaskManagerId, command: tm.JobManagerCommand) -> None:
        """Sends a command to a task manager, if it is connected."""
        connected = self._connected.get(task_manager)
        if connected is not None:
            connected.session.send(command)

    def _registered(self, task_manager: TaskManagerId, connected: _TaskManager) -> None:
        previous = self._connected.get(task_manager)
        if previous is not None:  # messages in flight on it are lost: end the old session before the new one begins
            previous.session.close("the task manager reconnected")
            self._lost(task_manager, "it reconnected")
        self._connected[task_manager] = connected

    def _lost(self, task_manager: TaskManagerId, reason: str) -> None:
        known = self._connected.get(task_manager)
        if known is not None and not known.session.is_open and not self._owner.is_stopped:
            del self._connected[task_manager]
            log.warning("task manager %s: %s", task_manager, reason)
            self._owner.collecting.lost(task_manager)
            for job in list(self._jobs.values()):
                job.tell(ev.TaskManagerLost(task_manager, reason))

    @property
    def _jobs(self) -> Mapping[JobId, Job]:
        return self._owner.jobs

    def _received(self, task_manager: TaskManagerId, message: _Registered) -> None:
        match message:
            case tm.SlotOffer(allocation_id, _, job_id, found) if job_id in self._jobs:
                host = self._connected[task_manager].host if task_manager in self._connected else ""
                self._jobs[job_id].tell(ev.SlotOffered(allocation_id, task_manager, host, found))
            case tm.SlotOffer(allocation_id):
                self.command(task_manager, tm.OfferAnswer(allocation_id, accepted=False, unknown_job=True))
            case tm.WorkerProgress(allocation_id, text):
                self._tell_holder(allocation_id, ev.WorkerProgressed(allocation_id, text))
            case tm.WorkerReady(allocation_id, data_address):
                self._tell_holder(allocation_id, ev.WorkerReadied(allocation_id, data_address))
            case tm.WorkerLost(allocation_id, reason, end, slot_freed):
                self._owner.collecting.lost(task_manager, allocation_id)
                self._tell_holder(allocation_id, ev.WorkerLost(allocation_id, reason, end, slot_freed))
            case tm.TaskUpdate(allocation_id):
                self._tell_holder(allocation_id, ev.TaskChanged(message))
            case tm.TaskMetricsReport(allocation_id):
                self._tell_holder(allocation_id, ev.MetricsReported(message))
            case ReaderEvent(job_id) | WatermarkReport(job_id):
                job = self._jobs.get(job_id)
                if job is not None:
                    job.task_manager_message(message)
            case (
                CheckpointAck(allocation_id)
                | CheckpointDecline(allocation_id)
                | InputsEnded(allocation_id)
                | CommitFailed(allocation_id)
            ):
                job = self._holder(allocation_id)
                if job is not None:
                    job.task_manager_message(message)
            case CollectResponse():
                self._owner.collecting.responded(message)
            case _:
                assert_never(message)

    def _tell_holder(self, allocation_id: AllocationId, event: ev.Event) -> None:
        job = self._holder(allocation_id)
        if job is not None:
            job.tell(event)

    def _holder(self, allocation_id: AllocationId) -> Job | None:
        return next((job for job in self._jobs.values() if job.holds(allocation_id)), None)
