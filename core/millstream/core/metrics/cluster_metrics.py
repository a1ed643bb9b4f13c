"""The metrics of dispatcher, job managers and resource manager: their processes, and the cluster."""

from __future__ import annotations

from millstream.core.messages.resource_manager import Overview
from millstream.core.metrics.model import MetricGroup, Number, Scope
from millstream.core.metrics.process_metrics import ProcessFigures, own_use


class ServiceMetrics:
    """The metrics of one service; `service` distinguishes it from others on its host."""

    def __init__(self, service: str, host: str) -> None:
        self._variables = {"host": host, "service": service}
        self._own = ProcessFigures()

    def group(self, now: float, **known: Number) -> MetricGroup:
        """Returns the metrics of its process and the `known` figures; `now` is a reading of the monotonic clock."""
        gauges = {**self._own.gauges(own_use(), now), **known}
        return MetricGroup(Scope.JOB_MANAGER, self._variables, gauges=gauges)


def slot_gauges(overview: Overview) -> dict[str, Number]:
    """Returns the gauges of slots, with Flink's names."""
    slots = [slot for manager in overview.task_managers for slot in manager.slots]
    return {
        "numRegisteredTaskManagers": len(overview.task_managers),
        "taskSlotsTotal": len(slots),
        "taskSlotsAvailable": sum(not slot.allocation_id for slot in slots),
        "numPendingTaskSlots": overview.pending_slots,
    }
