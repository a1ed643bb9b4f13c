"""The checkpoint coordinator of one job. Pure: events and time in, effects out.

A checkpoint passes through phases (`Phase`): the sources' enumerators take their snapshots, barriers flow and tasks
acknowledge, the metadata is written, the pointer is stored. It is complete once the pointer is stored, not before.

Why a crash at any point neither loses nor duplicates data. The pointers in the HA store alone determine what a job is
restored from, and storing one is atomic. `NotifyComplete` follows `PointerStored`, so nothing is committed that a later
restore would not find as pre-committed:

- a crash before the pointer is stored leaves the previous checkpoint in force; nothing of this one was committed, and
  what its transactions hold is written again;
- a crash after it, but before or during the commits, restores this checkpoint, and every task commits again what it
  holds; commits are idempotent;
- deletion comes last: a checkpoint that is no longer needed is deleted only when a newer one is stored, its pointer
  first, so no pointer refers to missing files. A crash in between leaves files behind, never a dangling pointer;
- while `StorePointer` is in progress its outcome is unknown, so the checkpoint can neither be aborted nor restored
  from: `settled` is false, and tasks must not be restored until it is true again. Only one pointer is stored at a time,
  therefore the ids of completed checkpoints ascend;
- a plain savepoint does not become a restore point, so it commits nothing: a failure later would restore an older
  checkpoint and write again what was committed. The savepoint that stops the job does become one, by the same steps.

Every acknowledged snapshot is accounted for once: it belongs to a completed checkpoint until that is deleted, or it is
discarded. A checkpoint that is aborted while its metadata is being written is discarded after the write has ended, so
that the two do not race.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from msgspec.structs import replace

from millstream.core.clock import Instant
from millstream.core.jobs.ids import AttemptId
from millstream.jobmanager.checkpoints import events as ev
from millstream.jobmanager.checkpoints import responses
from millstream.jobmanager.checkpoints.aborting import abort, run_all_again
from millstream.jobmanager.checkpoints.completing import Completion
from millstream.jobmanager.checkpoints.coordinator_state import CoordinatorState
from millstream.jobmanager.checkpoints.failures import CheckpointFailureReason as Reason
from millstream.jobmanager.checkpoints.finished_consumers import waits_for_producers
from millstream.jobmanager.checkpoints.model import CheckpointId, CompletedCheckpoint, TaskRef, TaskSnapshot
from millstream.jobmanager.checkpoints.pending import PendingCheckpoint, Phase
from millstream.jobmanager.checkpoints.policies.options import checkpoint_options, savepoint_options
from millstream.jobmanager.checkpoints.policies.requests import Origin, Request
from millstream.jobmanager.checkpoints.settings import CheckpointSettings
from millstream.jobmanager.checkpoints.union_lists import divided_union, refuse
from millstream.jobmanager.failover.topology import JobTopology, Subtask


class UnsettledError(Exception):
    """The restore point was read or used while a pointer was being stored: a bug in the caller."""


class CheckpointCoordinator:
    """Owned by the JobMaster's loop, which calls `handle` for every event, and with a `Tick` at `next_wake_up`.

    `retained` are the completed checkpoints of the HA store, with the restore point last; `next_id` is the lowest id
    that no earlier coordinator of the job has used. `coordinated` is true when sources' enumerators have state.
    """

    def __init__(
        self,
        topology: JobTopology,
        settings: CheckpointSettings,
        *,
        retained: Sequence[CompletedCheckpoint] = (),
        next_id: int = 1,
        coordinated: bool = False,
    ) -> None:
        self._state = CoordinatorState(topology, settings, retained)
        self._completion = Completion(self._state)
        self._coordinated = coordinated
        self._next_id = max([next_id, *(c.checkpoint_id + 1 for c in retained)])
        self.statistics = self._state.statistics

    def number_from(self, next_id: int) -> None:
        """Reserves the ids below this one, used by an earlier run of the job. Called before the first checkpoint."""
        self._next_id = max(self._next_id, next_id)

    def rescale(self, topology: JobTopology) -> None:
        """Replaces the topology while no task of the job runs. Restore points and ids remain."""
        self._state.rescale(topology)

    @property
    def is_stopping(self) -> bool:
        """Whether the job is being stopped with a savepoint."""
        return self._state.stop_with.active

    @property
    def settled(self) -> bool:
        """Whether it is known which checkpoint is the restore point."""
        return self._state.pending.settled

    def latest_restorable(self) -> CompletedCheckpoint | None:
        """The checkpoint that tasks are restored from; raises `UnsettledError` while not `settled`."""
        if not self.settled:
            raise UnsettledError("the pointer of a checkpoint is being stored; wait until the coordinator is settled")
        return self._state.completed.latest

    @property
    def retained(self) -> tuple[CompletedCheckpoint, ...]:
        """The completed checkpoints whose pointers are in the HA store, oldest first."""
        return self._state.completed.entries

    @property
    def abandoned_savepoints(self) -> tuple[int, ...]:
        """The ids of failed savepoints whose transactions no later snapshot includes or may still include."""
        newest = max((pending.id for pending in self._state.pending), default=0)
        return tuple(number for number in self._state.failed_savepoints if number > newest)

    @property
    def pending(self) -> tuple[PendingCheckpoint, ...]:
        """The pending checkpoints, oldest first, to be read but not modified."""
        return tuple(self._state.pending)

    def next_wake_up(self) -> int | None:
        """The time on the steady clock at which the next `Tick` is due, or None."""
        if self._state.stopped is not None:
            return None
        times = self._state.pending.deadlines() + self._state.commits.times()
        ready_at = self._state.queue.ready_at(len(self._state.pending)) if self._state.may_trigger else None
        return min([*times, *([ready_at] if ready_at is not None else [])], default=None)

    def handle(self, event: ev.Event, now: Instant) -> list[ev.Effect]:
        """Handles an event and returns the effects that the caller has to carry out."""
        effects = self._react(event, now)
        if self._state.stopped is None:
            effects += self._expire(now)
            effects += self._state.commits.take_due(now.steady_ms)
            self._request_final()
            effects += self._start_next(now)
        return effects

    def _react(self, event: ev.Event, now: Instant) -> list[ev.Effect]:
        match event:
            case ev.TasksRunning(tasks):
                return self._tasks_running(tasks, now)
            case ev.InputsEnded(attempts):
                return self._inputs_ended(attempts)
            case ev.TasksFinished(attempts):
                return self._tasks_finished(attempts, now)
            case ev.TasksRolledBack(subtasks, message):
                return self._rolled_back(subtasks, message, now)
            case ev.JobRestored(checkpoint_id):
                restored = [c for c in self._state.completed.entries if c.checkpoint_id == checkpoint_id]
                for checkpoint in restored:
                    self.statistics.restored(checkpoint, now)
                return []
            case ev.SavepointRequested():
                return self._savepoint_requested(event, now)
            case ev.CheckpointRequested(trigger_id, full):
                return self._request(Request(Origin.USER, checkpoint_options(self._state.settings, full), trigger_id))
            case ev.EnumeratorsSnapshotted(checkpoint_id, state):
                return self._enumerators_snapshotted(checkpoint_id, state, now)
            case ev.EnumeratorsFailed(checkpoint_id, message):
                pending = self._state.pending.in_phase(checkpoint_id, Phase.PREPARING)
                reason = Reason.TRIGGER_CHECKPOINT_FAILURE
                return abort(self._state, pending, reason, message, now, event) if pending else []
            case ev.Acknowledged():
                return self._acknowledged(event, now)
            case ev.Declined():
                return self._declined(event, now)
            case ev.MetadataWritten(checkpoint_id, pointer):
                return self._completion.metadata_written(checkpoint_id, pointer, now)
            case ev.MetadataFailed(checkpoint_id, message):
                return self._completion.metadata_failed(checkpoint_id, message, now)
            case ev.PointerStored(checkpoint_id):
                return self._completion.pointer_stored(checkpoint_id, now)
            case ev.PointerFailed(checkpoint_id, message):
                return self._completion.pointer_failed(checkpoint_id, message, now)
            case ev.NotifyFailed(checkpoint_id, attempt_id, _):
                latest = self._state.completed.latest
                if latest and latest.checkpoint_id == checkpoint_id and self._state.tasks.is_active(attempt_id):
                    self._state.commits.failed(checkpoint_id, attempt_id, now.steady_ms)
                return []
            case ev.Stopped(outcome):
                return self._stop(outcome, now)
            case ev.Tick():
                return []
        assert_never(event)

    # Tasks

    def _tasks_running(self, tasks: tuple[TaskRef, ...], now: Instant) -> list[ev.Effect]:
        if not self.settled and not all(self._state.tasks.knows(task.attempt_id) for task in tasks):
            raise UnsettledError("tasks were started while the pointer of a checkpoint was being stored")
        self._state.tasks.run(tasks)
        if self._state.tasks.all_started and not self._state.running:
            self._state.running = True
            self._state.failing = False
            self._state.queue.start_schedule(now.steady_ms)
        return []

    def _inputs_ended(self, attempts: tuple[AttemptId, ...]) -> list[ev.Effect]:
        """Triggers pending checkpoints at the consumers of tasks that will emit no more barriers."""
        self._state.tasks.end(attempts)
        collecting = [pending for pending in self._state.pending if pending.phase is Phase.COLLECTING]
        return [effect for pending in collecting for effect in self._send_barriers(pending)]

    def _tasks_finished(self, attempts: tuple[AttemptId, ...], now: Instant) -> list[ev.Effect]:
        done = self._state.tasks.finish(attempts)
        self._state.commits.forget(attempts)
        effects: list[ev.Effect] = []
        for pending in [p for p in self._state.pending if p.phase is Phase.COLLECTING and done]:
            missing = any(t.attempt_id in pending.expected and t.attempt_id not in pending.snapshots for t in done)
            if missing and not self._state.settings.after_tasks_finish:
                reason = Reason.CHECKPOINT_DECLINED_TASK_CLOSING
                effects += abort(self._state, pending, reason, "a task has finished", now)
                continue
            for task in done:
                pending.finish(task)
            self.statistics.finished(pending.id, pending.finished.values(), now)
            effects += self._send_barriers(pending)
            effects += self._write_when_acknowledged(pending, now)
        return effects

    def _request_final(self) -> None:
        """Requests the final checkpoint as soon as all input has ended, without waiting for the interval."""
        state, settings = self._state, self._state.settings
        wanted = settings.enabled and settings.after_tasks_finish and state.tasks.all_input_ended
        under_way = state.queue.holds_final or any(p.request.origin is Origin.FINAL for p in state.pending)
        if wanted and not under_way and not state.final_done:
            state.queue.add(Request(Origin.FINAL, checkpoint_options(settings)))

    def _rolled_back(self, subtasks: frozenset[Subtask] | None, message: str, now: Instant) -> list[ev.Effect]:
        if subtasks is not None and not subtasks:
            return []
        self._state.tasks.remove(subtasks)
        self._state.running = self._state.final_done = False
        effects: list[ev.Effect] = []
        drained = False
        for pending in self._state.pending:
            is_safe = pending.phase is Phase.WRITING and not pending.options.becomes_restore_point
            if pending.phase is not Phase.STORING and not is_safe:
                drained |= pending.has_drained
                effects += abort(self._state, pending, Reason.JOB_FAILOVER_REGION, message, now)
        for request in self._state.queue.stop_schedule():
            effects += responses.failed(request, Reason.JOB_FAILOVER_REGION, message)
        self._state.commits.keep(self._state.tasks.is_active)
        unstopped = self._state.stop_with.fall_through(Reason.JOB_FAILOVER_REGION, "the job continues from it")
        effects += unstopped
        return effects + run_all_again() if (unstopped or drained) and not self._state.tasks.is_empty else effects

    # Requests

    def _savepoint_requested(self, event: ev.SavepointRequested, now: Instant) -> list[ev.Effect]:
        request = Request(Origin.USER, savepoint_options(self._state.settings, event), event.trigger_id)
        if request.options.target_directory is None:
            message = "no target directory was given, and execution.checkpointing.savepoint-dir is not set"
            return responses.failed(request, Reason.TRIGGER_CHECKPOINT_FAILURE, message)
        if not event.stop or self._state.is_known(request) or not self._state.may_trigger:
            return self._request(request)
        effects: list[ev.Effect] = []
        for pending in self._state.pending:
            if not pending.options.is_savepoint and pending.phase in (Phase.PREPARING, Phase.COLLECTING):
                effects += abort(self._state, pending, Reason.CHECKPOINT_COORDINATOR_SUSPEND, "", now)
        for waiting in self._state.queue.stop_schedule():
            effects += responses.failed(waiting, Reason.CHECKPOINT_COORDINATOR_SUSPEND)
        self._state.stop_with.begin(CheckpointId(self._next_id))
        return effects + self._start(request, now)

    def _request(self, request: Request) -> list[ev.Effect]:
        if self._state.is_known(request):
            return []
        reason = self._state.why_not()
        if reason is None and not self._state.queue.add(request):
            reason = Reason.TOO_MANY_CHECKPOINT_REQUESTS
        return responses.failed(request, reason) if reason is not None else []

    # From the trigger to the last acknowledgement

    def _start_next(self, now: Instant) -> list[ev.Effect]:
        effects: list[ev.Effect] = []
        queue, pending = self._state.queue, self._state.pending
        while self._state.may_trigger and (request := queue.choose(now.steady_ms, len(pending))) is not None:
            effects += self._start(request, now)
        return effects

    def _start(self, request: Request, now: Instant) -> list[ev.Effect]:
        checkpoint_id = CheckpointId(self._next_id)
        self._next_id += 1
        full = request.options.full or self._state.full_needed
        options = replace(request.options, full=full, oldest_base=self._state.completed.oldest_owned)
        deadline = now.steady_ms + self._state.settings.timeout_ms
        pending = PendingCheckpoint(checkpoint_id, request, options, now.date_ms, deadline)
        self._state.pending.add(pending)
        self.statistics.triggered(checkpoint_id, options, now)
        if self._coordinated:
            return [ev.SnapshotEnumerators(checkpoint_id)]
        return self._begin(pending, now)

    def _enumerators_snapshotted(self, checkpoint_id: CheckpointId, state: object, now: Instant) -> list[ev.Effect]:
        pending = self._state.pending.in_phase(checkpoint_id, Phase.PREPARING)
        if pending is None:
            return []
        active, finished = self._state.tasks.active(), self._state.tasks.finished()
        if not active or (finished and not self._state.settings.after_tasks_finish):
            return abort(self._state, pending, Reason.TASKS_FINISHED, "", now)
        pending.enumerator_states = state
        return self._begin(pending, now)

    def _begin(self, pending: PendingCheckpoint, now: Instant) -> list[ev.Effect]:
        pending.begin(self._state.tasks.active(), self._state.tasks.finished())
        self.statistics.finished(pending.id, pending.finished.values(), now)
        return self._send_barriers(pending)

    def _send_barriers(self, pending: PendingCheckpoint) -> list[ev.Effect]:
        attempts = pending.to_trigger(self._state.tasks.starting_points())
        return [ev.TriggerBarrier(pending.id, attempts, pending.options, pending.started_ms)] if attempts else []

    def _acknowledged(self, event: ev.Acknowledged, now: Instant) -> list[ev.Effect]:
        pending = self._state.pending.get(event.checkpoint_id)
        task = pending.expected.get(event.attempt_id) if pending is not None else None
        if pending is None or task is None or pending.phase is not Phase.COLLECTING:
            return self._state.pending.stray(event)
        if event.attempt_id in pending.snapshots or event.attempt_id in pending.strangers:
            return []
        pending.acknowledge(TaskSnapshot(task, event.state, event.metrics, event.ended, event.union_list))
        self.statistics.acknowledged(pending.id, task.subtask, event.metrics, now)
        return self._write_when_acknowledged(pending, now)

    def _write_when_acknowledged(self, pending: PendingCheckpoint, now: Instant) -> list[ev.Effect]:
        if not pending.is_acknowledged:
            return []
        if (divided := divided_union(pending)) is not None:
            return refuse(self._state, pending, divided, now)
        if (why := waits_for_producers(self._state, pending)) is not None:
            return abort(self._state, pending, Reason.CHECKPOINT_DECLINED_TASK_CLOSING, why, now)
        pending.phase = Phase.WRITING
        return [ev.WriteMetadata(pending.content())]

    def _declined(self, event: ev.Declined, now: Instant) -> list[ev.Effect]:
        pending = self._state.pending.in_phase(event.checkpoint_id, Phase.COLLECTING)
        if pending is None or event.attempt_id not in pending.expected or event.attempt_id in pending.snapshots:
            return []
        return abort(self._state, pending, event.reason, event.message, now, event)

    # Ends

    def _expire(self, now: Instant) -> list[ev.Effect]:
        effects: list[ev.Effect] = []
        for pending in self._state.pending.expired(now.steady_ms):
            message = f"after {self._state.settings.timeout_ms / 1000:g} s it waited for {pending.waits_for()}"
            effects += abort(self._state, pending, Reason.CHECKPOINT_EXPIRED, message, now)
        return effects

    def _stop(self, outcome: ev.StopOutcome, now: Instant) -> list[ev.Effect]:
        if self._state.stopped is not None:
            return []
        self._state.stopped = outcome
        self._state.tasks.remove(None)
        reason, effects = Reason.CHECKPOINT_COORDINATOR_SHUTDOWN, list[ev.Effect]()
        for pending in self._state.pending:
            if pending.phase is not Phase.STORING:
                effects += abort(self._state, pending, reason, "", now)
        for request in self._state.queue.stop_schedule():
            effects += responses.failed(request, reason)
        effects += self._state.stop_with.ended(outcome)
        return effects + self._completion.after_storing() if self.settled else effects
