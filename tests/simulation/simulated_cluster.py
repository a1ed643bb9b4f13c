"""A cluster of the real services on a virtual network, with a program that submits jobs and looks at them."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import Any, Protocol

import grpc
from simulated_children import Children
from virtual_loop import VirtualProcess
from world import World

from millstream.core.errors import MillstreamError
from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.graph import JobEdge, JobGraph, JobVertex, OperatorInfo
from millstream.core.jobs.ids import JobId, OperatorId, VertexId
from millstream.core.messages.dispatcher import JobRequest, SubmitJobRequest
from millstream.core.messages.resource_manager import Overview
from millstream.core.messages.session import Empty
from millstream.core.services.rpc import Stub
from millstream.core.settings.configuration import Configuration
from millstream.core.wire.contracts import DISPATCHER, RESOURCE_MANAGER
from millstream.dispatcher.service import DispatcherService
from millstream.jobmanager.service import JobManagerService
from millstream.resourcemanager.service import ResourceManagerService
from millstream.taskmanager.supervisor.service import TaskManagerService

HEARTBEAT_TIMEOUT = 6.0
CALL_TIMEOUT = 5.0
MOST_SLOTS = 3
_RESTART = "restart-strategy"
_DELAY = f"{_RESTART}.fixed-delay"
RESTARTS: tuple[dict[str, str], ...] = (
    {f"{_RESTART}.type": "none"},
    {f"{_RESTART}.type": "fixed-delay", f"{_DELAY}.attempts": "1", f"{_DELAY}.delay": "0 s"},
    {f"{_RESTART}.type": "fixed-delay", f"{_DELAY}.attempts": "4", f"{_DELAY}.delay": "1 s"},
    {
        f"{_RESTART}.type": "failure-rate",
        f"{_RESTART}.failure-rate.max-failures-per-interval": "3",
        f"{_RESTART}.failure-rate.failure-rate-interval": "600 s",
        f"{_RESTART}.failure-rate.delay": "500 ms",
    },
    {
        f"{_RESTART}.type": "exponential-delay",
        f"{_RESTART}.exponential-delay.initial-backoff": "500 ms",
        f"{_RESTART}.exponential-delay.max-backoff": "4 s",
        f"{_RESTART}.exponential-delay.jitter-factor": "0",
        f"{_RESTART}.exponential-delay.attempts-before-reset-backoff": "4",
    },
)
CHECKPOINTS = {"execution.checkpointing.interval": "2 s", "execution.checkpointing.timeout": "8 s"}


class Service(Protocol):
    """As `millstream.core.processes.daemon` runs one."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def failure(self) -> MillstreamError: ...


class Daemon:
    """A process that runs one service for as long as that does not fail."""

    def __init__(self, process: VirtualProcess, service: Any, world: World) -> None:
        self.process = process
        self.service = service
        self._world = world
        self._is_stopping = False
        self._running = world.loop.create_task(self._run(), context=process.context)

    @property
    def is_alive(self) -> bool:
        return self.process.is_alive

    async def _run(self) -> None:
        await self.service.start()
        error = await self.service.failure()
        self._world.tell(f"{self.process.name} ends: {error}")
        await self._stop()

    def stop(self) -> None:
        """In order, as after a SIGTERM; a second one changes nothing."""
        if self._is_stopping:
            return
        self._running.cancel()
        self._world.loop.create_task(self._stop(), context=self.process.context)

    async def _stop(self) -> None:
        self._is_stopping = True
        await self.service.stop()
        self._world.tell(f"{self.process.name} has stopped")
        self._world.kill(self.process)


class SimulatedCluster:
    """The daemons that there are. A dispatcher and a resource manager that end come back at the same address."""

    def __init__(self, world: World, folder: str) -> None:
        self.world = world
        self.children = Children(world)
        self.jobs: list[JobId] = []
        self.slots: dict[str, int] = {}
        self._folder = folder
        self._numbers = itertools.count(1)
        self._client = world.loop.process("client")
        self.dispatcher = self._start("dispatcher", self._new_dispatcher)
        self.resource_manager = self._start("resourcemanager", self._new_resource_manager)
        self.job_managers: list[Daemon] = []
        self.task_managers: list[Daemon] = []

    # Daemons

    def start_dispatcher(self) -> None:
        self.dispatcher = self._start("dispatcher", self._new_dispatcher)

    def start_resource_manager(self) -> None:
        self.resource_manager = self._start("resourcemanager", self._new_resource_manager)

    def start_job_manager(self, name: str) -> None:
        self.job_managers = [daemon for daemon in self.job_managers if daemon.is_alive]
        self.job_managers.append(self._start(name, self._new_job_manager))

    def start_task_manager(self) -> None:
        self.task_managers = [daemon for daemon in self.task_managers if daemon.is_alive]
        name = f"tm{next(self._numbers)}"
        self.slots[name] = self.world.random.randint(1, MOST_SLOTS)
        self.task_managers.append(self._start(name, self._new_task_manager))

    def daemons(self) -> list[Daemon]:
        """Those that live."""
        everyone = [self.dispatcher, self.resource_manager, *self.job_managers, *self.task_managers]
        return [daemon for daemon in everyone if daemon.is_alive]

    def kill(self, daemon: Daemon) -> None:
        self.world.kill(daemon.process)
        self.children.parent_died(daemon.process)

    def _start(self, name: str, new: Callable[[Configuration, VirtualProcess], Service]) -> Daemon:
        process = self.world.loop.process(name)
        options = {
            "heartbeat.interval": "2 s",
            "heartbeat.timeout": f"{HEARTBEAT_TIMEOUT} s",
            "registration.timeout": "60 s",
            "slot.request.timeout": "20 s",
            "task.cancellation.timeout": "5 s",
            "worker.start.timeout": "10 s",
            "metrics.fetcher.update-interval": "30 s",
            "io.tmp.dirs": self._folder,
            "dispatcher.rpc.address": "dispatcher",
            "resourcemanager.rpc.address": "resourcemanager",
            "jobmanager.rpc.address": name,
            "taskmanager.host": name,
            "taskmanager.numberOfTaskSlots": str(self.slots.get(name, 1)),
        }
        return Daemon(process, new(Configuration(options), process), self.world)

    def _new_dispatcher(self, configuration: Configuration, process: VirtualProcess) -> Service:
        network = self.world.network.of(process)
        return DispatcherService(configuration, self.world.clock, with_rest=False, network=network)

    def _new_resource_manager(self, configuration: Configuration, process: VirtualProcess) -> Service:
        return ResourceManagerService(configuration, self.world.clock, network=self.world.network.of(process))

    def _new_job_manager(self, configuration: Configuration, process: VirtualProcess) -> Service:
        network, launch = self.world.network.of(process), self.children.launcher(process)
        return JobManagerService(configuration, self.world.clock, network=network, launch=launch)

    def _new_task_manager(self, configuration: Configuration, process: VirtualProcess) -> Service:
        network, launch = self.world.network.of(process), self.children.launcher(process)
        return TaskManagerService(configuration, network=network, launch=launch)

    # The program

    async def submit(self, widths: list[int], options: dict[str, str], with_source: bool) -> JobId | None:
        """A pipeline of vertices as wide as that; none when the dispatcher cannot be reached."""
        job_id = JobId(f"{next(self._numbers):032x}")
        names = [f"{'source' if with_source and i == 0 else 'vertex'}{i}" for i in range(len(widths))]
        vertices = tuple(
            JobVertex(
                VertexId(name),
                name,
                width,
                128,
                "default",
                (OperatorInfo(OperatorId(name), name, name),),
                b"",
                b"source" if name == "source0" else b"",
            )
            for name, width in zip(names, widths, strict=True)
        )
        edges = tuple(
            JobEdge(VertexId(one), VertexId(other), 0, 0, self.world.random.choice(("HASH", "FORWARD")), b"")
            for one, other in itertools.pairwise(names)
        )
        graph = JobGraph(job_id, f"job {job_id[-4:]}", vertices, edges, options)
        try:
            await self._dispatcher().submit_job(SubmitJobRequest(graph), timeout=CALL_TIMEOUT)
        except grpc.RpcError:
            return None
        self.jobs.append(job_id)
        return job_id

    async def cancel(self, job_id: JobId) -> None:
        with contextlib.suppress(grpc.RpcError):
            await self._dispatcher().cancel_job(JobRequest(job_id), timeout=CALL_TIMEOUT)

    async def list_jobs(self) -> dict[JobId, JobDetails] | None:
        """As the dispatcher reports them; none when it does not answer."""
        try:
            answer = await self._dispatcher().list_jobs(Empty(), timeout=CALL_TIMEOUT)
        except grpc.RpcError:
            return None
        return {JobId(details.job_id): details for details in answer.jobs}

    async def overview(self) -> Overview | None:
        """Of the resource manager; none when it does not answer."""
        network = self.world.network.of(self._client)
        stub = Stub(network.open_channel("resourcemanager:6124", Configuration()), RESOURCE_MANAGER)
        try:
            overview = await stub.get_overview(Empty(), timeout=CALL_TIMEOUT)
        except grpc.RpcError:
            return None
        assert isinstance(overview, Overview)
        return overview

    def _dispatcher(self) -> Stub:
        network = self.world.network.of(self._client)
        return Stub(network.open_channel("dispatcher:6122", Configuration()), DISPATCHER)
