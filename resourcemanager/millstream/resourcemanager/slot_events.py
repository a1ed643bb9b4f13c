"""The events and the effects of the slot manager. Both are closed unions of frozen values."""

from __future__ import annotations

from msgspec import Struct

from millstream.core.jobs.ids import ANY_EPOCH, AllocationId, JobId, JobManagerId, LeaderEpoch, TaskManagerId
from millstream.core.messages.resource_manager import NOTHING, Resources


class SlotReport(Struct, frozen=True):
    """One slot as its task manager sees it. A free slot has neither an allocation nor a job."""

    index: int
    allocation_id: AllocationId | None = None
    job_id: JobId | None = None


class SlotRequirement(Struct, frozen=True):
    """The number of slots that a job wants in all. 0 ends the requirement.

    `need` is what each of them takes, on average, and `largest` what the one takes that needs most. It is declared
    under the `epoch` of the job's leader, and one of an earlier leader counts no more. With `minimum` slots the job
    runs, too, and is given what there is; 0: it is given all or none.
    """

    job_id: JobId
    slots: int
    need: Resources = NOTHING
    largest: Resources = NOTHING
    epoch: LeaderEpoch = ANY_EPOCH
    """Under which the job is led: what an earlier leader wants does not count."""
    minimum: int = 0


class TaskManagerRegistered(Struct, frozen=True):
    """A session with a task manager began. Its report holds all its slots, and is the truth about them."""

    task_manager_id: TaskManagerId
    slots: tuple[SlotReport, ...]
    provided: bool = False  # started by the resource provider, so to be released when idle
    resources: Resources = NOTHING


class TaskManagerLost(Struct, frozen=True):
    """The session with a task manager ended."""

    task_manager_id: TaskManagerId


class SlotsReported(Struct, frozen=True):
    """Slots changed hands. May have been sent before an allocation in flight arrived."""

    task_manager_id: TaskManagerId
    slots: tuple[SlotReport, ...]


class SlotRefused(Struct, frozen=True):
    """The task manager will not make this allocation."""

    task_manager_id: TaskManagerId
    allocation_id: AllocationId


class JobManagerRegistered(Struct, frozen=True):
    """A session with a job manager began. What it requires replaces all that it required before."""

    job_manager_id: JobManagerId
    address: str
    requirements: tuple[SlotRequirement, ...]


class RequirementDeclared(Struct, frozen=True):
    """A job manager changed what one of its jobs wants."""

    job_manager_id: JobManagerId
    requirement: SlotRequirement


class JobManagerLost(Struct, frozen=True):
    """The session with a job manager ended: its requirements end, the slots of its jobs stay as they are."""

    job_manager_id: JobManagerId


class Tick(Struct, frozen=True):
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


class AllocateSlot(Struct, frozen=True):
    """Instruct the task manager to offer this slot to the job's manager."""

    task_manager_id: TaskManagerId
    slot_index: int
    allocation_id: AllocationId
    job_id: JobId
    job_manager_address: str
    epoch: LeaderEpoch = ANY_EPOCH


class TellLeader(Struct, frozen=True):
    """Notify a task manager that holds slots for the job of the job's leader, which may have changed."""

    task_manager_id: TaskManagerId
    job_id: JobId
    job_manager_address: str
    epoch: LeaderEpoch


class NotifyNotEnoughSlots(Struct, frozen=True):
    """Report to the job manager how many slots its job has, held or pending, of those required, and what there is.

    Of the whole cluster: the slots that no job holds, all that there are, and those that may still be started.
    """

    job_manager_id: JobManagerId
    job_id: JobId
    available: int
    required: int
    free: int
    total: int
    startable: int = 0
    too_small: int = 0  # of the total: on task managers without what a slot of the job needs


class ReclaimSlots(Struct, frozen=True):
    """Request the job manager to give back what its job holds: it is not enough for that job, but for another."""

    job_manager_id: JobManagerId
    job_id: JobId


class RequestTaskManagers(Struct, frozen=True):
    """So many task managers are wanted that have not registered yet: in all, not in addition to earlier requests."""

    number: int


class ReleaseTaskManager(Struct, frozen=True):
    """The task manager was idle for too long: shut it down."""

    task_manager_id: TaskManagerId


Effect = AllocateSlot | TellLeader | NotifyNotEnoughSlots | ReclaimSlots | RequestTaskManagers | ReleaseTaskManager
