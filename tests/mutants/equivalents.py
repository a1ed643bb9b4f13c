"""Mutations that change nothing which a test could see, by their names, each with the reason."""

from __future__ import annotations

_WORKER = "taskmanager/millstream/taskmanager/worker"

EQUIVALENTS: dict[str, str] = {
    f"{_WORKER}/checkpointing/alignment.py BarrierAligner._join: "
    "if number not in self._pending and any((n > number and p.arrived for n, p in self._pending.items())): -> "
    "if number not in self._pending and any((n >= number and p.arrived for n, p in self._pending.items())):": (
        "the number is not among those that it is compared with"
    ),
    "jobmanager/millstream/jobmanager/failover/regions.py PipelinedRegions.__init__: "
    "parent[subtask] = parent[parent[subtask]] -> pass": "shorter paths save time only",
}
