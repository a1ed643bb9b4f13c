"""The slot manager against simulated task managers whose messages travel late, and job managers that come and go."""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from thoroughness import cases

from millstream.core.jobs.ids import AllocationId, JobId, JobManagerId, TaskManagerId
from millstream.resourcemanager import slot_events as ev
from millstream.resourcemanager.slot_manager import Provisioning, SlotManager, SlotState, Timing

TASK_MANAGERS = [TaskManagerId(f"tm{n}") for n in range(3)]
JOB_MANAGERS = [JobManagerId("jm0"), JobManagerId("jm1")]
JOBS = [JobId(f"job{n}") for n in range(4)]
IDLE = 30.0


@dataclass
class FakeTaskManager:
    """The truth about its slots, an inbox of allocations and an outbox of reports that have not arrived yet."""

    id: TaskManagerId
    slots: list[tuple[AllocationId, JobId] | None]
    provided: bool
    inbox: deque[ev.AllocateSlot] = field(default_factory=deque)
    outbox: deque[ev.Event] = field(default_factory=deque)

    def reports(self) -> tuple[ev.SlotReport, ...]:
        return tuple(ev.SlotReport(i, *(slot or (None, None))) for i, slot in enumerate(self.slots))

    def process_one(self, refuse: bool) -> None:
        if not self.inbox:
            return
        order = self.inbox.popleft()
        if refuse or self.slots[order.slot_index] is not None:
            self.outbox.append(ev.SlotRefused(self.id, order.allocation_id))
        else:
            self.slots[order.slot_index] = (order.allocation_id, order.job_id)
            self.outbox.append(ev.SlotsReported(self.id, self.reports()))

    def free(self, index: int) -> None:
        if self.slots[index] is not None:
            self.slots[index] = None
            self.outbox.append(ev.SlotsReported(self.id, self.reports()))


class SlotManagerMachine(RuleBasedStateMachine):
    """Whatever the order of messages: no slot goes to two, no job gets more than it wants or a part of what it misses.

    In the end no job that fits waits, neither for free slots nor for those that another holds and cannot use.
    """

    @initialize(provisioned=st.booleans())
    def set_up(self, provisioned: bool) -> None:
        numbers = itertools.count(1)
        self.provisioning = Provisioning(2, 4, IDLE) if provisioned else None
        self.manager = SlotManager(lambda: AllocationId(f"a{next(numbers)}"), self.provisioning, Timing(10.0, 0.5))
        self.now = 0.0
        self.task_managers: dict[TaskManagerId, FakeTaskManager] = {}
        self.wanted: dict[JobManagerId, dict[JobId, int]] = {}
        self.requested = 0
        self.given: set[AllocationId] = set()
        self.ran: set[JobId] = set()  # has had all its slots
        self.reclaimed: set[JobId] = set()

    def tell(self, event: ev.Event) -> None:
        self.ran = {job for job in self.ran if self.requirement(job)}
        effects = self.manager.handle(event, self.now)
        self.manager.validate()
        for effect in effects:
            if isinstance(effect, ev.AllocateSlot):
                assert effect.allocation_id not in self.given
                self.given.add(effect.allocation_id)
                self.task_managers[effect.task_manager_id].inbox.append(effect)
            elif isinstance(effect, ev.RequestTaskManagers):
                assert self.provisioning is not None
                self.requested = effect.number
            elif isinstance(effect, ev.ReleaseTaskManager):
                assert self.task_managers[effect.task_manager_id].provided
            elif isinstance(effect, ev.ReclaimSlots):
                self.reclaimed.add(effect.job_id)
        self.ran |= {job for job in JOBS if 0 < self.requirement(job) <= self.confirmed(job)}
        places = [(e.task_manager_id, e.slot_index) for e in effects if isinstance(e, ev.AllocateSlot)]
        assert len(places) == len(set(places))
        for job in {e.job_id for e in effects if isinstance(e, ev.AllocateSlot)}:
            assert self.manager.held_by(job) == self.requirement(job)

    def confirmed(self, job: JobId) -> int:
        slots = [slot for ident in self.task_managers for slot in self.manager.slots_of(ident)]
        return sum(1 for slot in slots if slot.job_id == job and slot.state is SlotState.ALLOCATED)

    def requirement(self, job: JobId) -> int:
        return sum(jobs.get(job, 0) for jobs in self.wanted.values())

    def owner(self, job: JobId) -> JobManagerId:
        return JOB_MANAGERS[JOBS.index(job) % len(JOB_MANAGERS)]

    @rule(ident=st.sampled_from(TASK_MANAGERS), number=st.integers(1, 3), provided=st.booleans())
    def task_manager_comes(self, ident: TaskManagerId, number: int, provided: bool) -> None:
        known = self.task_managers.get(ident)
        fresh = FakeTaskManager(ident, known.slots if known else [None] * number, provided)
        self.task_managers[ident] = fresh
        self.tell(ev.TaskManagerRegistered(ident, fresh.reports(), provided))

    @rule(ident=st.sampled_from(TASK_MANAGERS))
    def task_manager_goes(self, ident: TaskManagerId) -> None:
        self.task_managers.pop(ident, None)
        self.tell(ev.TaskManagerLost(ident))

    @rule(ident=st.sampled_from(TASK_MANAGERS), refuse=st.booleans())
    def task_manager_processes(self, ident: TaskManagerId, refuse: bool) -> None:
        if ident in self.task_managers:
            self.task_managers[ident].process_one(refuse)

    @rule(ident=st.sampled_from(TASK_MANAGERS), index=st.integers(0, 2))
    def slot_becomes_free(self, ident: TaskManagerId, index: int) -> None:
        if ident in self.task_managers and index < len(self.task_managers[ident].slots):
            self.task_managers[ident].free(index)

    @rule(ident=st.sampled_from(TASK_MANAGERS))
    def task_manager_repeats_itself(self, ident: TaskManagerId) -> None:
        if ident in self.task_managers:
            manager = self.task_managers[ident]
            manager.outbox.append(ev.SlotsReported(ident, manager.reports()))

    @rule(ident=st.sampled_from(TASK_MANAGERS))
    def report_arrives(self, ident: TaskManagerId) -> None:
        if ident in self.task_managers and self.task_managers[ident].outbox:
            self.tell(self.task_managers[ident].outbox.popleft())

    @rule(ident=st.sampled_from(JOB_MANAGERS), numbers=st.lists(st.integers(0, 4), min_size=4, max_size=4))
    def job_manager_comes(self, ident: JobManagerId, numbers: list[int]) -> None:
        jobs = {job: n for job, n in zip(JOBS, numbers, strict=True) if self.owner(job) == ident}
        self.wanted[ident] = jobs
        self.tell(ev.JobManagerRegistered(ident, "address", tuple(ev.SlotRequirement(j, n) for j, n in jobs.items())))

    @rule(ident=st.sampled_from(JOB_MANAGERS))
    def job_manager_goes(self, ident: JobManagerId) -> None:
        self.wanted.pop(ident, None)
        self.tell(ev.JobManagerLost(ident))

    @rule(job=st.sampled_from(JOBS), number=st.integers(0, 5))
    def job_declares(self, job: JobId, number: int) -> None:
        owner = self.owner(job)
        if owner in self.wanted:
            self.wanted[owner][job] = number
        self.tell(ev.RequirementDeclared(owner, ev.SlotRequirement(job, number)))

    @rule(seconds=st.sampled_from([0.1, 1.0, 11.0, IDLE + 1]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.tell(ev.Tick())

    @rule()
    def all_messages_arrive(self) -> None:
        """With nothing in progress, no job waits that the free slots are enough for."""
        for _ in range(3):
            self.now += 1.0
            self.tell(ev.Tick())
            self.exchange_messages()
        missing = self.missing()
        assert self.manager.missing_slots() == sum(missing.values())
        if self.provisioning is None:  # else task managers may be leaving, and free slots wait for others to come
            usable = self.usable()
            assert not [job for job, number in missing.items() if 0 < number <= usable], (usable, missing)

    @rule()
    def jobs_give_up_what_they_are_asked_for(self) -> None:
        """In the end, no job waits for what another holds and cannot use."""
        for _ in range(3 * len(JOBS)):
            self.now += 11.0
            self.tell(ev.Tick())
            self.exchange_messages()
            for job in self.reclaimed:
                if self.manager.held_by(job) < self.requirement(job):
                    for manager in self.task_managers.values():
                        for index, slot in enumerate(manager.slots):
                            if slot is not None and slot[1] == job:
                                manager.free(index)
            self.reclaimed.clear()
            self.exchange_messages()
        if self.provisioning is None:
            missing = self.missing()
            for job, number in missing.items():
                idle = sum(self.confirmed(other) for other in missing if other not in {job, *self.ran})
                assert number > self.usable() + idle, (job, missing, idle, self.ran)

    def exchange_messages(self) -> None:
        while any(m.inbox or m.outbox for m in self.task_managers.values()):
            for manager in self.task_managers.values():
                manager.process_one(refuse=False)
                while manager.outbox:
                    self.tell(manager.outbox.popleft())

    def usable(self) -> int:
        slots = [slot for ident in self.task_managers for slot in self.manager.slots_of(ident)]
        return sum(1 for slot in slots if slot.state is SlotState.FREE)

    def missing(self) -> dict[JobId, int]:
        missing = {job: self.requirement(job) - self.manager.held_by(job) for job in JOBS}
        return {job: number for job, number in missing.items() if number > 0}

    @invariant()
    def requests_stay_within_the_limit(self) -> None:
        if self.provisioning:
            registered = sum(len(m.slots) for m in self.task_managers.values())
            assert self.requested == 0 or self.requested * 2 + registered <= self.provisioning.max_slots


TestSlotManagerMachine = SlotManagerMachine.TestCase
TestSlotManagerMachine.settings = settings(max_examples=cases(150), stateful_step_count=40)
