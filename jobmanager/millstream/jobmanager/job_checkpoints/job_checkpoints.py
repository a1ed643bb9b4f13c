"""The checkpoints of one job: carries out the effects of the pure `CheckpointCoordinator`.

Owned by the job manager's loop. A checkpoint is consistent with the splits that are being assigned because of the order
of messages: the enumerator process sends its snapshot on the same pipe as its assignments, the snapshot is handled here
at once, and barriers are sent on the same streams as assignments. So a reader receives splits that were assigned before
the snapshot before the barrier, and all others after it.

Pointers are written to the store before anything relies on them, and removed before any file of their checkpoints is
deleted. A job manager that has lost the leadership of the job in the store completes and deletes nothing.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import assert_never

from millstream.core.clock import Clock
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import AttemptId, VertexId
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.core.messages.checkpoints import CheckpointAck, CheckpointDecline, CommitFailed, InputsEnded
from millstream.core.messages.sources import EnumeratorsSnapshot, SnapshotEnumerators
from millstream.core.processes.background import BackgroundTasks
from millstream.core.store.store import StoreError
from millstream.jobmanager import checkpoint_messages as messages
from millstream.jobmanager.checkpoint_files import CheckpointFiles, storage_of
from millstream.jobmanager.checkpoints import events as ev
from millstream.jobmanager.checkpoints.coordinator import CheckpointCoordinator
from millstream.jobmanager.checkpoints.model import CheckpointId, CompletedCheckpoint, TaskRef
from millstream.jobmanager.checkpoints.settings import CheckpointSettings
from millstream.jobmanager.failover.regions import PipelinedRegions
from millstream.jobmanager.failover.topology import JobTopology, Subtask
from millstream.jobmanager.job_checkpoints.context import CheckpointedJob, until_done
from millstream.jobmanager.job_checkpoints.driver import CoordinatorDriver
from millstream.jobmanager.job_checkpoints.kept_checkpoints import KeptCheckpoints, outcome
from millstream.jobmanager.job_checkpoints.life import Life
from millstream.jobmanager.job_checkpoints.pointers import StoredPointers
from millstream.jobmanager.job_checkpoints.preparation import Preparation
from millstream.jobmanager.job_checkpoints.requested_snapshots import RequestedSnapshots
from millstream.jobmanager.job_checkpoints.restoration import Restoration
from millstream.jobmanager.job_checkpoints.starting_point import StartingPoint
from millstream.jobmanager.job_checkpoints.surroundings import Surroundings
from millstream.jobmanager.job_checkpoints.task_messages import notify, trigger
from millstream.jobmanager.job_master import events as job_ev
from millstream.jobmanager.job_master.execution_graph import Execution
from millstream.jobmanager.job_master.job_failures import checkpoint_failure
from millstream.jobmanager.job_master.job_master import JobMaster
from millstream.jobmanager.restore_points import RestorePoints
from millstream.jobmanager.restoring.starting_snapshot import RecoverySettings
from millstream.jobmanager.sources.source_rollback import SourceRollback

log = logging.getLogger(__name__)

FromTask = CheckpointAck | CheckpointDecline | InputsEnded | CommitFailed
"""The messages of tasks about checkpoints."""


def _restarting_apart(topology: JobTopology, graph: JobGraph) -> list[VertexId]:
    """Returns the sources of which some readers may restart while others continue."""
    regions = PipelinedRegions(topology)
    readers = {v.id: {Subtask(v.id, index) for index in range(v.parallelism)} for v in graph.vertices if v.source}
    return [vertex for vertex, all_of in readers.items() if not all_of <= regions.region_of(Subtask(vertex, 0))]


class JobCheckpoints:
    """`coordinator.statistics` is shown by the REST API; `sources` connects enumerators and readers."""

    def __init__(
        self,
        master: JobMaster,
        settings: CheckpointSettings,
        surroundings: Surroundings,
        background: BackgroundTasks,
        clock: Clock,
        restore_points: RestorePoints,
        restarts: bool = True,
        recovery: RecoverySettings | None = None,
        follows: bool = False,
    ) -> None:
        graph, life = master.graph, Life()
        directories = [d for d in (settings.directory, settings.savepoint_directory) if d is not None]
        storage = storage_of(graph.job_id, settings)
        files = CheckpointFiles(graph.job_id, storage, background, directories)
        self.settings = settings
        self._restarts = restarts
        sources = self._sources(master, graph, surroundings)
        coordinator = CheckpointCoordinator(master.topology, settings, coordinated=sources.any_sources)
        driver = CoordinatorDriver(coordinator, life, clock, self._carry_out, self._handled)
        self._job = CheckpointedJob(
            master, graph, settings, surroundings, background, clock, restore_points, files, life, driver, sources
        )
        self._preparation = Preparation(self._job, follows, starts_afresh=recovery is None)
        self._start = StartingPoint(self._job, self._preparation, recovery, self._coordinator)
        self._pointers = StoredPointers(self._job)
        self._taken: dict[CheckpointId, dict[AttemptId, int]] = {}
        self.restoration = Restoration(self._job, self._preparation, self._start)
        self.requested = RequestedSnapshots(self._job)
        self.kept = KeptCheckpoints(self._job)

    def _sources(self, master: JobMaster, graph: JobGraph, surroundings: Surroundings) -> SourceRollback:
        apart = _restarting_apart(master.topology, graph) if self._restarts else ()
        return SourceRollback(graph, surroundings.enumerators, apart)

    def _coordinator(self, retained: list[CompletedCheckpoint]) -> CheckpointCoordinator:
        return CheckpointCoordinator(
            self._job.master.topology,
            self.settings,
            retained=retained,
            next_id=self._preparation.first_id,
            coordinated=self.sources.any_sources,
        )

    @property
    def coordinator(self) -> CheckpointCoordinator:
        """The pure coordinator."""
        return self._job.coordinator

    @property
    def sources(self) -> SourceRollback:
        """The assignments of splits, which a restore resets."""
        return self._job.sources

    @property
    def restore_point(self) -> int:
        """The id of the last checkpoint that the job has completed, under any leader; 0: none."""
        return self._start.restore_point

    def start(self) -> None:
        """Prepares the storage of checkpoints; the job fails if it cannot be used, instead of restarting endlessly."""
        self._job.background.spawn(self.prepare())

    async def prepare(self) -> None:
        """Reads the storage of checkpoints; before that, no checkpoints are taken into files."""
        await self._preparation.run()

    # The coordinator's effects

    def _handled(self) -> None:
        self._job.files.ended(self._job.pending)

    def _carry_out(self, effect: ev.Effect) -> None:
        job = self._job
        match effect:
            case ev.SnapshotEnumerators(checkpoint_id):
                if not job.surroundings.enumerators(SnapshotEnumerators(checkpoint_id)):
                    job.handle(ev.EnumeratorsFailed(checkpoint_id, "the enumerator process is not running"))
            case ev.TriggerBarrier(checkpoint_id):
                if self._preparation.done.is_set() and job.restore_points.runs_out_at(checkpoint_id):
                    job.background.spawn(self._pointers.reserve_after(checkpoint_id))
                trigger(job, effect)
            case ev.WriteMetadata(content):
                writing = job.files.write_metadata(job.graph, content, job.clock.now_ms())
                job.background.spawn(job.driver.handle_later(writing))
            case ev.StorePointer():
                self._pointers.store(effect)
            case ev.NotifyComplete(checkpoint_id, attempts):
                notify(job, checkpoint_id, attempts, completed=True)
                job.tell_soon(job_ev.CheckpointCompleted(self._taken.pop(checkpoint_id, {})))
            case ev.NotifyAborted(checkpoint_id, attempts):
                notify(job, checkpoint_id, attempts, completed=False)
            case ev.DiscardState(checkpoint_id):
                known = [c.checkpoint_id for c in job.coordinator.retained] + job.pending
                job.files.discard(effect, is_alive=checkpoint_id in known)
                if not job.life.is_active:
                    job.files.job_ended()
            case ev.DeleteCheckpoint(checkpoint):
                delete = partial(job.files.delete, checkpoint, job.pending)
                self._pointers.drop(checkpoint.checkpoint_id, None if self._start.needs(checkpoint) else delete)
            case ev.ReleasePointer(checkpoint_id):
                self._pointers.drop(checkpoint_id)
            case ev.FailJob(message, cause):
                failure = checkpoint_failure(job.graph.job_id, message, job.clock.now_ms(), cause)
                job.tell_soon(job_ev.JobFailed(failure))
            case ev.SavepointDone(checkpoint_id=checkpoint_id, path=path):
                log.info("job %s: savepoint %d completed at %s", job.graph.job_id, checkpoint_id, path)
                job.files.released(checkpoint_id)
                job.background.spawn(self._pointers.saved(path))
                self.requested.done(effect)
            case ev.CheckpointDone():
                self.requested.done(effect)
            case ev.SavepointFailed() | ev.CheckpointFailed():
                self.requested.failed(effect)
            case _:
                assert_never(effect)

    # Tasks and enumerators

    def task_changed(self, execution: Execution) -> None:
        """Handles a task's state after the JobMaster has; the end of a task that restarts is ignored."""
        if not self._job.life.is_active or self._job.master.runs_again(execution):
            return
        task = TaskRef(execution.place, execution.attempt_id)
        if execution.state is ExecutionState.RUNNING:
            self._job.handle(ev.TasksRunning((task,)))
        elif execution.state is ExecutionState.FINISHED:
            self._job.handle(ev.TasksRunning((task,)))
            self._job.handle(ev.TasksFinished((execution.attempt_id,)))
        self._start.task_changed()

    def received(self, message: FromTask) -> None:
        """Handles a message of a task."""
        match message:
            case CheckpointAck(checkpoint_id=number, attempt_id=attempt, records=records):
                self._taken = {pending: self._taken.get(pending, {}) for pending in self._job.pending}
                if number in self._taken:
                    self._taken[CheckpointId(number)][attempt] = records
                self._job.handle(messages.acknowledgement(message))
            case CheckpointDecline():
                self._job.handle(messages.declined(message))
            case InputsEnded(attempt_id=attempt):
                if self._job.life.is_active:
                    self._job.handle(ev.InputsEnded((attempt,)))
            case CommitFailed(attempt_id=attempt, checkpoint_id=number, message=reason):
                log.warning("job %s: commit by attempt %s failed: %s", self._job.graph.job_id, attempt, reason)
                self._job.handle(ev.NotifyFailed(CheckpointId(number), attempt, reason))
            case _:
                assert_never(message)

    def snapshotted(self, snapshot: EnumeratorsSnapshot) -> None:
        """Handles the enumerators' snapshot, at once, as the module docstring explains."""
        checkpoint_id = CheckpointId(snapshot.checkpoint_id)
        if snapshot.error:
            self._job.handle(ev.EnumeratorsFailed(checkpoint_id, snapshot.error, snapshot.failure))
        else:
            self.sources.assignments.captured(checkpoint_id)
            self._job.handle(ev.EnumeratorsSnapshotted(checkpoint_id, snapshot.states))

    # The JobMaster's effects, besides those of `restoration`

    def rescaled(self, graph: JobGraph) -> None:
        """Replaces the job graph by one at another parallelism, while no task runs."""
        self._job.graph = graph
        self._job.sources = self._sources(self._job.master, graph, self._job.surroundings)
        self.coordinator.rescale(self._job.master.topology)

    def rolled_back(self, effect: job_ev.RollBack) -> None:
        """Aborts pending checkpoints, because tasks are being cancelled for a restart."""
        self.restoration.interrupt()
        self._pointers.give_up()
        self._taken.clear()
        self._job.handle(ev.TasksRolledBack(effect.subtasks, effect.reason))

    def taken_over(self, effect: job_ev.TakenOver) -> None:
        """Continues with the tasks that were taken over."""
        self.restoration.taken_over(effect)
        for execution in self._job.master.execution_graph.executions:
            self.task_changed(execution)
        ended = tuple(task.attempt_id for task in effect.tasks if task.inputs_ended)
        if ended:
            self._job.handle(ev.InputsEnded(ended))

    # Ends

    def suspend(self) -> None:
        """Stops checkpoints because the job manager stops; nothing is deleted."""
        self._job.suspend()

    async def conclude(self) -> None:
        """Ends checkpointing after the job has ended: once this returns, no checkpoint completes any more."""
        self._job.life.conclude()
        await self._pointers.conclude()

    def job_ended(self, status: JobStatus, keeps_all: bool = False) -> None:
        """Stops checkpoints and restores, and deletes what the ended job does not keep."""
        self.restoration.interrupt()
        self._pointers.give_up()
        kept = keeps_all and status is JobStatus.FAILED
        self._job.life.stop()
        self._job.handle(ev.Stopped(outcome(status, keeps_all)))
        self._job.life.end()
        self._job.driver.schedule()
        self._job.background.spawn(self._clean_up(kept))

    async def _clean_up(self, keeps_pointers: bool) -> None:
        await self._job.driver.settled.wait()
        await until_done(self._job.files.clean_up, lambda: True)
        try:
            await self._job.restore_points.leave(keeps_pointers)
        except StoreError as error:
            self._job.leadership_lost(error)
        else:
            self._job.files.job_ended()
