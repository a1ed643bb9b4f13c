"""A job that is not run, because its settings are invalid: it fails at once, with the reason.

None of its tasks, checkpoints or enumerators exists.
"""

from __future__ import annotations

import contextlib
import json

from msgspec.structs import replace

from millstream.core.clock import Clock, Instant
from millstream.core.errors import MillstreamError
from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import AllocationId
from millstream.core.jobs.resumption import Resumption
from millstream.core.jobs.stalls import ended
from millstream.core.messages import task_manager as msg
from millstream.core.messages.queries import JobQuery, JobQueryResult, JobView
from millstream.core.messages.rescaling import RescaleRequest, RescaleResult
from millstream.core.messages.snapshots import SnapshotRequest, SnapshotResult
from millstream.core.metrics.model import MetricGroup
from millstream.core.processes.background import BackgroundTasks
from millstream.core.store.store import StoreError
from millstream.jobmanager.job_master import events as ev
from millstream.jobmanager.job_master.details import job_details
from millstream.jobmanager.job_master.job_failures import job_failure
from millstream.jobmanager.job_master.job_master import JobMaster
from millstream.jobmanager.job_master.settings import JobMasterSettings
from millstream.jobmanager.led_job import LedJob, last_graph
from millstream.jobmanager.links import Links
from millstream.jobmanager.restore_points import Led


class RefusedJob(LedJob):
    """`error` is the reason, which users read as the failure of the job."""

    def __init__(
        self,
        submitted: JobGraph,
        links: Links,
        background: BackgroundTasks,
        clock: Clock,
        led: Led,
        error: MillstreamError,
    ) -> None:
        graph = last_graph(submitted, led)
        master = JobMaster(graph, JobMasterSettings(), Instant.of(clock))
        super().__init__(graph, master, links, clock, led)
        self._error = str(error)
        self._background = background

    def start(self) -> None:
        """Fails the job."""
        if self._links.recovers:
            self._resumed = Resumption.NONE if self._led.stored.has_run else Resumption.NOT_STARTED
        else:
            self._resumed = Resumption.LOST
        now = Instant.of(self._clock)
        failure = job_failure(self.graph.job_id, self._error, now.date_ms)
        self.master.start(now)  # what it would need is not requested
        self.master.handle(ev.JobFailed(failure), now)
        self._log_end(self.master.message)
        self._background.spawn(self._record_end())

    async def _record_end(self) -> None:
        if await self._store_end(self.details()):
            with contextlib.suppress(StoreError):
                await self._led.points.leave(keeps_pointers=False)
            self._links.report_soon(self.graph.job_id)

    def details(self) -> JobDetails:
        """Returns the details of the job."""
        return replace(job_details(self.master), resumption=Resumption.UNKNOWN, resumed=self._resumed, epoch=self.epoch)

    def tell(self, event: ev.Event) -> None:
        """Rejects slots; all other events change nothing any more."""
        if isinstance(event, ev.SlotOffered):
            self._links.command(event.task_manager, msg.OfferAnswer(event.allocation_id, accepted=False))

    def holds(self, allocation_id: AllocationId) -> bool:
        """Whether this job holds the slot: it holds none."""
        return False

    def task_manager_message(self, message: object) -> None:
        """Handles a message of its tasks: there are none."""

    def snapshot(self, request: SnapshotRequest) -> None:
        """Sends the result of a snapshot, which is not taken."""
        error = f"job {self.graph.job_id} has ended, it is {self.master.status}"
        self._links.send_snapshot_result(SnapshotResult(request.trigger_id, error=error))

    def rescale(self, request: RescaleRequest) -> None:
        """Sends the result of a rescale, which is not done."""
        error = f"job {self.graph.job_id} is {self.master.status}"
        self._links.send_rescale_result(RescaleResult(request.trigger_id, error=error))

    def query(self, query: JobQuery) -> JobQueryResult:
        """Returns the result of a query about the job."""
        if query.kind is JobView.STALL:
            stall = ended(self.details(), self._clock.now_ms())
            return JobQueryResult(query.request_id, json.dumps(stall.as_json()).encode())
        disabled = f"job {query.job_id}: checkpoints are disabled: {self._error}"
        return JobQueryResult(query.request_id, error=disabled)

    def metrics(self) -> list[MetricGroup]:
        """Returns the metrics of the job: it has none."""
        return []

    def scale_automatically(self) -> None:
        """Changes the parallelism by measurements: there are none."""

    def suspend(self, reason: str) -> None:
        """Suspends the job: it has ended."""

    def resume(self) -> None:
        """Resumes the job: it has ended."""
