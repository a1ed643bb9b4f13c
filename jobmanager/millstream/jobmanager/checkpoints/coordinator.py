"""The checkpoint coordinator of one job. Pure: events and time in, effects out.

A checkpoint passes through phases (`Phase`): the sources' coordinators are asked, barriers flow and tasks acknowledge,
the metadata is written, the pointer is stored. It is complete when the pointer is stored, and not before.

Why a crash at any point loses and duplicates nothing. The pointers in the HA store alone say what a job is restored
from, and storing one is atomic. `NotifyComplete` follows `PointerStored`, so nothing is committed that a later restore
would not find as pre-committed:

- a crash before the pointer is stored leaves the previous checkpoint in force; nothing of this one was committed, and
  what its transactions hold is written again;
- a crash after it, but before or during the commits, restores this checkpoint, and every task commits again what it
  holds; commits are idempotent;
- deletion comes last: a checkpoint that is no longer needed is deleted only when a newer one is stored, its pointer
  first, so no pointer ever leads to missing files. A crash in between leaves files behind, never a dangling pointer;
- while `StorePointer` is under way its outcome is unknown, so the checkpoint can neither be aborted nor relied upon:
  `settled` is false, and tasks must not be restored before it is true again. Only one pointer is stored at a time,
  therefore completed ids ascend;
- a plain savepoint does not become a restore point, so it commits nothing: a failure later would restore an older
  checkpoint and write again what was committed. The savepoint that stops the job does become one, by the same steps.

Every snapshot that was acknowledged is accounted for once: it is part of a completed checkpoint until that is deleted,
or it is discarded. A checkpoint that is aborted while its metadata is being written is discarded when the writing has
ended, so that the two do not race.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from millstream.core.barriers import StopMode
from millstream.core.ids import AttemptId
from millstream.jobmanager.checkpoints import answers
from millstream.jobmanager.checkpoints import events as ev
from millstream.jobmanager.checkpoints.commits import CommitRetries
from millstream.jobmanager.checkpoints.failures import CheckpointFailureReason as Reason
from millstream.jobmanager.checkpoints.failures import FailureCounter
from millstream.jobmanager.checkpoints.model import CheckpointId, CompletedCheckpoint, TaskRef, TaskSnapshot
from millstream.jobmanager.checkpoints.options import checkpoint_options, savepoint_options
from millstream.jobmanager.checkpoints.pending import PendingCheckpoint, Phase
from millstream.jobmanager.checkpoints.requests import Origin, Request, RequestQueue
from millstream.jobmanager.checkpoints.settings import CheckpointSettings
from millstream.jobmanager.checkpoints.statistics import CheckpointStatistics
from millstream.jobmanager.checkpoints.stopping import StopWithSavepoint
from millstream.jobmanager.checkpoints.store import CompletedCheckpoints
from millstream.jobmanager.checkpoints.tasks import TaskTable
from millstream.jobmanager.checkpoints.under_way import CheckpointsUnderWay
from millstream.jobmanager.failover.topology import JobTopology, Subtask


class UnsettledError(Exception):
    """The restore point was asked for, or used, while a pointer was being stored: a bug in the caller."""


class CheckpointCoordinator:
    """Owned by the JobMaster's loop. `handle` is its only way in; `next_wake_up` says when a `Tick` is due.

    `retained` is what the HA store points to, with the restore point last; `next_id` is the lowest id that no earlier
    coordinator of the job has used. `coordinated` says that the sources' coordinators have state of their own.
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
        self._settings = settings
        self._coordinated = coordinated
        self._tasks = TaskTable(topology)
        self._completed = CompletedCheckpoints(settings, retained)
        self._next_id = max([next_id, *(c.checkpoint_id + 1 for c in retained)])
        self._queue = RequestQueue(settings, checkpoint_options(settings))
        self._pending = CheckpointsUnderWay()
        self._failures = FailureCounter(settings.tolerable_failures)
        self._commits = CommitRetries()
        self._running = False
        self._failing = False
        self._final_requested = False
        self._stop_with = StopWithSavepoint()
        self._stopped: ev.StopOutcome | None = None
        latest = self._completed.latest
        self._full_needed = latest is not None and not latest.owned
        self.statistics = CheckpointStatistics(topology.parallelism)

    @property
    def settled(self) -> bool:
        """Whether it is known which checkpoint is the restore point."""
        return self._pending.settled

    def latest_restorable(self) -> CompletedCheckpoint | None:
        """What tasks are to be restored from. Only while `settled`."""
        if not self.settled:
            raise UnsettledError("the pointer of a checkpoint is being stored; wait until the coordinator is settled")
        return self._completed.latest

    @property
    def retained(self) -> tuple[CompletedCheckpoint, ...]:
        """The completed checkpoints whose pointers are in the HA store, oldest first."""
        return self._completed.entries

    @property
    def pending(self) -> tuple[PendingCheckpoint, ...]:
        """The checkpoints under way, oldest first. For looking at, not for changing."""
        return tuple(self._pending)

    def next_wake_up(self) -> int | None:
        """The time of the next `Tick` that may change anything."""
        if self._stopped is not None:
            return None
        times = self._pending.deadlines() + self._commits.times()
        ready_at = self._queue.ready_at(len(self._pending)) if self._may_trigger else None
        return min([*times, *([ready_at] if ready_at is not None else [])], default=None)

    def handle(self, event: ev.Event, now_ms: int) -> list[ev.Effect]:
        """What has to be done about an event."""
        effects = self._react(event, now_ms)
        if self._stopped is None:
            effects += self._expire(now_ms)
            effects += self._commits.take_due(now_ms)
            effects += self._start_next(now_ms)
        return effects

    def _react(self, event: ev.Event, now_ms: int) -> list[ev.Effect]:
        match event:
            case ev.TasksRunning(tasks):
                return self._tasks_running(tasks, now_ms)
            case ev.InputsEnded(attempts):
                self._tasks.end(attempts)
                self._request_final()
                return []
            case ev.TasksFinished(attempts):
                return self._tasks_finished(attempts, now_ms)
            case ev.TasksRolledBack(subtasks, message):
                return self._rolled_back(subtasks, message, now_ms)
            case ev.JobRestored(checkpoint_id):
                restored = [c for c in self._completed.entries if c.checkpoint_id == checkpoint_id]
                for checkpoint in restored:
                    self.statistics.restored(checkpoint, now_ms)
                return []
            case ev.SavepointRequested():
                return self._savepoint_requested(event, now_ms)
            case ev.CheckpointRequested(trigger_id, full):
                return self._request(Request(Origin.USER, checkpoint_options(self._settings, full), trigger_id))
            case ev.CoordinatorsSnapshotted(checkpoint_id, state):
                return self._coordinators_snapshotted(checkpoint_id, state, now_ms)
            case ev.CoordinatorsFailed(checkpoint_id, message):
                pending = self._pending.in_phase(checkpoint_id, Phase.PREPARING)
                return self._abort(pending, Reason.TRIGGER_CHECKPOINT_FAILURE, message, now_ms) if pending else []
            case ev.Acknowledged():
                return self._acknowledged(event, now_ms)
            case ev.Declined(checkpoint_id, attempt_id, reason, message):
                return self._declined(checkpoint_id, attempt_id, reason, message, now_ms)
            case ev.MetadataWritten(checkpoint_id, pointer):
                return self._metadata_written(checkpoint_id, pointer, now_ms)
            case ev.MetadataFailed(checkpoint_id, message):
                return self._metadata_failed(checkpoint_id, message, now_ms)
            case ev.PointerStored(checkpoint_id):
                return self._pointer_stored(checkpoint_id, now_ms)
            case ev.PointerFailed(checkpoint_id, message):
                return self._pointer_failed(checkpoint_id, message, now_ms)
            case ev.NotifyFailed(checkpoint_id, attempt_id, _):
                latest = self._completed.latest
                if latest and latest.checkpoint_id == checkpoint_id and self._tasks.is_active(attempt_id):
                    self._commits.failed(checkpoint_id, attempt_id, now_ms)
                return []
            case ev.Stopped(outcome):
                return self._stop(outcome, now_ms)
            case ev.Tick():
                return []
        assert_never(event)

    # Tasks

    def _tasks_running(self, tasks: tuple[TaskRef, ...], now_ms: int) -> list[ev.Effect]:
        if not self.settled and not all(self._tasks.knows(task.attempt_id) for task in tasks):
            raise UnsettledError("tasks were started while the pointer of a checkpoint was being stored")
        self._tasks.run(tasks)
        if self._tasks.all_started and not self._running:
            self._running = True
            self._failing = False
            self._queue.start_schedule(now_ms)
        return []

    def _tasks_finished(self, attempts: tuple[AttemptId, ...], now_ms: int) -> list[ev.Effect]:
        done = self._tasks.finish(attempts)
        self._commits.forget(attempts)
        effects: list[ev.Effect] = []
        for pending in [p for p in self._pending if p.phase is Phase.COLLECTING and done]:
            missing = any(t.attempt_id in pending.expected and t.attempt_id not in pending.snapshots for t in done)
            if missing and not self._settings.after_tasks_finish:
                effects += self._abort(pending, Reason.CHECKPOINT_DECLINED_TASK_CLOSING, "a task has finished", now_ms)
                continue
            for task in done:
                pending.finish(task)
            effects += self._send_barriers(pending)
            effects += self._write_when_acknowledged(pending)
        self._request_final()
        return effects

    def _request_final(self) -> None:
        """When nothing but a last checkpoint is missing, it does not wait for the interval."""
        wanted = self._settings.enabled and self._settings.after_tasks_finish and not self._final_requested
        if wanted and self._tasks.all_input_ended:
            self._final_requested = True
            self._queue.add(Request(Origin.FINAL, checkpoint_options(self._settings)))

    def _rolled_back(self, subtasks: frozenset[Subtask] | None, message: str, now_ms: int) -> list[ev.Effect]:
        if subtasks is not None and not subtasks:
            return []
        self._tasks.remove(subtasks)
        self._running = self._final_requested = False
        self._failing = True
        effects: list[ev.Effect] = []
        for pending in self._pending:
            is_safe = pending.phase is Phase.WRITING and not pending.options.becomes_restore_point
            if pending.phase is not Phase.STORING and not is_safe:
                effects += self._abort(pending, Reason.JOB_FAILOVER_REGION, message, now_ms)
        for request in self._queue.stop_schedule():
            effects += answers.failed(request, Reason.JOB_FAILOVER_REGION, message)
        self._commits.keep(self._tasks.is_active)
        return effects + self._stop_with.fall_through(Reason.JOB_FAILOVER_REGION, "the job goes on from it")

    # Requests

    @property
    def _may_trigger(self) -> bool:
        return self._why_not() is None

    def _why_not(self) -> Reason | None:
        """What forbids new checkpoints, if anything."""
        if self._stopped is not None:
            return Reason.CHECKPOINT_COORDINATOR_SHUTDOWN
        if not self._running or not self._tasks.any_active:
            return Reason.NOT_ALL_REQUIRED_TASKS_RUNNING
        if self._tasks.any_finished and not self._settings.after_tasks_finish:
            return Reason.NOT_ALL_REQUIRED_TASKS_RUNNING
        return Reason.PERIODIC_SCHEDULER_SHUTDOWN if self._stop_with.active or self._failing else None

    def _savepoint_requested(self, event: ev.SavepointRequested, now_ms: int) -> list[ev.Effect]:
        request = Request(Origin.USER, savepoint_options(self._settings, event), event.trigger_id)
        if request.options.target_directory is None:
            message = "no target directory was given, and execution.checkpointing.savepoint-dir is not set"
            return answers.failed(request, Reason.TRIGGER_CHECKPOINT_FAILURE, message)
        if not event.stop or self._is_known(request) or not self._may_trigger:
            return self._request(request)
        effects: list[ev.Effect] = []
        for pending in self._pending:
            if not pending.options.is_savepoint and pending.phase in (Phase.PREPARING, Phase.COLLECTING):
                effects += self._abort(pending, Reason.CHECKPOINT_COORDINATOR_SUSPEND, "", now_ms)
        for waiting in self._queue.stop_schedule():
            effects += answers.failed(waiting, Reason.CHECKPOINT_COORDINATOR_SUSPEND)
        self._stop_with.begin(CheckpointId(self._next_id))
        return effects + self._start(request, now_ms)

    def _is_known(self, request: Request) -> bool:
        if request.trigger_id is None:
            return False
        under_way = any(p.request.trigger_id == request.trigger_id for p in self._pending)
        return under_way or self._stop_with.holds(request.trigger_id) or self._queue.holds(request.trigger_id)

    def _request(self, request: Request) -> list[ev.Effect]:
        if self._is_known(request):
            return []
        reason = self._why_not()
        if reason is None and not self._queue.add(request):
            reason = Reason.TOO_MANY_CHECKPOINT_REQUESTS
        return answers.failed(request, reason) if reason is not None else []

    # From the trigger to the last acknowledgement

    def _start_next(self, now_ms: int) -> list[ev.Effect]:
        effects: list[ev.Effect] = []
        while self._may_trigger and (request := self._queue.choose(now_ms, len(self._pending))) is not None:
            effects += self._start(request, now_ms)
        return effects

    def _start(self, request: Request, now_ms: int) -> list[ev.Effect]:
        checkpoint_id = CheckpointId(self._next_id)
        self._next_id += 1
        options = replace(request.options, full=request.options.full or self._full_needed)
        deadline = now_ms + self._settings.timeout_ms
        pending = PendingCheckpoint(checkpoint_id, request, options, now_ms, deadline)
        self._pending.add(pending)
        self.statistics.triggered(checkpoint_id, options, now_ms)
        if self._coordinated:
            return [ev.SnapshotCoordinators(checkpoint_id)]
        pending.begin(self._tasks.active(), self._tasks.finished())
        return self._send_barriers(pending)

    def _coordinators_snapshotted(self, checkpoint_id: CheckpointId, state: object, now_ms: int) -> list[ev.Effect]:
        pending = self._pending.in_phase(checkpoint_id, Phase.PREPARING)
        if pending is None:
            return []
        active, finished = self._tasks.active(), self._tasks.finished()
        if not active or (finished and not self._settings.after_tasks_finish):
            return self._abort(pending, Reason.NOT_ALL_REQUIRED_TASKS_RUNNING, "tasks have finished", now_ms)
        pending.coordinator_state = state
        pending.begin(active, finished)
        return self._send_barriers(pending)

    def _send_barriers(self, pending: PendingCheckpoint) -> list[ev.Effect]:
        attempts = pending.to_trigger(self._tasks.starting_points())
        return [ev.TriggerBarrier(pending.id, attempts, pending.options, pending.started_ms)] if attempts else []

    def _acknowledged(self, event: ev.Acknowledged, now_ms: int) -> list[ev.Effect]:
        pending = self._pending.get(event.checkpoint_id)
        task = pending.expected.get(event.attempt_id) if pending is not None else None
        if pending is None or task is None or pending.phase is not Phase.COLLECTING:
            return self._pending.stray(event)
        if event.attempt_id in pending.snapshots or event.attempt_id in pending.strangers:
            return []
        pending.acknowledge(TaskSnapshot(task, event.state, event.metrics))
        self.statistics.acknowledged(pending.id, task.subtask, event.metrics, now_ms)
        return self._write_when_acknowledged(pending)

    def _write_when_acknowledged(self, pending: PendingCheckpoint) -> list[ev.Effect]:
        if not pending.is_acknowledged:
            return []
        pending.phase = Phase.WRITING
        return [ev.WriteMetadata(pending.content())]

    def _declined(
        self, checkpoint_id: CheckpointId, attempt_id: AttemptId, reason: Reason, message: str, now_ms: int
    ) -> list[ev.Effect]:
        pending = self._pending.in_phase(checkpoint_id, Phase.COLLECTING)
        if pending is None or attempt_id not in pending.expected or attempt_id in pending.snapshots:
            return []
        return self._abort(pending, reason, message, now_ms, by_task=True)

    # Completion

    def _metadata_written(self, checkpoint_id: CheckpointId, pointer: str, now_ms: int) -> list[ev.Effect]:
        pending = self._pending.in_phase(checkpoint_id, Phase.WRITING)
        if pending is None:
            return self._pending.discard_abandoned(checkpoint_id, pointer)
        pending.pointer = pointer
        if not pending.options.becomes_restore_point:
            self._complete(pending, now_ms)
            return answers.done(pending.request, pending.id, pointer)
        pending.phase = Phase.WRITTEN
        return self._pending.store_next()

    def _metadata_failed(self, checkpoint_id: CheckpointId, message: str, now_ms: int) -> list[ev.Effect]:
        pending = self._pending.in_phase(checkpoint_id, Phase.WRITING)
        if pending is None:
            return self._pending.discard_abandoned(checkpoint_id)
        pending.phase = Phase.COLLECTING  # nothing is being written any more
        return self._abort(pending, Reason.FINALIZE_CHECKPOINT_FAILURE, message, now_ms)

    def _pointer_stored(self, checkpoint_id: CheckpointId, now_ms: int) -> list[ev.Effect]:
        pending = self._pending.in_phase(checkpoint_id, Phase.STORING)
        if pending is None:
            return []
        assert pending.pointer is not None
        self._complete(pending, now_ms)
        effects: list[ev.Effect] = []
        attempts = tuple(a for a in pending.expected if self._tasks.is_active(a))
        if attempts:
            effects.append(ev.NotifyComplete(checkpoint_id, attempts))
            self._commits.forget(attempts)
        completed = CompletedCheckpoint(pending.content(), pending.pointer, owned=not pending.options.is_savepoint)
        unneeded = self._completed.add(completed)
        self._full_needed = not completed.owned
        if self._stopped is not ev.StopOutcome.SUSPENDED:  # another leader may rely on them
            effects += self._drop(unneeded)
        for older in [p for p in self._pending if p.id < checkpoint_id and not p.options.is_savepoint]:
            message = f"checkpoint {checkpoint_id} completed first"
            effects += self._abort(older, Reason.CHECKPOINT_SUBSUMED, message, now_ms)
        if pending.options.is_stop:
            effects += self._stop_with.completed(pending, job_ended=self._stopped is not None)
        else:
            effects += answers.done(pending.request, pending.id, pending.pointer)
        return effects + self._after_storing()

    def _complete(self, pending: PendingCheckpoint, now_ms: int) -> None:
        assert pending.pointer is not None
        self._end(pending, now_ms)
        self._failures.succeeded(pending.id)
        self.statistics.completed(pending.id, pending.pointer, now_ms)

    def _after_storing(self) -> list[ev.Effect]:
        if self._stopped is None:
            return self._pending.store_next()
        return self._drop(self._completed.stop(self._stopped))

    def _drop(self, dropped: Sequence[ev.DeleteCheckpoint | ev.ReleasePointer]) -> list[ev.Effect]:
        for effect in dropped:
            if isinstance(effect, ev.DeleteCheckpoint):
                self.statistics.discarded(effect.checkpoint.checkpoint_id)
        return list(dropped)

    def _pointer_failed(self, checkpoint_id: CheckpointId, message: str, now_ms: int) -> list[ev.Effect]:
        pending = self._pending.in_phase(checkpoint_id, Phase.STORING)
        if pending is None:
            return []
        pending.phase = Phase.WRITTEN
        effects = self._abort(pending, Reason.FINALIZE_CHECKPOINT_FAILURE, message, now_ms)
        return effects + self._after_storing()

    # Ends

    def _end(self, pending: PendingCheckpoint, now_ms: int) -> None:
        self._pending.end(pending)
        self._queue.ended(now_ms)

    def _expire(self, now_ms: int) -> list[ev.Effect]:
        effects: list[ev.Effect] = []
        for pending in self._pending.expired(now_ms):
            message = f"after {self._settings.timeout_ms / 1000:g} s it waited for {pending.waits_for()}"
            effects += self._abort(pending, Reason.CHECKPOINT_EXPIRED, message, now_ms)
        return effects

    def _abort(
        self, pending: PendingCheckpoint, reason: Reason, message: str, now_ms: int, by_task: bool = False
    ) -> list[ev.Effect]:
        effects: list[ev.Effect] = []
        self._end(pending, now_ms)
        self.statistics.failed(pending.id, reason.explain(message), now_ms)
        attempts = tuple(a for a in pending.expected if self._tasks.is_active(a))
        if attempts:
            effects.append(ev.NotifyAborted(pending.id, attempts))
        effects += self._pending.discard(pending)
        effects += answers.failed(pending.request, reason, message)
        return effects + self._consequences(pending, reason, message, now_ms, by_task)

    def _consequences(
        self, pending: PendingCheckpoint, reason: Reason, message: str, now_ms: int, by_task: bool
    ) -> list[ev.Effect]:
        """What a failed checkpoint means for the job."""
        if self._stopped is not None or not self._running:
            return []
        counts = by_task or not pending.options.is_savepoint
        if counts and self._failures.failed(pending.id, reason):
            return self._fail(
                f"checkpoint {pending.id} failed ({reason.explain(message)}), and no more than "
                f"{self._settings.tolerable_failures} may fail in a row "
                "(execution.checkpointing.tolerable-failed-checkpoints)"
            )
        if pending.options.is_stop and self._stop_with.failed(pending.id):
            self._queue.start_schedule(now_ms)
            if pending.options.stop is StopMode.DRAIN and pending.expected:
                return self._fail(
                    f"the savepoint to drain and stop the job failed ({reason.explain(message)}), and event "
                    "time, which was advanced to its end for it, goes back only by a restart"
                )
        return []

    def _fail(self, message: str) -> list[ev.Effect]:
        if self._failing:
            return []
        self._failing = True
        return [ev.FailJob(message)]

    def _stop(self, outcome: ev.StopOutcome, now_ms: int) -> list[ev.Effect]:
        if self._stopped is not None:
            return []
        self._stopped = outcome
        self._tasks.remove(None)
        self._commits.keep(self._tasks.is_active)
        reason, effects = Reason.CHECKPOINT_COORDINATOR_SHUTDOWN, list[ev.Effect]()
        for pending in self._pending:
            if pending.phase is not Phase.STORING:
                effects += self._abort(pending, reason, "", now_ms)
        for request in self._queue.stop_schedule():
            effects += answers.failed(request, reason)
        effects += self._stop_with.ended(outcome)
        return effects + self._after_storing() if self.settled else effects
