"""The slots of a task manager: each has at most one holder, and is free once nothing of its last holder is left."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from thoroughness import cases

from millstream.core.jobs.ids import AllocationId, JobId
from millstream.taskmanager.supervisor.slot_table import SlotState, SlotTable

A, B = AllocationId("a"), AllocationId("b")
JOB, OTHER = JobId("job"), JobId("other")
JM = "127.0.0.1:6123"


@pytest.mark.parametrize("index", [-1, 2, 99])
def test_a_slot_that_does_not_exist_is_refused(index: int) -> None:
    assert SlotTable(2).allocate(index, A, JOB, JM) == f"there is no slot {index}; this task manager has 2"


def test_a_taken_slot_is_refused_with_its_holder() -> None:
    table = SlotTable(1)
    table.allocate(0, A, JOB, JM)
    assert table.allocate(0, B, OTHER, JM) == "slot 0 is offered for job job"
    table.accepted(A)
    assert table.allocate(0, B, OTHER, JM) == "slot 0 is in use for job job"
    table.ending(A)
    assert table.allocate(0, B, OTHER, JM) == "slot 0 is ending for job job"
    table.freed(A)
    assert table.allocate(0, B, OTHER, JM) is None


def test_the_same_allocation_may_be_repeated_but_not_moved_or_revived() -> None:
    table = SlotTable(2)
    table.allocate(0, A, JOB, JM)
    table.accepted(A)
    assert table.allocate(0, A, JOB, JM) is None
    held = table.get(A)
    assert held.state is SlotState.IN_USE
    assert table.allocate(1, A, JOB, JM) == "allocation a has slot 0 already"
    table.ending(A)
    assert table.allocate(0, A, JOB, JM) == "slot 0 is ending for job job"


def test_slots_of_a_job_are_those_that_it_holds_or_was_offered() -> None:
    table = SlotTable(3)
    table.allocate(0, A, JOB, JM)
    table.allocate(1, B, OTHER, JM)
    table.allocate(2, AllocationId("c"), JOB, JM)
    table.accepted(A)
    assert [a.allocation_id for a in table.of_job(JOB)] == ["a", "c"]
    table.ending(A)
    assert [a.allocation_id for a in table.of_job(JOB)] == ["c"]


@pytest.mark.parametrize("before", ["offered", "in use"])
def test_a_slot_whose_job_manager_responds_is_not_freed(before: str) -> None:
    table = SlotTable(1)
    table.allocate(0, A, JOB, JM)
    if before == "in use":
        table.accepted(A)
    (held,) = table.of_job(JOB)
    held.held_until = 10.0
    table.accepted(A)
    assert held.held_until is None


def test_an_ending_allocation_is_not_revived_by_a_late_response() -> None:
    table = SlotTable(1)
    table.allocate(0, A, JOB, JM)
    assert table.ending(A)
    assert not table.ending(A)
    table.accepted(A)
    assert table.get(A) is None
    assert table.of_job_manager(JM) == []


SLOTS = 3
JOB_MANAGERS = {AllocationId(f"alloc-{n}"): JM if n % 2 else "127.0.0.1:7000" for n in range(6)}
allocations = st.sampled_from(list(JOB_MANAGERS))


class Table(RuleBasedStateMachine):
    """Compared with a model that only tracks the phase of each slot: free, offered, in use, ending, and free again."""

    @initialize()
    def start(self) -> None:
        self.table = SlotTable(SLOTS)
        self.held: dict[AllocationId, tuple[int, SlotState]] = {}

    @rule(index=st.integers(-1, SLOTS), allocation=allocations)
    def allocate(self, index: int, allocation: AllocationId) -> None:
        refused = self.table.allocate(index, allocation, JOB, JOB_MANAGERS[allocation])
        holders = [a for a, (i, _) in self.held.items() if i == index]
        known = self.held.get(allocation)
        if known is not None:
            possible = known[0] == index and known[1] is not SlotState.ENDING
        else:
            possible = 0 <= index < SLOTS and not holders
        assert (refused is None) == possible
        if possible and known is None:
            self.held[allocation] = (index, SlotState.OFFERED)

    @rule(allocation=allocations)
    def accepted(self, allocation: AllocationId) -> None:
        self.table.accepted(allocation)
        index, state = self.held.get(allocation, (0, None))
        if state is SlotState.OFFERED:
            self.held[allocation] = (index, SlotState.IN_USE)

    @rule(allocation=allocations)
    def ending(self, allocation: AllocationId) -> None:
        index, state = self.held.get(allocation, (0, None))
        assert self.table.ending(allocation) == (state in (SlotState.OFFERED, SlotState.IN_USE))
        if state is not None:
            self.held[allocation] = (index, SlotState.ENDING)

    @rule(allocation=allocations)
    def freed(self, allocation: AllocationId) -> None:
        self.table.freed(allocation)
        self.held.pop(allocation, None)

    @invariant()
    def the_report_tells_exactly_what_is_held(self) -> None:
        if not hasattr(self, "table"):
            return
        report = self.table.report()
        assert len(report) == SLOTS
        held = [(index, a) for index, a in enumerate(report) if a is not None]
        assert {a.allocation_id: (index, a.state) for index, a in held} == self.held
        assert all((a.index, a.job_id, a.job_manager) == (n, JOB, JOB_MANAGERS[a.allocation_id]) for n, a in held)
        alive = {a for a, (_, state) in self.held.items() if state is not SlotState.ENDING}
        for manager in set(JOB_MANAGERS.values()):
            theirs = {a.allocation_id for a in self.table.of_job_manager(manager)}
            assert theirs == {a for a in alive if JOB_MANAGERS[a] == manager}
        assert {a for a in self.held if self.table.get(a) is not None} == alive


TestTable = Table.TestCase
TestTable.settings = settings(max_examples=cases(40), stateful_step_count=30)
