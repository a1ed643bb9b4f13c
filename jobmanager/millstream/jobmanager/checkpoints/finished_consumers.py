"""Tasks that have finished before their producers. Pure.

A task finishes when it has committed a completed checkpoint that holds its end. Its producers ended before it, but
their commits may fail and be repeated, so they may finish last. A job cannot be restored from a checkpoint in which a
vertex has finished and one of its producers has not: the producer's output would have no consumer. Therefore no
checkpoint completes until the producers have finished too. Meanwhile the checkpoint that they have to commit remains
the restore point: it holds the end of them all.
"""

from __future__ import annotations

from millstream.core.jobs.ids import VertexId
from millstream.jobmanager.checkpoints.coordinator_state import CoordinatorState
from millstream.jobmanager.checkpoints.pending import PendingCheckpoint


def waits_for_producers(state: CoordinatorState, pending: PendingCheckpoint) -> str | None:
    """Returns why a checkpoint whose tasks have all acknowledged or finished must not complete, or None.

    A producer whose end no checkpoint holds waits for this one: with unaligned barriers it may end after its barrier
    while its consumer ends before.
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
        f"tasks have finished whose producers ({len(waiting)} subtasks) still have to commit an earlier one, so the "
        "job could not be restored from this one; checkpoints complete again when they have committed it"
    )
