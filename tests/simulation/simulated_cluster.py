"""A whole control plane under faults, and what must be so in the end.

`run(seed, ...)` builds a cluster, submits jobs, injects faults for a while, then lets everything come to rest and
checks that nothing was lost or leaked. The same seed gives the same run.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from simulated_services import HEARTBEAT_TIMEOUT, JobManager, ResourceManager, TaskManager
from virtual_network import World

from millstream.core.jobs.graph import JobEdge, JobGraph, JobVertex
from millstream.core.jobs.ids import JobId, VertexId
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.resourcemanager.slot_manager import SlotState

MOST_STEPS = 40_000
MOST_JOBS = 10
TOLD = 60


@dataclass(slots=True)
class Outcome:
    """What the jobs came to, for tests that look at many runs."""

    ends: list[JobStatus]
    faults: list[str]
    restarts: int


class SimulatedCluster:
    """One run."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.random = self.world.random
        self._allocation_ids = itertools.count(1)
        self.resource_manager = ResourceManager(self.world, self._allocation_ids)
        self.job_managers: dict[str, JobManager] = {}
        self.task_managers: list[TaskManager] = []
        self.jobs: dict[JobId, JobManager] = {}
        self.faults: list[str] = []
        self._numbers = itertools.count(1)
        for name in ("jm1", "jm2")[: self.random.randint(1, 2)]:
            self._start_job_manager(name)
        for _ in range(self.random.randint(1, 3)):
            self._start_task_manager()

    # The workload and the faults

    def _start_job_manager(self, name: str) -> None:
        self.job_managers[name] = JobManager(self.world, name, lambda: self.resource_manager)

    def _start_task_manager(self) -> None:
        name = f"tm{next(self._numbers)}"
        slots = self.random.randint(1, 3)
        self.task_managers.append(
            TaskManager(self.world, name, slots, lambda: self.resource_manager, self.job_managers.get)
        )

    def submit(self) -> None:
        widths = [self.random.randint(1, 3) for _ in range(self.random.randint(1, 2))]
        job_id = JobId(f"job{next(self._numbers)}")
        vertices = tuple(
            JobVertex(VertexId(f"v{i}"), f"v{i}", width, 128, "default", (), b"") for i, width in enumerate(widths)
        )
        edges = tuple(
            JobEdge(VertexId(f"v{i}"), VertexId(f"v{i + 1}"), 0, 0, self.random.choice(["HASH", "FORWARD"]), b"")
            for i in range(len(widths) - 1)
        )
        owner = self.random.choice(list(self.job_managers.values()))
        self.jobs[job_id] = owner
        owner.start_job(JobGraph(job_id, job_id, vertices, edges))

    def cancel_a_job(self) -> None:
        running = [j for j, owner in self.jobs.items() if owner.is_up and j in owner.masters]
        if running:
            job_id = self.random.choice(running)
            self.jobs[job_id].cancel(job_id)

    def fail_a_task(self) -> None:
        running = [
            (task_manager, worker, attempt)
            for task_manager in self._live()
            for worker in task_manager.workers.values()
            for attempt, state in worker.tasks.items()
            if not state.is_terminal
        ]
        if running:
            task_manager, worker, attempt = self.random.choice(running)
            exception = self.random.choice(["ValueError: bad", "PeerLostError: echo"])
            task_manager.update(worker, attempt, ExecutionState.FAILED, exception)

    def lose_a_worker(self) -> None:
        workers = [(t, w) for t in self._live() for w in t.workers.values()]
        if workers:
            task_manager, worker = self.random.choice(workers)
            task_manager.lose_worker(worker)

    def crash_a_task_manager(self) -> None:
        live = self._live()
        if live:
            self.random.choice(live).crash()
            if self.random.random() < 0.7:
                self._start_task_manager()

    def break_a_session(self) -> None:
        """Rather one on which something is under way."""
        sessions = self.world.open_sessions()
        busy = [end for end in sessions if end.inbox]
        if sessions:
            self.random.choice(busy if busy and self.random.random() < 0.7 else sessions).break_off()

    def restart_the_resource_manager(self) -> None:
        self.resource_manager.crash()
        self.resource_manager = ResourceManager(self.world, self._allocation_ids)

    def restart_a_job_manager(self) -> None:
        """Its jobs are gone with it; their slots must not be."""
        name = self.random.choice(list(self.job_managers))
        lost = self.job_managers[name]
        lost.crash()
        self.jobs = {job: owner for job, owner in self.jobs.items() if owner is not lost}
        self._start_job_manager(name)

    def stop_a_job_manager(self) -> None:
        """It stays away for good."""
        if len(self.job_managers) > 1:
            name = self.random.choice(list(self.job_managers))
            lost = self.job_managers.pop(name)
            lost.crash()
            self.jobs = {job: owner for job, owner in self.jobs.items() if owner is not lost}

    def _live(self) -> list[TaskManager]:
        return [task_manager for task_manager in self.task_managers if task_manager.is_up]

    # The run

    def run(self, steps: int, fault_rate: float) -> Outcome:
        faults = {
            self.cancel_a_job: 3,
            self.fail_a_task: 3,
            self.lose_a_worker: 3,
            self.crash_a_task_manager: 1,
            self.break_a_session: 4,
            self.restart_the_resource_manager: 1,
            self.restart_a_job_manager: 1,
            self.stop_a_job_manager: 1,
        }
        for _ in range(self.random.randint(1, 3)):
            self.submit()
        for _ in range(steps):
            if self.random.random() < 0.02 and len(self.jobs) < MOST_JOBS:
                self.submit()
            if self.random.random() < fault_rate:
                (fault,) = self.random.choices(list(faults), list(faults.values()))
                self.faults.append(fault.__name__)
                self.world.tell(f"*** {fault.__name__}")
                fault()
            self._step()
        self._come_to_rest()
        ends = [owner.masters[job].status for job, owner in self.jobs.items()]
        restarts = sum(owner.masters[job].restarts for job, owner in self.jobs.items())
        self._check_the_end()
        return Outcome(ends, self.faults, restarts)

    def _step(self) -> None:
        self.world.step()
        for task_manager in self.task_managers:
            if task_manager.is_up:
                task_manager.validate()

    def _come_to_rest(self) -> None:
        """Until all jobs have ended, nothing is under way, and every timeout has had its time."""
        rest_until = None
        for _ in range(MOST_STEPS):
            self._step()
            at_rest = not self.world.is_busy() and all(
                owner.masters[job].status.is_terminal for job, owner in self.jobs.items()
            )
            if not at_rest:
                rest_until = None
            elif rest_until is None:
                rest_until = self.world.now + 10.0 + HEARTBEAT_TIMEOUT  # also the slot manager's allocation timeout
            elif self.world.now > rest_until:
                return
        states = {job: owner.masters[job].status.value for job, owner in self.jobs.items()}
        raise AssertionError(f"no rest after {MOST_STEPS} steps: jobs {states}")

    def _check_the_end(self) -> None:
        for job, owner in self.jobs.items():
            master = owner.masters[job]
            assert not master.slots, f"{job} is {master.status} and holds slots"
            assert bool(master.failures) or master.status is not JobStatus.FAILED, f"{job} failed without a reason"
        manager = self.resource_manager.slots
        for task_manager in self._live():
            report = task_manager.table.report()
            assert not any(report), f"{task_manager.id} leaks {[a for a in report if a]}"
            assert not task_manager.workers, f"{task_manager.id} leaks workers"
            views = manager.slots_of(task_manager.id)
            assert len(views) == len(report), f"the resource manager does not know {task_manager.id}"
            assert all(view.state is SlotState.FREE for view in views), f"the resource manager believes {views}"
        known = set(self.resource_manager.task_managers)
        assert known == {t.id for t in self._live()}
        assert manager.missing_slots() == 0


def simulate(seed: int, steps: int, fault_rate: float) -> Outcome:
    """One run; what goes wrong is told with the seed and the end of the story."""
    cluster = SimulatedCluster(seed)
    try:
        return cluster.run(steps, fault_rate)
    except Exception as error:
        story = "\n".join(cluster.world.story[-TOLD:])
        raise AssertionError(f"seed {seed}: {error}\n{story}\nreplay with MILLSTREAM_SIMULATION_SEED={seed}") from error
