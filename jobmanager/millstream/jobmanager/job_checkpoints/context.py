"""What the parts of a job's checkpoints share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from msgspec import Struct

from millstream.core.backoff import Backoff
from millstream.core.clock import Clock
from millstream.core.jobs.graph import JobGraph
from millstream.core.processes.background import BackgroundTasks
from millstream.core.store.store import StoreError
from millstream.jobmanager.checkpoint_files import CheckpointFiles
from millstream.jobmanager.checkpoints import events as ev
from millstream.jobmanager.checkpoints.coordinator import CheckpointCoordinator
from millstream.jobmanager.checkpoints.model import CheckpointId
from millstream.jobmanager.checkpoints.settings import CheckpointSettings
from millstream.jobmanager.job_checkpoints.driver import CoordinatorDriver
from millstream.jobmanager.job_checkpoints.life import Life
from millstream.jobmanager.job_checkpoints.surroundings import Surroundings
from millstream.jobmanager.job_master import events as job_ev
from millstream.jobmanager.job_master.job_master import JobMaster
from millstream.jobmanager.restore_points import RestorePoints
from millstream.jobmanager.sources.source_rollback import SourceRollback

log = logging.getLogger(__name__)

TRY_AGAIN = 0.1
"""Seconds after which a job manager checks again whether it may complete a checkpoint."""
_BACKOFF = Backoff(0.1, 60.0)  # seconds between two attempts to prepare checkpoints, or to clean up after a job


class CheckpointedJob(Struct):
    """`graph` is the job as its checkpoints are taken: fitted to the snapshot that it starts from, or rescaled."""

    master: JobMaster
    graph: JobGraph
    settings: CheckpointSettings
    surroundings: Surroundings
    background: BackgroundTasks
    clock: Clock
    restore_points: RestorePoints
    files: CheckpointFiles
    life: Life
    driver: CoordinatorDriver
    sources: SourceRollback

    @property
    def coordinator(self) -> CheckpointCoordinator:
        """The pure coordinator."""
        return self.driver.coordinator

    @property
    def pending(self) -> list[CheckpointId]:
        """The ids of pending checkpoints."""
        return [pending.id for pending in self.coordinator.pending]

    def handle(self, event: ev.Event) -> None:
        """Passes an event to the coordinator."""
        self.driver.handle(event)

    def tell_soon(self, event: job_ev.Event) -> None:
        """Passes an event to the JobMaster, after the handling of the current event."""
        asyncio.get_running_loop().call_soon(self.surroundings.tell, event)

    def suspend(self) -> None:
        """Stops checkpoints; nothing is deleted."""
        self.life.suspend()
        self.driver.schedule()

    def leadership_lost(self, error: StoreError) -> None:
        """Stops checkpoints, because another job manager leads the job."""
        log.warning("job %s: taking no more checkpoints, the leadership is lost: %s", self.graph.job_id, error)
        self.suspend()


async def until_done(attempt: Callable[[], Awaitable[bool]], is_wanted: Callable[[], bool]) -> None:
    """Repeats an attempt, with growing pauses, until it returns true or is not wanted any more."""
    for pause in _BACKOFF.delays():
        if await attempt() or not is_wanted():
            return
        await asyncio.sleep(pause)
