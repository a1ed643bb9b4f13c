"""The state of a job's checkpoint coordinator, shared by the modules that make its decisions."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.core.clock import Instant
from millstream.jobmanager.checkpoints import events as ev
from millstream.jobmanager.checkpoints.failures import CheckpointFailureReason as Reason
from millstream.jobmanager.checkpoints.failures import FailureCounter
from millstream.jobmanager.checkpoints.model import CompletedCheckpoint
from millstream.jobmanager.checkpoints.pending import PendingCheckpoint
from millstream.jobmanager.checkpoints.policies.commits import CommitRetries
from millstream.jobmanager.checkpoints.policies.options import checkpoint_options
from millstream.jobmanager.checkpoints.policies.requests import Request, RequestQueue
from millstream.jobmanager.checkpoints.policies.retention import CompletedCheckpoints
from millstream.jobmanager.checkpoints.settings import CheckpointSettings
from millstream.jobmanager.checkpoints.statistics.statistics import CheckpointStatistics
from millstream.jobmanager.checkpoints.stopping import StopWithSavepoint
from millstream.jobmanager.checkpoints.tasks import TaskTable
from millstream.jobmanager.checkpoints.under_way import CheckpointsUnderWay
from millstream.jobmanager.failover.topology import JobTopology


class CoordinatorState:
    """Owned by the coordinator. `failing` is true from `FailJob` until the job restarts or ends.

    `failed_savepoints` are those that failed since the newest completed snapshot, which includes what older ones held.
    """

    def __init__(
        self, topology: JobTopology, settings: CheckpointSettings, retained: Sequence[CompletedCheckpoint]
    ) -> None:
        self.settings = settings
        self.tasks = TaskTable(topology)
        self.completed = CompletedCheckpoints(settings, retained)
        self.queue = RequestQueue(settings, checkpoint_options(settings))
        self.pending = CheckpointsUnderWay()
        self.failures = FailureCounter(settings.tolerable_failures)
        self.commits = CommitRetries()
        self.stop_with = StopWithSavepoint()
        self.statistics = CheckpointStatistics(topology.parallelism)
        self.running = False
        self.failing = False
        self.final_done = False
        self.failed_savepoints: list[int] = []
        self.stopped: ev.StopOutcome | None = None
        latest = self.completed.latest
        self.full_needed = latest is not None and not latest.owned

    def rescale(self, topology: JobTopology) -> None:
        """Replaces the topology; the next checkpoint is full, since it must not refer to files of other subtasks."""
        assert self.tasks.is_empty, "tasks run"
        self.tasks = TaskTable(topology)
        self.statistics.rescale(topology.parallelism)
        self.full_needed = self.completed.latest is not None

    def end(self, pending: PendingCheckpoint, now: Instant) -> None:
        """Removes a pending checkpoint that has completed or is about to be discarded."""
        self.pending.end(pending)
        self.queue.ended(pending.request, now.steady_ms)

    @property
    def may_trigger(self) -> bool:
        """Whether new checkpoints may be triggered."""
        return self.why_not() is None

    def why_not(self) -> Reason | None:
        """Why no new checkpoint may be triggered, or None if it may."""
        if self.stopped is not None:
            return Reason.CHECKPOINT_COORDINATOR_SHUTDOWN
        if self.tasks.any_finished and not self.settings.after_tasks_finish:
            return Reason.TASKS_FINISHED
        if not self.running or not self.tasks.any_active:
            return Reason.NOT_ALL_REQUIRED_TASKS_RUNNING
        return Reason.PERIODIC_SCHEDULER_SHUTDOWN if self.stop_with.active or self.failing else None

    def is_known(self, request: Request) -> bool:
        """Whether the user's request is already queued or pending."""
        if request.trigger_id is None:
            return False
        under_way = any(p.request.trigger_id == request.trigger_id for p in self.pending)
        return under_way or self.stop_with.holds(request.trigger_id) or self.queue.holds(request.trigger_id)
