"""The embedded cluster: the real services in this process, for `python job.py` with nothing started beforehand.

They listen on free loopback ports and speak gRPC as they do between hosts; slot workers are child processes, or threads
with `execution.local.in-process`.
"""

from __future__ import annotations

from millstream.client.control_plane import ControlPlane
from millstream.core.services.cluster_secret import SECRET, cluster_secret, new_secret
from millstream.core.services.leader_lookup import Role, address_options
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.execution import EXECUTION_LOCAL_IN_PROCESS
from millstream.core.settings.options.scheduling import RESOURCEMANAGER_PROVIDER, TASKMANAGER_NUMBER_OF_TASK_SLOTS
from millstream.core.settings.options.services import (
    ENV_LOG_DIR,
    HA_TYPE,
    TASKMANAGER_HOST,
    TASKMANAGER_PRINTS_NAME_TASK,
    TASKMANAGER_RPC_PORT,
)
from millstream.taskmanager.supervisor.service import TaskManagerService
from millstream.taskmanager.supervisor.supervised_worker import WorkerOnThread


class EmbeddedCluster:
    """A dispatcher, a resource manager, a job manager and one task manager. Owned by one asyncio loop."""

    def __init__(self, configuration: Configuration, slots: int) -> None:
        loopback = {key: value for role in Role for key, value in address_options(role, "127.0.0.1:0").items()}
        own: dict[str, object] = {TASKMANAGER_HOST: "127.0.0.1", TASKMANAGER_RPC_PORT: 0}
        own[TASKMANAGER_NUMBER_OF_TASK_SLOTS] = slots
        own[RESOURCEMANAGER_PROVIDER] = "standalone"
        own[HA_TYPE] = "none"  # all of it ends with the program
        own[ENV_LOG_DIR] = ""  # all of it is the program's output
        if not configuration.is_set(TASKMANAGER_PRINTS_NAME_TASK):
            own[TASKMANAGER_PRINTS_NAME_TASK] = False
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
    if not configuration.get(EXECUTION_LOCAL_IN_PROCESS):
        return None
    from millstream.taskmanager.worker.process import run_worker  # with all operators

    return run_worker
