"""Vertices with union lists of which only some subtasks have ended. Pure.

A restore gives all entries of a union list to every subtask. A subtask that has finished takes part in no checkpoint,
so its entries would be missing. Therefore, as in Flink, no checkpoint completes while some subtasks of such a vertex
have ended and others have not. A task finishes only after a completed checkpoint that holds its end, so the subtasks of
the vertex wait for each other, and one checkpoint holds the end of them all.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from millstream.core.clock import Instant
from millstream.core.jobs.ids import VertexId
from millstream.jobmanager.checkpoints import events as ev
from millstream.jobmanager.checkpoints.aborting import abort, fail_job
from millstream.jobmanager.checkpoints.coordinator_state import CoordinatorState
from millstream.jobmanager.checkpoints.failures import CheckpointFailureReason as Reason
from millstream.jobmanager.checkpoints.model import TaskSnapshot
from millstream.jobmanager.checkpoints.pending import PendingCheckpoint
from millstream.jobmanager.checkpoints.policies.requests import Origin


class DividedUnion(Struct, frozen=True):
    """A vertex with a union list, some of whose subtasks have ended: the snapshots of those that still run."""

    message: str
    snapshots: Sequence[TaskSnapshot]


def divided_union(pending: PendingCheckpoint) -> DividedUnion | None:
    """Returns the vertex that prevents a checkpoint from completing, once all tasks acknowledged or finished."""
    by_vertex: dict[VertexId, list[TaskSnapshot]] = {}
    for snapshot in pending.snapshots.values():
        by_vertex.setdefault(snapshot.task.subtask.vertex_id, []).append(snapshot)
    for vertex, snapshots in by_vertex.items():
        union_list = next((snapshot.union_list for snapshot in snapshots if snapshot.union_list), None)
        finished = sum(task.subtask.vertex_id == vertex for task in pending.finished.values())
        ended = sum(snapshot.ended for snapshot in snapshots)
        if union_list is not None and (finished or 0 < ended < len(snapshots)):
            message = (
                f"{finished or ended} of {finished + len(snapshots)} subtasks with {union_list} have finished, and a "
                "restore would miss their entries; checkpoints complete again when all of them have"
            )
            return DividedUnion(message, snapshots)
    return None


def refuse(state: CoordinatorState, pending: PendingCheckpoint, divided: DividedUnion, now: Instant) -> list[ev.Effect]:
    """Aborts the checkpoint.

    When only some subtasks of the vertex restarted after its end, the others have finished, and no checkpoint could
    hold the end of the restarted ones. Then all tasks restart, from the checkpoint that holds the end of all of them.
    """
    effects = abort(state, pending, Reason.CHECKPOINT_DECLINED_TASK_CLOSING, divided.message, now)
    held = state.completed.ended_attempts()
    waiting = [snapshot for snapshot in divided.snapshots if snapshot.task.attempt_id not in held]
    if pending.request.origin is Origin.FINAL and waiting:
        return effects + fail_job(state, f"the final checkpoint cannot complete: {divided.message}")
    return effects
