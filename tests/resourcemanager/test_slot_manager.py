"""The slot manager, event by event."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest

from millstream.core.jobs.ids import ANY_EPOCH, AllocationId, JobId, JobManagerId, LeaderEpoch, TaskManagerId
from millstream.core.messages.resource_manager import Resources
from millstream.resourcemanager import slot_events as ev
from millstream.resourcemanager.slot_manager import Provisioning, SlotManager, SlotState, Timing

JM = JobManagerId("jm")
JOB = JobId("job")
OTHER = JobId("other")
TM1, TM2 = TaskManagerId("tm1"), TaskManagerId("tm2")


class Driver:
    """A slot manager with readable allocation ids, validated after each event."""

    def __init__(self, provisioning: Provisioning | None = None) -> None:
        numbers = itertools.count(1)
        self.manager = SlotManager(
            lambda: AllocationId(f"a{next(numbers)}"), provisioning, Timing(allocation_timeout=10, rest_after_refusal=1)
        )
        self.now = 0.0

    def __call__(self, event: ev.Event, after: float = 0.0) -> list[ev.Effect]:
        self.now += after
        effects = self.manager.handle(event, self.now)
        self.manager.validate()
        return effects

    def states(self, task_manager: TaskManagerId) -> list[SlotState]:
        return [slot.state for slot in self.manager.slots_of(task_manager)]


def free(number: int) -> tuple[ev.SlotReport, ...]:
    return tuple(ev.SlotReport(index) for index in range(number))


def held(index: int, allocation: str, job: JobId = JOB) -> ev.SlotReport:
    return ev.SlotReport(index, AllocationId(allocation), job)


def wants(number: int, job: JobId = JOB, minimum: int = 0) -> ev.RequirementDeclared:
    return ev.RequirementDeclared(JM, ev.SlotRequirement(job, number, minimum=minimum))


def allocations(effects: Iterable[ev.Effect]) -> list[tuple[TaskManagerId, int, str]]:
    return [(e.task_manager_id, e.slot_index, e.allocation_id) for e in effects if isinstance(e, ev.AllocateSlot)]


def reclaimed(effects: Iterable[ev.Effect]) -> list[JobId]:
    return [e.job_id for e in effects if isinstance(e, ev.ReclaimSlots)]


@pytest.fixture
def driver() -> Driver:
    driver = Driver()
    assert driver(ev.JobManagerRegistered(JM, "127.0.0.1:1", ())) == []
    return driver


def test_fills_task_managers_one_after_the_other(driver: Driver) -> None:
    driver(ev.TaskManagerRegistered(TM1, free(2)))
    driver(ev.TaskManagerRegistered(TM2, free(2)))
    effects = driver(wants(3))
    assert allocations(effects) == [(TM1, 0, "a1"), (TM1, 1, "a2"), (TM2, 0, "a3")]
    assert effects[0] == ev.AllocateSlot(TM1, 0, AllocationId("a1"), JOB, "127.0.0.1:1")
    assert driver.states(TM2) == [SlotState.PENDING, SlotState.FREE]


def test_notifies_of_missing_slots_whenever_they_change(driver: Driver) -> None:
    assert driver(wants(3)) == [ev.NotifyNotEnoughSlots(JM, JOB, 0, 3, free=0, total=0)]
    assert driver(ev.Tick(), after=1) == []
    assert driver(ev.TaskManagerRegistered(TM1, free(1))) == [ev.NotifyNotEnoughSlots(JM, JOB, 0, 3, free=1, total=1)]
    assert driver(wants(4)) == [ev.NotifyNotEnoughSlots(JM, JOB, 0, 4, free=1, total=1)]
    effects = driver(ev.TaskManagerRegistered(TM2, free(5)))
    assert allocations(effects) == [(TM1, 0, "a1"), (TM2, 0, "a2"), (TM2, 1, "a3"), (TM2, 2, "a4")]
    assert driver(ev.Tick(), after=1) == []


def test_a_job_that_cannot_have_all_its_slots_holds_none_and_blocks_no_other(driver: Driver) -> None:
    driver(ev.TaskManagerRegistered(TM1, free(3)))
    assert driver(wants(4)) == [ev.NotifyNotEnoughSlots(JM, JOB, 0, 4, free=3, total=3)]
    assert len(allocations(driver(wants(2, OTHER)))) == 2
    assert driver.manager.held_by(JOB) == 0
    driver(ev.SlotsReported(TM1, (held(0, "a1", OTHER), held(1, "a2", OTHER), ev.SlotReport(2))))
    driver(wants(0, OTHER))
    driver(ev.SlotsReported(TM1, free(3)))
    assert len(allocations(driver(ev.TaskManagerRegistered(TM2, free(1))))) == 4


def test_the_job_that_waits_for_longest_has_the_first_turn(driver: Driver) -> None:
    driver(wants(3))
    driver(wants(1, OTHER))
    effects = driver(ev.TaskManagerRegistered(TM1, free(3)))
    assert [e.job_id for e in effects if isinstance(e, ev.AllocateSlot)] == [JOB] * 3


def test_a_job_that_never_had_all_slots_gives_up_its_part_for_one_that_could_run(driver: Driver) -> None:
    driver(ev.TaskManagerRegistered(TM1, free(2)))
    driver(wants(2))
    driver(ev.SlotsReported(TM1, (held(0, "a1"), ev.SlotReport(1))))
    driver(ev.TaskManagerLost(TM1))
    driver(ev.TaskManagerRegistered(TM1, (held(0, "a1"),)))
    driver(wants(1, OTHER))
    assert not reclaimed(driver(ev.Tick(), after=9))
    assert reclaimed(driver(ev.Tick(), after=1)) == [JOB]
    assert driver.manager.missing_slots() == 2, "it still wants its slots"
    assert not reclaimed(driver(ev.Tick(), after=1))
    assert [e.job_id for e in driver(ev.SlotsReported(TM1, free(1))) if isinstance(e, ev.AllocateSlot)] == [OTHER]


def test_a_job_that_lost_slots_keeps_the_others_against_newer_jobs_and_yields_to_older_ones(driver: Driver) -> None:
    driver(ev.TaskManagerRegistered(TM1, free(2)))
    driver(ev.TaskManagerRegistered(TM2, free(2)))
    older, newest = JobId("older"), JobId("newest")
    driver(wants(2, older))
    driver(wants(2))
    driver(ev.SlotsReported(TM1, (held(0, "a1", older), held(1, "a3"))))
    driver(ev.SlotsReported(TM2, (held(0, "a2", older), held(1, "a4"))))
    driver(wants(1, newest))
    assert not reclaimed(driver(ev.Tick(), after=100))
    driver(ev.TaskManagerLost(TM2))
    assert not reclaimed(driver(ev.Tick(), after=1))
    assert reclaimed(driver(ev.Tick(), after=10)) == [JOB]
    effects = driver(ev.SlotsReported(TM1, (held(0, "a1", older), ev.SlotReport(1))))
    assert [e.job_id for e in effects if isinstance(e, ev.AllocateSlot)] == [older]
    driver(wants(0, JOB))
    driver(ev.TaskManagerLost(TM1))
    driver(ev.TaskManagerRegistered(TM1, (held(0, "a1", older),)))
    assert not reclaimed(driver(ev.Tick(), after=100))


def test_a_new_leader_of_a_job_that_lacks_slots_is_notified_and_the_same_one_only_once(driver: Driver) -> None:
    second = JobManagerId("second")
    driver(ev.JobManagerRegistered(second, "127.0.0.1:2", ()))
    lacks = [effect for effect in driver(wants(2)) if isinstance(effect, ev.NotifyNotEnoughSlots)]
    assert [effect.job_manager_id for effect in lacks] == [JM]
    assert driver(wants(2)) == []
    effects = driver(ev.RequirementDeclared(second, ev.SlotRequirement(JOB, 2)))
    assert [e.job_manager_id for e in effects if isinstance(e, ev.NotifyNotEnoughSlots)] == [second]


def test_the_leader_of_a_job_that_holds_slots_is_remembered_without_a_requirement(driver: Driver) -> None:
    second = JobManagerId("second")
    driver(ev.JobManagerRegistered(second, "127.0.0.1:2", ()))
    driver(ev.TaskManagerRegistered(TM1, free(1)))
    driver(ev.RequirementDeclared(JM, ev.SlotRequirement(JOB, 1, epoch=LeaderEpoch(5))))
    driver(ev.SlotsReported(TM1, (held(0, "a1"),)))
    driver(ev.JobManagerLost(JM))
    driver(ev.Tick())
    driver(ev.RequirementDeclared(second, ev.SlotRequirement(JOB, 2, epoch=LeaderEpoch(4))))
    assert driver.manager.missing_slots() == 0, "an earlier leader wants nothing any more"


def test_an_allocation_that_is_pending_twice_is_a_contradiction() -> None:
    manager = SlotManager(lambda: AllocationId("same"), None, Timing(allocation_timeout=10, rest_after_refusal=1))
    manager.handle(ev.JobManagerRegistered(JM, "127.0.0.1:1", ()), 0.0)
    manager.handle(ev.TaskManagerRegistered(TM1, free(2)), 0.0)
    manager.handle(wants(2), 0.0)
    with pytest.raises(AssertionError, match="same is elsewhere too"):
        manager.validate()


def test_a_job_that_runs_with_fewer_gets_what_there_is_and_what_comes(driver: Driver) -> None:
    driver(ev.TaskManagerRegistered(TM1, free(2)))
    assert len(allocations(driver(wants(5, minimum=1)))) == 2
    driver(ev.SlotsReported(TM1, (held(0, "a1"), held(1, "a2"))))
    assert len(allocations(driver(ev.TaskManagerRegistered(TM2, free(2))))) == 2
    assert driver.manager.missing_slots() == 1


def test_a_job_that_comes_to_run_with_fewer_gets_what_there_is(driver: Driver) -> None:
    driver(ev.TaskManagerRegistered(TM1, free(2)))
    assert allocations(driver(wants(5))) == []
    assert len(allocations(driver(wants(5, minimum=1)))) == 2


def test_a_job_that_runs_with_fewer_gets_none_when_they_are_too_few_for_it(driver: Driver) -> None:
    driver(ev.TaskManagerRegistered(TM1, free(2)))
    assert allocations(driver(wants(5, minimum=3))) == []
    assert len(allocations(driver(wants(1, OTHER)))) == 1


def test_slots_of_a_job_that_runs_with_fewer_than_it_wants_are_not_reclaimed(driver: Driver) -> None:
    driver(ev.TaskManagerRegistered(TM1, free(1)))
    driver(wants(4, minimum=1))
    driver(ev.SlotsReported(TM1, (held(0, "a1"),)))
    driver(wants(1, OTHER))
    assert not reclaimed(driver(ev.Tick(), after=100))


def test_task_managers_are_started_for_a_job_that_would_run_with_fewer() -> None:
    driver = Driver(Provisioning(slots_per_task_manager=2, max_slots=4, idle_timeout=10))
    driver(ev.JobManagerRegistered(JM, "127.0.0.1:1", ()))
    assert ev.RequestTaskManagers(2) in driver(wants(9, minimum=1))
    driver(ev.TaskManagerRegistered(TM1, free(2), provided=True))
    assert driver.manager.held_by(JOB) == 2


def test_a_report_sent_before_the_allocation_arrived_does_not_free_the_slot(driver: Driver) -> None:
    driver(ev.TaskManagerRegistered(TM1, free(1)))
    driver(wants(1))
    assert driver(ev.SlotsReported(TM1, free(1))) == []
    assert driver.states(TM1) == [SlotState.PENDING]
    driver(ev.SlotsReported(TM1, (held(0, "a1"),)))
    assert driver.states(TM1) == [SlotState.ALLOCATED]
    assert allocations(driver(ev.SlotsReported(TM1, free(1)))) == [(TM1, 0, "a2")]


def test_a_refused_slot_rests_before_it_is_tried_again(driver: Driver) -> None:
    driver(ev.TaskManagerRegistered(TM1, free(1)))
    driver(wants(1))
    assert driver(ev.SlotRefused(TM1, AllocationId("a1"))) == [ev.NotifyNotEnoughSlots(JM, JOB, 0, 1, free=0, total=1)]
    assert driver(ev.Tick(), after=0.5) == []
    assert allocations(driver(ev.Tick(), after=0.5)) == [(TM1, 0, "a2")]
    assert driver(ev.SlotRefused(TM1, AllocationId("a1"))) == []
    assert driver.states(TM1) == [SlotState.PENDING]


def test_what_is_reported_of_slots_that_do_not_exist_or_of_no_job_changes_nothing(driver: Driver) -> None:
    assert driver(ev.SlotsReported(TM2, (held(0, "a1"),))) == []
    assert driver(ev.SlotRefused(TM2, AllocationId("a1"))) == []
    driver(ev.TaskManagerRegistered(TM1, free(2)))
    driver(ev.SlotsReported(TM1, (held(7, "a1"), ev.SlotReport(1, AllocationId("a2")))))
    assert driver.states(TM1) == [SlotState.FREE] * 2


def test_an_allocation_without_a_response_expires(driver: Driver) -> None:
    driver(ev.TaskManagerRegistered(TM1, free(1)))
    driver(wants(1))
    assert driver(ev.Tick(), after=9) == []
    assert allocations(driver(ev.Tick(), after=1)) == [(TM1, 0, "a2")]


def test_the_task_manager_knows_best_who_has_its_slot(driver: Driver) -> None:
    driver(ev.TaskManagerRegistered(TM1, free(1)))
    driver(wants(1))
    assert driver(ev.SlotsReported(TM1, (held(0, "theirs", OTHER),)))[-1] == ev.NotifyNotEnoughSlots(
        JM, JOB, 0, 1, 0, 1
    )
    assert driver.manager.slots_of(TM1)[0].job_id == OTHER


def test_a_lost_job_manager_keeps_its_slots_and_declares_again(driver: Driver) -> None:
    driver(ev.TaskManagerRegistered(TM1, free(2)))
    driver(wants(2))
    driver(ev.SlotsReported(TM1, (held(0, "a1"), held(1, "a2"))))
    driver(ev.JobManagerLost(JM))
    assert driver.states(TM1) == [SlotState.ALLOCATED] * 2
    assert driver.manager.missing_slots() == 0
    assert driver(wants(5)) == []
    again = ev.JobManagerRegistered(JM, "127.0.0.1:2", (ev.SlotRequirement(JOB, 3),))
    told, missing = driver(again)
    assert told == ev.TellLeader(TM1, JOB, "127.0.0.1:2", ANY_EPOCH)
    assert missing == ev.NotifyNotEnoughSlots(JM, JOB, 2, 3, free=0, total=2)


def test_the_leader_of_a_slot_that_was_free_meanwhile_is_notified_again(driver: Driver) -> None:
    driver(ev.TaskManagerRegistered(TM1, free(1)))
    driver(wants(1))
    driver(ev.SlotsReported(TM1, (held(0, "a1"),)))
    driver(wants(0))
    driver(ev.SlotsReported(TM1, free(1)))
    driver(ev.SlotsReported(TM1, (held(0, "theirs", OTHER),)))
    assert driver(wants(1, OTHER)) == [ev.TellLeader(TM1, OTHER, "127.0.0.1:1", ANY_EPOCH)]


def test_a_job_manager_that_registers_again_is_notified_again(driver: Driver) -> None:
    lacks = ev.NotifyNotEnoughSlots(JM, JOB, 0, 2, free=0, total=0)
    assert driver(wants(2)) == [lacks]
    again = ev.JobManagerRegistered(JM, "127.0.0.1:1", (ev.SlotRequirement(JOB, 2),))
    assert driver(again) == [lacks], "it may not have received it"


def test_task_managers_that_hold_slots_of_a_job_learn_of_its_new_leader_once(driver: Driver) -> None:
    def led(job_manager: JobManagerId, number: int, epoch: int) -> list[ev.Effect]:
        requirement = ev.SlotRequirement(JOB, number, epoch=LeaderEpoch(epoch))
        return driver(ev.JobManagerRegistered(job_manager, f"at {job_manager}", (requirement,)))

    old, new = JobManagerId("old"), JobManagerId("new")
    driver(ev.TaskManagerRegistered(TM1, free(2)))
    (first, _) = led(old, 2, epoch=5)
    assert first == ev.AllocateSlot(TM1, 0, AllocationId("a1"), JOB, "at old", LeaderEpoch(5))
    driver(ev.SlotsReported(TM1, (held(0, "a1"), held(1, "a2"))))
    told = ev.TellLeader(TM1, JOB, "at new", LeaderEpoch(7))
    assert led(new, 2, epoch=7) == [told]
    assert led(new, 2, epoch=7) == []
    assert led(old, 3, epoch=5) == [], "an earlier leader wants nothing any more"
    driver(ev.JobManagerLost(new))
    assert led(old, 3, epoch=5) == []
    assert led(new, 2, epoch=7) == []
    assert driver(ev.TaskManagerRegistered(TM1, (held(0, "a1"), held(1, "a2")))) == [told], "it may have missed it"


def test_a_new_leader_of_a_job_that_nothing_is_left_of_is_followed_whatever_its_epoch(driver: Driver) -> None:
    driver(ev.RequirementDeclared(JM, ev.SlotRequirement(JOB, 1, epoch=LeaderEpoch(9))))
    driver(ev.RequirementDeclared(JM, ev.SlotRequirement(JOB, 0, epoch=LeaderEpoch(9))))
    driver(ev.Tick())
    driver(ev.RequirementDeclared(JM, ev.SlotRequirement(JOB, 1, epoch=LeaderEpoch(3))))
    assert driver.manager.missing_slots() == 1


def test_registering_again_replaces_what_was_required_and_known(driver: Driver) -> None:
    driver(ev.TaskManagerRegistered(TM1, free(1)))
    driver(wants(1))
    driver(wants(1, OTHER))
    assert allocations(driver(ev.JobManagerRegistered(JM, "127.0.0.1:2", (ev.SlotRequirement(OTHER, 1),)))) == []
    effects = driver(ev.TaskManagerRegistered(TM1, free(1)))
    assert effects == [ev.AllocateSlot(TM1, 0, AllocationId("a2"), OTHER, "127.0.0.1:2")]


def test_a_lost_task_manager_is_replaced_by_another(driver: Driver) -> None:
    driver(ev.TaskManagerRegistered(TM1, free(1)))
    driver(wants(1))
    driver(ev.TaskManagerRegistered(TM2, free(1)))
    assert allocations(driver(ev.TaskManagerLost(TM1))) == [(TM2, 0, "a2")]


def test_a_requirement_that_shrinks_takes_nothing_away(driver: Driver) -> None:
    driver(ev.TaskManagerRegistered(TM1, free(2)))
    driver(wants(2))
    assert driver(wants(0)) == []
    assert driver.states(TM1) == [SlotState.PENDING] * 2
    driver(ev.SlotsReported(TM1, (held(0, "a1"), held(1, "a2"))))
    assert driver(ev.SlotsReported(TM1, free(2))) == []
    assert driver.states(TM1) == [SlotState.FREE] * 2


class TestProvisioning:
    @pytest.fixture
    def driver(self) -> Driver:
        driver = Driver(Provisioning(slots_per_task_manager=2, max_slots=5, idle_timeout=30))
        assert driver(ev.JobManagerRegistered(JM, "127.0.0.1:1", ())) == []
        return driver

    def test_requests_once_what_is_needed_and_nothing_when_nothing_is(self, driver: Driver) -> None:
        assert driver(ev.TaskManagerRegistered(TM2, free(1))) == []
        assert ev.RequestTaskManagers(1) in driver(wants(3))
        assert driver(ev.Tick(), after=1) == []

    def test_requests_none_beyond_the_limit(self) -> None:
        driver = Driver(Provisioning(slots_per_task_manager=1, max_slots=1, idle_timeout=30))
        driver(ev.JobManagerRegistered(JM, "127.0.0.1:1", ()))
        driver(ev.TaskManagerRegistered(TM1, free(1), provided=True))
        assert driver(wants(2)) == [ev.NotifyNotEnoughSlots(JM, JOB, 0, 2, free=1, total=1)]

    def test_keeps_one_that_registers_with_a_slot_in_use(self, driver: Driver) -> None:
        driver(ev.TaskManagerRegistered(TM1, (held(0, "a9"), ev.SlotReport(1)), provided=True))
        assert driver(ev.Tick(), after=100) == []

    def test_requests_as_many_as_are_needed_within_the_limit(self, driver: Driver) -> None:
        assert ev.RequestTaskManagers(1) in driver(wants(1))
        assert ev.RequestTaskManagers(2) in driver(wants(3))
        assert ev.RequestTaskManagers(0) in driver(wants(9))
        driver(wants(3))
        assert ev.RequestTaskManagers(1) in driver(ev.TaskManagerRegistered(TM1, free(2), provided=True))
        assert ev.RequestTaskManagers(0) in driver(wants(2))

    def test_free_slots_are_kept_for_a_job_that_the_provider_completes(self, driver: Driver) -> None:
        driver(ev.TaskManagerRegistered(TM1, free(1)))
        assert ev.RequestTaskManagers(2) in driver(wants(5))
        assert not allocations(driver(wants(1, OTHER)))
        driver(wants(6))
        assert driver.manager.held_by(OTHER) == 1
        assert driver.manager.held_by(JOB) == 0

    def test_requests_again_when_one_is_lost(self, driver: Driver) -> None:
        driver(wants(2))
        assert ev.RequestTaskManagers(0) in driver(ev.TaskManagerRegistered(TM1, free(2), provided=True))
        assert ev.RequestTaskManagers(1) in driver(ev.TaskManagerLost(TM1))

    def test_a_slot_that_rests_needs_no_replacement(self, driver: Driver) -> None:
        driver(ev.TaskManagerRegistered(TM1, free(2), provided=True))
        driver(wants(1))
        effects = driver(ev.SlotRefused(TM1, AllocationId("a1")))
        assert not [e for e in effects if isinstance(e, ev.RequestTaskManagers)]

    def test_keeps_one_whose_slot_was_allocated_and_is_not_confirmed_yet(self, driver: Driver) -> None:
        driver(ev.TaskManagerRegistered(TM1, free(2), provided=True))
        driver(wants(1), after=29)
        assert driver.states(TM1) == [SlotState.PENDING, SlotState.FREE]
        assert driver(ev.Tick(), after=1) == []

    @pytest.mark.parametrize("ends", ["refused", "expired"])
    def test_one_whose_only_allocation_fails_is_idle_from_then_on(self, driver: Driver, ends: str) -> None:
        driver(ev.TaskManagerRegistered(TM1, free(2), provided=True))
        driver(wants(1), after=20)
        driver(wants(0))
        driver(ev.SlotRefused(TM1, AllocationId("a1")) if ends == "refused" else ev.Tick(), after=10)
        assert driver.states(TM1) == [SlotState.FREE] * 2
        assert driver(ev.Tick(), after=29) == []
        assert driver(ev.Tick(), after=1) == [ev.ReleaseTaskManager(TM1)]

    def test_releases_only_its_own_and_only_after_a_time_of_idleness(self, driver: Driver) -> None:
        driver(ev.TaskManagerRegistered(TM1, free(2), provided=True))
        driver(ev.TaskManagerRegistered(TM2, free(2), provided=False))
        driver(wants(1))
        driver(ev.SlotsReported(TM1, (held(0, "a1"), ev.SlotReport(1))))
        assert driver(ev.Tick(), after=100) == []
        driver(wants(0))
        driver(ev.SlotsReported(TM1, free(2)))
        assert driver(ev.Tick(), after=29) == []
        assert driver(ev.Tick(), after=1) == [ev.ReleaseTaskManager(TM1)]
        assert driver(ev.Tick(), after=100) == []
        assert allocations(driver(wants(1))) == [(TM2, 0, "a2")]


def needs(
    number: int, cpu_cores: float, memory_bytes: int = 0, job: JobId = JOB, largest: float = 0.0
) -> ev.RequirementDeclared:
    most = Resources(max(largest, cpu_cores), memory_bytes)
    return ev.RequirementDeclared(JM, ev.SlotRequirement(job, number, Resources(cpu_cores, memory_bytes), most))


def test_slots_that_need_something_are_on_task_managers_that_have_it(driver: Driver) -> None:
    driver(ev.TaskManagerRegistered(TM1, free(2), resources=Resources(2, 100)))
    driver(ev.TaskManagerRegistered(TM2, free(3), resources=Resources(4, 1000)))
    assert allocations(driver(needs(2, 1.5, 200))) == [(TM2, 0, "a1"), (TM2, 1, "a2")]


def test_slots_that_need_something_take_it_from_each_other(driver: Driver) -> None:
    driver(ev.TaskManagerRegistered(TM1, free(3), resources=Resources(2, 1000)))
    driver(ev.TaskManagerRegistered(TM2, free(3), resources=Resources(2, 1000)))
    assert allocations(driver(needs(2, 1.5))) == [(TM1, 0, "a1"), (TM2, 0, "a2")]
    assert allocations(driver(needs(1, 1.0, job=OTHER))) == []
    assert allocations(driver(needs(1, 0.5, job=OTHER))) == [(TM1, 1, "a3")]


def test_a_reported_slot_takes_what_its_job_requires(driver: Driver) -> None:
    driver(needs(1, 1.5))
    driver(ev.TaskManagerRegistered(TM1, (held(0, "a9"), ev.SlotReport(1)), resources=Resources(2, 1000)))
    assert allocations(driver(needs(1, 1.0, job=OTHER))) == []
    assert allocations(driver(needs(1, 0.5, job=OTHER))) == [(TM1, 1, "a1")]


def test_a_job_that_fits_nowhere_is_notified_and_delays_no_other(driver: Driver) -> None:
    driver(ev.TaskManagerRegistered(TM1, free(2), resources=Resources(2, 100)))
    told = ev.NotifyNotEnoughSlots(JM, JOB, 0, 2, free=2, total=2, too_small=2)
    assert driver(needs(2, 4.0)) == [told]
    assert allocations(driver(wants(2, OTHER))) == [(TM1, 0, "a1"), (TM1, 1, "a2")]
    effects = driver(ev.TaskManagerRegistered(TM2, free(2), resources=Resources(8, 100)))
    assert allocations(effects) == [(TM2, 0, "a3"), (TM2, 1, "a4")]


def test_a_job_that_needs_more_than_is_left_waits_for_its_turn(driver: Driver) -> None:
    driver(ev.TaskManagerRegistered(TM1, free(2), resources=Resources(2, 100)))
    assert allocations(driver(needs(1, 2.0))) == [(TM1, 0, "a1")]
    assert allocations(driver(needs(1, 1.0, job=OTHER))) == []
    driver(ev.SlotsReported(TM1, (held(0, "a1"), ev.SlotReport(1))))
    driver(wants(0))
    assert allocations(driver(ev.SlotsReported(TM1, free(2)))) == [(TM1, 0, "a2")]


def test_a_job_gets_none_when_one_before_it_takes_what_is_large_enough_for_both(driver: Driver) -> None:
    driver(ev.TaskManagerRegistered(TM1, free(1), resources=Resources(1, 100)))
    driver(needs(2, 2.0))
    driver(needs(2, 2.0, job=OTHER))
    effects = driver(ev.TaskManagerRegistered(TM2, free(3), resources=Resources(8, 100)))
    assert [e.job_id for e in effects if isinstance(e, ev.AllocateSlot)] == [JOB, JOB]


def test_every_slot_is_on_a_task_manager_that_has_what_the_largest_needs(driver: Driver) -> None:
    driver(ev.TaskManagerRegistered(TM1, free(4), resources=Resources(2, 100)))
    driver(ev.TaskManagerRegistered(TM2, free(4), resources=Resources(4, 100)))
    effects = driver(needs(3, 1.0, largest=3.0))
    assert [place[0] for place in allocations(effects)] == [TM2, TM2, TM2]
