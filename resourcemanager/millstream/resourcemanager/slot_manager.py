"""Who holds which slot, who wants how many, and what to do about it. Pure: events and time in, effects out.

A slot is free, pending (an allocation was sent and not confirmed yet) or allocated (the task manager reports so). A
task manager is the authority on its slots with one exception: a report that shows a pending slot free may have been
sent before the allocation arrived, so the slot stays pending until it is confirmed, refused or overdue.

Requirements are declarative: a job gets slots while those that it holds or has pending are fewer than it wants, all
that it misses at once or none, unless it runs with fewer, too (`slot_shares` has the rule). Jobs have their turns in
the order in which they first declared themselves; one whose slots are recalled goes to the end. Task managers are
filled one after another, in the order in which they registered. A job whose slots need something gets slots of task
managers that have it, beside what the others of their slots need.

A job may come to be led by another job manager. Its slots stay as they are, and the task managers that hold them are
notified of the new leader. The requirements of an earlier leader no longer count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import assert_never

from msgspec import Struct, field

from millstream.core.jobs.ids import ANY_EPOCH, AllocationId, JobId, JobManagerId, LeaderEpoch, TaskManagerId
from millstream.core.messages.resource_manager import NOTHING, Resources
from millstream.core.services.handshake import JobLeaders
from millstream.core.services.leader_lookup import KnownLeader
from millstream.resourcemanager.slot_events import (
    AllocateSlot,
    Effect,
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
from millstream.resourcemanager.slot_shares import Shares, Waiting, claimable, divide


class SlotState(Enum):
    """The life of a slot, which goes round: free, pending, allocated, free."""

    FREE = "free"
    PENDING = "pending"
    ALLOCATED = "allocated"


class Provisioning(Struct, frozen=True):
    """What a resource provider can add: task managers of one size, up to a number of slots in the whole cluster."""

    slots_per_task_manager: int
    max_slots: int
    idle_timeout: float


class Timing(Struct, frozen=True):
    """How long things may take.

    An allocation may stay unanswered for `allocation_timeout`; a slot rests after its task manager refused one; a job
    may hold a part of its slots for the `patience` before they are recalled for another.
    """

    allocation_timeout: float = 10.0
    rest_after_refusal: float = 0.5
    patience: float = 10.0


class _Slot(Struct):
    index: int
    state: SlotState = SlotState.FREE
    allocation_id: AllocationId | None = None
    job_id: JobId | None = None
    since: float = 0.0
    rests_until: float = 0.0
    need: Resources = NOTHING
    """What it was allocated with: it takes that also when its job has ended, until it is free."""
    leader: KnownLeader | None = None
    """Of its job, as its task manager was notified."""

    def set_free(self, now: float, rest: float = 0.0) -> None:
        self.state, self.allocation_id, self.job_id, self.need = SlotState.FREE, None, None, NOTHING
        self.leader = None
        self.since, self.rests_until = now, now + rest

    def take(self, state: SlotState, allocation_id: AllocationId, job_id: JobId, now: float) -> None:
        self.state, self.allocation_id, self.job_id, self.since = state, allocation_id, job_id, now


class _TaskManager(Struct):
    id: TaskManagerId
    provided: bool
    idle_since: float
    slots: dict[int, _Slot] = field(default_factory=dict)
    releasing: bool = False
    resources: Resources = NOTHING

    def is_idle(self) -> bool:
        return all(slot.state is SlotState.FREE for slot in self.slots.values())


class _Requirement(Struct):
    job_manager_id: JobManagerId
    slots: int
    incomplete_since: float
    need: Resources = NOTHING
    largest: Resources = NOTHING
    epoch: LeaderEpoch = ANY_EPOCH
    minimum: int = 0
    was_complete: bool = False
    notified: tuple[int, ...] | None = None


class SlotView(Struct, frozen=True):
    """One slot as the resource manager sees it."""

    index: int
    state: SlotState
    allocation_id: AllocationId | None
    job_id: JobId | None


class SlotManager:
    """Decides; owned by one thread. `handle` is called for each event, with a clock that never goes back."""

    def __init__(
        self,
        new_allocation_id: Callable[[], AllocationId],
        provisioning: Provisioning | None = None,
        timing: Timing | None = None,
    ) -> None:
        self._new_allocation_id = new_allocation_id
        self._provisioning = provisioning
        self._timing = timing or Timing()
        self._task_managers: dict[TaskManagerId, _TaskManager] = {}
        self._job_managers: dict[JobManagerId, str] = {}
        self._requirements: dict[JobId, _Requirement] = {}
        self._wanted_task_managers = 0
        self._leaders = JobLeaders()

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Handles one event and returns the effects, in order."""
        match event:
            case TaskManagerRegistered():
                self._register_task_manager(event, now)
            case TaskManagerLost(task_manager_id):
                self._task_managers.pop(task_manager_id, None)
            case SlotsReported(task_manager_id, slots):
                if task_manager_id in self._task_managers:
                    self._take_report(self._task_managers[task_manager_id], slots, now)
            case SlotRefused(task_manager_id, allocation_id):
                self._refuse(task_manager_id, allocation_id, now)
            case JobManagerRegistered():
                self._register_job_manager(event, now)
            case RequirementDeclared(job_manager_id, requirement):
                if job_manager_id in self._job_managers:
                    self._require(job_manager_id, requirement, now)
            case JobManagerLost(job_manager_id):
                self._job_managers.pop(job_manager_id, None)
                self._drop_requirements(job_manager_id)
            case Tick():
                self._expire(now)
                held = [slot.job_id for _, slot in self._slots() if slot.job_id is not None]
                self._leaders.keep([*held, *self._requirements])
            case _:
                assert_never(event)
        effects: list[Effect] = []
        self._note_completeness(now)
        usable, resting = self._free_slots(now)
        waiting = [job for job in self._waiting(now) if self._may_fit(job, usable)]
        shares = divide(waiting, len(usable), resting, self._startable())
        self._tell_leaders(effects)
        self._allocate(shares, usable, now, effects)
        self._provide(shares, effects, repeat=isinstance(event, TaskManagerRegistered | TaskManagerLost))
        if isinstance(event, Tick):
            self._release_idle(shares, now, effects)
            self._reclaim(shares, now, effects)
        self._notify(shares, effects)
        return effects

    def slots_of(self, task_manager_id: TaskManagerId) -> tuple[SlotView, ...]:
        """The slots of a task manager in order of their index; none when it is not registered."""
        task_manager = self._task_managers.get(task_manager_id)
        if task_manager is None:
            return ()
        slots = sorted(task_manager.slots.values(), key=lambda slot: slot.index)
        return tuple(SlotView(slot.index, slot.state, slot.allocation_id, slot.job_id) for slot in slots)

    def missing_slots(self) -> int:
        """How many slots jobs want beyond those that they hold or have pending."""
        return sum(max(0, wanted.slots - self.held_by(job)) for job, wanted in self._requirements.items())

    def held_by(self, job_id: JobId) -> int:
        """How many slots a job holds or has pending."""
        return sum(1 for _, slot in self._slots() if slot.job_id == job_id)

    def validate(self) -> None:
        """Raises AssertionError when the state contradicts itself; called by tests after every event."""
        allocations: set[AllocationId] = set()
        for task_manager, slot in self._slots():
            where = f"{task_manager.id}/{slot.index}"
            taken = slot.state is not SlotState.FREE
            assert (slot.allocation_id is not None) == taken, f"{where}: {slot}"
            assert (slot.job_id is not None) == taken, f"{where}: {slot}"
            assert task_manager.slots[slot.index] is slot, where
            if slot.state is SlotState.PENDING:
                assert slot.allocation_id is not None
                assert slot.allocation_id not in allocations, f"{where}: {slot.allocation_id} is elsewhere too"
                allocations.add(slot.allocation_id)
        for job_id, requirement in self._requirements.items():
            assert requirement.slots > 0, job_id
            assert requirement.job_manager_id in self._job_managers, job_id
            missing = self.held_by(job_id) < requirement.slots
            assert (requirement.notified is not None) == missing, f"{job_id}: {requirement}"

    def _slots(self) -> Iterator[tuple[_TaskManager, _Slot]]:
        for task_manager in self._task_managers.values():
            for slot in task_manager.slots.values():
                yield task_manager, slot

    def _register_task_manager(self, event: TaskManagerRegistered, now: float) -> None:
        known = self._task_managers.get(event.task_manager_id)
        if known is None:
            known = _TaskManager(event.task_manager_id, event.provided, now)
            self._task_managers[event.task_manager_id] = known
        known.provided, known.releasing, known.idle_since = event.provided, False, now
        known.resources = event.resources
        known.slots = {report.index: _Slot(report.index) for report in sorted(event.slots, key=lambda r: r.index)}
        self._take_report(known, event.slots, now)

    def _take_report(self, task_manager: _TaskManager, reports: Iterable[SlotReport], now: float) -> None:
        for report in reports:
            slot = task_manager.slots.get(report.index)
            if slot is None:
                continue
            if report.allocation_id is None or report.job_id is None:
                if slot.state is SlotState.ALLOCATED:
                    slot.set_free(now)
            else:
                slot.take(SlotState.ALLOCATED, report.allocation_id, report.job_id, now)
        self._note_idleness(task_manager, now)

    def _refuse(self, task_manager_id: TaskManagerId, allocation_id: AllocationId, now: float) -> None:
        task_manager = self._task_managers.get(task_manager_id)
        for slot in task_manager.slots.values() if task_manager else ():
            if slot.allocation_id == allocation_id:
                slot.set_free(now, self._timing.rest_after_refusal)
        if task_manager is not None:
            self._note_idleness(task_manager, now)

    def _note_idleness(self, task_manager: _TaskManager, now: float) -> None:
        if not task_manager.is_idle():
            task_manager.idle_since = float("inf")
        elif task_manager.idle_since == float("inf"):
            task_manager.idle_since = now

    def _register_job_manager(self, event: JobManagerRegistered, now: float) -> None:
        self._job_managers[event.job_manager_id] = event.address
        kept = {requirement.job_id for requirement in event.requirements}
        for job_id in [j for j, r in self._requirements.items() if r.job_manager_id == event.job_manager_id]:
            if job_id not in kept:
                del self._requirements[job_id]
        for requirement in event.requirements:
            self._require(event.job_manager_id, requirement, now)
            if requirement.job_id in self._requirements:
                self._requirements[requirement.job_id].notified = None

    def _require(self, job_manager_id: JobManagerId, requirement: SlotRequirement, now: float) -> None:
        current = self._requirements.get(requirement.job_id)
        leader = KnownLeader(self._job_managers[job_manager_id], requirement.epoch)
        if self._leaders.refusal(requirement.job_id, leader):
            return
        if requirement.slots <= 0:
            if current is not None and current.job_manager_id == job_manager_id:
                del self._requirements[requirement.job_id]
        elif current is None:
            self._requirements[requirement.job_id] = _Requirement(
                job_manager_id,
                requirement.slots,
                now,
                requirement.need,
                requirement.largest,
                requirement.epoch,
                requirement.minimum,
            )
        else:
            if current.job_manager_id != job_manager_id:
                current.notified = None
            current.job_manager_id, current.slots = job_manager_id, requirement.slots
            current.need, current.largest, current.epoch = requirement.need, requirement.largest, requirement.epoch
            current.minimum = requirement.minimum

    def _drop_requirements(self, job_manager_id: JobManagerId) -> None:
        self._requirements = {j: r for j, r in self._requirements.items() if r.job_manager_id != job_manager_id}

    def _expire(self, now: float) -> None:
        for task_manager, slot in self._slots():
            if slot.state is SlotState.PENDING and now - slot.since >= self._timing.allocation_timeout:
                slot.set_free(now)
                self._note_idleness(task_manager, now)

    def _note_completeness(self, now: float) -> None:
        """A job is complete when task managers have confirmed all its slots."""
        confirmed = self._confirmed()
        for job_id, requirement in self._requirements.items():
            if confirmed[job_id] >= requirement.slots:
                requirement.was_complete = True
            if confirmed[job_id] == 0 or confirmed[job_id] >= requirement.slots:
                requirement.incomplete_since = now

    def _confirmed(self) -> Counter[JobId | None]:
        return Counter(slot.job_id for _, slot in self._slots() if slot.state is SlotState.ALLOCATED)

    def _waiting(self, now: float) -> list[Waiting]:
        """The jobs that miss slots, in the order of their turn."""
        held, confirmed = Counter(slot.job_id for _, slot in self._slots()), self._confirmed()
        return [
            Waiting(
                job_id,
                wanted.slots - held[job_id],
                confirmed[job_id],
                wanted.was_complete,
                overdue=now - wanted.incomplete_since >= self._timing.patience,
                least=wanted.minimum or None,
            )
            for job_id, wanted in self._requirements.items()
            if held[job_id] < wanted.slots
        ]

    def _free_slots(self, now: float) -> tuple[list[tuple[_TaskManager, _Slot]], int]:
        """Those that can be allocated now, and the number of those that rest: they come back by themselves."""
        free = [
            (manager, slot) for manager, slot in self._slots() if slot.state is SlotState.FREE and not manager.releasing
        ]
        usable = [(manager, slot) for manager, slot in free if slot.rests_until <= now]
        return usable, len(free) - len(usable)

    def _registered(self) -> int:
        return sum(len(task_manager.slots) for task_manager in self._task_managers.values())

    def _startable(self) -> int:
        """How many slots the provider may still add, or is adding."""
        if self._provisioning is None:
            return 0
        size = self._provisioning.slots_per_task_manager
        return max(0, self._provisioning.max_slots - self._registered()) // size * size

    def _allocate(
        self, shares: Shares, usable: list[tuple[_TaskManager, _Slot]], now: float, effects: list[Effect]
    ) -> None:
        for job_id in shares.granted:
            requirement = self._requirements[job_id]
            leader = self._leader(requirement)
            missing = requirement.slots - self.held_by(job_id)
            chosen = self._fitting(usable, requirement, missing)
            if len(chosen) < missing and not requirement.minimum:
                continue  # a job before it took what would have been large enough
            for task_manager, slot in chosen:
                usable.remove((task_manager, slot))
                allocation_id = self._new_allocation_id()
                slot.take(SlotState.PENDING, allocation_id, job_id, now)
                slot.need, slot.leader = requirement.need, leader
                task_manager.idle_since = float("inf")
                effects.append(
                    AllocateSlot(task_manager.id, slot.index, allocation_id, job_id, leader.address, leader.epoch)
                )

    def _leader(self, requirement: _Requirement) -> KnownLeader:
        return KnownLeader(self._job_managers[requirement.job_manager_id], requirement.epoch)

    def _tell_leaders(self, effects: list[Effect]) -> None:
        """Once to each task manager that holds slots of a job, when it may not know who leads that."""
        leaders: dict[tuple[TaskManagerId, JobId], KnownLeader] = {}
        for task_manager, slot in self._slots():
            requirement = self._requirements.get(slot.job_id) if slot.job_id is not None else None
            if slot.job_id is not None and requirement is not None and slot.leader != self._leader(requirement):
                slot.leader = leaders[task_manager.id, slot.job_id] = self._leader(requirement)
        effects += [TellLeader(manager, job, led.address, led.epoch) for (manager, job), led in leaders.items()]

    def _may_fit(self, job: Waiting, usable: list[tuple[_TaskManager, _Slot]]) -> bool:
        """Not when there are enough slots for it, but of task managers that are too small."""
        requirement, missing = self._requirements[job.job_id], job.missing
        return (
            bool(requirement.minimum)
            or len(usable) < missing
            or len(self._fitting(usable, requirement, missing)) >= missing
        )

    def _fitting(
        self, usable: list[tuple[_TaskManager, _Slot]], requirement: _Requirement, most: int
    ) -> list[tuple[_TaskManager, _Slot]]:
        """As many slots as are wanted, of task managers that have what is needed, beside what their others need."""
        need = requirement.need
        if need == NOTHING:
            return usable[:most]
        left = {manager.id: self._left(manager) for manager, _ in usable}
        chosen: list[tuple[_TaskManager, _Slot]] = []
        for manager, slot in usable:
            fits = manager.resources.covers(requirement.largest) and left[manager.id].covers(need)
            if len(chosen) < most and fits:
                left[manager.id] -= need
                chosen.append((manager, slot))
        return chosen

    def _left(self, task_manager: _TaskManager) -> Resources:
        """What is not taken by slots that need something."""
        left = task_manager.resources
        for slot in task_manager.slots.values():
            requirement = self._requirements.get(slot.job_id) if slot.job_id is not None else None
            left -= slot.need if requirement is None else requirement.need
        return left

    def _provide(self, shares: Shares, effects: list[Effect], repeat: bool) -> None:
        if self._provisioning is None:
            return
        wanted = -(-shares.to_start // self._provisioning.slots_per_task_manager)
        if wanted != self._wanted_task_managers or (repeat and wanted):
            self._wanted_task_managers = wanted
            effects.append(RequestTaskManagers(wanted))

    def _release_idle(self, shares: Shares, now: float, effects: list[Effect]) -> None:
        if self._provisioning is None or shares.reserved:
            return
        for task_manager in self._task_managers.values():
            idle_for = now - task_manager.idle_since
            if task_manager.provided and not task_manager.releasing and idle_for >= self._provisioning.idle_timeout:
                task_manager.releasing = True
                effects.append(ReleaseTaskManager(task_manager.id))

    def _reclaim(self, shares: Shares, now: float, effects: list[Effect]) -> None:
        served = (*shares.granted, *shares.reserved)
        waiting = [job for job in self._waiting(now) if job.job_id not in served]
        for job_id in claimable(waiting, shares.left):
            requirement = self._requirements.pop(job_id)
            requirement.incomplete_since = now
            self._requirements[job_id] = requirement
            effects.append(ReclaimSlots(requirement.job_manager_id, job_id))

    def _notify(self, shares: Shares, effects: list[Effect]) -> None:
        held = Counter(slot.job_id for _, slot in self._slots())
        supply = (shares.left, self._registered(), self._startable())
        for job_id, requirement in self._requirements.items():
            small = [m for m in self._task_managers.values() if not m.resources.covers(requirement.largest)]
            news = (held[job_id], requirement.slots, *supply, sum(len(manager.slots) for manager in small))
            if held[job_id] >= requirement.slots:
                requirement.notified = None
            elif requirement.notified != news:
                requirement.notified = news
                effects.append(NotifyNotEnoughSlots(requirement.job_manager_id, job_id, *news))
