"""Snapshots that are requested: by a user through the dispatcher, or by the JobMaster for a rescale."""

from __future__ import annotations

import asyncio
import logging

from millstream.core.errors import MillstreamError
from millstream.core.jobs.ids import new_id
from millstream.core.messages.snapshots import SnapshotRequest, SnapshotResult
from millstream.jobmanager.checkpoints import events as ev
from millstream.jobmanager.checkpoints.model import TriggerId
from millstream.jobmanager.job_checkpoints.context import CheckpointedJob
from millstream.jobmanager.job_master import events as job_ev
from millstream.jobmanager.snapshot_requests import requested_event

log = logging.getLogger(__name__)


class RequestedSnapshots:
    """There is exactly one result for each request."""

    def __init__(self, job: CheckpointedJob) -> None:
        self._job = job
        self._for_rescales: dict[str, int] = {}

    def take(self, request: SnapshotRequest) -> None:
        """Takes a snapshot for a user; also if the same request is already pending."""
        self._job.background.spawn(self._take(request))

    async def _take(self, request: SnapshotRequest) -> None:
        job = self._job
        try:
            event = requested_event(request)
            if isinstance(event, ev.SavepointRequested):
                directory = event.target_directory or job.settings.savepoint_directory
                if directory is not None:
                    await job.restore_points.saving(await job.files.prepare_savepoint(directory))
        except (MillstreamError, OSError, ValueError) as error:
            self._send(SnapshotResult(request.trigger_id, error=str(error)))
        else:
            job.handle(event)

    def take_to_rescale(self, number: int) -> None:
        """Takes a checkpoint for a rescale."""
        job = self._job
        if job.coordinator.is_stopping:
            why = "the job is being stopped with a savepoint"
            job.tell_soon(job_ev.RescaleCheckpointed(number, why, final=True))
            return
        trigger_id = TriggerId(f"rescale-{number}-{new_id()}")
        self._for_rescales[trigger_id] = number
        # after the event that reports all tasks as running
        asyncio.get_running_loop().call_soon(job.handle, ev.CheckpointRequested(trigger_id))

    def done(self, effect: ev.SavepointDone | ev.CheckpointDone) -> None:
        """A requested snapshot is complete."""
        self._send(SnapshotResult(effect.trigger_id, effect.checkpoint_id, effect.path))

    def failed(self, effect: ev.SavepointFailed | ev.CheckpointFailed) -> None:
        """A requested snapshot failed."""
        log.warning("job %s: a requested snapshot failed: %s", self._job.graph.job_id, effect.message)
        self._send(SnapshotResult(effect.trigger_id, error=effect.message))

    def _send(self, result: SnapshotResult) -> None:
        """Sends a result to the origin of the request."""
        number = self._for_rescales.pop(result.trigger_id, None)
        if number is None:
            self._job.surroundings.send_snapshot_result(result)
        else:
            self._job.tell_soon(job_ev.RescaleCheckpointed(number, result.error))
