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
    "jobmanager/millstream/jobmanager/failover/restart_strategy.py ExponentialDelayStrategy.__init__: "
    "self._attempts = 0 -> pass": ("the first failure sets it, as does each after a long time without one"),
    "jobmanager/millstream/jobmanager/failover/restart_strategy.py ExponentialDelayStrategy.__init__: "
    "self._attempts = 0 -> self._attempts = 1": (
        "the first failure sets it, as does each after a long time without one"
    ),
    "resourcemanager/millstream/resourcemanager/slot_manager.py SlotManager._waiting: return "
    "[Waiting(job_id, wanted.slots - held[job_id], confirmed[job_id], wanted.was_complete, overdue=now - "
    "wanted.incomplete_since >= self._timing.patience, least=wanted.minimum or None) for job_id, wanted "
    "in self._requirements.items() if held[job_id] < wanted.slots] -> return [Waiting(job_id, "
    "wanted.slots - held[job_id], confirmed[job_id], wanted.was_complete, overdue=now - "
    "wanted.incomplete_since >= self._timing.patience, least=wanted.minimum or None) for job_id, wanted "
    "in self._requirements.items() if held[job_id] <= wanted.slots]": ("a job that misses none is granted none"),
    f"{_WORKER}/network/credit.py CreditReceiver._grant: if free > 0: -> if free >= 0:": (
        "the loop within grants nothing then"
    ),
    f"{_WORKER}/checkpointing/alignment.py BarrierAligner._complete: "
    "self._aborted = {aborted for aborted in self._aborted if aborted > number} -> "
    "self._aborted = {aborted for aborted in self._aborted if aborted >= number}": (
        "the one that completes was not aborted"
    ),
    f"{_WORKER}/checkpointing/alignment.py BarrierAligner._overtake: "
    "if number in self._aborted and (not any((n < number for n in self._pending))): -> "
    "if number in self._aborted and (not any((n <= number for n in self._pending))):": (
        "an aborted one is not pending"
    ),
    f"{_WORKER}/checkpointing/alignment.py BarrierAligner.aborted: "
    "if checkpoint_id <= self._newest_done: -> if checkpoint_id < self._newest_done:": (
        "barriers of the newest that is done are ignored, aborted or not"
    ),
    "core/millstream/core/services/liveness.py Liveness.is_lost: if late > 0: -> if late >= 0:": (
        "a beat that is not late adds nothing"
    ),
    "jobmanager/millstream/jobmanager/failover/regions.py PipelinedRegions.__init__: "
    "parent[subtask] = parent[parent[subtask]] -> pass": "shorter paths save time only",
}
