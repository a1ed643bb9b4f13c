"""How a job is resumed after its job manager is lost or stopped, and what is stored so that it can be."""

from __future__ import annotations

import logging

from millstream.core.jobs.resumption import Resumption
from millstream.core.processes.background import BackgroundTasks
from millstream.core.snapshot.storage.uri_files import plain_uri
from millstream.core.store.store import StoreError
from millstream.jobmanager.job_checkpoints.job_checkpoints import JobCheckpoints
from millstream.jobmanager.job_master.job_master import JobMaster
from millstream.jobmanager.restore_points import Led

log = logging.getLogger(__name__)


class Resuming:
    """`restarts`: the job has a restart strategy. `snapshot` is the one that it was started from, if any."""

    def __init__(self, master: JobMaster, checkpoints: JobCheckpoints, led: Led, restarts: bool, snapshot: str) -> None:
        self._master = master
        self._checkpoints = checkpoints
        self._led = led
        self._restarts = restarts
        self._snapshot = snapshot
        self._has_run = led.stored.has_run

    def begins_to_run(self, background: BackgroundTasks) -> None:
        """Stores once that the job has run, so that the next leader does not run it as if for the first time."""
        if not self._has_run:
            self._has_run = True
            background.spawn(self._store_that_it_runs())

    async def _store_that_it_runs(self) -> None:
        try:
            await self._led.points.deploying(self._master.execution_graph.attempts(), self._master.restarts)
        except StoreError as error:
            log.warning("job %s: the leadership is lost: %s", self._master.graph.job_id, error)

    def now(self, recovers: bool) -> Resumption:
        """How the job would be resumed if the whole cluster stopped now; `recovers`: the store outlives it."""
        if self._master.status.is_terminal:
            return Resumption.UNKNOWN
        if not recovers:
            return Resumption.LOST
        if self._checkpoints.restore_point:
            return Resumption.CHECKPOINT
        if not self._has_run:
            return Resumption.NOT_STARTED
        if not self._restarts:
            return Resumption.NONE
        return Resumption.SNAPSHOT if self._snapshot else Resumption.BEGINNING

    def in_words(self) -> str:
        """Describes how the job continues when the tasks of an earlier leader are not taken over."""
        if self._checkpoints.restore_point:
            return f"restarts from checkpoint {self._checkpoints.restore_point}"
        if not self._has_run:
            return "starts: it has not run before"
        start = f"from {plain_uri(self._snapshot)}, which it was started from" if self._snapshot else ""
        return f"restarts {start or 'from the beginning'}, since it has completed no checkpoint"
