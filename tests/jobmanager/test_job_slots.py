"""The slots that a job holds beside those that it needs."""

from __future__ import annotations

from millstream.core.jobs.ids import AllocationId, TaskManagerId
from millstream.jobmanager.job_master import events as ev
from millstream.jobmanager.job_master.execution_graph import SlotKey
from millstream.jobmanager.job_master.job_slots import JobSlots


def offered(slots: JobSlots, number: int) -> bool:
    return slots.take(ev.SlotOffered(AllocationId(f"a{number}"), TaskManagerId(f"tm{number}"), "host"))


def test_no_more_spare_slots_are_taken_than_are_wanted_when_the_first_of_them_is_lost() -> None:
    slots = JobSlots([SlotKey("default", 0)])
    slots.want(3)
    assert all(offered(slots, number) for number in range(3))
    slots.drop(slots.of_task_manager("tm1"))
    assert slots.want(2) == []
    assert not offered(slots, 3)
    assert len(slots.held) == slots.wanted == 2
    slots.want(3)
    assert offered(slots, 4)
    assert len(slots.held) == slots.wanted == 3
