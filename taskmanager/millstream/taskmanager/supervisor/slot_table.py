"""The slots of one task manager: which are free, offered or in use, by whom. Pure.

A slot is free, or allocated for a job: offered until the job manager has accepted it, then in use until it is freed. A
slot whose worker is still ending is not free: its resources are not there yet.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from millstream.core.jobs.ids import AllocationId, JobId


class SlotState(Enum):
    """The life of an allocation."""

    OFFERED = "offered"
    IN_USE = "in use"
    ENDING = "ending"


class Allocation(Struct):
    """A slot that is allocated for a job."""

    index: int
    allocation_id: AllocationId
    job_id: JobId
    job_manager: str
    """Where the job is led, as far as is known here."""
    state: SlotState = SlotState.OFFERED
    held_until: float | None = None
    """On the loop's clock, when the slot is freed because its job manager cannot be reached."""


class SlotTable:
    """All slots of the task manager."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._allocations: dict[AllocationId, Allocation] = {}

    def allocate(self, index: int, allocation_id: AllocationId, job_id: JobId, job_manager: str) -> str | None:
        """Allocates a free slot for a job; returns the reason of a refusal, or None."""
        if not 0 <= index < self._slots:
            return f"there is no slot {index}; this task manager has {self._slots}"
        known = self._allocations.get(allocation_id)
        if known is not None and known.index != index:
            return f"allocation {allocation_id} has slot {known.index} already"
        if known is not None and known.state is not SlotState.ENDING:
            return None
        for allocation in self._allocations.values():
            if allocation.index == index:
                return f"slot {index} is {allocation.state.value} for job {allocation.job_id}"
        self._allocations[allocation_id] = Allocation(index, allocation_id, job_id, job_manager)
        return None

    def accepted(self, allocation_id: AllocationId) -> None:
        """The job manager has accepted the offer."""
        allocation = self._allocations.get(allocation_id)
        if allocation is not None and allocation.state is SlotState.OFFERED:
            allocation.state = SlotState.IN_USE
        if allocation is not None:
            allocation.held_until = None

    def of_job(self, job_id: JobId) -> list[Allocation]:
        """What is held for a job or was offered to it."""
        held = (a for a in self._allocations.values() if a.job_id == job_id)
        return [a for a in held if a.state is not SlotState.ENDING]

    def ending(self, allocation_id: AllocationId) -> bool:
        """The slot is being freed; returns whether this was not known before."""
        allocation = self._allocations.get(allocation_id)
        if allocation is None or allocation.state is SlotState.ENDING:
            return False
        allocation.state = SlotState.ENDING
        return True

    def freed(self, allocation_id: AllocationId) -> None:
        """Nothing of the allocation is left."""
        self._allocations.pop(allocation_id, None)

    def get(self, allocation_id: AllocationId) -> Allocation | None:
        """An allocation that is not ending."""
        allocation = self._allocations.get(allocation_id)
        return allocation if allocation is not None and allocation.state is not SlotState.ENDING else None

    def of_job_manager(self, address: str) -> list[Allocation]:
        """What a job manager holds or was offered."""
        held = (a for a in self._allocations.values() if a.job_manager == address)
        return [a for a in held if a.state is not SlotState.ENDING]

    def report(self) -> list[Allocation | None]:
        """Each slot's allocation, by index."""
        by_index = {a.index: a for a in self._allocations.values()}
        return [by_index.get(index) for index in range(self._slots)]
