"""The checkpoints of one job: carries out the effects of the pure `CheckpointCoordinator`, and restores tasks.

Owned by the job manager's loop. A checkpoint is consistent with the splits that are being assigned because of the order
of messages: the enumerator process sends its snapshot on the same pipe as its assignments, the snapshot is handled here
at once, and barriers are sent on the same streams as assignments. So a reader receives splits that were assigned before
the snapshot before the barrier, and all others after it.

A restore resets the sources first (`source_rollback`). A job that starts from a snapshot is restored from it; only then
the snapshot becomes the coordinator's restore point, and a claimed one may be deleted only after all tasks have run on
it. A job that another job manager led before has that one's restore points. If its tasks still run, they are notified
again that the last of them is complete, in case that leader did not, and that pending checkpoints were aborted.

Pointers are written to the store before anything relies on them, and removed before any file of their checkpoints is
deleted. A job manager that has lost the leadership of the job in the store completes and deletes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Protocol, assert_never

from msgspec.structs import replace

from millstream.core.backoff import Backoff
from millstream.core.clock import Clock, Instant
from millstream.core.errors import MillstreamError, UnrecoverableError
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import NO_ALLOCATION, AttemptId, TaskManagerId, VertexId, new_id
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.core.messages.checkpoints import (
    CheckpointAck,
    CheckpointDecline,
    CheckpointNotice,
    CommitFailed,
    InputsEnded,
)
from millstream.core.messages.snapshots import SnapshotRequest, SnapshotResult
from millstream.core.messages.sources import (
    EnumeratorsCommand,
    EnumeratorsSnapshot,
    RunningReader,
    SnapshotEnumerators,
)
from millstream.core.messages.task_manager import JobManagerCommand
from millstream.core.processes.background import BackgroundTasks
from millstream.core.snapshot.storage.memory_storage import SCHEME as MEMORY_SCHEME
from millstream.core.store.checkpoint_pointers import JobPointers
from millstream.core.store.store import StoreError
from millstream.jobmanager import checkpoint_messages as messages
from millstream.jobmanager.checkpoint_files import CheckpointFiles, storage_of
from millstream.jobmanager.checkpoints import events as ev
from millstream.jobmanager.checkpoints.coordinator import CheckpointCoordinator
from millstream.jobmanager.checkpoints.failures import CheckpointFailureReason as Reason
from millstream.jobmanager.checkpoints.model import CheckpointId, CompletedCheckpoint, TaskRef, TriggerId
from millstream.jobmanager.checkpoints.policies.retention import is_kept
from millstream.jobmanager.checkpoints.settings import CheckpointSettings
from millstream.jobmanager.failover.regions import PipelinedRegions
from millstream.jobmanager.failover.topology import JobTopology, Subtask
from millstream.jobmanager.job_master import events as job_ev
from millstream.jobmanager.job_master.execution_graph import Execution, TaskRestore
from millstream.jobmanager.job_master.job_failures import checkpoint_failure, job_failure
from millstream.jobmanager.job_master.job_master import JobMaster
from millstream.jobmanager.restore_points import RestorePoints
from millstream.jobmanager.restoring.restore_assignment import task_restores
from millstream.jobmanager.restoring.running_tasks import running_readers, under_way, why_not
from millstream.jobmanager.restoring.starting_snapshot import RecoverySettings, StartingSnapshot, read_starting_snapshot
from millstream.jobmanager.snapshot_content import enumerator_states
from millstream.jobmanager.snapshot_requests import requested_event
from millstream.jobmanager.sources.source_rollback import SourceRollback

log = logging.getLogger(__name__)


class Surroundings(Protocol):
    """The services of the job manager that a job's checkpoints use."""

    def command(self, task_manager: TaskManagerId, command: JobManagerCommand) -> None:
        """Sends a command to a task manager."""
        ...

    def enumerators(self, command: EnumeratorsCommand) -> bool:
        """Sends a command to the enumerator process; returns false when there is none."""
        ...

    def start_enumerators(
        self, states: Mapping[VertexId, bytes], readers: Mapping[VertexId, tuple[RunningReader, ...]] | None = None
    ) -> None:
        """Starts a new enumerator process with these states, replacing one that failed.

        With `readers`, the enumerators continue with these running readers.
        """
        ...

    def tell(self, event: job_ev.Event) -> None:
        """Passes an event to the JobMaster."""
        ...

    def send_snapshot_result(self, result: SnapshotResult) -> None:
        """Sends the result of a requested snapshot to the dispatcher."""
        ...

    def in_charge(self) -> bool:
        """Whether the job cannot have been reported as ended to users: only then checkpoints may complete."""
        ...


_TRY_AGAIN = 0.1  # seconds after which a job manager checks again whether it may complete a checkpoint
_BACKOFF = Backoff(0.1, 60.0)  # seconds between two attempts to prepare checkpoints, or to clean up after a job
_OPENED = frozenset({ExecutionState.RUNNING, ExecutionState.FINISHED})
OUTCOMES = {
    JobStatus.FINISHED: ev.StopOutcome.FINISHED,
    JobStatus.CANCELED: ev.StopOutcome.CANCELED,
    JobStatus.FAILED: ev.StopOutcome.FAILED,
}


def _outcome(status: JobStatus, keeps_all: bool) -> ev.StopOutcome:
    return ev.StopOutcome.SUSPENDED if keeps_all and status is JobStatus.FAILED else OUTCOMES[status]


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
        self._master = master
        self.settings = settings
        self._recovery = recovery
        self._follows = follows
        self._left = JobPointers()
        self._start: StartingSnapshot | None = None
        self._older: list[CompletedCheckpoint] = []
        self._begun = recovery is None
        self._beginning = asyncio.Lock()
        self._ran = False
        self._graph = master.graph
        self._surroundings = surroundings
        self._background = background
        self._clock = clock
        directories = [d for d in (settings.directory, settings.savepoint_directory) if d is not None]
        storage = storage_of(self._graph.job_id, settings)
        self._files = CheckpointFiles(self._graph.job_id, storage, background, directories)
        self._restarts = restarts
        self.sources = self._sources()
        self._restore_points = restore_points
        self._leads = asyncio.Event()
        self._first_id = 1
        self._prepared = asyncio.Event()
        self.coordinator = self._coordinator()
        self._settled = asyncio.Event()
        self._settled.set()
        self._events: deque[ev.Event] = deque()
        self._handling = False
        self._wake_up: asyncio.TimerHandle | None = None
        self._restart = 0
        self._storing = asyncio.Lock()
        self._concluding = False
        self._not_stored: ev.StorePointer | None = None
        self._ended = False
        self._is_over = False
        self._taken: dict[CheckpointId, dict[AttemptId, int]] = {}
        self._for_rescales: dict[str, int] = {}

    def _sources(self) -> SourceRollback:
        apart = _restarting_apart(self._master.topology, self._graph) if self._restarts else ()
        return SourceRollback(self._graph, self._surroundings.enumerators, apart)

    def start(self) -> None:
        """Prepares the storage of checkpoints; the job fails if it cannot be used, instead of restarting endlessly."""
        self._background.spawn(self.prepare())

    async def prepare(self) -> None:
        """Reads the storage of checkpoints; before that, no checkpoints are taken into files.

        If the job has run before, its storage is known to be valid: if it is unreachable, this is retried.
        """
        self._left = (await self._restore_points.lead()).stored
        self._leads.set()
        self._files.give_up_savepoints(self._left.savepoints)
        for pause in _BACKOFF.delays():
            if await self._is_prepared() or self._ended:
                return
            await asyncio.sleep(pause)

    async def _is_prepared(self) -> bool:
        """Prepares checkpoints; returns false if that has to be retried."""
        try:
            await self._number_from(1)  # for savepoints, which do not need the storage of checkpoints
            await self._number_from(await self._files.prepare_checkpoints(self.settings.enabled, self._follows) + 1)
            if not self._follows and self._files.home:
                await self._restore_points.settle(self._files.settled())
            elif self._begun:
                self._inherit()
            self._prepared.set()
        except StoreError as error:
            self._leadership_lost(error)
        except (MillstreamError, OSError) as error:
            if not self.settings.enabled:
                log.warning("job %s: checkpoints are disabled: %s", self._graph.job_id, error)
                self._prepared.set()
                return True
            reason = f"option 'execution.checkpointing.dir': {error}"
            if self._follows:
                log.warning("job %s: checkpoints are delayed, retrying: %s", self._graph.job_id, reason)
                return False
            failure = job_failure(self._graph.job_id, reason, self._clock.now_ms(), final=True)
            self._surroundings.tell(job_ev.JobFailed(failure))
        return True

    def _inherit(self) -> None:
        """Has leftover files of earlier leaders deleted, once all restore points are known."""
        if self._follows:
            self._files.inherit(self._left.home, [pointer.checkpoint_id for pointer in self._left.pointers])

    async def _number_from(self, at_least: int) -> None:
        self._first_id = await self._restore_points.reserve(at_least)
        self.coordinator.number_from(self._first_id)

    # The coordinator

    def _coordinator(self) -> CheckpointCoordinator:
        retained = [*self._older, self._start.checkpoint] if self._start is not None else []
        return CheckpointCoordinator(
            self._master.topology,
            self.settings,
            retained=retained,
            next_id=self._first_id,
            coordinated=self.sources.any_sources,
        )

    def handle(self, event: ev.Event) -> None:
        """Handles events one after the other, including those that result from effects."""
        self._events.append(event)
        if self._handling:
            return
        self._handling = True
        try:
            while self._events:
                for effect in self.coordinator.handle(self._events.popleft(), Instant.of(self._clock)):
                    self._carry_out(effect)
        finally:
            self._handling = False
        self._files.ended([pending.id for pending in self.coordinator.pending])
        if self.coordinator.settled:
            self._settled.set()
        else:
            self._settled.clear()
        self._schedule()

    def _schedule(self) -> None:
        if self._wake_up is not None:
            self._wake_up.cancel()
            self._wake_up = None
        at = None if self._ended else self.coordinator.next_wake_up()
        if at is not None:
            delay = max(0, at - Instant.of(self._clock).steady_ms) / 1000
            self._wake_up = asyncio.get_running_loop().call_later(delay, self.handle, ev.Tick())

    def _carry_out(self, effect: ev.Effect) -> None:
        match effect:
            case ev.SnapshotEnumerators(checkpoint_id):
                if not self._surroundings.enumerators(SnapshotEnumerators(checkpoint_id)):
                    self._events.append(ev.EnumeratorsFailed(checkpoint_id, "the enumerator process is not running"))
            case ev.TriggerBarrier():
                self._trigger(effect)
            case ev.WriteMetadata(content):
                writing = self._files.write_metadata(self._graph, content, self._clock.now_ms())
                self._background.spawn(self._handle_later(writing))
            case ev.StorePointer():
                self._store(effect)
            case ev.NotifyComplete(checkpoint_id, attempts):
                self._notify(checkpoint_id, attempts, completed=True)
                self._completed(checkpoint_id)
            case ev.NotifyAborted(checkpoint_id, attempts):
                self._notify(checkpoint_id, attempts, completed=False)
            case ev.DiscardState(checkpoint_id):
                known = [c.checkpoint_id for c in self.coordinator.retained] + [p.id for p in self.coordinator.pending]
                self._files.discard(effect, is_alive=checkpoint_id in known)
                if self._ended:
                    self._files.job_ended()
            case ev.DeleteCheckpoint(checkpoint):
                is_start = self._start is not None and checkpoint.pointer == self._start.location
                delete = partial(self._files.delete, checkpoint, [pending.id for pending in self.coordinator.pending])
                self._drop(checkpoint.checkpoint_id, None if is_start and not self._ran else delete)
            case ev.ReleasePointer(checkpoint_id):
                self._drop(checkpoint_id)
            case ev.FailJob(message, cause):
                failure = checkpoint_failure(self._graph.job_id, message, self._clock.now_ms(), cause)
                self._soon(lambda: self._surroundings.tell(job_ev.JobFailed(failure)))
            case ev.SavepointDone(trigger_id, checkpoint_id, path):
                log.info("job %s: savepoint %d completed at %s", self._graph.job_id, checkpoint_id, path)
                self._files.released(checkpoint_id)
                self._background.spawn(self._saved(path))
                self._send_result(SnapshotResult(trigger_id, checkpoint_id, path))
            case ev.CheckpointDone(trigger_id, checkpoint_id, path):
                self._send_result(SnapshotResult(trigger_id, checkpoint_id, path))
            case ev.SavepointFailed(trigger_id, _, message) | ev.CheckpointFailed(trigger_id, _, message):
                log.warning("job %s: a requested snapshot failed: %s", self._graph.job_id, message)
                self._send_result(SnapshotResult(trigger_id, error=message))
            case _:
                assert_never(effect)

    def _soon(self, action: Callable[[], None]) -> None:
        """Schedules an action after the handling of the current event."""
        asyncio.get_running_loop().call_soon(action)

    async def _handle_later(self, event: Awaitable[ev.Event]) -> None:
        self.handle(await event)

    async def _saved(self, location: str) -> None:
        with contextlib.suppress(StoreError):  # the next leader finds the savepoint complete
            await self._restore_points.saved(location)

    def _send_result(self, result: SnapshotResult) -> None:
        number = self._for_rescales.pop(result.trigger_id, None)
        if number is None:
            self._surroundings.send_snapshot_result(result)
        else:
            self._soon(lambda: self._surroundings.tell(job_ev.RescaleCheckpointed(number, result.error)))

    def _trigger(self, effect: ev.TriggerBarrier) -> None:
        why = ""
        if not self._restore_points.may_use(effect.checkpoint_id):
            why = "the job manager is still reserving ids for the job's checkpoints"
        elif effect.options.target_directory is None and not self._files.is_prepared:
            why = "the job manager is still reading the job's folder of checkpoints"
        if self._prepared.is_set() and self._restore_points.runs_out_at(effect.checkpoint_id):
            self._background.spawn(self._reserve_after(effect.checkpoint_id))
        try:
            if why:
                reason = Reason.CHECKPOINT_DECLINED_TASK_NOT_READY
                self._events.append(ev.Declined(effect.checkpoint_id, effect.attempts[0], reason, why))
                return
            location = self._files.location(effect.checkpoint_id, effect.options)
        except (MillstreamError, OSError) as error:
            reason = Reason.TRIGGER_CHECKPOINT_FAILURE
            self._events.append(ev.Declined(effect.checkpoint_id, effect.attempts[0], reason, str(error)))
        else:
            self._command(messages.triggers(effect, location, self._master.place_of_attempt))

    def _notify(self, checkpoint_id: CheckpointId, attempts: Collection[AttemptId], completed: bool) -> None:
        self._command(messages.notices(checkpoint_id, attempts, completed, self._master.place_of_attempt))

    def _completed(self, checkpoint_id: CheckpointId) -> None:
        """Reports the completed checkpoint to the JobMaster, with the numbers of records before it."""
        taken = self._taken.pop(checkpoint_id, {})
        self._soon(lambda: self._surroundings.tell(job_ev.CheckpointCompleted(taken)))

    def _command(self, commands: Iterable[tuple[TaskManagerId, JobManagerCommand]]) -> None:
        for task_manager, command in commands:
            self._surroundings.command(task_manager, command)

    async def _reserve_after(self, checkpoint_id: CheckpointId) -> None:
        try:
            self.coordinator.number_from(await self._restore_points.reserve(checkpoint_id + 1))
        except StoreError as error:
            self._leadership_lost(error)

    def _store(self, effect: ev.StorePointer) -> None:
        if self._surroundings.in_charge():
            self._background.spawn(self._store_pointer(effect))
        else:
            self._not_stored = effect
            asyncio.get_running_loop().call_later(_TRY_AGAIN, self._store_again, effect)

    async def _store_pointer(self, effect: ev.StorePointer) -> None:
        checkpoint_id = effect.checkpoint_id
        async with self._storing:
            if self._concluding:
                self.handle(ev.PointerFailed(checkpoint_id, "the job has ended"))
                return
            try:
                await self._restore_points.add(checkpoint_id, effect.pointer)
            except StoreError as error:  # it may have been stored: without a result, the restore point stays unsettled
                self._leadership_lost(error)
                return
            self._files.retained(checkpoint_id)
            self.sources.assignments.completed(checkpoint_id)
            self._surroundings.enumerators(CheckpointNotice(NO_ALLOCATION, (), checkpoint_id, completed=True))
            self.handle(ev.PointerStored(checkpoint_id))

    def _store_again(self, effect: ev.StorePointer) -> None:
        if self._not_stored == effect and not self._ended:
            self._not_stored = None
            self._store(effect)

    def _give_up_storing(self) -> None:
        """Gives up storing a checkpoint that could not be completed in time; its tasks have ended."""
        if (effect := self._not_stored) is not None:
            self._not_stored = None
            reason = "this job manager may have lost its lease from the dispatcher"
            self.handle(ev.PointerFailed(effect.checkpoint_id, reason))

    def _drop(self, checkpoint_id: CheckpointId, delete: Callable[[], None] | None = None) -> None:
        """Removes the pointer from the store, and only then deletes the files; without `delete` they are kept.

        The files of a job that has ended are deleted first, since it is not restored: until the pointer is removed, the
        next leader finds out what is left to delete.
        """
        then = delete or partial(self._files.released, checkpoint_id)
        if self._is_over:
            then()
            return
        self._background.spawn(self._drop_pointer(checkpoint_id, then))

    async def _drop_pointer(self, checkpoint_id: CheckpointId, then: Callable[[], None]) -> None:
        try:
            await self._restore_points.remove(checkpoint_id)
        except StoreError as error:
            self._leadership_lost(error)
        else:
            then()
            self._files.ended([pending.id for pending in self.coordinator.pending])

    def _leadership_lost(self, error: StoreError) -> None:
        log.warning("job %s: taking no more checkpoints, the leadership is lost: %s", self._graph.job_id, error)
        self.suspend()

    # Messages of other services

    def snapshot(self, request: SnapshotRequest) -> None:
        """Takes a snapshot for a user. There is exactly one result, also if the same request is already pending."""
        self._background.spawn(self._snapshot(request))

    async def _snapshot(self, request: SnapshotRequest) -> None:
        try:
            event = requested_event(request)
            if isinstance(event, ev.SavepointRequested):
                directory = event.target_directory or self.settings.savepoint_directory
                if directory is not None:
                    await self._restore_points.saving(await self._files.prepare_savepoint(directory))
        except (MillstreamError, OSError, ValueError) as error:
            self._send_result(SnapshotResult(request.trigger_id, error=str(error)))
        else:
            self.handle(event)

    def checkpoint_to_rescale(self, number: int) -> None:
        """Takes a checkpoint for a rescale, and reports the result to the JobMaster."""
        if self.coordinator.is_stopping:
            why = "the job is being stopped with a savepoint"
            self._soon(lambda: self._surroundings.tell(job_ev.RescaleCheckpointed(number, why, final=True)))
            return
        trigger_id = TriggerId(f"rescale-{number}-{new_id()}")
        self._for_rescales[trigger_id] = number
        self._soon(
            lambda: self.handle(ev.CheckpointRequested(trigger_id))
        )  # after the event that reports all tasks as running

    def rescaled(self, graph: JobGraph) -> None:
        """Replaces the job graph by one at another parallelism, while no task runs."""
        self._graph = graph
        self.sources = self._sources()
        self.coordinator.rescale(self._master.topology)

    def task_changed(self, execution: Execution) -> None:
        """Handles a task's state after the JobMaster has; the end of a task that restarts is ignored."""
        if self._ended or self._master.runs_again(execution):
            return
        task = TaskRef(execution.place, execution.attempt_id)
        if execution.state is ExecutionState.RUNNING:
            self.handle(ev.TasksRunning((task,)))
        elif execution.state is ExecutionState.FINISHED:
            self.handle(ev.TasksRunning((task,)))
            self.handle(ev.TasksFinished((execution.attempt_id,)))
        if self._start is not None and not self._ran:
            self._ran = all(e.state in _OPENED for e in self._master.execution_graph.executions)

    def acknowledged(self, ack: CheckpointAck) -> None:
        """Handles a task's acknowledgement."""
        under_way = {pending.id: self._taken.get(pending.id, {}) for pending in self.coordinator.pending}
        self._taken = under_way
        if ack.checkpoint_id in under_way:
            under_way[CheckpointId(ack.checkpoint_id)][ack.attempt_id] = ack.records
        self.handle(messages.acknowledgement(ack))

    def declined(self, decline: CheckpointDecline) -> None:
        """Handles a task's decline."""
        self.handle(messages.declined(decline))

    def inputs_ended(self, ended: InputsEnded) -> None:
        """Handles the report of a task that has processed all its input."""
        if not self._ended:
            self.handle(ev.InputsEnded((ended.attempt_id,)))

    def commit_failed(self, failed: CommitFailed) -> None:
        """Handles the report of a task that could not commit a completed checkpoint."""
        log.warning("job %s: commit by attempt %s failed: %s", self._graph.job_id, failed.attempt_id, failed.message)
        self.handle(ev.NotifyFailed(CheckpointId(failed.checkpoint_id), failed.attempt_id, failed.message))

    def snapshotted(self, snapshot: EnumeratorsSnapshot) -> None:
        """Handles the enumerators' snapshot, at once, as the module docstring explains."""
        checkpoint_id = CheckpointId(snapshot.checkpoint_id)
        if snapshot.error:
            self.handle(ev.EnumeratorsFailed(checkpoint_id, snapshot.error, snapshot.failure))
        else:
            self.sources.assignments.captured(checkpoint_id)
            self.handle(ev.EnumeratorsSnapshotted(checkpoint_id, snapshot.states))

    def rolled_back(self, effect: job_ev.RollBack) -> None:
        """Aborts pending checkpoints, because tasks are being cancelled for a restart."""
        self._restart = -1  # a restore in progress is outdated
        self._give_up_storing()
        self.sources.interrupt()
        self._taken.clear()
        self.handle(ev.TasksRolledBack(effect.subtasks, effect.reason))

    def places(self) -> tuple[str, str]:
        """The latest completed checkpoint and the folder of checkpoints; empty for what is not in files."""
        pointers = [c.pointer for c in self.coordinator.retained if not c.pointer.startswith(MEMORY_SCHEME)]
        return (pointers[-1] if pointers else ""), (self._files.home if self.settings.enabled else "")

    @property
    def restore_point(self) -> int:
        """The id of the last checkpoint that the job has completed, under any leader; 0: none."""
        recovery, start = self._recovery, self._start
        if recovery is not None and not self._begun:
            return recovery.own_id
        taken = self.coordinator.retained
        if start is not None and (
            recovery is None or not recovery.own_id
        ):  # the snapshot it was started from is not its own
            taken = tuple(checkpoint for checkpoint in taken if checkpoint.pointer != start.location)
        return taken[-1].checkpoint_id if taken else 0

    def kept(self, status: JobStatus, keeps_all: bool) -> str:
        """Returns the last checkpoint that is kept after the job has ended with this status, or an empty string."""
        return self.places()[0] if is_kept(self.settings.retention, _outcome(status, keeps_all)) else ""

    def is_lost(self, status: JobStatus, keeps_all: bool) -> bool:
        """Whether the last checkpoint would be kept after the job has ended, but is in the job manager's memory."""
        retained = self.coordinator.retained
        in_memory = bool(retained) and retained[-1].pointer.startswith(MEMORY_SCHEME)
        return in_memory and is_kept(self.settings.retention, _outcome(status, keeps_all))

    def interrupt(self) -> None:
        """Cancels a restore that is in progress."""
        self._restart = -1
        self.sources.interrupt()

    async def conclude(self) -> None:
        """Ends checkpointing after the job has ended: once this returns, no checkpoint completes any more."""
        self._concluding = True
        async with self._storing:
            pass

    def job_ended(self, status: JobStatus, keeps_all: bool = False) -> None:
        """Stops checkpoints and restores, and deletes what the ended job does not keep."""
        self.interrupt()
        self._give_up_storing()
        kept = keeps_all and status is JobStatus.FAILED
        self._is_over = True
        self.handle(ev.Stopped(_outcome(status, keeps_all)))
        self._ended = True
        self._schedule()
        self._background.spawn(self._clean_up(kept))

    async def _clean_up(self, keeps_pointers: bool) -> None:
        await self._settled.wait()
        for pause in _BACKOFF.delays():
            if await self._files.clean_up():
                break
            await asyncio.sleep(pause)
        try:
            await self._restore_points.leave(keeps_pointers)
        except StoreError as error:
            self._leadership_lost(error)
        else:
            self._files.job_ended()

    def suspend(self) -> None:
        """Stops checkpoints because the job manager stops; nothing is deleted."""
        self._ended = True
        self._schedule()

    # Restoring

    def restore(self, effect: job_ev.Restore) -> None:
        """Carries out a `Restore` of the JobMaster, unless a later one overtakes it."""
        self._restart = effect.restart
        self._background.spawn(self._restore(effect))

    async def _restore(self, effect: job_ev.Restore) -> None:
        try:
            await self._begin(lambda: self._restart == effect.restart)
        except (MillstreamError, OSError, ValueError) as error:
            if self._restart == effect.restart:
                is_final = not self._follows or isinstance(error, UnrecoverableError)
                self._surroundings.tell(job_ev.RestoreFailed(effect.restart, str(error), is_final))
            return
        if not self._begun:
            return
        await self._settled.wait()
        try:
            checkpoint = self.coordinator.latest_restorable()
            restores: Mapping[Subtask, TaskRestore] = {}
            states: Mapping[VertexId, bytes] = {}
            if checkpoint is not None:
                metadata = await self._files.read_metadata(checkpoint.pointer)
                restores = await asyncio.to_thread(
                    task_restores, self._graph, metadata, checkpoint.pointer, effect.subtasks
                )
                states = enumerator_states(self._graph, metadata)
            await self._leads.wait()
            if self._restart != effect.restart:
                return
            await self._restore_points.deploying(self._master.execution_graph.attempts(), self._master.restarts)
        except StoreError as error:
            if self._restart == effect.restart:  # else the job has ended in the meantime
                self._leadership_lost(error)
            return
        except (MillstreamError, OSError) as error:
            if self._restart == effect.restart:
                is_final = isinstance(error, UnrecoverableError)
                self._surroundings.tell(job_ev.RestoreFailed(effect.restart, str(error), is_final))
            return
        if self._restart != effect.restart:
            return
        if effect.start_enumerators:
            self.sources.forget()
            self._surroundings.start_enumerators(states)
        else:
            self.sources.begin(effect.subtasks, states)
            await self.sources.all_confirmed(lambda: self._restart == effect.restart)
        if self._restart != effect.restart:
            return
        self.sources.done()
        if abandoned := self.coordinator.abandoned_savepoints:
            restores = {
                place: replace(restores.get(place, TaskRestore()), failed_savepoints=abandoned)
                for place in effect.subtasks
            }
        if checkpoint is not None:
            self.handle(ev.JobRestored(checkpoint.checkpoint_id))
        self._surroundings.tell(job_ev.Restored(effect.restart, restores, self._graph))

    async def _begin(self, is_wanted: Callable[[], bool]) -> None:
        """Loads the job's first restore point: that of an earlier leader, or the configured snapshot.

        Does nothing if it is loaded, or if the restore is outdated. Raises MillstreamError if it cannot be used.
        """
        async with self._beginning:
            if self._begun or self._recovery is None:
                return
            recovery = self._recovery
            path = self._files.reachable(recovery.path)
            start = await asyncio.to_thread(read_starting_snapshot, replace(recovery, path=path), self._graph)
            await self._prepared.wait()
            older = await self._files.take_up(recovery.older)
            if not is_wanted():
                return
            self._begun = True
            self._older, self._start, self._graph = older, start, start.graph
            self._files.start_from(start)
            if len(older) == len(recovery.older):  # else the files that one of them refers to are unknown
                self._inherit()
            self.coordinator = self._coordinator()

    # Tasks of an earlier leader

    def take_over(self, effect: job_ev.TakeOver) -> None:
        """Carries out a `TakeOver` of the JobMaster."""
        self._background.spawn(self._take_over(effect))

    async def _take_over(self, effect: job_ev.TakeOver) -> None:
        try:
            await self._begin(lambda: self._master.is_taking_over)
            if not self._begun:
                return
            restore_point, states = self._restore_point, dict[VertexId, bytes]()
            refused = why_not(self._graph, effect.tasks, restore_point)
            checkpoint = self.coordinator.latest_restorable()
            if checkpoint is not None and not refused:
                states = enumerator_states(self._graph, await self._files.read_metadata(checkpoint.pointer))
        except (MillstreamError, OSError, ValueError) as error:
            refused = str(error)
        if not self._master.is_taking_over:
            return
        if refused:
            self._surroundings.tell(job_ev.TakeoverRefused(refused))
            return
        if self.sources.any_sources:
            readers = running_readers(self._graph, effect.tasks, restore_point)
            self.sources.taken_over(readers)
            self._surroundings.start_enumerators(states, readers)
        self._surroundings.tell(job_ev.TakeoverPrepared(self._graph))

    @property
    def _restore_point(self) -> int:
        checkpoint = self.coordinator.latest_restorable()
        return checkpoint.checkpoint_id if checkpoint is not None else 0

    def taken_over(self, effect: job_ev.TakenOver) -> None:
        """Notifies the tasks that were taken over: pending checkpoints are aborted, the last one is complete."""
        restore_point = self._restore_point
        given_up = [CheckpointId(number) for number in under_way(effect.tasks, restore_point)]
        running = [task.attempt_id for task in effect.tasks if not task.state.is_terminal]
        for number in given_up:
            self._notify(number, running, completed=False)
        self._files.given_up(given_up)
        if restore_point:
            self._notify(CheckpointId(restore_point), running, completed=True)
            notice = CheckpointNotice(NO_ALLOCATION, (), restore_point, completed=True)
            self._surroundings.enumerators(notice)
        for execution in self._master.execution_graph.executions:
            self.task_changed(execution)
        ended = tuple(task.attempt_id for task in effect.tasks if task.inputs_ended)
        if ended:
            self.handle(ev.InputsEnded(ended))
