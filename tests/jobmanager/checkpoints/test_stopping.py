"""Stopping a job with a savepoint: which failures let the job continue."""

from __future__ import annotations

from millstream.jobmanager.checkpoints.model import CheckpointId
from millstream.jobmanager.checkpoints.stopping import StopWithSavepoint


def test_only_the_failure_of_its_own_savepoint_lets_the_job_continue() -> None:
    stop = StopWithSavepoint()
    stop.begin(CheckpointId(3))
    assert not stop.failed(CheckpointId(2))
    assert stop.active
    assert stop.failed(CheckpointId(3))
    assert not stop.active
