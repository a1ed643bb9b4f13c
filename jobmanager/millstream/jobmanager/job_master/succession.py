"""Takes over a job that another job manager led: with its running tasks if all are found, else with a restart. Pure."""

from __future__ import annotations

from collections.abc import Callable

from millstream.core.clock import Instant
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.jobmanager.job_master import events as ev
from millstream.jobmanager.job_master.deployment import Deployment
from millstream.jobmanager.job_master.job_failures import job_failure
from millstream.jobmanager.job_master.job_life import JobLife
from millstream.jobmanager.job_master.job_state import JobState
from millstream.jobmanager.job_master.settings import Succeeding
from millstream.jobmanager.job_master.takeover import Takeover

_LOOKING = "waiting for task managers to report running tasks"
_TAKING_OVER = "taking over the running tasks"


class Succession:
    """`handle` handles an event that ends the takeover, once it has ended."""

    def __init__(
        self,
        job: JobState,
        deployment: Deployment,
        life: JobLife,
        succeeding: Succeeding,
        handle: Callable[[ev.Event, Instant], list[ev.Effect]],
    ) -> None:
        self._job = job
        self._deployment = deployment
        self._life = life
        self._succeeding = succeeding
        self._handle = handle

    def start(self, now: Instant) -> list[ev.Effect]:
        """Begins to wait for task managers."""
        job = self._job
        job.takeover = Takeover(job.execution_graph, job.slot_table, now.steady_ms, self._succeeding.wait)
        job.message = _LOOKING
        wake_ups = [ev.WakeUpAt(at_ms) for at_ms in job.takeover.deadlines_ms]
        return [self._deployment.declaration(), *wake_ups, ev.ReportDetails()]

    def handle(self, event: ev.Event, takeover: Takeover, now: Instant) -> list[ev.Effect]:
        """Handles an event while task managers may still report running tasks."""
        effects: list[ev.Effect] = []
        match event:
            case ev.SlotOffered(allocation_id, task_manager):
                effects.append(ev.RespondToOffer(allocation_id, task_manager, takeover.offered(event)))
            case ev.TaskChanged(update):
                takeover.changed(update)
            case ev.TaskReported(message):
                takeover.received(message)
            case ev.WorkerLost(allocation_id, reason):
                takeover.lost(self._job.slot_table.of_allocation(allocation_id), reason, for_good=True)
            case ev.TaskManagerLost(task_manager, reason):
                takeover.spare_lost(task_manager)
                takeover.lost(self._job.slot_table.of_task_manager(task_manager), reason, for_good=False)
            case ev.EnumeratorsReadied():
                self._deployment.enumerators_ready = True
            case ev.EnumeratorsFailed(failure):
                self._job.restarting.remember(failure)
                takeover.off = failure.exception
            case ev.TakeoverPrepared(graph):
                self._deployment.fit(graph)
                takeover.is_prepared = True
            case ev.TakeoverRefused(reason):
                takeover.off = reason
            case ev.Tick():
                pass
            case ev.CancelRequested() | ev.Suspended() | ev.Abandoned() | ev.JobFailed():
                return self._end_takeover(takeover, event, now)
            case _:
                return []
        takeover.look(now.steady_ms)
        return effects + self._judge(takeover, now)

    def _judge(self, takeover: Takeover, now: Instant) -> list[ev.Effect]:
        if takeover.off:
            if self._succeeding.may_start_again:
                return self._start_again(takeover, now)
            return self._give_up_takeover(takeover, now)
        if not takeover.is_complete:
            return []
        if not takeover.requested:
            takeover.requested = True
            self._job.message = _TAKING_OVER
            return [ev.TakeOver(tuple(takeover.tasks.values())), ev.ReportDetails()]
        return self._take_over(takeover, now) if takeover.is_prepared and self._deployment.enumerators_ready else []

    def _take_over(self, takeover: Takeover, now: Instant) -> list[ev.Effect]:
        if self._deployment.adaptive is not None:
            self._deployment.adaptive.started(now.steady_ms)
        self._job.takeover = None
        tasks = tuple(takeover.tasks.values())
        for task in tasks:
            execution = self._job.execution_graph.at(task.vertex_id, task.subtask)
            assert execution is not None, "only tasks of the job are taken"
            self._job.execution_graph.take_over(task, self._job.slots[execution.slot_key], now.date_ms)
        self._deployment.restores, self._deployment.needs_new_enumerators = {}, False
        self._job.move_to(JobStatus.RUNNING, now)
        self._job.message = ""
        slots = tuple((slot.allocation_id, slot.task_manager) for slot in self._job.slots.values())
        unneeded = [_unneeded(offer) for offer in takeover.spare]
        return [ev.TakenOver(tasks, slots), *unneeded, ev.ReportDetails(), *self._life.settle(now)]

    def _give_up_takeover(self, takeover: Takeover, now: Instant) -> list[ev.Effect]:
        """Fails the job: it has no checkpoint to restart from, and would process its input again."""
        failure = job_failure(
            self._job.graph.job_id,
            f"NotResumed: {takeover.off} after its job manager was lost or stopped, and the job is not restarted from "
            "the beginning: it has completed no checkpoint, and has no restart strategy. With "
            "execution.checkpointing.interval it continues from its last checkpoint; with restart-strategy.type it "
            "restarts from the beginning",
            now.date_ms,
            final=True,
        )
        given_up = ev.NotTakenOver(takeover.off, starts_again=False)
        return [given_up, *self._end_takeover(takeover, ev.JobFailed(failure), now)]

    def _start_again(self, takeover: Takeover, now: Instant) -> list[ev.Effect]:
        """Restarts the job from its last checkpoint, with attempts numbered after those that were found."""
        self._job.takeover = None
        effects: list[ev.Effect] = [ev.NotTakenOver(takeover.off)]
        if self._succeeding.has_run:
            reason = f"JobManagerChanged: {takeover.off} when another job manager became the leader of the job"
            self._job.restarting.remember(job_failure(self._job.graph.job_id, reason, now.date_ms))
            self._job.restarting.begin_again()
        effects += self._job.slot_table.give_back(f"restarting the job: {takeover.off}")
        for offer in takeover.spare:
            if not self._job.slot_table.take(offer):
                effects.append(_unneeded(offer))
        for execution in self._job.execution_graph.executions:
            execution.attempt += 1
            execution.move_to(ExecutionState.SCHEDULED, now.date_ms)
        self._deployment.renew_enumerators()
        self._deployment.wait_again(self._job.all_subtasks, now)
        return [*effects, *self._deployment.prepare(now), ev.ReportDetails(), *self._deployment.start_workers()]

    def _end_takeover(self, takeover: Takeover, event: ev.Event, now: Instant) -> list[ev.Effect]:
        """Ends the takeover, because the job ends or restarts for another reason."""
        self._job.takeover = None
        self._deployment.renew_enumerators()
        freed = self._job.slot_table.give_back("the job does not continue with the tasks that run in it")
        unneeded = [_unneeded(offer) for offer in takeover.spare]
        return [*freed, *unneeded, *self._handle(event, now)]


def _unneeded(offer: ev.SlotOffered) -> ev.FreeSlot:
    return ev.FreeSlot(offer.allocation_id, offer.task_manager, "the job needs no more slots")
