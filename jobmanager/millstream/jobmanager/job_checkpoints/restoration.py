"""Restores the tasks of a job from its last restore point, or takes over those of an earlier leader.

A restore resets the sources first (`source_rollback`). A job that starts from a snapshot is restored from it; only then
the snapshot becomes the coordinator's restore point. A job that another job manager led before has that one's restore
points. If its tasks still run, they are notified again that the last of them is complete, in case that leader did not,
and that pending checkpoints were aborted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from msgspec.structs import replace

from millstream.core.errors import MillstreamError, UnrecoverableError
from millstream.core.jobs.ids import NO_ALLOCATION, VertexId
from millstream.core.messages.checkpoints import CheckpointNotice
from millstream.core.store.store import StoreError
from millstream.jobmanager.checkpoints import events as ev
from millstream.jobmanager.checkpoints.model import CheckpointId
from millstream.jobmanager.failover.topology import Subtask
from millstream.jobmanager.job_checkpoints.context import CheckpointedJob
from millstream.jobmanager.job_checkpoints.preparation import Preparation
from millstream.jobmanager.job_checkpoints.starting_point import StartingPoint
from millstream.jobmanager.job_checkpoints.task_messages import notify
from millstream.jobmanager.job_master import events as job_ev
from millstream.jobmanager.job_master.execution_graph import TaskRestore
from millstream.jobmanager.restoring.restore_assignment import task_restores
from millstream.jobmanager.restoring.running_tasks import running_readers, under_way, why_not
from millstream.jobmanager.snapshot_content import enumerator_states


class Restoration:
    """A later restore overtakes an earlier one, which then has no result."""

    def __init__(self, job: CheckpointedJob, preparation: Preparation, start: StartingPoint) -> None:
        self._job = job
        self._preparation = preparation
        self._start = start
        self._current: int | None = None

    def interrupt(self) -> None:
        """Cancels a restore that is in progress."""
        self._current = None
        self._job.sources.interrupt()

    def restore(self, effect: job_ev.Restore) -> None:
        """Carries out a `Restore` of the JobMaster."""
        self._current = effect.restart
        self._job.background.spawn(self._restore(effect))

    def _is_current(self, effect: job_ev.Restore) -> bool:
        return self._current == effect.restart

    def _failed(self, effect: job_ev.Restore, error: Exception, is_final: bool) -> None:
        if self._is_current(effect):
            self._job.surroundings.tell(job_ev.RestoreFailed(effect.restart, str(error), is_final))

    async def _restore(self, effect: job_ev.Restore) -> None:
        job, restart = self._job, effect.restart
        try:
            await self._start.load(lambda: self._is_current(effect))
        except (MillstreamError, OSError, ValueError) as error:
            self._failed(effect, error, not self._preparation.follows or isinstance(error, UnrecoverableError))
            return
        if not self._start.is_known:
            return
        await job.driver.settled.wait()
        try:
            checkpoint = job.coordinator.latest_restorable()
            restores: Mapping[Subtask, TaskRestore] = {}
            states: Mapping[VertexId, bytes] = {}
            if checkpoint is not None:
                metadata = await job.files.read_metadata(checkpoint.pointer)
                restores = await asyncio.to_thread(
                    task_restores, job.graph, metadata, checkpoint.pointer, effect.subtasks
                )
                states = enumerator_states(job.graph, metadata)
            await self._preparation.leads.wait()
            if not self._is_current(effect):
                return
            await job.restore_points.deploying(job.master.execution_graph.attempts(), job.master.restarts)
        except StoreError as error:
            if self._is_current(effect):  # else the job has ended in the meantime
                job.leadership_lost(error)
            return
        except (MillstreamError, OSError) as error:
            self._failed(effect, error, isinstance(error, UnrecoverableError))
            return
        if not self._is_current(effect):
            return
        if effect.start_enumerators:
            job.sources.forget()
            job.surroundings.start_enumerators(states)
        else:
            job.sources.begin(effect.subtasks, states)
            await job.sources.all_confirmed(lambda: self._is_current(effect))
        if not self._is_current(effect):
            return
        job.sources.done()
        if abandoned := job.coordinator.abandoned_savepoints:
            restores = {
                place: replace(restores.get(place, TaskRestore()), failed_savepoints=abandoned)
                for place in effect.subtasks
            }
        if checkpoint is not None:
            job.handle(ev.JobRestored(checkpoint.checkpoint_id))
        job.surroundings.tell(job_ev.Restored(restart, restores, job.graph))

    # Tasks of an earlier leader

    def take_over(self, effect: job_ev.TakeOver) -> None:
        """Carries out a `TakeOver` of the JobMaster."""
        self._job.background.spawn(self._take_over(effect))

    async def _take_over(self, effect: job_ev.TakeOver) -> None:
        job = self._job
        try:
            await self._start.load(lambda: job.master.is_taking_over)
            if not self._start.is_known:
                return
            restore_point, states = self._restore_point, dict[VertexId, bytes]()
            refused = why_not(job.graph, effect.tasks, restore_point)
            checkpoint = job.coordinator.latest_restorable()
            if checkpoint is not None and not refused:
                states = enumerator_states(job.graph, await job.files.read_metadata(checkpoint.pointer))
        except (MillstreamError, OSError, ValueError) as error:
            refused = str(error)
        if not job.master.is_taking_over:
            return
        if refused:
            job.surroundings.tell(job_ev.TakeoverRefused(refused))
            return
        if job.sources.any_sources:
            readers = running_readers(job.graph, effect.tasks, restore_point)
            job.sources.taken_over(readers)
            job.surroundings.start_enumerators(states, readers)
        job.surroundings.tell(job_ev.TakeoverPrepared(job.graph))

    @property
    def _restore_point(self) -> int:
        checkpoint = self._job.coordinator.latest_restorable()
        return checkpoint.checkpoint_id if checkpoint is not None else 0

    def taken_over(self, effect: job_ev.TakenOver) -> None:
        """Notifies the tasks that were taken over: pending checkpoints are aborted, the last one is complete."""
        job, restore_point = self._job, self._restore_point
        given_up = [CheckpointId(number) for number in under_way(effect.tasks, restore_point)]
        running = [task.attempt_id for task in effect.tasks if not task.state.is_terminal]
        for number in given_up:
            notify(job, number, running, completed=False)
        job.files.given_up(given_up)
        if restore_point:
            notify(job, CheckpointId(restore_point), running, completed=True)
            notice = CheckpointNotice(NO_ALLOCATION, (), restore_point, completed=True)
            job.surroundings.enumerators(notice)
