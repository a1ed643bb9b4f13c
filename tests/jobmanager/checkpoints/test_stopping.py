"""Stopping a job with a savepoint: which failures let the job continue."""

from __future__ import annotations

from millstream.jobmanager.checkpoints.events import SavepointDone, StopOutcome
from millstream.jobmanager.checkpoints.failures import CheckpointFailureReason
from millstream.jobmanager.checkpoints.model import CheckpointId, SnapshotOptions, TriggerId
from millstream.jobmanager.checkpoints.pending import PendingCheckpoint
from millstream.jobmanager.checkpoints.policies.requests import Origin, Request
from millstream.jobmanager.checkpoints.stopping import StopWithSavepoint


def test_only_the_failure_of_its_own_savepoint_lets_the_job_continue() -> None:
    stop = StopWithSavepoint()
    stop.begin(CheckpointId(3))
    assert not stop.failed(CheckpointId(2))
    assert stop.active
    assert stop.failed(CheckpointId(3))
    assert not stop.active


def test_a_request_gets_one_response_when_the_job_has_ended() -> None:
    stop, options = StopWithSavepoint(), SnapshotOptions(is_savepoint=True)
    request = Request(Origin.USER, options, TriggerId("t"))
    stop.begin(CheckpointId(3))
    assert stop.completed(PendingCheckpoint(CheckpointId(3), request, options, 0, 0, pointer="file:///s"), False) == []
    assert stop.holds(TriggerId("t"))
    assert stop.ended(StopOutcome.FINISHED) == [SavepointDone(TriggerId("t"), CheckpointId(3), "file:///s")]
    assert not stop.holds(TriggerId("t"))
    assert stop.fall_through(CheckpointFailureReason.JOB_FAILOVER_REGION, "the job continues") == []
