"""Mutations that change nothing which a test could see, by their names, each with the reason."""

from __future__ import annotations

_WORKER = "taskmanager/millstream/taskmanager/worker"

EQUIVALENTS: dict[str, str] = {
    f"{_WORKER}/checkpointing/alignment.py BarrierAligner._join: "
    "if number not in self._pending and any((n > number and p.arrived for n, p in self._pending.items())): -> "
    "if number not in self._pending and any((n >= number and p.arrived for n, p in self._pending.items())):": (
        "the number is not among those that it is compared with"
    ),
    f"{_WORKER}/checkpointing/alignment.py BarrierAligner._complete: "
    "self._aborted = {aborted for aborted in self._aborted if aborted > number} -> pass": (
        "the others are not newer than the newest that is done, and ignored for that: it bounds the memory"
    ),
    "jobmanager/millstream/jobmanager/adaptive/fitting.py fit: "
    "while left > 0 and (short := [group for group in given if given[group] < usable[group]]): -> "
    "while left > 0 and (short := [group for group in given if given[group] <= usable[group]]):": (
        "a full group is the neediest only when all are full, and what it gets then is more than it can use"
    ),
    "jobmanager/millstream/jobmanager/checkpoints/completing.py Completion.pointer_stored: "
    "for older in [p for p in self._state.pending if p.id < checkpoint_id and (not p.options.is_savepoint)]: -> "
    "for older in [p for p in self._state.pending if p.id <= checkpoint_id and (not p.options.is_savepoint)]:": (
        "the completed one is not among the pending ones any more"
    ),
    "jobmanager/millstream/jobmanager/checkpoints/coordinator.py CheckpointCoordinator.abandoned_savepoints: "
    "return tuple((number for number in self._state.failed_savepoints if number > newest)) -> "
    "return tuple((number for number in self._state.failed_savepoints if number >= newest))": (
        "one that failed is not pending any more"
    ),
    "jobmanager/millstream/jobmanager/checkpoints/completing.py Completion._complete: "
    "self._state.failed_savepoints = [n for n in self._state.failed_savepoints if n > pending.id] -> "
    "self._state.failed_savepoints = [n for n in self._state.failed_savepoints if n >= pending.id]": (
        "the one that completes has not failed"
    ),
    "jobmanager/millstream/jobmanager/checkpoints/aborting.py abort: "
    "if pending.options.is_savepoint and pending.id > state.failures.last_success: -> "
    "if pending.options.is_savepoint and pending.id >= state.failures.last_success:": (
        "the one that fails has not succeeded"
    ),
    "core/millstream/core/services/liveness.py Liveness.is_lost: if late > 0: -> if late >= 0:": (
        "a beat that is not late adds nothing"
    ),
    "jobmanager/millstream/jobmanager/failover/regions.py PipelinedRegions.__init__: "
    "parent[subtask] = parent[parent[subtask]] -> pass": "shorter paths save time only",
}
