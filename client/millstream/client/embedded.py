"""The embedded cluster: the real services in this process, for `python job.py` with nothing started beforehand.

They listen on free loopback ports and speak gRPC as they do between hosts; slot workers are child processes, or threads
with `execution.local.in-process`.
"""

from __future__ import annotations

from millstream.client.control_plane import ControlPlane
from millstream.core.services.cluster_secret import SECRET, cluster_secret, new_secret
from millstream.core.services.leader_lookup import Role, address_options
from millstream.core.settings.configuration import Configuration
from millstream.taskmanager.supervisor.service import TaskManagerService
from millstream.taskmanager.supervisor.supervised_worker import WorkerOnThread


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
        if cluster_secret(configuration) is None:
            own[SECRET] = new_secret()  # other users of this host reach its ports as well
        self.configuration = configuration.merged({**loopback, **own})
        """With which its services are reached."""
        self._services = ControlPlane(self.configuration, with_rest=False)
        self._task_manager: TaskManagerService | None = None

    async def start(self) -> str:
        """Starts all services. Returns the dispatcher's address."""
        await self._services.start()
        self._task_manager = TaskManagerService(self._services.found, on_thread=_on_thread(self.configuration))
        await self._task_manager.start()
        return self._services.address

    async def stop(self) -> None:
        """Stops all services, workers first."""
        if self._task_manager is not None:
            await self._task_manager.stop()
        await self._services.stop()


def _on_thread(configuration: Configuration) -> WorkerOnThread | None:
    """How to run workers in this process; None: in processes of their own."""
    if not configuration.boolean("execution.local.in-process"):
        return None
    from millstream.taskmanager.worker.process import run_worker  # with all operators

    return run_worker
