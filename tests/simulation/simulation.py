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
from dataclasses import dataclass, replace
from unittest.mock import patch

from faults import Faults
from invariants import Invariants
from parcels import parcels
from shapes import SHAPES, Range, Shape
from simulated_client import SimulatedClient
from simulated_cluster import SimulatedCluster
from story import Violation, must
from world import StoryOfLogs, World

from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.ids import JobId
from millstream.core.jobs.states import JobStatus
from millstream.core.messages.resource_manager import Overview
from millstream.core.store.store import Kind
from millstream.taskmanager.worker.operators.base import OperatorError

PATIENCE = 30.0  # jobs that still run then are cancelled: with faults, some work for very long
REST_WITHIN = 300.0
FOR_EVER = 1e9
COMES_TWICE = 0.05
STORY_LINES = 150


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the jobs ended, for tests of many runs."""

    ends: tuple[JobStatus, ...]
    faults: tuple[str, ...]
    restarts: int
    restored: int
    """How often tasks were restored from a checkpoint."""
    commits: int
    seconds: float
    """On the virtual clock."""
    digest: str


class SimulationFailed(AssertionError):
    """A schedule went wrong. Equal seeds give equal failures: the same words, at the same time."""

    def __init__(self, seed: int, shape: Shape, cause: BaseException, at: float, story: str) -> None:
        names = [f" SHAPE={name}" for name, known in SHAPES.items() if known == shape]
        again = f"replay with make simulate SEEDS={seed}{''.join(names)}"
        super().__init__(f"seed {seed} at {at:.3f}: {cause!r}\n{story}\n{again}")
        self.seed = seed
        self.cause = cause
        self.at = at


class Simulation:
    """One run."""

    def __init__(self, seed: int, folder: str, shape: Shape) -> None:
        self.world = World(seed, shape.scale)
        self.cluster = SimulatedCluster(self.world, shape, folder)
        self._shape = shape
        self._random = self.world.random
        self._client = SimulatedClient(self.cluster)
        self._faults = Faults(self.cluster, self._client)
        self._invariants = Invariants(self.cluster, self._client)
        self.world.loop.after_moment = self._invariants.after_moment
        self._dispatchers = self._names("dispatcher", shape.dispatchers)
        self._resource_managers = self._names("resourcemanager", shape.resource_managers)
        self._job_managers = self._names("jm", shape.job_managers)
        self._looked_at = 0.0
        self._has_faults = shape.fault_rate > 0
        self._out_of_touch = ""
        """A job manager that no dispatcher reaches ever again, and that the others have to do without."""

    def _names(self, role: str, number: Range) -> list[str]:
        return [f"{role}{index + 1}" for index in range(self._random.randint(*number))]

    async def run(self) -> Outcome:
        """Starts, steps, rest."""
        cluster, random, shape = self.cluster, self._random, self._shape
        self.world.has_mishaps = self._has_faults
        self.world.network.comes_twice = COMES_TWICE if self._has_faults else 0.0
        for name in self._dispatchers:
            cluster.start_dispatcher(name)
        for name in self._resource_managers:
            cluster.start_resource_manager(name)
        for name in self._job_managers:
            cluster.start_job_manager(name)
        for _ in range(random.randint(*shape.task_managers)):
            cluster.start_task_manager()
        await asyncio.sleep(shape.scale)
        for _ in range(random.randint(*shape.first_jobs)):
            await self._submit()
        steps_per_second = random.choice(shape.steps_per_second)
        for _ in range(shape.steps):
            await asyncio.sleep(random.expovariate(steps_per_second))
            if random.random() < 0.05 and len(self._client.jobs) < shape.most_jobs:
                await self._submit()
            if random.random() < shape.fault_rate:
                self._faults.happen()
            self._bring_back()
            self._invariants.check()
            if self.world.loop.time() - self._looked_at > 3.0 * shape.scale:
                await self._look_at_jobs()
        thorough = random.random() < shape.thorough
        jobs = await self._come_to_rest(thorough)
        if thorough:
            await self._run_on_every_slot()
        return Outcome(
            tuple(details.state for details in jobs.values()),
            tuple(self._faults.happened),
            sum(details.restarts for details in jobs.values()),
            sum(map(_restored, jobs.values())),
            cluster.ledger.commits,
            self.world.loop.time(),
            "",
        )

    async def _submit(self) -> None:
        random, shape = self._random, self._shape
        widths = [self._rather_more(shape.width) for _ in range(self._rather_more(shape.vertices))]
        checkpoints = random.choice(shape.checkpoints()) if random.random() < 0.85 else {}
        options = {**random.choice(shape.restarts()), **checkpoints}
        await self._client.submit(widths, options, random.random() < 0.7)

    def _rather_more(self, least_and_most: Range) -> int:
        """What has more than one of everything has more to go wrong."""
        return max(self._random.randint(*least_and_most), self._random.randint(*least_and_most))

    def _bring_back(self) -> None:
        """Restarts the daemons that ended; one that is not the only one of its role sometimes stays away."""
        cluster = self.cluster
        for daemons, names, start in (
            (cluster.dispatchers, self._dispatchers, cluster.start_dispatcher),
            (cluster.resource_managers, self._resource_managers, cluster.start_resource_manager),
            (cluster.job_managers, self._job_managers, cluster.start_job_manager),
        ):
            running = {daemon.name for daemon in daemons if daemon.is_alive}
            for name in names:
                if name not in running and (not running or self._random.random() < 0.1):
                    start(name)
                    running.add(name)
        if not any(daemon.is_alive for daemon in cluster.task_managers) and self._random.random() < 0.1:
            cluster.start_task_manager()

    def _keep_out_of_touch(self) -> None:
        network = self.world.network
        for daemon in self.cluster.job_managers:
            for dispatcher in self.cluster.dispatchers if daemon.name == self._out_of_touch else ():
                network.cut_off(daemon.process, dispatcher.process, FOR_EVER)
                network.cut_off(dispatcher.process, daemon.process, FOR_EVER)

    async def _look_at_jobs(self) -> dict[JobId, JobDetails] | None:
        starts = self.cluster.starts
        jobs = await self._client.list_jobs()
        self._looked_at = self.world.loop.time()
        if jobs is not None and self.cluster.starts == starts:
            self._invariants.reported(jobs)
        return jobs

    async def _come_to_rest(self, thorough: bool) -> dict[JobId, JobDetails]:
        """Waits until all jobs have ended and nothing is left of them; returns their details."""
        loop, scale = self.world.loop, self._shape.scale
        still_for = self._shape.heartbeat_timeout + self._shape.allocation_timeout if thorough else 0.0
        self.world.tell_fault("no more faults")
        self.world.has_mishaps &= not self._shape.mishaps_end
        self.world.network.heal()
        self.world.network.comes_twice = 0.0
        self.cluster.store.heal()
        for daemon in self.cluster.daemons():
            loop.thaw(daemon.process)
        if len(self._job_managers) > 1 and self._random.random() < self._shape.out_of_touch:
            self._out_of_touch = self._random.choice(self._job_managers)
            self.world.tell_fault(f"no dispatcher reaches {self._out_of_touch} any more")
        began_at, still_since = loop.time(), None
        while True:
            self._keep_out_of_touch()
            await asyncio.sleep(3.0 * scale if still_for else 0.5 * scale)
            self._bring_back()
            self._invariants.check()
            if self._is_busy() and loop.time() - self._looked_at < 3.0 * scale:
                continue  # a request takes longer than the check
            jobs = await self._look_at_jobs()
            unrest, about = await self._unrest(jobs)
            late = loop.time() - began_at > REST_WITHIN
            must(not unrest or not late, f"no rest: {unrest}", *about)
            if self._has_faults and loop.time() - began_at > PATIENCE * scale:
                for job_id in (job_id for job_id, details in (jobs or {}).items() if not details.state.is_terminal):
                    await self._client.cancel(job_id)
            if unrest or jobs is None:
                still_since = None
            elif still_since is None:
                still_since = loop.time()
            if jobs is not None and still_since is not None and loop.time() - still_since >= still_for:
                return jobs

    def _is_busy(self) -> bool:
        """Whether anything of a job runs, as far as can be seen from outside."""
        if self.cluster.children.living():
            return True
        services = [daemon.service for daemon in self.cluster.job_managers if daemon.is_alive]
        return any(not job.master.status.is_terminal for service in services for job in service.jobs.values())

    async def _unrest(self, jobs: dict[JobId, JobDetails] | None) -> tuple[str, tuple[str, ...]]:
        """What is still running, and the ids or names concerned; empty when all is at rest."""
        if jobs is None:
            return "the dispatcher does not respond", ("dispatcher",)
        if going := {job: details.state.value for job, details in jobs.items() if not details.state.is_terminal}:
            return f"jobs {going}", tuple(going)
        if children := self.cluster.children.living():
            return f"children {[child.process.name for child in children]}", tuple(c.process.name for c in children)
        if self._shape.recovers and (left := self.cluster.store.names(Kind.CHECKPOINTS)):
            return f"the store has pointers of jobs that have ended: {left}", tuple(left)
        if self._shape.recovers and (left := self.cluster.store.names(Kind.JOB_GRAPH)):
            return f"the store has graphs of jobs that have ended: {left}", tuple(left)
        overview = await self._client.overview()
        if overview is None:
            return "the resource manager does not respond", ("resourcemanager",)
        return self._unrest_of_slots(overview)

    def _unrest_of_slots(self, overview: Overview) -> tuple[str, tuple[str, ...]]:
        if taken := {t.host: t.slots for t in overview.task_managers if any(slot.allocation_id for slot in t.slots)}:
            return f"slots {taken}", tuple(taken)
        living = Counter(daemon.name for daemon in self.cluster.task_managers if daemon.is_alive)
        known = [t.host for t in overview.task_managers]
        if Counter(known) != living:
            return f"the resource manager knows {known} of {[*living]}", tuple(Counter(known) - living or living)
        return (f"{overview.pending_slots} slots are missing" if overview.pending_slots else ""), ("resourcemanager",)

    async def _run_on_every_slot(self) -> None:
        """A job that needs all of them: none is lost."""
        cluster, scale = self.cluster, self._shape.scale
        self.world.has_mishaps = False
        living = [daemon.name for daemon in cluster.task_managers if daemon.is_alive]
        if not living:
            return
        width = sum(cluster.slots[name] for name in living)
        job_id = await self._client.submit([width], self._shape.restarts()[0], True)
        assert job_id is not None
        if self._random.random() < 0.5:  # the next one must learn from others all that this one knew
            for daemon in [daemon for daemon in cluster.resource_managers if daemon.is_alive]:
                cluster.kill(daemon)
                cluster.start_resource_manager(daemon.name)
        give_up_at = self.world.loop.time() + REST_WITHIN
        while True:
            await asyncio.sleep(2.0 * scale)
            details = (await self._client.list_jobs() or {})[job_id]
            if details.state.is_terminal:
                finished = details.state is JobStatus.FINISHED
                must(finished, f"a job on every slot failed: {details.failures}", job_id)
                return
            in_time = self.world.loop.time() < give_up_at
            must(in_time, f"a job on every slot is still {details.state}", job_id)


def _restored(details: JobDetails) -> int:
    """How often tasks of the job were; one that its job manager could not report any more has no numbers."""
    counts = json.loads(details.checkpoints)["overview"]["counts"] if details.checkpoints else {}
    return int(counts.get("restored", 0))


def simulate(seed: int, folder: str, shape: Shape, with_logs: bool = False, with_digest: bool = False) -> Outcome:
    """One run. Raises SimulationFailed with the seed and the story."""
    simulation = Simulation(seed, folder, shape)
    world = simulation.world
    logger = logging.getLogger("millstream")
    before = logger.level, logger.propagate
    logger.propagate = False
    logger.setLevel(logging.DEBUG if with_logs else logging.ERROR)
    handler = StoryOfLogs(world, logger.level)
    logger.addHandler(handler)
    collects = gc.isenabled()
    gc.disable()  # what it finds is logged: no time for that may depend on what ran before
    try:
        simulation.cluster.disk.converts = world.random.random() < shape.converted
        with (
            parcels(converted=simulation.cluster.disk.converts),
            patch(
                "millstream.jobmanager.job_checkpoints.job_checkpoints.storage_of", simulation.cluster.disk.storage_of
            ),
        ):
            outcome = world.loop.run(simulation.run())
    except Exception as raised:
        is_wrapped = isinstance(raised, OperatorError) and isinstance(raised.__cause__, Violation)
        error = raised.__cause__ if is_wrapped and raised.__cause__ is not None else raised
        about = error.about if isinstance(error, Violation) else ()
        raise SimulationFailed(seed, shape, error, world.loop.time(), world.story.of(about, STORY_LINES)) from error
    finally:
        if collects:
            gc.enable()
        logger.removeHandler(handler)
        logger.level, logger.propagate = before
    assert isinstance(outcome, Outcome)
    outcome = replace(outcome, digest=world.story.digest()) if with_digest else outcome
    world.story.forget()
    return outcome
