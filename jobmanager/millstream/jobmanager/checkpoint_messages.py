"""Converts between the checkpoint coordinator's events and effects and the messages to and from tasks. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from millstream.core.errors import MillstreamError
from millstream.core.jobs.barriers import Barrier, CheckpointOptions
from millstream.core.jobs.failure_kinds import DeclineReason
from millstream.core.jobs.ids import AllocationId, AttemptId, TaskManagerId
from millstream.core.messages.checkpoints import (
    CheckpointAck,
    CheckpointDecline,
    CheckpointNotice,
    TriggerCheckpoint,
)
from millstream.core.snapshot.metadata.model import StateKind
from millstream.core.snapshot.metadata.operator_json import operators_from_json
from millstream.jobmanager.checkpoints import events as ev
from millstream.jobmanager.checkpoints.failures import CheckpointFailureReason as Reason
from millstream.jobmanager.checkpoints.model import CheckpointId, SnapshotMetrics
from millstream.jobmanager.job_master.job_slots import Place
from millstream.jobmanager.snapshot_content import AcknowledgedState

PlaceOf = Callable[[AttemptId], Place | None]
"""Returns where an attempt runs, or None if it no longer does."""
_DECLINED = {
    DeclineReason.RAISED: Reason.CHECKPOINT_DECLINED,
    DeclineReason.NOT_WRITTEN: Reason.CHECKPOINT_ASYNC_EXCEPTION,
    DeclineReason.SUBSUMED: Reason.CHECKPOINT_DECLINED_SUBSUMED,
}


def acknowledgement(ack: CheckpointAck) -> ev.Acknowledged | ev.Declined:
    """Converts an acknowledgement; one that cannot be decoded counts as declined."""
    checkpoint_id, attempt = CheckpointId(ack.checkpoint_id), ack.attempt_id
    try:
        where = f"the acknowledgement of checkpoint {checkpoint_id} by attempt {attempt}"
        operators = operators_from_json(ack.operators, where) if ack.operators else ()
    except MillstreamError as error:
        return ev.Declined(checkpoint_id, attempt, Reason.CHECKPOINT_DECLINED, str(error))
    metrics = SnapshotMetrics(
        sync_ms=ack.sync_ms,
        async_ms=ack.async_ms,
        start_delay_ms=ack.start_delay_ms,
        alignment_ms=ack.alignment_ms,
        checkpointed_bytes=ack.bytes_written,
        state_bytes=sum(file.size for o in operators for state in o.states for file in state.files),
        processed_bytes=ack.processed_bytes,
        persisted_bytes=ack.persisted_bytes,
        unaligned=ack.unaligned,
        waited_for=ack.waited_for,
    )
    union_lists = (
        f"the union list '{state.name}' of operator '{operator.name}'"
        for operator in operators
        for state in operator.states
        if state.kind is StateKind.OPERATOR_UNION
    )
    held = AcknowledgedState(operators) if operators else None
    return ev.Acknowledged(checkpoint_id, attempt, held, metrics, ack.ended, next(union_lists, ""))


def declined(decline: CheckpointDecline) -> ev.Declined:
    """Converts a decline."""
    checkpoint_id, reason = CheckpointId(decline.checkpoint_id), _DECLINED[decline.reason]
    return ev.Declined(checkpoint_id, decline.attempt_id, reason, decline.message, decline.failure)


def triggers(
    effect: ev.TriggerBarrier, location: str, place_of: PlaceOf
) -> Iterator[tuple[TaskManagerId, TriggerCheckpoint]]:
    """Returns the commands that trigger a checkpoint at the attempts that still run."""
    options = {name: getattr(effect.options, name) for name in CheckpointOptions.__struct_fields__}
    barrier = Barrier(effect.checkpoint_id, effect.timestamp_ms, location, **options)
    for task_manager, allocation, attempts in _by_slot(effect.attempts, place_of):
        yield task_manager, TriggerCheckpoint(allocation, attempts, barrier)


def notices(
    checkpoint_id: CheckpointId, attempts: Collection[AttemptId], completed: bool, place_of: PlaceOf
) -> Iterator[tuple[TaskManagerId, CheckpointNotice]]:
    """Returns the notices of a completed or aborted checkpoint for the attempts that still run."""
    for task_manager, allocation, notified in _by_slot(attempts, place_of):
        yield task_manager, CheckpointNotice(allocation, notified, checkpoint_id, completed)


def _by_slot(
    attempts: Collection[AttemptId], place_of: PlaceOf
) -> list[tuple[TaskManagerId, AllocationId, tuple[AttemptId, ...]]]:
    slots: dict[tuple[TaskManagerId, AllocationId], list[AttemptId]] = {}
    for attempt in attempts:
        place = place_of(attempt)
        if place is not None:
            task_manager, allocation, _ = place
            slots.setdefault((task_manager, allocation), []).append(attempt)
    return [(task_manager, allocation, tuple(notified)) for (task_manager, allocation), notified in slots.items()]
