"""Tasks that have finished before their producers. Pure.

A task finishes when it has committed a completed checkpoint that holds its end. Its producers ended before it, but what
they have to commit may fail and be tried again, so they may be the last to finish. A job cannot be restored from a
checkpoint in which a vertex has finished and one of its producers has not: nobody would take what that emits. So none
completes until the producers have finished too. Meanwhile the checkpoint that they have to commit stays the restore
point: it holds the end of them all.
"""

from __future__ import annotations

from millstream.core.jobs.ids import VertexId
from millstream.jobmanager.checkpoints.coordinator_state import CoordinatorState
from millstream.jobmanager.checkpoints.pending import PendingCheckpoint


def waits_for_producers(state: CoordinatorState, pending: PendingCheckpoint) -> str | None:
    """Why a checkpoint whose tasks have all acknowledged or finished is not to complete, if it is not.

    A producer whose end no checkpoint holds waits for this one: it may end behind its barrier, and its consumer before,
    where barriers are not aligned.
    """
    finished: dict[VertexId, set[int]] = {}
    for task in pending.finished.values():
        finished.setdefault(task.subtask.vertex_id, set()).add(task.subtask.index)
    late = state.tasks.unfinished_producers(finished)
    waiting = [s.task for s in pending.snapshots.values() if s.task.subtask.vertex_id in late]
    held = state.completed.ended_attempts() if waiting else frozenset()
    if not waiting or any(task.attempt_id not in held for task in waiting):
        return None
    return (
        f"tasks have finished whose producers ({len(waiting)} subtasks) still have to commit an earlier one, and no "
        "job could be restored from this one; checkpoints complete again when they have"
    )
