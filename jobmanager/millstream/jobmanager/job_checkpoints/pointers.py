"""The pointers of a job's checkpoints in the store, and ids for them.

A pointer is written before anything relies on it, and removed before any file of its checkpoint is deleted.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial

from millstream.core.jobs.ids import NO_ALLOCATION
from millstream.core.messages.checkpoints import CheckpointNotice
from millstream.core.store.store import StoreError
from millstream.jobmanager.checkpoints import events as ev
from millstream.jobmanager.checkpoints.model import CheckpointId
from millstream.jobmanager.job_checkpoints.context import TRY_AGAIN, CheckpointedJob


class StoredPointers:
    """Writes and removes pointers in the background; each result is an event of the coordinator."""

    def __init__(self, job: CheckpointedJob) -> None:
        self._job = job
        self._storing = asyncio.Lock()
        self._not_stored: ev.StorePointer | None = None

    def store(self, effect: ev.StorePointer) -> None:
        """Stores the pointer of a checkpoint, once this job manager may complete it."""
        if self._job.surroundings.in_charge():
            self._job.background.spawn(self._store(effect))
        else:
            self._not_stored = effect
            asyncio.get_running_loop().call_later(TRY_AGAIN, self._store_again, effect)

    async def _store(self, effect: ev.StorePointer) -> None:
        job, checkpoint_id = self._job, effect.checkpoint_id
        async with self._storing:
            if not job.life.may_complete:
                job.handle(ev.PointerFailed(checkpoint_id, "the job has ended"))
                return
            try:
                await job.restore_points.add(checkpoint_id, effect.pointer)
            except StoreError as error:  # it may have been stored: without a result, the restore point stays unsettled
                job.leadership_lost(error)
                return
            job.files.retained(checkpoint_id)
            job.sources.assignments.completed(checkpoint_id)
            job.surroundings.enumerators(CheckpointNotice(NO_ALLOCATION, (), checkpoint_id, completed=True))
            job.handle(ev.PointerStored(checkpoint_id))

    def _store_again(self, effect: ev.StorePointer) -> None:
        if self._not_stored == effect and self._job.life.is_active:
            self._not_stored = None
            self.store(effect)

    def give_up(self) -> None:
        """Gives up storing a checkpoint that could not be completed in time; its tasks have ended."""
        if (effect := self._not_stored) is not None:
            self._not_stored = None
            reason = "this job manager may have lost its lease from the dispatcher"
            self._job.handle(ev.PointerFailed(effect.checkpoint_id, reason))

    async def conclude(self) -> None:
        """Waits until what is being stored is, after which the life of the checkpoints allows no more."""
        async with self._storing:
            pass

    def drop(self, checkpoint_id: CheckpointId, delete: Callable[[], None] | None = None) -> None:
        """Removes the pointer from the store, and only then deletes the files; without `delete` they are kept.

        The files of a job that has ended are deleted first, since it is not restored: until the pointer is removed, the
        next leader finds out what is left to delete.
        """
        then = delete or partial(self._job.files.released, checkpoint_id)
        if self._job.life.is_over:
            then()
            return
        self._job.background.spawn(self._drop(checkpoint_id, then))

    async def _drop(self, checkpoint_id: CheckpointId, then: Callable[[], None]) -> None:
        job = self._job
        try:
            await job.restore_points.remove(checkpoint_id)
        except StoreError as error:
            job.leadership_lost(error)
        else:
            then()
            job.files.ended(job.pending)

    async def reserve_after(self, checkpoint_id: CheckpointId) -> None:
        """Reserves ids for the checkpoints after this one."""
        job = self._job
        try:
            job.coordinator.number_from(await job.restore_points.reserve(checkpoint_id + 1))
        except StoreError as error:
            job.leadership_lost(error)

    async def saved(self, location: str) -> None:
        """Records that a savepoint is complete, so that the next leader keeps it."""
        with contextlib.suppress(StoreError):  # the next leader finds the savepoint complete
            await self._job.restore_points.saved(location)
