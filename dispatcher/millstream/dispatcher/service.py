"""The dispatcher: the cluster's front door. Composes the job lifecycle, the artifact store, gRPC and REST.

REST is imported only when it is served: an embedded cluster without it starts faster.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path
from typing import TYPE_CHECKING

import grpc

from millstream.core.clock import Clock, SystemClock
from millstream.core.errors import ConfigurationError, MillstreamError
from millstream.core.files.directories import work_directory
from millstream.core.metrics.cluster_metrics import ServiceMetrics
from millstream.core.metrics.model import MetricGroup, Number
from millstream.core.metrics.registry import MetricRegistry
from millstream.core.metrics.reporting.reporters import Reporters
from millstream.core.processes.background import BackgroundTasks
from millstream.core.services.inspection import inspection_handler
from millstream.core.services.leader_lookup import Role, configured_endpoint
from millstream.core.services.network import GRPC, Network
from millstream.core.services.rpc import service_handler
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.services import DISPATCHER_RPC_PORT, HEARTBEAT_TIMEOUT
from millstream.core.settings.options.submission import (
    DISPATCHER_ARTIFACTS_MAX_TOTAL_SIZE,
    DISPATCHER_ARTIFACTS_RETENTION,
    WEB_UPLOAD_MAX_SIZE,
)
from millstream.core.snapshot.errors import SnapshotError
from millstream.core.store.high_availability import HighAvailability, open_high_availability
from millstream.core.store.store import Contest, Leadership, StoreError
from millstream.core.store.terms import StepDown, hold_office
from millstream.core.wire.contracts import DISPATCHER
from millstream.dispatcher.artifact_store import ArtifactStore
from millstream.dispatcher.audit import Audit
from millstream.dispatcher.durable_jobs import DurableJobs
from millstream.dispatcher.lifecycle import JobLifecycle
from millstream.dispatcher.rpc_service import DispatcherRpc
from millstream.dispatcher.shared_artifacts import SharedArtifacts

if TYPE_CHECKING:
    from millstream.dispatcher.rest.api import RestApi

log = logging.getLogger(__name__)
_GRACE = 1.0


class DispatcherService:
    """The service, as `millstream dispatcher` and the embedded cluster run it; the latter may leave REST out.

    That of an application takes no programs over REST: it ends with its own.
    """

    def __init__(
        self,
        configuration: Configuration,
        clock: Clock | None = None,
        with_rest: bool = True,
        takes_programs: bool = True,
        network: Network = GRPC,
        ha: HighAvailability | None = None,
    ) -> None:
        self.address = ""
        self.rest_address = ""
        self._configuration = configuration
        self._network = network
        self._clock = clock or SystemClock()
        self._with_rest = with_rest
        self._takes_programs = takes_programs
        self._background = BackgroundTasks()
        self._ha = ha
        self._lifecycle = JobLifecycle(configuration, self._clock, self._background)
        self._retention = configuration.get(DISPATCHER_ARTIFACTS_RETENTION)
        self._artifacts: ArtifactStore | None = None
        self._audit: Audit | None = None
        self._rest: RestApi | None = None
        self._server: grpc.aio.Server | None = None
        self._stopped = False
        self._figures = ServiceMetrics("dispatcher", configured_endpoint(configuration, Role.DISPATCHER)[0])
        self.metrics = MetricRegistry(self._measured)
        """All that is measured here."""
        self._reporters: Reporters | None = None

    def _measured(self) -> list[MetricGroup]:
        """The gauges of the registry. A standby has none of jobs."""
        known: dict[str, Number] = {}
        if self._lifecycle.leads:
            known["numRunningJobs"] = sum(not details.state.is_terminal for details in self._lifecycle.all())
        return [self._figures.group(self._clock.monotonic(), **known)]

    async def start(self) -> None:
        """Listens for programs, job managers and REST clients. Raises MillstreamError when it cannot."""
        configuration = self._configuration
        self._ha = ha = self._ha or open_high_availability(configuration)
        self._artifacts = artifacts = await self._open_artifacts(ha)
        self._background.spawn(self._clean_repeatedly())
        self._audit = audit = Audit(configuration)
        rpc = DispatcherRpc(configuration, self._lifecycle, artifacts, audit)
        handlers = [service_handler(DISPATCHER, rpc), inspection_handler(configuration, self.metrics)]
        host, port = configured_endpoint(configuration, Role.DISPATCHER)
        self._server, bound = await self._network.serve(host, port, handlers, configuration, DISPATCHER_RPC_PORT)
        self.address = f"{host}:{bound}"
        self._reporters = Reporters("dispatcher", configuration, self.metrics)
        await self._reporters.start()
        if self._with_rest:
            from millstream.dispatcher.rest.api import RestApi

            self._rest = RestApi(
                configuration,
                self._clock,
                self._lifecycle,
                artifacts,
                self.address,
                ha.leaders,
                audit,
                self._takes_programs,
            )
            await self._rest.start()
            self.rest_address = self._rest.address
        if ha.recovers:
            self._background.spawn(hold_office(ha.store, Contest(Role.DISPATCHER), self.address, self._lead))
        else:  # there is no other candidate: it leads when this returns
            await self._lead(await ha.store.campaign(Contest(Role.DISPATCHER), self.address))

    async def _open_artifacts(self, ha: HighAvailability) -> ArtifactStore:
        configuration = self._configuration
        max_size = configuration.get(WEB_UPLOAD_MAX_SIZE)
        max_total_size = configuration.get(DISPATCHER_ARTIFACTS_MAX_TOTAL_SIZE)
        if isinstance(ha.artifacts, Path):
            return ArtifactStore(ha.artifacts, max_size, max_total_size)
        folder = work_directory(configuration, "artifacts")
        if ha.artifacts is None:
            return ArtifactStore(folder, max_size, max_total_size)
        shared = SharedArtifacts(ha.artifacts)
        try:
            await asyncio.to_thread(shared.check)
        except SnapshotError as error:
            raise ConfigurationError(f"option 'high-availability.storageDir': {error}") from error
        return ArtifactStore(folder, max_size, max_total_size, shared, self._retention)

    async def _lead(self, leadership: Leadership) -> StepDown:
        assert self._ha is not None, "start comes first"
        store = self._ha.store
        await self._lifecycle.lead(leadership.epoch, DurableJobs(self._ha, leadership, self._background))
        showing = asyncio.ensure_future(store.campaign(Contest(Role.REST), self.rest_address))

        async def step_down() -> None:
            self._lifecycle.step_down()
            showing.cancel()
            with contextlib.suppress(asyncio.CancelledError, StoreError):
                await store.resign(await showing)

        return step_down

    async def _clean_repeatedly(self) -> None:
        pause = self._configuration.get(HEARTBEAT_TIMEOUT)  # by then, job managers have reported what they run
        while True:
            await asyncio.sleep(min(pause, self._retention / 4))  # in time for others that share the folder
            pause = self._retention
            await self.clean_artifacts()
            if self._rest is not None:
                await self._rest.clean()

    async def clean_artifacts(self) -> None:
        """Deletes the artifacts that no job has needed for long; called now and then."""
        assert self._artifacts is not None, "before the start"
        if not self._lifecycle.leads:  # it does not know what is in use
            return
        in_use = self._lifecycle.artifacts_in_use()
        try:
            deleted = await self._artifacts.clean(in_use, self._retention)
        except (OSError, SnapshotError) as error:
            log.warning("put off the cleaning of artifacts: %s", error)
            return
        if deleted:
            log.info("deleted %d artifacts that no job has needed for %g s", len(deleted), self._retention)

    async def stop(self) -> None:
        """Stops listening and ends the sessions. Running jobs continue, and are taken over by the next dispatcher."""
        if self._stopped:
            return
        self._stopped = True
        if self._reporters is not None:
            await self._reporters.stop()
        if self._rest is not None:
            await self._rest.stop()
        self._lifecycle.close()
        await self._background.cancel()
        if self._ha is not None:
            await self._ha.store.close()
        if self._server is not None:
            await self._server.stop(_GRACE)
        if self._audit is not None:
            self._audit.close()

    @property
    def leads(self) -> bool:
        """Whether it takes jobs, and not another dispatcher."""
        return self._lifecycle.leads

    async def lacks(self) -> str:
        """A job manager, or a resource manager."""
        return self._lifecycle.lacks() if self._rest is None else await self._rest.lacks()

    async def failure(self) -> MillstreamError:
        """Returns only when the REST server ended by itself: everything else is someone else's to reach."""
        if self._rest is not None:
            return await self._rest.failure()
        never: asyncio.Future[MillstreamError] = asyncio.get_running_loop().create_future()
        return await never
