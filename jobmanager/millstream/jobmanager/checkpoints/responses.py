"""Responses to users' snapshot requests. Periodic and final checkpoints have no requester and get no response."""

from __future__ import annotations

from millstream.jobmanager.checkpoints import events as ev
from millstream.jobmanager.checkpoints.failures import CheckpointFailureReason
from millstream.jobmanager.checkpoints.model import CheckpointId
from millstream.jobmanager.checkpoints.policies.requests import Request


def done(request: Request, checkpoint_id: CheckpointId, pointer: str) -> list[ev.Effect]:
    """Reports to the requester, if any, that the snapshot is complete."""
    if request.trigger_id is None:
        return []
    if request.options.is_savepoint:
        return [ev.SavepointDone(request.trigger_id, checkpoint_id, pointer)]
    return [ev.CheckpointDone(request.trigger_id, checkpoint_id, pointer)]


def failed(request: Request, reason: CheckpointFailureReason, message: str = "") -> list[ev.Effect]:
    """Reports to the requester, if any, that the snapshot failed, and why."""
    if request.trigger_id is None:
        return []
    text = "; ".join(filter(None, (reason.explain(message), reason.advice)))
    if request.options.is_savepoint:
        return [ev.SavepointFailed(request.trigger_id, reason, text)]
    return [ev.CheckpointFailed(request.trigger_id, reason, text)]
