"""What the services in front of task managers measure: themselves, and what they know of the cluster."""

from __future__ import annotations

from millstream.core.messages.resource_manager import Overview
from millstream.core.metrics.model import MetricGroup, Number, Scope
from millstream.core.metrics.process_metrics import ProcessFigures, own_use


class ServiceMetrics:
    """Of one service; `service` distinguishes it from others on its host."""

    def __init__(self, service: str, host: str) -> None:
        self._variables = {"host": host, "service": service}
        self._own = ProcessFigures()

    def group(self, now: float, **known: Number) -> MetricGroup:
        """Its process, and what it knows; `now` is of the monotonic clock."""
        gauges = {**self._own.gauges(own_use(), now), **known}
        return MetricGroup(Scope.JOB_MANAGER, self._variables, gauges=gauges)


def slot_gauges(overview: Overview) -> dict[str, Number]:
    """By Flink's names."""
    slots = [slot for manager in overview.task_managers for slot in manager.slots]
    return {
        "numRegisteredTaskManagers": len(overview.task_managers),
        "taskSlotsTotal": len(slots),
        "taskSlotsAvailable": sum(not slot.allocation_id for slot in slots),
        "numPendingTaskSlots": overview.pending_slots,
    }
