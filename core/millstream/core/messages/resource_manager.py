"""The messages between task managers, job managers and the resource manager about slots."""

from __future__ import annotations

from msgspec import Struct

from millstream.core.jobs.ids import (
    ANY_EPOCH,
    NO_ALLOCATION,
    NO_JOB,
    AllocationId,
    JobId,
    JobManagerId,
    LeaderEpoch,
    TaskManagerId,
)


class SlotStatus(Struct, frozen=True):
    """One slot of a task manager; without an allocation it is free."""

    index: int
    allocation_id: AllocationId = NO_ALLOCATION
    job_id: JobId = NO_JOB


# A task manager's session


class RegisterTaskManager(Struct, frozen=True):
    """The first message of a task manager."""

    task_manager_id: TaskManagerId
    host: str
    address: str
    """The address of its gRPC service."""
    cpu_cores: int
    memory_bytes: int
    slots: tuple[SlotStatus, ...]
    provider_token: str = ""
    """The id of a task manager that a resource provider started."""


class SlotReport(Struct, frozen=True):
    """Sent whenever the allocation of a slot changes."""

    slots: tuple[SlotStatus, ...]


class SlotRefused(Struct, frozen=True):
    """The slot cannot be allocated."""

    allocation_id: AllocationId
    reason: str


TaskManagerReport = RegisterTaskManager | SlotReport | SlotRefused
"""From a task manager to the resource manager."""


class AllocateSlot(Struct, frozen=True):
    """Requests the task manager to offer this slot to the job manager, which accepts or rejects it."""

    slot_index: int
    allocation_id: AllocationId
    job_id: JobId
    job_manager_address: str
    epoch: LeaderEpoch = ANY_EPOCH
    """The epoch of that job manager's leadership of the job."""


class JobLed(Struct, frozen=True):
    """The job has another leader, to which the task manager offers the slots that it holds for the job."""

    job_id: JobId
    job_manager_address: str
    epoch: LeaderEpoch


class ShutDown(Struct, frozen=True):
    """The task manager was idle for too long, or the cluster is shutting down."""


TaskManagerCommand = AllocateSlot | JobLed | ShutDown
"""From the resource manager to a task manager."""


# A job manager's session


class Resources(Struct, frozen=True):
    """The resources of a task manager, or those that a slot needs."""

    cpu_cores: float = 0.0
    memory_bytes: int = 0

    def __sub__(self, other: Resources) -> Resources:
        return Resources(self.cpu_cores - other.cpu_cores, self.memory_bytes - other.memory_bytes)

    def covers(self, need: Resources) -> bool:
        """Whether these resources are sufficient for a slot with this need. No need is always covered."""
        return need == NOTHING or (self.cpu_cores >= need.cpu_cores and self.memory_bytes >= need.memory_bytes)


NOTHING = Resources()


class Requirement(Struct, frozen=True):
    """Declares the total number of slots that the job requests. 0 ends the requirement."""

    job_id: JobId
    slots: int
    need: Resources = NOTHING
    """The average resources per slot: slots are assigned to slot sharing groups only when they are offered."""
    largest: Resources = NOTHING
    """The maximum resources of any slot."""
    epoch: LeaderEpoch = ANY_EPOCH
    """The epoch of the job's leader: requirements of earlier leaders are ignored."""
    minimum: int = 0
    """The minimum with which the job can run: available slots are allocated. 0: all or none are allocated."""


class RegisterJobManager(Struct, frozen=True):
    """The first message of a job manager."""

    job_manager_id: JobManagerId
    address: str
    requirements: tuple[Requirement, ...] = ()


JobManagerReport = RegisterJobManager | Requirement
"""From a job manager to the resource manager."""


class NotEnoughSlots(Struct, frozen=True):
    """The slots that are available for the job, and those of the whole cluster."""

    job_id: JobId
    available: int
    """Held by the job, or being allocated to it."""
    required: int
    free: int
    """Free slots."""
    total: int
    startable: int
    """Slots that a resource provider may still start."""
    too_small: int = 0
    """Slots on task managers without the resources that a slot of the job needs."""


class GiveSlotsBack(Struct, frozen=True):
    """Requests the slots of a job that are too few for it but sufficient for another. Its requirement remains."""

    job_id: JobId


JobManagerNotice = NotEnoughSlots | GiveSlotsBack
"""From the resource manager to a job manager."""


# Requests for the overview


class TaskManagerInfo(Struct, frozen=True):
    """A registered task manager."""

    task_manager_id: TaskManagerId
    host: str
    address: str
    last_heartbeat: int
    cpu_cores: int
    memory_bytes: int
    slots: tuple[SlotStatus, ...] = ()


class Overview(Struct, frozen=True):
    """All task managers, and the number of missing slots."""

    task_managers: tuple[TaskManagerInfo, ...] = ()
    pending_slots: int = 0
