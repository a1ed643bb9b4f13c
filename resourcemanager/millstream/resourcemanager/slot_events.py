"""What the slot manager is told, and what it answers to be done. Both are closed unions of frozen values."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.core.jobs.ids import AllocationId, JobId, JobManagerId, TaskManagerId


@dataclass(frozen=True, slots=True)
class SlotReport:
    """One slot as its task manager sees it. A free slot has neither an allocation nor a job."""

    index: int
    allocation_id: AllocationId | None = None
    job_id: JobId | None = None


@dataclass(frozen=True, slots=True)
class SlotRequirement:
    """The number of slots that a job wants in all. 0 ends the requirement."""

    job_id: JobId
    slots: int


@dataclass(frozen=True, slots=True)
class TaskManagerRegistered:
    """A session with a task manager began. Its report holds all its slots, and is the truth about them."""

    task_manager_id: TaskManagerId
    slots: tuple[SlotReport, ...]
    provided: bool = False  # started by the resource provider, so to be released when idle


@dataclass(frozen=True, slots=True)
class TaskManagerLost:
    """The session with a task manager ended."""

    task_manager_id: TaskManagerId


@dataclass(frozen=True, slots=True)
class SlotsReported:
    """Slots changed hands. May have been sent before an allocation that is on its way arrived."""

    task_manager_id: TaskManagerId
    slots: tuple[SlotReport, ...]


@dataclass(frozen=True, slots=True)
class SlotRefused:
    """The task manager will not make this allocation."""

    task_manager_id: TaskManagerId
    allocation_id: AllocationId


@dataclass(frozen=True, slots=True)
class JobManagerRegistered:
    """A session with a job manager began. What it requires replaces all that it required before."""

    job_manager_id: JobManagerId
    address: str
    requirements: tuple[SlotRequirement, ...]


@dataclass(frozen=True, slots=True)
class RequirementDeclared:
    """A job manager changed what one of its jobs wants."""

    job_manager_id: JobManagerId
    requirement: SlotRequirement


@dataclass(frozen=True, slots=True)
class JobManagerLost:
    """The session with a job manager ended: its requirements end, the slots of its jobs stay as they are."""

    job_manager_id: JobManagerId


@dataclass(frozen=True, slots=True)
class Tick:
    """Time went by."""


Event = (
    TaskManagerRegistered
    | TaskManagerLost
    | SlotsReported
    | SlotRefused
    | JobManagerRegistered
    | RequirementDeclared
    | JobManagerLost
    | Tick
)


@dataclass(frozen=True, slots=True)
class AllocateSlot:
    """Tell the task manager to offer this slot to the job's manager."""

    task_manager_id: TaskManagerId
    slot_index: int
    allocation_id: AllocationId
    job_id: JobId
    job_manager_address: str


@dataclass(frozen=True, slots=True)
class NotifyNotEnoughSlots:
    """Tell the job manager how many slots its job has, held or on their way, of those it wants, and what there is.

    Of the whole cluster: the slots that no job holds, all that there are, and those that may still be started.
    """

    job_manager_id: JobManagerId
    job_id: JobId
    available: int
    required: int
    free: int
    total: int
    startable: int = 0


@dataclass(frozen=True, slots=True)
class ReclaimSlots:
    """Ask the job manager to give back what its job holds: it is not enough for that job, but for another."""

    job_manager_id: JobManagerId
    job_id: JobId


@dataclass(frozen=True, slots=True)
class RequestTaskManagers:
    """So many task managers are wanted that have not registered yet: in all, not in addition to earlier requests."""

    number: int


@dataclass(frozen=True, slots=True)
class ReleaseTaskManager:
    """The task manager was idle for too long: shut it down."""

    task_manager_id: TaskManagerId


Effect = AllocateSlot | NotifyNotEnoughSlots | ReclaimSlots | RequestTaskManagers | ReleaseTaskManager
