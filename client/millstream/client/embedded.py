"""The embedded cluster: the real services in this process, for `python job.py` with nothing started beforehand.

They listen on free loopback ports and speak gRPC as they do between hosts; slot workers are child processes, or threads
with `execution.local.in-process`.
"""

from __future__ import annotations

import asyncio

from millstream.core.processes.daemon import Service
from millstream.core.services.leader_lookup import Role, address_options
from millstream.core.settings.configuration import Configuration
from millstream.dispatcher.service import DispatcherService
from millstream.jobmanager.service import JobManagerService
from millstream.resourcemanager.service import ResourceManagerService
from millstream.taskmanager.supervisor.service import TaskManagerService


class EmbeddedCluster:
    """A dispatcher, a resource manager, a job manager and one task manager. Owned by one asyncio loop."""

    def __init__(self, configuration: Configuration, slots: int) -> None:
        loopback = {key: value for role in Role for key, value in address_options(role, "127.0.0.1:0").items()}
        own: dict[str, object] = {"taskmanager.host": "127.0.0.1", "taskmanager.rpc.port": 0}
        own["taskmanager.numberOfTaskSlots"] = slots
        own["resourcemanager.provider"] = "standalone"
        own["high-availability.type"] = "none"  # all of it ends with the program
        own["env.log.dir"] = ""  # all of it is the program's output
        if not configuration.is_set("taskmanager.prints.name-task"):
            own["taskmanager.prints.name-task"] = False
        self._configuration = configuration.merged({**loopback, **own})
        self._services: list[Service] = []

    async def start(self) -> str:
        """Starts all services; answers the dispatcher's address."""
        dispatcher = DispatcherService(self._configuration, with_rest=False)
        resource_manager = ResourceManagerService(self._configuration)
        for service in (dispatcher, resource_manager):
            self._services.append(service)
            await service.start()
        found = self._configuration.merged(
            {
                **address_options(Role.DISPATCHER, dispatcher.address),
                **address_options(Role.RESOURCE_MANAGER, resource_manager.address),
            }
        )
        peers: list[Service] = [JobManagerService(found), TaskManagerService(found)]
        self._services += peers
        await asyncio.gather(*(peer.start() for peer in peers))
        return dispatcher.address

    async def stop(self) -> None:
        """Stops all services, workers first."""
        for service in reversed(self._services):
            await service.stop()
        self._services.clear()
