"""The dispatcher: the cluster's front door. Composes the job lifecycle, the artifact store, gRPC and REST.

REST is imported only when it is served: an embedded cluster without it starts faster.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import grpc

from millstream.core.clock import Clock, SystemClock
from millstream.core.errors import MillstreamError
from millstream.core.files.directories import work_directory
from millstream.core.processes.background import BackgroundTasks
from millstream.core.services.leader_lookup import Role, configured_endpoint
from millstream.core.services.network import GRPC, Network
from millstream.core.services.rpc import service_handler
from millstream.core.settings.configuration import Configuration
from millstream.core.store.contents import MemoryContents
from millstream.core.store.job_graphs import JobGraphStore
from millstream.core.store.memory import MemoryStore
from millstream.core.store.store import Contest, Store
from millstream.core.wire.contracts import DISPATCHER
from millstream.dispatcher.artifact_store import ArtifactStore
from millstream.dispatcher.lifecycle import JobLifecycle
from millstream.dispatcher.rpc_service import DispatcherRpc

if TYPE_CHECKING:
    from millstream.dispatcher.rest.api import RestApi

log = logging.getLogger(__name__)
_GRACE = 1.0


class DispatcherService:
    """The service, as `millstream dispatcher` and the embedded cluster run it; the latter may leave REST out."""

    def __init__(
        self,
        configuration: Configuration,
        clock: Clock | None = None,
        with_rest: bool = True,
        network: Network = GRPC,
        store: Store | None = None,
    ) -> None:
        self.address = ""
        self.rest_address = ""
        self._configuration = configuration
        self._network = network
        self._clock = clock or SystemClock()
        self._with_rest = with_rest
        self._background = BackgroundTasks()
        self._store = store or MemoryStore().connect()
        self._lifecycle = JobLifecycle(configuration, self._clock, self._background)
        self._retention = configuration.seconds("dispatcher.artifacts.retention")
        self._artifacts: ArtifactStore | None = None
        self._rest: RestApi | None = None
        self._server: grpc.aio.Server | None = None
        self._stopped = False

    async def start(self) -> None:
        """Listens for programs, job managers and REST clients. Raises MillstreamError when it cannot."""
        configuration = self._configuration
        folder = work_directory(configuration, "artifacts")
        self._artifacts = artifacts = ArtifactStore(folder, configuration.integer("web.upload.max-size"))
        self._background.spawn(self._clean_repeatedly())
        handler = service_handler(DISPATCHER, DispatcherRpc(configuration, self._lifecycle, artifacts))
        host, port = configured_endpoint(configuration, Role.DISPATCHER)
        self._server, bound = await self._network.serve(host, port, [handler], configuration, "dispatcher.rpc.port")
        self.address = f"{host}:{bound}"
        leadership = await self._store.campaign(Contest(Role.DISPATCHER), self.address)
        self._lifecycle.lead(JobGraphStore(self._store, MemoryContents(), leadership))
        if self._with_rest:
            from millstream.dispatcher.rest.api import RestApi

            self._rest = RestApi(configuration, self._clock, self._lifecycle, artifacts, self.address)
            await self._rest.start()
            self.rest_address = self._rest.address

    async def _clean_repeatedly(self) -> None:
        pause = self._configuration.seconds("heartbeat.timeout")  # by then, job managers have said what they run
        while True:
            await asyncio.sleep(min(pause, self._retention / 4))  # in time for others that share the folder
            pause = self._retention
            await self.clean_artifacts()

    async def clean_artifacts(self) -> None:
        """Deletes the artifacts that no job has needed for long; called now and then."""
        assert self._artifacts is not None, "before the start"
        in_use = self._lifecycle.artifacts_in_use()
        deleted = await asyncio.to_thread(self._artifacts.clean, in_use, self._retention)
        if deleted:
            log.info("deleted %d artifacts that no job has needed for %g s", len(deleted), self._retention)

    async def stop(self) -> None:
        """Stops listening and ends the sessions. Jobs that run go on, and are taken up again by the next dispatcher."""
        if self._stopped:
            return
        self._stopped = True
        if self._rest is not None:
            await self._rest.stop()
        self._lifecycle.close()
        await self._background.cancel()
        await self._store.close()
        if self._server is not None:
            await self._server.stop(_GRACE)

    async def failure(self) -> MillstreamError:
        """Returns only when the REST server ended by itself: everything else is someone else's to reach."""
        if self._rest is not None:
            return await self._rest.failure()
        never: asyncio.Future[MillstreamError] = asyncio.get_running_loop().create_future()
        return await never
