"""The adaptive scheduler of one job: its parallelism is what fits into the slots that it holds. Pure.

The job declares all slots that it can use and gets the available ones. Before its tasks are deployed,
`AdaptiveScheduler` decides when it has waited long enough. While it runs, slots beyond those that it needs are spare
ones; when the scheduler decides that the job uses them, the job is rescaled as on a request.
"""

from __future__ import annotations

from millstream.core.clock import Instant
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.job_events import JobEventKind
from millstream.core.jobs.rescales import RescaleCause
from millstream.core.jobs.states import JobStatus
from millstream.core.logs.counts import counted
from millstream.jobmanager.adaptive.fitting import fit, graph_at, in_words, least_slots, most_slots, parallelism_of
from millstream.jobmanager.adaptive.scheduler import AdaptiveScheduler, Verdict
from millstream.jobmanager.job_master import events as ev
from millstream.jobmanager.job_master.deployment import Deployment
from millstream.jobmanager.job_master.job_failures import job_failure
from millstream.jobmanager.job_master.job_life import JobLife
from millstream.jobmanager.job_master.job_state import JobState
from millstream.jobmanager.job_master.rescaling import Rescaling


class Adaptation:
    """Carries out the verdicts of the scheduler."""

    def __init__(
        self, job: JobState, deployment: Deployment, life: JobLife, rescaling: Rescaling, scheduler: AdaptiveScheduler
    ) -> None:
        self._job = job
        self._deployment = deployment
        self._life = life
        self._rescaling = rescaling
        self._scheduler = scheduler

    def adapt(self, now: Instant) -> list[ev.Effect]:
        """Decides about the parallelism of a job that is to be deployed, or that runs."""
        if self._deployment.to_deploy and not self._deployment.undecided and not self._job.slot_table.complete:
            self._job.restarting.renumber()
            self._deployment.restores = None
            self._deployment.prepare(now)
        there, most = len(self._job.slots), most_slots(self._job.graph, self._job.bounds)
        fitting = fit(self._job.graph, self._job.bounds, there)
        if self._deployment.to_deploy and self._deployment.undecided:
            match self._scheduler.verdict(fitting is not None, there >= most, now.steady_ms):
                case Verdict.WAIT:
                    why = f" ({self._job.slot_table.supply})" if self._job.slot_table.supply is not None else ""
                    return self._job.show(f"waiting for slots: {there} of {most}{why}")
                case Verdict.FAIL:
                    return self._life.fail(self._too_few(there, now), now, self._job.all_subtasks)
                case Verdict.GO:
                    assert fitting is not None
                    return self._start_at(graph_at(self._job.graph, fitting), now)
        if self._job.status is not JobStatus.RUNNING or self._deployment.to_deploy or self._job.rescale is not None:
            return []
        differs = fitting is not None and fitting != parallelism_of(self._job.graph)
        if fitting is None or not self._scheduler.rescales(differs, there >= most, now.steady_ms):
            return []
        reason = f"{there} slots are available, and the job can use up to {most}"
        target, cause = graph_at(self._job.graph, fitting), RescaleCause.NEW_RESOURCE_AVAILABLE
        return self._rescaling.begin(target, self._job.bounds, reason, "", now, cause)

    def _start_at(self, graph: JobGraph, now: Instant) -> list[ev.Effect]:
        """Starts the job at the parallelism of `graph`, in the slots that it holds."""
        self._deployment.undecided = False
        effects: list[ev.Effect] = []
        if graph != self._job.graph:
            words = in_words(self._job.graph, parallelism_of(graph))
            message = f"the job starts at parallelism {words}, in {len(self._job.slots)} available slots"
            self._job.remember(JobEventKind.PARALLELISM_CHOSEN, message, now)
            is_first = self._job.rescales.under_way is not None
            cause = RescaleCause.INITIAL_SCHEDULE if is_first else RescaleCause.RECOVERABLE_FAILOVER
            self._rescaling.record(cause, None if is_first else self._job.graph, graph, now)
            effects += self._rescaling.take_graph(graph, now)
            self._deployment.to_deploy = self._job.all_subtasks
        elif not self._job.slot_table.complete:  # a spare one replaces one that was lost
            self._job.slot_table.rearrange(self._job.execution_graph.slot_keys())
        return [
            *effects,
            *self._deployment.prepare_decided(),
            ev.ReportDetails(),
            *self._deployment.start_workers(),
            *self._deployment.deploy_when_ready(now),
        ]

    def _too_few(self, there: int, now: Instant) -> TaskFailure:
        limit = self._scheduler.settings.wait_timeout_ms
        least = least_slots(self._job.graph, self._job.bounds)
        return job_failure(
            self._job.graph.job_id,
            f"NotEnoughSlots: the job needs at least {counted(least, 'slot')} and has {there} after waiting "
            f"{(limit or 0) / 1000:g} s (jobmanager.adaptive-scheduler.submission.resource-wait-timeout); "
            f"{self._deployment.way_out()}",
            now.date_ms,
        )
