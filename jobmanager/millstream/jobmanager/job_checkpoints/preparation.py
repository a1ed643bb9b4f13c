"""Prepares the checkpoints of a job: reads what earlier leaders have stored, and the folder of checkpoints."""

from __future__ import annotations

import asyncio
import logging

from millstream.core.errors import MillstreamError
from millstream.core.store.checkpoint_pointers import JobPointers
from millstream.core.store.store import StoreError
from millstream.jobmanager.job_checkpoints.context import CheckpointedJob, until_done
from millstream.jobmanager.job_master import events as job_ev
from millstream.jobmanager.job_master.job_failures import job_failure

log = logging.getLogger(__name__)


class Preparation:
    """`follows`: another job manager led the job before. `starts_afresh`: there is no first restore point to load."""

    def __init__(self, job: CheckpointedJob, follows: bool, starts_afresh: bool) -> None:
        self.follows = follows
        self.leads = asyncio.Event()
        """Set once this job manager is the leader of the job."""
        self.done = asyncio.Event()
        """Set once checkpoints can be taken into files, or will not be."""
        self.first_id = 1
        """The id of the first checkpoint."""
        self._job = job
        self._starts_afresh = starts_afresh
        self._left = JobPointers()

    async def run(self) -> None:
        """Reads the storage of checkpoints; before that, no checkpoints are taken into files.

        If the job has run before, its storage is known to be valid: if it is unreachable, this is retried.
        """
        self._left = (await self._job.restore_points.lead()).stored
        self.leads.set()
        self._job.files.give_up_savepoints(self._left.savepoints)
        await until_done(self._attempt, lambda: self._job.life.is_active)

    async def _attempt(self) -> bool:
        """Prepares checkpoints; returns false if that has to be retried."""
        job, settings, files = self._job, self._job.settings, self._job.files
        try:
            await self._number_from(1)  # for savepoints, which do not need the storage of checkpoints
            await self._number_from(await files.prepare_checkpoints(settings.enabled, self.follows) + 1)
            if not self.follows and files.home:
                await job.restore_points.settle(files.settled())
            elif self._starts_afresh:
                self.inherit()
            self.done.set()
        except StoreError as error:
            job.leadership_lost(error)
        except (MillstreamError, OSError) as error:
            if not settings.enabled:
                log.warning("job %s: checkpoints are disabled: %s", job.graph.job_id, error)
                self.done.set()
                return True
            reason = f"option 'execution.checkpointing.dir': {error}"
            if self.follows:
                log.warning("job %s: checkpoints are delayed, retrying: %s", job.graph.job_id, reason)
                return False
            failure = job_failure(job.graph.job_id, reason, job.clock.now_ms(), final=True)
            job.surroundings.tell(job_ev.JobFailed(failure))
        return True

    def inherit(self) -> None:
        """Has leftover files of earlier leaders deleted, once all restore points are known."""
        if self.follows:
            self._job.files.inherit(self._left.home, [pointer.checkpoint_id for pointer in self._left.pointers])

    async def _number_from(self, at_least: int) -> None:
        self.first_id = await self._job.restore_points.reserve(at_least)
        self._job.coordinator.number_from(self.first_id)
