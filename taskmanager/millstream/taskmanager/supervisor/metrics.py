"""The metrics of a task manager: its own, those of its slot workers and of their tasks. Owned by the supervisor's loop.

Slot workers run code of users, so what they report is checked here: the supervisor sets the job and the task manager
that metrics are about, and malformed ones are left out.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from msgspec import Struct

from millstream.core.jobs.ids import AllocationId, TaskManagerId
from millstream.core.messages.task_manager import SlotMetrics
from millstream.core.metrics.model import MalformedMetricsError, MetricGroup, Number, Scope, decode_groups
from millstream.core.metrics.process_metrics import ProcessFigures, ProcessUse, own_use

log = logging.getLogger(__name__)
_OF_TASKS = (Scope.TASK_MANAGER_JOB, Scope.TASK, Scope.OPERATOR)
_QUEUES = ("buffers.inputQueueLength", "buffers.outputQueueLength")


class MeasuredSlot(Struct, frozen=True):
    """One slot with a worker."""

    index: int
    job_id: str
    job_name: str
    measured: SlotMetrics


class TaskManagerMetrics:
    """Of one task manager."""

    def __init__(self, workers_are_threads: bool = False) -> None:
        self._own = ProcessFigures()
        self._workers_are_threads = workers_are_threads  # then what they use is part of what the supervisor uses
        self._slots: dict[AllocationId, tuple[ProcessFigures, bytes, list[MetricGroup]]] = {}

    def groups(
        self, task_manager: TaskManagerId, host: str, slots: Iterable[MeasuredSlot], total: int, now: float
    ) -> list[MetricGroup]:
        """All there is; `total` is the number of slots, with and without workers."""
        variables = {"host": host, "tm_id": task_manager}
        found: list[MetricGroup] = []
        use, queued, known = own_use(), 0, self._slots
        self._slots = {}
        slots = list(slots)
        for slot in slots:
            measured = slot.measured
            figures, raw, groups = known.get(measured.allocation_id, (ProcessFigures(), b"", []))
            if raw != measured.groups:
                groups = _of_tasks(measured, slot, variables)
            self._slots[measured.allocation_id] = (figures, measured.groups, groups)
            of_slot = ProcessUse(
                measured.cpu_seconds, measured.memory_bytes, measured.threads, measured.collections,
                measured.collecting_seconds,
            )  # fmt: skip
            if not self._workers_are_threads:
                use += of_slot
            queued += sum(int(group.gauges.get(name, 0)) for group in groups for name in _QUEUES)
            found.append(_slot_group(slot, {**variables, "slot": str(slot.index)}, figures.gauges(of_slot, now)))
            found += groups
        gauges: dict[str, Number] = {
            **self._own.gauges(use, now),
            "taskSlotsTotal": total,
            "taskSlotsUsed": len(slots),
            "Status.Shuffle.Netty.UsedMemorySegments": queued,
        }
        return [MetricGroup(Scope.TASK_MANAGER, variables, gauges=gauges), *found]


def _slot_group(slot: MeasuredSlot, variables: dict[str, str], gauges: dict[str, Number]) -> MetricGroup:
    job = {"job_id": slot.job_id, "job_name": slot.job_name}
    return MetricGroup(Scope.TASK_MANAGER, {**variables, **job}, ("slot", str(slot.index)), ("slot",), gauges=gauges)


def _of_tasks(measured: SlotMetrics, slot: MeasuredSlot, variables: dict[str, str]) -> list[MetricGroup]:
    try:
        groups = decode_groups(measured.groups)
    except MalformedMetricsError as error:
        log.warning("ignoring the metrics of the slot worker in slot %d: %s", slot.index, error)
        return []
    whose = {**variables, "job_id": slot.job_id, "job_name": slot.job_name}
    return [group.about(whose) for group in groups if group.scope in _OF_TASKS]
