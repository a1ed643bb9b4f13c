"""What task managers and job managers tell the resource manager about slots, and what it tells them."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.core.jobs.ids import NO_ALLOCATION, NO_JOB, AllocationId, JobId, JobManagerId, TaskManagerId


@dataclass(frozen=True, slots=True)
class SlotStatus:
    """One slot of a task manager; without an allocation it is free."""

    index: int
    allocation_id: AllocationId = NO_ALLOCATION
    job_id: JobId = NO_JOB


# A task manager's session


@dataclass(frozen=True, slots=True)
class RegisterTaskManager:
    """The first that a task manager says."""

    task_manager_id: TaskManagerId
    host: str
    address: str
    """Of its gRPC service."""
    cpu_cores: int
    memory_bytes: int
    slots: tuple[SlotStatus, ...]
    provider_token: str = ""
    """Of a task manager that a resource provider started."""


@dataclass(frozen=True, slots=True)
class SlotReport:
    """Sent whenever a slot changes hands."""

    slots: tuple[SlotStatus, ...]


@dataclass(frozen=True, slots=True)
class SlotRefused:
    """The slot cannot be allocated."""

    allocation_id: AllocationId
    reason: str


TaskManagerReport = RegisterTaskManager | SlotReport | SlotRefused
"""From a task manager to the resource manager."""


@dataclass(frozen=True, slots=True)
class AllocateSlot:
    """The task manager offers this slot to the job manager, which accepts or refuses it."""

    slot_index: int
    allocation_id: AllocationId
    job_id: JobId
    job_manager_address: str


@dataclass(frozen=True, slots=True)
class ShutDown:
    """Idle for too long, or the cluster is going down."""


TaskManagerCommand = AllocateSlot | ShutDown
"""From the resource manager to a task manager."""


# A job manager's session


@dataclass(frozen=True, slots=True)
class Requirement:
    """Declarative: how many slots the job wants in all, not in addition. 0 ends the requirement."""

    job_id: JobId
    slots: int


@dataclass(frozen=True, slots=True)
class RegisterJobManager:
    """The first that a job manager says."""

    job_manager_id: JobManagerId
    address: str
    requirements: tuple[Requirement, ...] = ()


JobManagerReport = RegisterJobManager | Requirement
"""From a job manager to the resource manager."""


@dataclass(frozen=True, slots=True)
class NotEnoughSlots:
    """What there is for the job at this moment, and in the whole cluster."""

    job_id: JobId
    available: int
    """Held by the job, or on their way to it."""
    required: int
    free: int
    """Held by no job."""
    total: int
    startable: int
    """That a resource provider may still add."""


@dataclass(frozen=True, slots=True)
class GiveSlotsBack:
    """What the job holds is not enough for it, but for another. Its requirement stands."""

    job_id: JobId


JobManagerNotice = NotEnoughSlots | GiveSlotsBack
"""From the resource manager to a job manager."""


# Who asks what there is


@dataclass(frozen=True, slots=True)
class TaskManagerInfo:
    """A task manager that is registered."""

    task_manager_id: TaskManagerId
    host: str
    address: str
    last_heartbeat: int
    cpu_cores: int
    memory_bytes: int
    slots: tuple[SlotStatus, ...] = ()


@dataclass(frozen=True, slots=True)
class Overview:
    """All task managers, and the slots that are wanted and not there."""

    task_managers: tuple[TaskManagerInfo, ...] = ()
    pending_slots: int = 0
