"""A cluster of the real services on a virtual network, with the store and the disk that they share.

Of dispatchers and resource managers there may be several candidates; those that are not alone look leaders up in the
store. A process that ends comes back under its name, at its address, when it is started again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Protocol

from ledger import Ledger
from shapes import Shape
from simulated_channels import DataPlane
from simulated_children import Children
from simulated_disk import SimulatedDisk
from simulated_store import SimulatedStore
from virtual_loop import VirtualProcess
from world import World

from millstream.core.errors import MillstreamError
from millstream.core.services.leader_lookup import ConfiguredLeaders, LeaderLookup
from millstream.core.settings.configuration import Configuration
from millstream.core.store.high_availability import FoundLeaders, HighAvailability, in_memory
from millstream.core.store.leaders import StoredLeaders
from millstream.dispatcher.service import DispatcherService
from millstream.jobmanager.service import JobManagerService
from millstream.resourcemanager.service import ResourceManagerService
from millstream.taskmanager.supervisor.service import TaskManagerService

_configurations: dict[tuple[Shape, str, str, int], Configuration] = {}
"""Immutable, and the same in all runs: to check a dozen options takes longer than to start a service."""


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
    def name(self) -> str:
        return self.process.name

    @property
    def is_alive(self) -> bool:
        return self.process.is_alive

    async def _run(self) -> None:
        await self.service.start()
        error = await self.service.failure()
        self._world.tell_fault(f"{self.name} ends: {error}")
        self._is_stopping = True
        await self._stop()

    def stop(self) -> None:
        """In order, as after a SIGTERM; a second one changes nothing."""
        if self._is_stopping:
            return
        self._is_stopping = True
        self._running.cancel()
        self._world.loop.create_task(self._stop(), context=self.process.context)

    async def _stop(self) -> None:
        await self.service.stop()
        self._world.tell_fault(f"{self.name} has stopped")
        self._world.kill(self.process)


class SimulatedCluster:
    """The daemons that there are, by role; dead ones stay until others are started in their place."""

    def __init__(self, world: World, shape: Shape, folder: str) -> None:
        self.world = world
        self.shape = shape
        self.disk = SimulatedDisk(world)
        self.ledger = Ledger(world, self.disk)
        self.store = SimulatedStore(world)
        self.store.watch(self.ledger.stored)
        self.children = Children(world, DataPlane(world, self.disk, self.ledger, shape.work))
        self.slots: dict[str, int] = {}
        self.starts = 0
        """Of dispatchers: what the last one did not store, this one does not know."""
        self._folder = folder
        self._numbers = itertools.count(1)
        self.dispatchers: list[Daemon] = []
        self.resource_managers: list[Daemon] = []
        self.job_managers: list[Daemon] = []
        self.task_managers: list[Daemon] = []

    # Daemons

    def start_dispatcher(self, name: str) -> None:
        self.starts += 1
        self._start(self.dispatchers, name, self._new_dispatcher)

    def start_resource_manager(self, name: str) -> None:
        self._start(self.resource_managers, name, self._new_resource_manager)

    def start_job_manager(self, name: str) -> None:
        self._start(self.job_managers, name, self._new_job_manager)

    def start_task_manager(self) -> None:
        name = f"tm{next(self._numbers)}"
        self.slots[name] = self.world.random.randint(*self.shape.slots)
        self._start(self.task_managers, name, self._new_task_manager)

    def daemons(self) -> list[Daemon]:
        """Those that live."""
        everyone = (*self.dispatchers, *self.resource_managers, *self.job_managers, *self.task_managers)
        return [daemon for daemon in everyone if daemon.is_alive]

    def kill(self, daemon: Daemon) -> None:
        self.world.kill(daemon.process)
        self.store.process_died(daemon.process)
        self.children.parent_died(daemon.process)

    def _start(self, daemons: list[Daemon], name: str, new: Callable[[Configuration, VirtualProcess], Service]) -> None:
        process = self.world.loop.process(name)
        daemons[:] = [daemon for daemon in daemons if daemon.is_alive]
        daemons.append(Daemon(process, new(self._configuration(name), process), self.world))

    def _configuration(self, name: str) -> Configuration:
        key = (self.shape, self._folder, name, self.slots.get(name, 1))
        if key not in _configurations:
            roles = ("dispatcher", "resourcemanager")
            addresses = {f"{role}.rpc.address": name if name.startswith(role) else f"{role}1" for role in roles}
            _configurations[key] = Configuration(
                {
                    **self.shape.options(),
                    **addresses,
                    "io.tmp.dirs": self._folder,
                    "jobmanager.rpc.address": name,
                    "taskmanager.host": name,
                    "taskmanager.numberOfTaskSlots": str(self.slots.get(name, 1)),
                }
            )
        return _configurations[key]

    def leaders(self, configuration: Configuration, process: VirtualProcess) -> LeaderLookup:
        """How this process finds the others."""
        if self.shape.recovers:
            return StoredLeaders(self.store.session_of(process))
        return ConfiguredLeaders(configuration)

    def configuration_of_clients(self) -> Configuration:
        return self._configuration("client")

    def _ha(self, configuration: Configuration, process: VirtualProcess) -> HighAvailability:
        leaders = self.leaders(configuration, process)
        if not self.shape.recovers:
            return in_memory(self.store.session_of(process), leaders)
        return HighAvailability(
            self.store.session_of(process), leaders, self.disk.graphs, self.disk.results, recovers=True
        )

    def _new_dispatcher(self, configuration: Configuration, process: VirtualProcess) -> Service:
        network, ha = self.world.network.of(process), self._ha(configuration, process)
        return DispatcherService(configuration, self.world.clock, with_rest=False, network=network, ha=ha)

    def _new_resource_manager(self, configuration: Configuration, process: VirtualProcess) -> Service:
        network, ha = self.world.network.of(process), self._ha(configuration, process)
        return ResourceManagerService(configuration, self.world.clock, network=network, ha=ha)

    def _new_job_manager(self, configuration: Configuration, process: VirtualProcess) -> Service:
        network, ha = self.world.network.of(process), self._ha(configuration, process)
        return JobManagerService(configuration, self.world.clock, network, self.children.launcher(process), ha)

    def _new_task_manager(self, configuration: Configuration, process: VirtualProcess) -> Service:
        network, launch = self.world.network.of(process), self.children.launcher(process)
        return TaskManagerService(configuration, FoundLeaders(self.leaders(configuration, process)), network, launch)
