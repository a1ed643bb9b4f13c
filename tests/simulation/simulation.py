"""A whole control plane under faults, and what must be so while it runs and in the end.

`simulate(seed, ...)` builds a cluster, submits jobs, injects faults for a while, then lets everything come to rest,
checks that nothing was lost or leaked, and has a job run that needs every slot. The same seed gives the same run.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
from collections import Counter
from dataclasses import dataclass

from faults import Faults
from simulated_cluster import CHECKPOINTS, HEARTBEAT_TIMEOUT, RESTARTS, SimulatedCluster
from world import StoryOfLogs, World

from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.ids import JobId
from millstream.core.jobs.states import JobStatus

MOST_JOBS = 10
TOLD = 100  # lines of the story of a run that goes wrong; all of them when it is replayed
PATIENCE = 30.0  # jobs that still run then are cancelled: with mishaps, some work for very long
REST_WITHIN = 300.0
STILL_FOR = HEARTBEAT_TIMEOUT + 10.0  # also the slot manager's allocation timeout
SETTLED_AFTER = 16.0  # a task manager that hears no more of a job manager has ended its workers by then


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the jobs came to, for tests that look at many runs."""

    ends: tuple[JobStatus, ...]
    faults: tuple[str, ...]
    restarts: int
    restored: int
    """How often tasks were restored from a checkpoint."""
    digest: str


class Simulation:
    """One run."""

    def __init__(self, seed: int, folder: str) -> None:
        self.world = World(seed)
        self._random = self.world.random
        self._cluster = SimulatedCluster(self.world, folder)
        self._faults = Faults(self._cluster)
        self._ended_at: dict[JobId, float] = {}
        self._looked_at = 0.0

    async def run(self, steps: int, fault_rate: float) -> Outcome:
        """So many steps of about half a second."""
        cluster, random = self._cluster, self._random
        self.world.has_mishaps = fault_rate > 0
        for name in ("jm1", "jm2")[: random.randint(1, 2)]:
            cluster.start_job_manager(name)
        names = [daemon.process.name for daemon in cluster.job_managers]
        for _ in range(random.randint(1, 3)):
            cluster.start_task_manager()
        await asyncio.sleep(1)
        for _ in range(random.randint(1, 3)):
            await self._submit()
        for _ in range(steps):
            await asyncio.sleep(random.expovariate(2.0))
            if random.random() < 0.05 and len(cluster.jobs) < MOST_JOBS:
                await self._submit()
            if random.random() < fault_rate:
                self._faults.happen()
            self._bring_back(names)
            self._check()
            if self.world.loop.time() - self._looked_at > 3.0:
                await self._look_at_jobs()
        jobs = await self._come_to_rest(names)
        ends = tuple(details.state for details in jobs.values())
        restarts = sum(details.restarts for details in jobs.values())
        restored = sum(map(_restored, jobs.values()))
        await self._run_on_every_slot()
        return Outcome(ends, tuple(self._faults.happened), restarts, restored, self.world.digest)

    async def _submit(self) -> None:
        widths = [self._random.randint(1, 3) for _ in range(self._random.randint(1, 3))]
        options = {**self._random.choice(RESTARTS), **self._random.choice(({}, CHECKPOINTS))}
        await self._cluster.submit(widths, options, self._random.random() < 0.5)

    def _bring_back(self, job_managers: list[str]) -> None:
        """What ended, whoever it was that ended it; a second job manager sometimes stays away."""
        if not self._cluster.dispatcher.is_alive:
            self._ended_at.clear()  # the next one knows nothing of jobs that nobody runs
            self._cluster.start_dispatcher()
        if not self._cluster.resource_manager.is_alive:
            self._cluster.start_resource_manager()
        running = {daemon.process.name for daemon in self._cluster.job_managers if daemon.is_alive}
        for name in job_managers:
            if name not in running and (not running or self._random.random() < 0.1):
                self._cluster.start_job_manager(name)
                running.add(name)
        if not any(daemon.is_alive for daemon in self._cluster.task_managers) and self._random.random() < 0.1:
            self._cluster.start_task_manager()

    def _check(self) -> None:
        """What must be so at any time."""
        workers = self._cluster.children.workers()
        for name, number in Counter(w.parent.name for w in workers if w.parent.is_alive).items():
            assert number <= self._cluster.slots[name], f"{name} has more workers than slots: {number}"
        slots = Counter(worker.allocation_id for worker in workers if worker.allocation_id)
        assert not slots or max(slots.values()) == 1, "two workers in one slot"
        holders = Counter(
            slot.allocation_id
            for daemon in self._cluster.job_managers
            if daemon.is_alive
            for job in daemon.service.jobs.values()
            for slot in job.master.slots.values()
        )
        assert not holders or max(holders.values()) == 1, "a slot is held by two jobs"

    async def _look_at_jobs(self) -> dict[JobId, JobDetails] | None:
        """What the dispatcher reports as ended may not run, after a short time in which all learn of it."""
        jobs = await self._cluster.list_jobs()
        self._looked_at = now = self.world.loop.time()
        for job_id, details in (jobs or {}).items():
            if details.state.is_terminal:
                self._ended_at.setdefault(job_id, now)
        for worker in self._cluster.children.workers():
            since = max(self._ended_at.get(worker.job_id, now), worker.parent.thawed_at)
            if worker.running and not worker.parent.is_frozen:
                assert now - since < SETTLED_AFTER, f"{worker.process.name} runs job {worker.job_id}, which has ended"
        return jobs

    async def _come_to_rest(self, job_managers: list[str]) -> dict[JobId, JobDetails]:
        """Until all jobs have ended and nothing is left of them, for good; answers them."""
        loop = self.world.loop
        self.world.tell("*** no more faults")
        self.world.network.heal()
        for daemon in self._cluster.daemons():
            loop.thaw(daemon.process)
        began_at, still_since = loop.time(), None
        while True:
            await asyncio.sleep(3.0)
            self._bring_back(job_managers)
            self._check()
            jobs = await self._look_at_jobs()
            unrest = await self._unrest(jobs)
            assert not unrest or loop.time() - began_at < REST_WITHIN, f"no rest: {unrest}"
            if self.world.has_mishaps and loop.time() - began_at > PATIENCE:
                for job_id in (job_id for job_id, details in (jobs or {}).items() if not details.state.is_terminal):
                    await self._cluster.cancel(job_id)
            if unrest or jobs is None:
                still_since = None
            elif still_since is None:
                still_since = loop.time()
            elif loop.time() - still_since > STILL_FOR:
                for details in jobs.values():
                    failed = details.state is JobStatus.FAILED
                    assert details.failures or not failed, f"{details.job_id} failed without a reason"
                return jobs

    async def _unrest(self, jobs: dict[JobId, JobDetails] | None) -> str:
        """What is still going on; empty when nothing is."""
        if jobs is None:
            return "the dispatcher does not answer"
        if going := {job: details.state.value for job, details in jobs.items() if not details.state.is_terminal}:
            return f"jobs {going}"
        if children := [child.process.name for child in self._cluster.children.living()]:
            return f"children {children}"
        overview = await self._cluster.overview()
        if overview is None:
            return "the resource manager does not answer"
        if taken := {t.host: t.slots for t in overview.task_managers if any(slot.allocation_id for slot in t.slots)}:
            return f"slots {taken}"
        living = Counter(daemon.process.name for daemon in self._cluster.task_managers if daemon.is_alive)
        if Counter(t.host for t in overview.task_managers) != living:
            return f"the resource manager knows {[t.host for t in overview.task_managers]} of {[*living]}"
        return f"{overview.pending_slots} slots are missing" if overview.pending_slots else ""

    async def _run_on_every_slot(self) -> None:
        """A job that needs all of them: none is lost."""
        self.world.has_mishaps = False
        living = [daemon.process.name for daemon in self._cluster.task_managers if daemon.is_alive]
        if not living:
            return
        job_id = await self._cluster.submit([sum(self._cluster.slots[name] for name in living)], RESTARTS[0], True)
        assert job_id is not None
        if self._random.random() < 0.5:  # all that it knew has to be told to the next one
            self._cluster.kill(self._cluster.resource_manager)
            self._cluster.start_resource_manager()
        give_up_at = self.world.loop.time() + REST_WITHIN
        while True:
            await asyncio.sleep(2.0)
            details = (await self._cluster.list_jobs() or {})[job_id]
            if details.state.is_terminal:
                assert details.state is JobStatus.FINISHED, f"a job on every slot failed: {details.failures}"
                return
            assert self.world.loop.time() < give_up_at, f"a job on every slot is still {details.state}"


def _restored(details: JobDetails) -> int:
    """How often tasks of the job were; one that its job manager could not report any more has no numbers."""
    counts = json.loads(details.checkpoints)["overview"]["counts"] if details.checkpoints else {}
    return int(counts.get("restored", 0))


def simulate(seed: int, folder: str, steps: int, fault_rate: float, with_logs: bool = False) -> Outcome:
    """One run; what goes wrong is told with the seed and the story."""
    simulation = Simulation(seed, folder)
    logger = logging.getLogger("millstream")
    before = logger.level, logger.propagate
    logger.propagate = False
    logger.setLevel(logging.DEBUG if with_logs else logging.ERROR)
    handler = StoryOfLogs(simulation.world, logger.level)
    logger.addHandler(handler)
    gc.disable()  # what it finds is logged: no time for that may depend on what ran before
    try:
        outcome = simulation.world.loop.run(simulation.run(steps, fault_rate))
    except Exception as error:
        told = simulation.world.story(None if with_logs else TOLD)
        raise AssertionError(
            f"seed {seed}: {error!r}\n{told}\nreplay with MILLSTREAM_SIMULATION_SEED={seed}, with what is logged"
        ) from error
    finally:
        gc.enable()
        logger.removeHandler(handler)
        logger.level, logger.propagate = before
    assert isinstance(outcome, Outcome)
    return outcome
