"""The deployment of one job's tasks: slots, their workers, state and enumerators, and then the tasks. Pure.

The job waits for all its slots, then starts their workers, then deploys its tasks: those whose blocking inputs are
available, which are all if every edge is pipelined (`DeploymentPlan`). With the adaptive scheduler, its parallelism is
decided before that (`adaptation`).
"""

from __future__ import annotations

from collections.abc import Mapping

from millstream.core.clock import Instant
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import AllocationId
from millstream.core.jobs.states import JobStatus
from millstream.core.logs.counts import counted
from millstream.jobmanager.adaptive.fitting import least_slots
from millstream.jobmanager.adaptive.scheduler import AdaptiveScheduler
from millstream.jobmanager.failover.deployment_plan import DeploymentPlan
from millstream.jobmanager.failover.topology import Subtask
from millstream.jobmanager.job_master import events as ev
from millstream.jobmanager.job_master.execution_graph import TaskRestore
from millstream.jobmanager.job_master.job_failures import job_failure
from millstream.jobmanager.job_master.job_state import NOT_ENDING, JobState
from millstream.jobmanager.job_master.task_commands import deploy

_RESTORING = "restoring state"


class Deployment:
    """`adaptive` decides when the job has waited long enough for slots; None: it waits for all of them."""

    def __init__(self, job: JobState, now: Instant, restoring: bool, adaptive: AdaptiveScheduler | None) -> None:
        self._job = job
        self.adaptive = adaptive
        self.to_deploy: frozenset[Subtask] = frozenset()
        self.restores: Mapping[Subtask, TaskRestore] | None = None if restoring else {}
        """The state of these subtasks; None until it is known."""
        self.undecided = False
        """Whether the parallelism is still to be decided."""
        self._needs_enumerators = any(v.source for v in job.graph.vertices)
        self.enumerators_ready = not self._needs_enumerators
        self.needs_new_enumerators = restoring and self._needs_enumerators
        self._waiting_since = now.steady_ms

    def declaration(self) -> ev.DeclareSlots:
        """Returns the declaration of the slots of a job that is not ending."""
        least = least_slots(self._job.graph, self._job.bounds) if self.adaptive is not None else 0
        return ev.DeclareSlots(self._job.slots_wanted, least)

    def wait_for(self, subtasks: frozenset[Subtask], now: Instant) -> None:
        """These subtasks are to be deployed, when everything that they need is available."""
        self.to_deploy = subtasks
        self._waiting_since = now.steady_ms

    def wait_again(self, subtasks: frozenset[Subtask], now: Instant) -> None:
        """As `wait_for`, with the state of the last checkpoint."""
        self.restores = None
        self.wait_for(subtasks, now)

    def clear(self) -> None:
        """Nothing is to be deployed any more."""
        self.to_deploy, self.restores = frozenset(), {}

    def renew_enumerators(self) -> None:
        """The enumerators have to be started again."""
        self.needs_new_enumerators, self.enumerators_ready = self._needs_enumerators, not self._needs_enumerators

    def prepare(self, now: Instant) -> list[ev.Effect]:
        """Prepares what tasks need besides slots and workers, once the parallelism is decided."""
        if self.adaptive is None:
            return self.prepare_decided()
        self.undecided = True
        self.adaptive.wait(now.steady_ms)
        return []

    def prepare_decided(self) -> list[ev.Effect]:
        """Prepares what tasks need besides slots and workers before they are deployed: state and enumerators."""
        if self.restores is None:
            self._job.message = _RESTORING
            return [ev.Restore(self._job.restarts, self.to_deploy, self.needs_new_enumerators)]
        return [ev.StartEnumerators()] if self._needs_enumerators else []

    def slot_offered(self, offer: ev.SlotOffered) -> list[ev.Effect]:
        """Responds to an offer, and starts workers if the slot was missing."""
        job = self._job
        known = job.holds(offer.allocation_id)
        used = offer.found is not None and bool(offer.found.tasks)  # by attempts that no longer belong to the job
        wanted = job.status in NOT_ENDING and not job.suspended and not used
        taken = not known and wanted and job.slot_table.take(offer)
        effects: list[ev.Effect] = [ev.RespondToOffer(offer.allocation_id, offer.task_manager, known or taken)]
        return [*effects, *(self.start_workers() if taken and self.to_deploy else [])]

    def start_workers(self) -> list[ev.Effect]:
        """Starts workers in the slots that have none, once all slots are held."""
        slots = self._job.slot_table
        if not slots.complete:
            self._job.message = slots.waiting()
            return [ev.ReportDetails()]
        effects = slots.start_workers()
        if not effects:
            return []
        self._job.message = "starting slot workers"
        return [*effects, ev.ReportDetails()]

    def not_enough_slots(self, available: int, supply: ev.SlotSupply | None) -> list[ev.Effect]:
        """The resource manager cannot allocate the missing slots."""
        slots = self._job.slot_table
        slots.not_enough(supply)
        if not self.to_deploy or slots.complete:
            return []
        self._job.message = slots.waiting(available)
        return [ev.ReportDetails()]

    def slots_reclaimed(self) -> list[ev.Effect]:
        """Releases the slots of a job that waits for more, unless its tasks still run in them."""
        job = self._job
        idle = bool(self.to_deploy) and not any(e.is_deployed for e in job.execution_graph.executions)
        if not idle or job.slot_table.complete or not job.slots:
            return []
        effects = job.slot_table.give_back("another job can run in the slots that are too few for this one")
        job.message = job.slot_table.waiting()
        return [*effects, ev.ReportDetails()]

    def worker_progressed(self, allocation_id: AllocationId, message: str) -> list[ev.Effect]:
        """Shows what a worker, or the enumerator process, does before it is ready."""
        ours = not allocation_id or self._job.holds(allocation_id)
        return self._job.show(message) if ours and self.to_deploy else []

    def deploy_when_ready(self, now: Instant) -> list[ev.Effect]:
        """Deploys the tasks, once everything that they need is available."""
        if self.undecided:
            return []
        effects = self._deploy(now)
        if self.adaptive is not None and effects and self._job.status is JobStatus.RUNNING:
            self.adaptive.started(now.steady_ms)
        return effects

    def _deploy(self, now: Instant) -> list[ev.Effect]:
        job = self._job
        if not self.to_deploy or not job.slot_table.ready:
            return []
        restores = self.restores
        if restores is None and job.message != _RESTORING:
            job.message = _RESTORING
            return [ev.ReportDetails()]
        if restores is None or not self.enumerators_ready:
            return []
        if job.status is not JobStatus.RUNNING:
            job.move_to(JobStatus.RUNNING, now)
        job.message = ""
        plan = DeploymentPlan.of(job.restarting.regions, self.to_deploy, job.execution_graph.finished())
        effects = deploy(job.execution_graph, job.slots, plan.due, restores, now.date_ms)
        self.to_deploy, self.restores = plan.waiting, restores if plan.waiting else {}
        return [*effects, ev.ReportDetails()]

    def waits_for(self, restart: int) -> bool:
        """Whether the state of this restart is awaited."""
        return restart == self._job.restarts and self.restores is None and bool(self.to_deploy)

    def restored(self, event: ev.Restored, now: Instant) -> list[ev.Effect]:
        """The state is known, and the enumerators are reset to it."""
        self.restores = event.restores
        self.needs_new_enumerators = False
        self.fit(event.graph)
        return self.deploy_when_ready(now)

    def fit(self, graph: JobGraph | None) -> None:
        """Replaces the graph by one that is fitted to the snapshot that the job starts from."""
        if graph is not None and graph is not self._job.graph:
            self._job.graph = graph
            self._job.execution_graph.fit(graph)

    def timed_out(self, now: Instant) -> TaskFailure | None:
        """Returns the failure of a job that has waited too long for its slots."""
        job, limit_ms = self._job, self._job.settings.slot_timeout * 1000
        late = now.steady_ms - self._waiting_since >= limit_ms
        if self.undecided or not self.to_deploy or job.slot_table.complete or not late:
            return None
        supply = f", with {job.slot_supply}" if job.slot_supply is not None else ""
        return job_failure(
            job.graph.job_id,
            f"NotEnoughSlots: the job needs {counted(job.slots_required, 'slot')} and has {len(job.slots)} after "
            f"waiting {limit_ms / 1000:g} s (slot.request.timeout){supply}; {self.way_out()}",
            now.date_ms,
        )

    def way_out(self) -> str:
        """Describes what to do about missing slots."""
        resources = self._job.graph.slot_resources
        if not resources:
            return "start more task managers, give them more slots, or lower the parallelism"
        requested = [
            f"'{r.group}' requests {r.cpu_cores:g} cores and {r.memory_bytes / 2**20:g} mb of memory" for r in resources
        ]
        return (
            f"each slot takes its share of a task manager, and the slot sharing group {', '.join(requested)}: start "
            "more or larger task managers, or request less"
        )
