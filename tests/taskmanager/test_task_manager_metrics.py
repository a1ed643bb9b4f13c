"""What a task manager reports of itself and its slots, and how it validates reports of slot workers."""

from __future__ import annotations

import pytest

from millstream.core.jobs.ids import AllocationId, TaskManagerId
from millstream.core.messages.task_manager import SlotMetrics
from millstream.core.metrics.model import MetricGroup, Scope, encode_groups
from millstream.taskmanager.supervisor.metrics import MeasuredSlot, TaskManagerMetrics

MEMORY = "Status.JVM.Memory.Heap.Used"


def slot(index: int, *groups: MetricGroup, memory: int = 0, raw: bytes | None = None) -> MeasuredSlot:
    content = encode_groups(list(groups)) if raw is None else raw
    return MeasuredSlot(
        index, "job", "name", SlotMetrics(AllocationId(f"a{index}"), content, memory_bytes=memory, threads=3)
    )


def read(metrics: TaskManagerMetrics, *slots: MeasuredSlot) -> list[MetricGroup]:
    return metrics.groups(TaskManagerId("tm"), "here", slots, total=4, now=10.0)


def test_its_process_and_those_of_its_slots_are_summed() -> None:
    own = read(TaskManagerMetrics())[0]
    groups = read(TaskManagerMetrics(), slot(0, memory=10**12), slot(3, memory=10**12))
    assert groups[0].variables == {"host": "here", "tm_id": "tm"}
    assert groups[0].gauges[MEMORY] > own.gauges[MEMORY] + 10**12
    assert (groups[0].gauges["taskSlotsTotal"], groups[0].gauges["taskSlotsUsed"]) == (4, 2)
    assert [group.variables["slot"] for group in groups[1:]] == ["0", "3"]
    assert groups[2].path == ("slot", "3")
    assert groups[2].gauges["Status.JVM.Threads.Count"] == 3


def test_workers_that_are_threads_are_not_counted_twice() -> None:
    groups = read(TaskManagerMetrics(workers_are_threads=True), slot(0, memory=10**12))
    assert groups[0].gauges[MEMORY] < 10**12


def test_a_worker_cannot_report_for_another_job() -> None:
    task = MetricGroup(Scope.TASK, {"job_id": "another", "tm_id": "another", "task_name": "map"}, counters={"n": 1})
    elsewhere = MetricGroup(Scope.JOB_MANAGER, gauges={"numRunningJobs": 99})
    _, _, *groups = read(TaskManagerMetrics(), slot(0, task, elsewhere))
    (group,) = groups
    assert group.variables == {"host": "here", "tm_id": "tm", "job_id": "job", "job_name": "name", "task_name": "map"}


def test_unreadable_values_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    metrics = TaskManagerMetrics()
    for _ in range(3):
        assert len(read(metrics, slot(1, raw=b"\xc1garbage"))) == 2
    assert caplog.text.count("ignoring the metrics of the slot worker in slot 1: malformed") == 1


def test_queued_buffers_are_summed_over_all_tasks() -> None:
    tasks = [
        MetricGroup(Scope.TASK, {"subtask_index": str(i)}, gauges={"buffers.inputQueueLength": 2}) for i in range(3)
    ]
    assert read(TaskManagerMetrics(), slot(0, *tasks))[0].gauges["Status.Shuffle.Netty.UsedMemorySegments"] == 6
