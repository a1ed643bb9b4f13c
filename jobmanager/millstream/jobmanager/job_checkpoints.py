"""The checkpoints of one job: carries out what the pure `CheckpointCoordinator` wants, and restores from its result.

Owned by the job manager's loop. Order is what makes a checkpoint consistent with the splits that are being assigned:
the coordinator process answers its snapshot on the same pipe as its assignments, the answer is handled here at once,
and the barriers leave on the same streams as the assignments. So a reader gets what was assigned before the snapshot
before the barrier, and everything else after it.

A restore brings the sources back first. A source that restarts as a whole gets its enumerator reset; of one that
restarts in part, the splits that its lost readers were given since the checkpoint go back to the enumerator. Until the
coordinator process has confirmed that, what it sends to those readers is from before, and does not reach them.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Protocol, assert_never

from millstream.core.background import BackgroundTasks
from millstream.core.clock import Clock
from millstream.core.errors import MillstreamError
from millstream.core.ids import AttemptId, TaskManagerId, VertexId
from millstream.core.snapshot import SnapshotMetadata
from millstream.core.snapshot.operator_json import operators_from_json, operators_to_json
from millstream.core.states import ExecutionState, JobStatus
from millstream.jobmanager import events as job_ev
from millstream.jobmanager.checkpoint_files import CheckpointFiles, storage_of
from millstream.jobmanager.checkpoints import events as ev
from millstream.jobmanager.checkpoints.coordinator import CheckpointCoordinator
from millstream.jobmanager.checkpoints.failures import CheckpointFailureReason as Reason
from millstream.jobmanager.checkpoints.model import CheckpointId, CompletedCheckpoint, SnapshotMetrics, TaskRef
from millstream.jobmanager.checkpoints.settings import CheckpointSettings
from millstream.jobmanager.execution_graph import Execution, TaskRestore
from millstream.jobmanager.failover.topology import Subtask
from millstream.jobmanager.job_master import JobMaster
from millstream.jobmanager.restore_assignment import assign_states
from millstream.jobmanager.snapshot_content import AcknowledgedState, enumerator_states
from millstream.jobmanager.split_assignments import SplitAssignments
from millstream.proto import status_pb2
from millstream.proto import taskmanager_pb2 as pb

log = logging.getLogger(__name__)

_NO_SPLITS = pickle.dumps([])


class Surroundings(Protocol):
    """What the job manager does for a job's checkpoints."""

    def command(self, task_manager: TaskManagerId, command: pb.JobManagerCommand) -> None:
        """Tells a task manager something."""
        ...

    def coordinator(self, command: pb.CoordinatorCommand) -> bool:
        """Tells the coordinator process something; false when there is none."""
        ...

    def start_coordinator(self, states: Mapping[VertexId, bytes]) -> None:
        """Starts a new coordinator process, with the enumerators in these states, in place of one that failed."""
        ...

    def tell(self, event: job_ev.Event) -> None:
        """Has the JobMaster handle an event."""
        ...


_OUTCOMES = {
    JobStatus.FINISHED: ev.StopOutcome.FINISHED,
    JobStatus.CANCELED: ev.StopOutcome.CANCELED,
    JobStatus.FAILED: ev.StopOutcome.FAILED,
}


class JobCheckpoints:
    """`coordinator.statistics` is what REST shows. Without `restarts`, splits need not be remembered."""

    def __init__(
        self,
        master: JobMaster,
        settings: CheckpointSettings,
        surroundings: Surroundings,
        background: BackgroundTasks,
        clock: Clock,
        restarts: bool = True,
    ) -> None:
        self._master = master
        self._restarts = restarts
        self._graph = master.graph
        self._surroundings = surroundings
        self._background = background
        self._clock = clock
        self._files = CheckpointFiles(self._graph, storage_of(self._graph, settings), background)
        self._sources = {v.id: v.parallelism for v in self._graph.vertices if v.source}
        self.coordinator = CheckpointCoordinator(master.topology, settings, coordinated=bool(self._sources))
        self._events: deque[ev.Event] = deque()
        self._handling = False
        self._wake_up: asyncio.TimerHandle | None = None
        self._assignments = SplitAssignments()
        self._restart = 0
        self._resetting: set[VertexId] = set()
        self._returning: set[Subtask] = set()
        self._unconfirmed = 0
        self._confirmed: asyncio.Event = asyncio.Event()
        self._ended = False

    # The coordinator

    def handle(self, event: ev.Event) -> None:
        """Events are handled one after the other, also those that come of carrying out effects."""
        self._events.append(event)
        if self._handling:
            return
        self._handling = True
        try:
            while self._events:
                for effect in self.coordinator.handle(self._events.popleft(), self._clock.now_ms()):
                    self._carry_out(effect)
        finally:
            self._handling = False
        self._schedule()

    def _schedule(self) -> None:
        if self._wake_up is not None:
            self._wake_up.cancel()
            self._wake_up = None
        at = None if self._ended else self.coordinator.next_wake_up()
        if at is not None:
            delay = max(0, at - self._clock.now_ms()) / 1000
            self._wake_up = asyncio.get_running_loop().call_later(delay, self.handle, ev.Tick())

    def _carry_out(self, effect: ev.Effect) -> None:
        match effect:
            case ev.SnapshotCoordinators(checkpoint_id):
                wanted = pb.SnapshotCoordinator(checkpoint_id=checkpoint_id)
                if not self._surroundings.coordinator(pb.CoordinatorCommand(snapshot=wanted)):
                    self._events.append(ev.CoordinatorsFailed(checkpoint_id, "the coordinator process is not running"))
            case ev.ResumeCoordinators():
                pass  # nothing was held back: barriers leave as soon as the coordinators have answered
            case ev.TriggerBarrier():
                self._trigger(effect)
            case ev.WriteMetadata(content):
                self._background.spawn(self._answer(self._files.write_metadata(content, self._clock.now_ms())))
            case ev.StorePointer(checkpoint_id):
                self._store(checkpoint_id)
            case ev.NotifyComplete(checkpoint_id, attempts):
                self._notify(checkpoint_id, attempts, completed=True)
            case ev.NotifyAborted(checkpoint_id, attempts):
                self._notify(checkpoint_id, attempts, completed=False)
            case ev.DiscardState(checkpoint_id):
                known = [c.checkpoint_id for c in self.coordinator.retained] + [p.id for p in self.coordinator.pending]
                self._files.discard(effect, is_alive=checkpoint_id in known)
                if self._ended:
                    self._files.job_ended()
            case ev.DeleteCheckpoint(checkpoint):
                self._files.delete(checkpoint.checkpoint_id)
            case ev.ReleasePointer(checkpoint_id):
                self._files.released(checkpoint_id)
            case ev.FailJob(message):
                failure = status_pb2.TaskFailure(
                    job_id=self._graph.job_id,
                    exception=f"CheckpointFailure: {message}",
                    traceback=message,
                    timestamp=self._clock.now_ms(),
                )
                self._soon(lambda: self._surroundings.tell(job_ev.JobFailed(failure)))
            case ev.SavepointDone(trigger_id, checkpoint_id, path):
                log.info("job %s: savepoint %s (%d) is at %s", self._graph.job_id, trigger_id, checkpoint_id, path)
            case ev.SavepointFailed(trigger_id, reason, message) | ev.CheckpointFailed(trigger_id, reason, message):
                log.warning("job %s: snapshot %s: %s", self._graph.job_id, trigger_id, reason.explain(message))
            case ev.CheckpointDone(trigger_id, checkpoint_id):
                log.info("job %s: checkpoint %s (%d) is complete", self._graph.job_id, trigger_id, checkpoint_id)
            case ev.StopJob():
                pass  # its tasks finish by themselves
            case _:
                assert_never(effect)

    def _soon(self, action: Callable[[], None]) -> None:
        """Not from within the handling of another event."""
        asyncio.get_running_loop().call_soon(action)

    async def _answer(self, answer: Awaitable[ev.Event]) -> None:
        self.handle(await answer)

    def _trigger(self, effect: ev.TriggerBarrier) -> None:
        try:
            location = self._files.location(effect.checkpoint_id, effect.options)
        except (MillstreamError, OSError) as error:
            reason = Reason.TRIGGER_CHECKPOINT_FAILURE
            self._events.append(ev.Declined(effect.checkpoint_id, effect.attempts[0], reason, str(error)))
            return
        options = pb.CheckpointOptions(
            checkpoint_id=effect.checkpoint_id,
            timestamp=effect.timestamp_ms,
            location=location,
            savepoint=effect.options.is_savepoint,
            full=effect.options.full,
            alignment=effect.options.alignment,
            stop=effect.options.stop,
        )
        for task_manager, allocation, attempts in self._places(effect.attempts):
            trigger = pb.TriggerCheckpoint(allocation_id=allocation, attempt_ids=attempts, options=options)
            self._surroundings.command(task_manager, pb.JobManagerCommand(trigger_checkpoint=trigger))

    def _notify(self, checkpoint_id: CheckpointId, attempts: Collection[AttemptId], completed: bool) -> None:
        for task_manager, allocation, told in self._places(attempts):
            notice = pb.CheckpointNotice(
                allocation_id=allocation, attempt_ids=told, checkpoint_id=checkpoint_id, completed=completed
            )
            self._surroundings.command(task_manager, pb.JobManagerCommand(checkpoint_notice=notice))

    def _places(self, attempts: Collection[AttemptId]) -> list[tuple[TaskManagerId, str, list[str]]]:
        """The attempts that still run, by their slots."""
        slots: dict[tuple[TaskManagerId, str], list[str]] = {}
        for attempt in attempts:
            place = self._master.place_of_attempt(attempt)
            if place is not None:
                slots.setdefault((place[0], place[1]), []).append(attempt)
        return [(task_manager, allocation, told) for (task_manager, allocation), told in slots.items()]

    def _store(self, checkpoint_id: CheckpointId) -> None:
        """Without high availability, the pointer is what the coordinator itself remembers."""
        self._files.retained(checkpoint_id)
        self._assignments.completed(checkpoint_id)
        self._events.appendleft(ev.PointerStored(checkpoint_id))
        notice = pb.CheckpointNotice(checkpoint_id=checkpoint_id, completed=True)
        self._surroundings.coordinator(pb.CoordinatorCommand(checkpoint_notice=notice))

    # What others tell

    def task_changed(self, execution: Execution) -> None:
        """After the JobMaster has taken a task's report."""
        if self._ended:
            return
        task = TaskRef(execution.place, execution.attempt_id)
        if execution.state is ExecutionState.RUNNING:
            self.handle(ev.TasksRunning((task,)))
        elif execution.state is ExecutionState.FINISHED:
            self.handle(ev.TasksRunning((task,)))
            self.handle(ev.TasksFinished((execution.attempt_id,)))

    def acknowledged(self, ack: pb.CheckpointAck) -> None:
        """A task's snapshot is durable."""
        checkpoint_id, attempt = CheckpointId(ack.checkpoint_id), AttemptId(ack.attempt_id)
        try:
            where = f"the acknowledgement of checkpoint {checkpoint_id} by attempt {attempt}"
            operators = operators_from_json(ack.operators, where) if ack.operators else ()
        except MillstreamError as error:
            self.handle(ev.Declined(checkpoint_id, attempt, Reason.CHECKPOINT_DECLINED, str(error)))
            return
        state_bytes = sum(file.size for o in operators for state in o.states for file in state.files)
        metrics = SnapshotMetrics(
            sync_ms=ack.sync_ms,
            async_ms=ack.async_ms,
            alignment_ms=ack.alignment_ms,
            checkpointed_bytes=ack.bytes_written,
            state_bytes=state_bytes,
        )
        state = AcknowledgedState(operators) if operators else None
        self.handle(ev.Acknowledged(checkpoint_id, attempt, state, metrics))

    def declined(self, decline: pb.CheckpointDecline) -> None:
        """A task could not take its snapshot."""
        known = decline.reason in set(Reason)
        reason = Reason(decline.reason) if known else Reason.CHECKPOINT_DECLINED
        message = decline.message if known else f"{decline.reason}: {decline.message}"
        self.handle(
            ev.Declined(CheckpointId(decline.checkpoint_id), AttemptId(decline.attempt_id), reason, message)
        )

    def snapshotted(self, snapshot: pb.CoordinatorSnapshot) -> None:
        """The enumerators' states; handled at once, see the head of this file."""
        checkpoint_id = CheckpointId(snapshot.checkpoint_id)
        if snapshot.error:
            self.handle(ev.CoordinatorsFailed(checkpoint_id, snapshot.error))
        else:
            self._assignments.captured(checkpoint_id)
            self.handle(ev.CoordinatorsSnapshotted(checkpoint_id, dict(snapshot.states)))

    def rolled_back(self, effect: job_ev.RollBack) -> None:
        """Tasks are being cancelled for a restart."""
        self._restart = -1  # what is being restored is not wanted any more
        self._confirmed.set()
        self.handle(ev.TasksRolledBack(effect.subtasks, effect.reason))

    def job_ended(self, status: JobStatus) -> None:
        """Nothing is taken or restored any more; what the job does not keep is deleted."""
        self._restart = -1
        self._confirmed.set()
        self.handle(ev.Stopped(_OUTCOMES[status]))
        self._ended = True
        self._schedule()
        self._files.job_ended()

    def suspend(self) -> None:
        """The job manager stops: everything stays as it is."""
        self._ended = True
        self._schedule()

    # Splits

    def to_reader(self, event: pb.CoordinatorEvent) -> bool:
        """Whether what an enumerator sent may go to its reader; splits are remembered until a checkpoint has them."""
        vertex = VertexId(event.vertex_id)
        if vertex in self._resetting:
            return False
        reader = Subtask(vertex, event.subtask)
        if event.WhichOneof("kind") == "splits":
            if reader in self._returning:
                self._give_back(reader, event.splits)
            elif self._restarts:
                self._assignments.assigned(reader, event.splits)
        return reader not in self._returning

    def coordinator_confirmed(self) -> None:
        """The coordinator process has done one thing that it had to confirm."""
        self._unconfirmed -= 1
        if self._unconfirmed <= 0:
            self._unconfirmed = 0
            self._confirmed.set()

    def _give_back(self, reader: Subtask, splits: bytes) -> None:
        event = pb.ReaderEvent(
            job_id=self._graph.job_id, vertex_id=reader.vertex_id, subtask=reader.index, splits_returned=splits
        )
        self._confirm(pb.CoordinatorCommand(reader_event=event))

    def _confirm(self, command: pb.CoordinatorCommand) -> None:
        if self._surroundings.coordinator(command):
            self._unconfirmed += 1
            self._confirmed.clear()

    # Restoring

    def restore(self, effect: job_ev.Restore) -> None:
        """Carries out a `Restore` of the JobMaster, unless a later one overtakes it."""
        self._restart = effect.restart
        self._background.spawn(self._restore(effect))

    async def _restore(self, effect: job_ev.Restore) -> None:
        try:
            checkpoint = self.coordinator.latest_restorable()
            metadata = await self._files.read_metadata(checkpoint.pointer) if checkpoint is not None else None
            restores = await asyncio.to_thread(self._restores, checkpoint, metadata, effect.subtasks)
            states = enumerator_states(self._graph, metadata) if metadata is not None else {}
        except (MillstreamError, OSError) as error:
            if self._restart == effect.restart:
                self._surroundings.tell(job_ev.RestoreFailed(effect.restart, str(error)))
            return
        if self._restart != effect.restart:
            return
        if effect.start_coordinator:
            self._restart_coordinator(states)
        else:
            self._reset_sources(effect.subtasks, states)
            while self._unconfirmed and self._restart == effect.restart:
                self._confirmed.clear()
                await self._confirmed.wait()
        if self._restart != effect.restart:
            return
        self._resetting.clear()
        self._returning.clear()
        if checkpoint is not None:
            self.handle(ev.JobRestored(checkpoint.checkpoint_id))
        self._surroundings.tell(job_ev.Restored(effect.restart, restores))

    def _restores(
        self, checkpoint: CompletedCheckpoint | None, metadata: SnapshotMetadata | None, subtasks: frozenset[Subtask]
    ) -> dict[Subtask, TaskRestore]:
        if checkpoint is None or metadata is None:
            return {}
        assigned = assign_states(self._graph, metadata, subtasks)
        return {
            place: TaskRestore(operators_to_json(states), checkpoint.pointer, checkpoint.checkpoint_id)
            for place, states in assigned.items()
        }

    def _restart_coordinator(self, states: Mapping[VertexId, bytes]) -> None:
        self._assignments = SplitAssignments()
        self._unconfirmed = 0
        self._surroundings.start_coordinator(states)

    def _reset_sources(self, subtasks: frozenset[Subtask], states: Mapping[VertexId, bytes]) -> None:
        for vertex, parallelism in self._sources.items():
            readers = [r for r in (Subtask(vertex, i) for i in range(parallelism)) if r in subtasks]
            taken = {reader: self._assignments.take_back(reader) for reader in readers}
            if len(readers) == parallelism:
                self._resetting.add(vertex)
                reset = pb.ResetSource(vertex_id=vertex, state=states.get(vertex, b""))
                self._confirm(pb.CoordinatorCommand(reset=reset))
                continue
            for reader, given in taken.items():
                self._returning.add(reader)
                for splits in given or [_NO_SPLITS]:
                    self._give_back(reader, splits)
