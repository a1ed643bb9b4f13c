"""What task managers, job managers and the resource manager send each other about slots."""

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
    """Of its gRPC service."""
    cpu_cores: int
    memory_bytes: int
    slots: tuple[SlotStatus, ...]
    provider_token: str = ""
    """Of a task manager that a resource provider started."""


class SlotReport(Struct, frozen=True):
    """Sent whenever a slot changes hands."""

    slots: tuple[SlotStatus, ...]


class SlotRefused(Struct, frozen=True):
    """The slot cannot be allocated."""

    allocation_id: AllocationId
    reason: str


TaskManagerReport = RegisterTaskManager | SlotReport | SlotRefused
"""From a task manager to the resource manager."""


class AllocateSlot(Struct, frozen=True):
    """The task manager offers this slot to the job manager, which accepts or refuses it."""

    slot_index: int
    allocation_id: AllocationId
    job_id: JobId
    job_manager_address: str
    epoch: LeaderEpoch = ANY_EPOCH
    """Under which that job manager leads the job."""


class JobLed(Struct, frozen=True):
    """The job has another leader: what the task manager holds for the job is offered to that one."""

    job_id: JobId
    job_manager_address: str
    epoch: LeaderEpoch


class ShutDown(Struct, frozen=True):
    """Idle for too long, or the cluster is going down."""


TaskManagerCommand = AllocateSlot | JobLed | ShutDown
"""From the resource manager to a task manager."""


# A job manager's session


class Resources(Struct, frozen=True):
    """What a task manager has, or a slot needs of it."""

    cpu_cores: float = 0.0
    memory_bytes: int = 0

    def __sub__(self, other: Resources) -> Resources:
        return Resources(self.cpu_cores - other.cpu_cores, self.memory_bytes - other.memory_bytes)

    def covers(self, need: Resources) -> bool:
        """Whether a slot with this need can be had of it. What needs nothing fits everywhere."""
        return need == NOTHING or (self.cpu_cores >= need.cpu_cores and self.memory_bytes >= need.memory_bytes)


NOTHING = Resources()


class Requirement(Struct, frozen=True):
    """Declarative: how many slots the job wants in all, not in addition. 0 ends the requirement."""

    job_id: JobId
    slots: int
    need: Resources = NOTHING
    """Of each of them, on average: which slot is for which group is decided when they are there."""
    largest: Resources = NOTHING
    """Of the one that needs most."""
    epoch: LeaderEpoch = ANY_EPOCH
    """Under which the job is led: what an earlier leader wants does not count."""
    minimum: int = 0
    """With so many the job runs, too: it is given what there is. 0: it is given all or none."""


class RegisterJobManager(Struct, frozen=True):
    """The first message of a job manager."""

    job_manager_id: JobManagerId
    address: str
    requirements: tuple[Requirement, ...] = ()


JobManagerReport = RegisterJobManager | Requirement
"""From a job manager to the resource manager."""


class NotEnoughSlots(Struct, frozen=True):
    """What there is for the job at this moment, and in the whole cluster."""

    job_id: JobId
    available: int
    """Held by the job, or being allocated to it."""
    required: int
    free: int
    """Held by no job."""
    total: int
    startable: int
    """That a resource provider may still add."""
    too_small: int = 0
    """Of the total: on task managers without what a slot of the job needs."""


class GiveSlotsBack(Struct, frozen=True):
    """What the job holds is not enough for it, but for another. Its requirement stands."""

    job_id: JobId


JobManagerNotice = NotEnoughSlots | GiveSlotsBack
"""From the resource manager to a job manager."""


# Requests for the overview


class TaskManagerInfo(Struct, frozen=True):
    """A task manager that is registered."""

    task_manager_id: TaskManagerId
    host: str
    address: str
    last_heartbeat: int
    cpu_cores: int
    memory_bytes: int
    slots: tuple[SlotStatus, ...] = ()


class Overview(Struct, frozen=True):
    """All task managers, and the slots that are wanted and not there."""

    task_managers: tuple[TaskManagerInfo, ...] = ()
    pending_slots: int = 0
