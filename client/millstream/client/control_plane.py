"""The services that a cluster has one leader of, in one process: of the embedded cluster, and of an application's own.

They speak gRPC with each other as they do between hosts, each on its configured address, so that nothing of them knows
of it. Owned by one asyncio loop.
"""

from __future__ import annotations

import asyncio

from millstream.core.errors import MillstreamError
from millstream.core.processes.daemon import Service
from millstream.core.services.leader_lookup import Role, address_options
from millstream.core.settings.configuration import Configuration
from millstream.dispatcher.service import DispatcherService
from millstream.jobmanager.service import JobManagerService
from millstream.resourcemanager.service import ResourceManagerService


class ControlPlane:
    """A dispatcher, a resource manager and a job manager. Satisfies `millstream.core.processes.daemon.Service`."""

    def __init__(self, configuration: Configuration, with_rest: bool = True, takes_programs: bool = True) -> None:
        self.address = ""
        """The dispatcher's."""
        self.found = configuration
        """The configuration by which others find these services: with the ports that they have, once started."""
        self._with_rest = with_rest
        self._takes_programs = takes_programs
        self._services: list[Service] = []
        self._dispatcher: DispatcherService | None = None

    async def start(self) -> None:
        """Starts all of them; when one cannot, `stop` still has to be called."""
        await self._start(Role.RESOURCE_MANAGER, ResourceManagerService(self.found))
        dispatcher = DispatcherService(self.found, with_rest=self._with_rest, takes_programs=self._takes_programs)
        self._dispatcher = dispatcher
        await self._start(Role.DISPATCHER, dispatcher)
        self.address = dispatcher.address
        await self._start(Role.JOB_MANAGER, JobManagerService(self.found))

    async def _start(self, role: Role, service: Service) -> None:
        self._services.append(service)
        await service.start()
        self.found = self.found.merged(address_options(role, service.address))

    async def stop(self) -> None:
        """Stops the services, the last one first."""
        for service in reversed(self._services):
            await service.stop()
        self._services.clear()

    @property
    def leads(self) -> bool:
        """Whether its dispatcher leads."""
        return self._dispatcher is not None and self._dispatcher.leads

    async def lacks(self) -> str:
        """What the first of them lacks that lacks something."""
        for service in self._services:
            if lacking := await service.lacks():
                return lacking
        return ""

    async def failure(self) -> MillstreamError:
        """Returns when one of them cannot continue."""
        waits = [asyncio.ensure_future(service.failure()) for service in self._services]
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            return done.pop().result()
        finally:
            for wait in waits:
                wait.cancel()
