"""What must hold at any time, and what must hold of the states of jobs that the cluster reports."""

from __future__ import annotations

from simulated_client import SimulatedClient
from simulated_cluster import Daemon, SimulatedCluster
from story import Violation, must

from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.ids import JobId
from millstream.core.jobs.states import JobStatus
from millstream.core.services.leader_lookup import Role
from millstream.core.store.store import Contest
from millstream.jobmanager.running_job import RunningJob


class Invariants:
    """`check` is called after every moment in which anything arrived anywhere.

    Commits and checkpoints are checked when they happen (`ledger`), writes to the store as well (`simulated_store`),
    and deployments by the workers that get them.
    """

    def __init__(self, cluster: SimulatedCluster, client: SimulatedClient) -> None:
        self._cluster = cluster
        self._client = client
        self._ended: dict[JobId, tuple[float, JobStatus]] = {}
        self._starts = 0
        self._recovers = cluster.shape.recovers
        self._settles_within = 16.0 * cluster.shape.scale

    def after_moment(self) -> None:
        network = self._cluster.world.network
        if network.has_news:
            network.has_news = False
            self.check()

    def check(self) -> None:
        """One effective leader of each job, and no slot to two jobs."""
        self._check_workers()
        self._check_job_managers()

    def _check_workers(self) -> None:
        numbers: dict[str, int] = {}
        slots: set[str] = set()
        for worker in self._cluster.children.workers():
            name, allocation = worker.parent.name, worker.allocation_id
            if worker.parent.is_alive:
                number = numbers[name] = numbers.get(name, 0) + 1
                if number > self._cluster.slots[name]:
                    raise Violation(f"{name} has more workers than slots", name)
            if allocation in slots:
                raise Violation(f"two workers in the slot of {allocation}", allocation)
            if allocation:
                slots.add(allocation)

    def _check_job_managers(self) -> None:
        holders: dict[str, str] = {}
        leaders: dict[JobId, str] = {}
        for daemon in self._cluster.job_managers:
            if not daemon.is_alive:
                continue
            for job_id, job in daemon.service.jobs.items():
                for slot in job.master.slots.values():
                    allocation = slot.allocation_id
                    if (other := holders.setdefault(allocation, job_id)) != job_id:
                        raise Violation(f"jobs {other} and {job_id} hold a slot", allocation, job_id, other)
                if (
                    self._leads(daemon, job_id, job)
                    and (other := leaders.setdefault(job_id, daemon.name)) != daemon.name
                ):
                    raise Violation(f"{other} and {daemon.name} both lead job {job_id}", job_id)

    def reported(self, jobs: dict[JobId, JobDetails]) -> None:
        """What the dispatcher reports: no job is forgotten, and one that has ended stays ended and has no workers."""
        now, starts = self._cluster.world.loop.time(), self._cluster.starts
        if starts != self._starts and not self._recovers:
            self._starts = starts
            self._ended.clear()  # the next dispatcher does not know jobs that no job manager runs
        for job_id, job in self._client.jobs.items():
            if job.accepted and (self._recovers or job.known_since == starts):
                must(job_id in jobs, f"job {job_id} is forgotten", job_id)
        for job_id, details in jobs.items():
            ended = self._ended.get(job_id)
            same = ended is None or ended[1] is details.state
            must(same, f"job {job_id} has ended as {ended and ended[1]}, and is {details.state}", job_id)
            if details.state.is_terminal and ended is None:
                self._ended[job_id] = now, details.state
                self._job_ended(details)
        for daemon in self._cluster.job_managers:
            for job_id, job in daemon.service.jobs.items() if daemon.is_alive else ():
                ended = self._ended.get(job_id)
                leads = ended is not None and self._leads(daemon, job_id, job)
                must(not leads, f"{daemon.name} leads job {job_id}, which is reported as {ended and ended[1]}", job_id)
        for worker in self._cluster.children.workers():
            since = max(self._ended.get(worker.job_id, (now,))[0], worker.parent.thawed_at)
            if worker.running and not worker.parent.is_frozen:
                runs_on = now - since >= self._settles_within
                must(not runs_on, f"{worker.process.name} runs job {worker.job_id}, which has ended", worker.job_id)

    def _job_ended(self, details: JobDetails) -> None:
        job = self._client.jobs.get(details.job_id)
        if details.state is JobStatus.FAILED:
            must(details.failures, f"job {details.job_id} failed without a reason", details.job_id)
        elif details.state is JobStatus.FINISHED and job is not None:
            self._cluster.ledger.job_finished(details.job_id)

    def _leads(self, daemon: Daemon, job_id: JobId, job: RunningJob) -> bool:
        """Whether what this job manager does for the job takes effect."""
        if job.master.status.is_terminal or job.master.is_suspended:
            return False
        if not self._recovers:
            return bool(daemon.service.in_charge())
        leader = self._cluster.store.leader(Contest(Role.JOB_MANAGER, job_id))
        return leader is not None and leader.epoch == job.epoch
