"""The life of one job: what happens to its tasks, failures and restarts, and its end. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from millstream.core.clock import Instant
from millstream.core.jobs.details import TaskMetrics
from millstream.core.jobs.failure_kinds import WorkerEnd
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.ids import AttemptId
from millstream.core.jobs.states import TASK_TRANSITIONS, ExecutionState, JobStatus
from millstream.core.logs.failure_texts import cause_line
from millstream.core.messages.task_manager import TaskUpdate
from millstream.jobmanager.failover.restart_strategy import GiveUp, NoRestartStrategy
from millstream.jobmanager.failover.topology import Subtask
from millstream.jobmanager.job_master import events as ev
from millstream.jobmanager.job_master.deployment import Deployment
from millstream.jobmanager.job_master.execution_graph import SlotKey
from millstream.jobmanager.job_master.job_failures import job_failure, lost_failure, task_failure
from millstream.jobmanager.job_master.job_restarts import PendingRestart
from millstream.jobmanager.job_master.job_slots import free
from millstream.jobmanager.job_master.job_state import ENDING, NOT_ENDING, JobState
from millstream.jobmanager.job_master.rescale import Phase, Rescale
from millstream.jobmanager.job_master.task_commands import cancel


class RescaleHooks(Protocol):
    """What a rescale in progress decides."""

    def failed(self, failure: TaskFailure, now: Instant) -> tuple[bool, list[ev.Effect]]:
        """Handles a failure; returns whether it needs no other handling, and the effects."""
        ...

    def run_again(self, rescale: Rescale, now: Instant) -> list[ev.Effect]:
        """Restarts all tasks, which were cancelled for the rescale."""
        ...


class JobLife:
    """`rescaling` is set before the first event."""

    rescaling: RescaleHooks

    def __init__(self, job: JobState, deployment: Deployment) -> None:
        self._job = job
        self._deployment = deployment

    def tick(self, now: Instant) -> list[ev.Effect]:
        """Handles the passing of time."""
        if self._job.restarting.pending is not None:
            return self.restart_when_due(now)
        failure = self._deployment.timed_out(now)
        return self.fail(failure, now, self._deployment.to_deploy) if failure is not None else []

    # Tasks

    def workers_lost(
        self, keys: list[SlotKey], reason: str, now: Instant, end: WorkerEnd, slots_too: bool
    ) -> list[ev.Effect]:
        """Handles the loss of workers, and with `slots_too` also of the slots that they ran in."""
        if not keys:
            return []
        slots = [self._job.slots[key] for key in keys]
        starting = bool(self._deployment.to_deploy) and any(slot.worker_started for slot in slots)
        tasks = [e for key in keys for e in self._job.execution_graph.in_slice(key)]
        live = [e for e in tasks if e.is_deployed]
        failing = [e for e in live if not self._job.is_leaving(e)]
        named = live or [e for e in tasks if not e.state.is_terminal]
        failure = lost_failure(self._job.graph.job_id, reason, now.date_ms, slots[0].task_manager, named, end)
        for execution in live:
            leaving = self._job.is_leaving(execution)
            execution.move_to(ExecutionState.CANCELED if leaving else ExecutionState.FAILED, now.date_ms)
        for slot in slots:
            slot.worker_gone()
        gone = self._job.slot_table.drop(keys) if slots_too else []
        if self._job.status is JobStatus.CANCELLING or (end is WorkerEnd.PUT_DOWN and not failing and not starting):
            effects = self.tasks_ended(now)
        elif failing or starting or self._job.status is JobStatus.FAILING or self._job.restarting.gives_up_on(failure):
            scheduled = [e for e in tasks if e.place in self._deployment.to_deploy]
            failed = {e.place for e in (failing or scheduled)} or self._deployment.to_deploy
            effects = self.fail(failure, now, failed)
        else:
            if live:
                self._job.restarting.remember(failure)
            effects = self.tasks_ended(now) or (self._deployment.start_workers() if self._deployment.to_deploy else [])
        if not slots_too and self._job.status not in NOT_ENDING:
            gone = self._job.slot_table.drop(keys)
        freed: list[ev.Effect] = [free(slot, reason) for slot in gone]
        return freed + effects if slots_too else effects + freed

    def task_changed(self, update: TaskUpdate, now: Instant) -> list[ev.Effect]:
        """Handles the report of a task's state."""
        execution = self._job.execution_graph.by_attempt(update.attempt_id)
        state = update.state
        if execution is None or not execution.is_deployed or state not in TASK_TRANSITIONS[execution.state]:
            return []
        leaving = self._job.is_leaving(execution)
        if state in (ExecutionState.CANCELING, ExecutionState.CANCELED) and not leaving:
            return []
        execution.move_to(state, now.date_ms)
        if state.is_terminal:
            execution.accumulators = update.accumulators
            execution.metrics = update.metrics or TaskMetrics()
        if state is ExecutionState.FAILED:
            slot = self._job.slots.get(execution.slot_key)
            task_manager = slot.task_manager if slot is not None else ""
            failure = task_failure(self._job.graph.job_id, execution, update.failure, task_manager, now.date_ms)
            if not leaving or self._job.status in ENDING or self._job.restarting.gives_up_on(failure):
                return self.fail(failure, now, {execution.place})
            self._job.restarting.remember(failure)
        effects = self.tasks_ended(now) or [ev.ReportDetails()]
        if state is ExecutionState.FINISHED and self._job.status is JobStatus.RUNNING:
            effects += self._deployment.deploy_when_ready(now)
        return effects

    def checkpoint_completed(self, records: Mapping[AttemptId, int]) -> list[ev.Effect]:
        """Handles a completed checkpoint, with the numbers of records before it."""
        executions = [(self._job.execution_graph.by_attempt(attempt), count) for attempt, count in records.items()]
        self._job.restarting.checkpoint_completed({e.place: count for e, count in executions if e is not None})
        return []

    def tasks_ended(self, now: Instant) -> list[ev.Effect]:
        """Ends the job or restarts tasks, once the tasks that have to end first have ended."""
        return self.restart_when_due(now) if self._job.restarting.pending is not None else self.settle(now)

    # Failures

    def enumerators_lost(self, failure: TaskFailure, now: Instant) -> list[ev.Effect]:
        """Handles the failure of the enumerator process."""
        if self._deployment.needs_new_enumerators and self._job.status in NOT_ENDING:
            self._job.restarting.remember(failure)
            return [ev.ReportDetails()]
        self._deployment.needs_new_enumerators, self._deployment.enumerators_ready = True, False
        return self.fail(failure, now, self._job.all_subtasks)

    def fail(self, failure: TaskFailure, now: Instant, failed: Collection[Subtask]) -> list[ev.Effect]:
        """Handles a failure: the job returns from a rescale, restarts the failed subtasks, or ends."""
        handled, effects = self.rescaling.failed(failure, now)
        return effects if handled else [*effects, *self._fail(failure, now, self._job.whole_if_slots_miss(failed))]

    def _fail(self, failure: TaskFailure, now: Instant, failed: Collection[Subtask]) -> list[ev.Effect]:
        if self._job.status.is_terminal or self._job.status is JobStatus.CANCELLING:
            return self.settle(now)
        self._job.restarting.remember(failure)
        if self._job.status is JobStatus.FAILING:
            return self.settle(now) or [ev.ReportDetails()]
        if self._job.suspended and not failure.final:
            return [ev.ReportDetails()]
        decision = self._job.restarting.decide(failure, failed, self._deployment.to_deploy, now.steady_ms)
        if isinstance(decision, GiveUp):
            self._job.move_to(JobStatus.FAILING, now)
            return self._end_all(now, decision.reason)
        return self._restart(decision, failure, now)

    def _restart(self, restart: PendingRestart, failure: TaskFailure, now: Instant) -> list[ev.Effect]:
        self._deployment.clear()
        if self._job.status is not JobStatus.RESTARTING:
            self._job.move_to(JobStatus.RESTARTING, now)
        tasks = f"{len(restart.subtasks)} of {len(self._job.all_subtasks)} tasks"
        self._job.message = (
            f"restart {restart.number} in {restart.delay_ms / 1000:.1f} s, {tasks}: {cause_line(failure)}"
        )
        effects: list[ev.Effect] = [ev.RollBack(restart.subtasks, failure.exception), ev.ReportDetails()]
        effects += cancel(self._job.execution_graph.of(restart.subtasks), self._job.slots, now.date_ms)
        if restart.at_ms > now.steady_ms:
            effects.append(ev.WakeUpAt(restart.at_ms))
        return effects + self.restart_when_due(now)

    def restart_when_due(self, now: Instant) -> list[ev.Effect]:
        """Restarts the tasks, if the old attempts have all ended and the delay has passed."""
        subtasks = self._job.restarting.take_due(self._job.execution_graph, now.steady_ms)
        return self._run_again(subtasks, now) if subtasks is not None else []

    def _run_again(self, subtasks: frozenset[Subtask], now: Instant) -> list[ev.Effect]:
        rescale = self._job.rescale
        if rescale is not None and rescale.phase is Phase.CANCELLING:
            return self.rescaling.run_again(rescale, now)
        self._job.execution_graph.try_again(subtasks, now.date_ms)
        self._deployment.wait_again(subtasks, now)
        return [*self._deployment.prepare(now), ev.ReportDetails(), *self._deployment.start_workers()]

    # Stopped from outside

    def suspend(self, reason: str, now: Instant) -> list[ev.Effect]:
        """Stops the tasks until `resume`, or abandons a job without a restart strategy."""
        if self._job.status.is_terminal or self._job.suspended:
            return []
        if self._job.status in ENDING:
            return [*self._stop_at_once(reason, now), *self.settle(now)]
        ran = self._job.status is not JobStatus.CREATED
        if ran and isinstance(self._job.restart_strategy, NoRestartStrategy):
            return self.abandon(reason, now)
        self._job.restarting.remember(job_failure(self._job.graph.job_id, reason, now.date_ms))
        if self._job.status is not JobStatus.RESTARTING:
            self._job.move_to(JobStatus.RESTARTING, now)
        self._job.suspended, self._job.message = True, f"suspended: {reason}"
        self._deployment.renew_enumerators()
        stopped = self._stop_at_once(reason, now)
        return [ev.RollBack(self._job.all_subtasks, reason), *stopped, ev.ReportDetails()]

    def resume(self, now: Instant) -> list[ev.Effect]:
        """Restarts the suspended job."""
        if not self._job.suspended or self._job.status is not JobStatus.RESTARTING:
            return []
        self._job.suspended = False
        self._job.restarting.begin_again()
        self._job.execution_graph.try_again(self._job.all_subtasks, now.date_ms)
        self._deployment.wait_again(self._job.all_subtasks, now)
        return [self._deployment.declaration(), *self._deployment.prepare(now), ev.ReportDetails()]

    def abandon(self, reason: str, now: Instant) -> list[ev.Effect]:
        """Ends the job here; its checkpoints are kept."""
        if self._job.status.is_terminal:
            return []
        self._job.keeps_checkpoints = True
        self._job.restarting.remember(job_failure(self._job.graph.job_id, reason, now.date_ms))
        if self._job.status not in ENDING:
            self._job.move_to(JobStatus.FAILING, now)
        self._job.message = ""
        return [*self._stop_at_once(reason, now), *self.settle(now)]

    def _stop_at_once(self, reason: str, now: Instant) -> list[ev.Effect]:
        """Releases the slots, and with them the workers, without waiting for tasks to be cancelled."""
        self._job.restarting.pending = None
        self._deployment.clear()
        for execution in self._job.execution_graph.executions:
            if not execution.state.is_terminal:
                execution.move_to(ExecutionState.CANCELED, now.date_ms)
        return [ev.DeclareSlots(0), *self._job.slot_table.give_back(reason), ev.StopEnumerators()]

    # Ends

    def cancel(self, now: Instant) -> list[ev.Effect]:
        """Cancels the job."""
        if self._job.status.is_terminal or self._job.status is JobStatus.CANCELLING:
            return []
        self._job.move_to(JobStatus.CANCELLING, now)
        return self._end_all(now, "")

    def _end_all(self, now: Instant, message: str) -> list[ev.Effect]:
        self._job.message = message
        self._job.restarting.pending, self._deployment.to_deploy = None, frozenset()
        effects: list[ev.Effect] = [ev.DeclareSlots(0), ev.ReportDetails()]
        return effects + cancel(self._job.execution_graph.executions, self._job.slots, now.date_ms) + self.settle(now)

    def settle(self, now: Instant) -> list[ev.Effect]:
        """Ends the job when all its tasks have ended."""
        executions = self._job.execution_graph.executions
        if self._job.status.is_terminal or not all(e.state.is_terminal for e in executions):
            return []
        effects: list[ev.Effect] = []
        match self._job.status:
            case JobStatus.CANCELLING:
                self._job.move_to(JobStatus.CANCELED, now)
            case JobStatus.FAILING:
                self._job.move_to(JobStatus.FAILED, now)
            case JobStatus.RUNNING:
                self._job.move_to(JobStatus.FINISHED, now)
                effects.append(ev.DeclareSlots(0))
            case _:
                return []
        effects += self._job.slot_table.give_back(f"job {self._job.status.lower()}")
        return [*effects, ev.ReportDetails(), ev.JobEnded()]
