"""The REST API as a whole: its endpoints, their document, and the server they run on."""

from __future__ import annotations

import asyncio
from functools import partial

from starlette.requests import Request

from millstream.core.clock import Clock
from millstream.core.environments.environments import EnvironmentCache
from millstream.core.errors import MillstreamError
from millstream.core.services.leader_lookup import LeaderLookup
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.metrics import METRICS_FETCHER_UPDATE_INTERVAL
from millstream.dispatcher.artifact_store import ArtifactStore
from millstream.dispatcher.audit import Audit
from millstream.dispatcher.cluster_view import ClusterView
from millstream.dispatcher.dashboard.files import DashboardApp
from millstream.dispatcher.history.health import JobHealth
from millstream.dispatcher.history.recorder import HistoryRecorder
from millstream.dispatcher.lifecycle import JobLifecycle
from millstream.dispatcher.metrics.fetcher import MetricFetcher
from millstream.dispatcher.programs import ProgramRunner
from millstream.dispatcher.rest.access import AccessPolicy, GuardedApp
from millstream.dispatcher.rest.authentication import AuthenticatedApp, Authentication
from millstream.dispatcher.rest.client_leases import ClientLeases
from millstream.dispatcher.rest.document import openapi
from millstream.dispatcher.rest.endpoints.applications import ApplicationEndpoints
from millstream.dispatcher.rest.endpoints.challenge import ChallengeEndpoints
from millstream.dispatcher.rest.endpoints.checkpoints import CheckpointEndpoints
from millstream.dispatcher.rest.endpoints.cluster import ClusterEndpoints, millstream_version
from millstream.dispatcher.rest.endpoints.datasets import DataSetEndpoints
from millstream.dispatcher.rest.endpoints.disposal import DisposalEndpoints
from millstream.dispatcher.rest.endpoints.flame_graphs import FlameGraphEndpoints
from millstream.dispatcher.rest.endpoints.flow import FlowEndpoints
from millstream.dispatcher.rest.endpoints.health import HealthEndpoints
from millstream.dispatcher.rest.endpoints.history import HistoryEndpoints
from millstream.dispatcher.rest.endpoints.job_logs import JobLogEndpoints
from millstream.dispatcher.rest.endpoints.job_processes import JobProcessEndpoints
from millstream.dispatcher.rest.endpoints.jobs import JobEndpoints
from millstream.dispatcher.rest.endpoints.logs import LogEndpoints
from millstream.dispatcher.rest.endpoints.metrics import MetricEndpoints
from millstream.dispatcher.rest.endpoints.process import ProcessEndpoints
from millstream.dispatcher.rest.endpoints.processes import ProcessesEndpoints
from millstream.dispatcher.rest.endpoints.profiler import ProfilerEndpoints
from millstream.dispatcher.rest.endpoints.rescales import RescaleEndpoints
from millstream.dispatcher.rest.endpoints.scaling import ScalingEndpoints
from millstream.dispatcher.rest.endpoints.snapshots import SnapshotEndpoints
from millstream.dispatcher.rest.endpoints.stalls import StallEndpoints
from millstream.dispatcher.rest.endpoints.state import StateEndpoints
from millstream.dispatcher.rest.endpoints.updates import UpdateEndpoints
from millstream.dispatcher.rest.endpoints.vertices import VertexEndpoints
from millstream.dispatcher.rest.endpoints.wheels import WheelEndpoints
from millstream.dispatcher.rest.flame_graphs import FlameGraphs
from millstream.dispatcher.rest.forwarding import ForwardingApp
from millstream.dispatcher.rest.job_json import Json
from millstream.dispatcher.rest.operations import RestOperations
from millstream.dispatcher.rest.own_requests import own_response
from millstream.dispatcher.rest.profiles import Profiles
from millstream.dispatcher.rest.schemas import ANYTHING
from millstream.dispatcher.rest.server import RestServer
from millstream.dispatcher.rest.table import RestRoute, make_app
from millstream.dispatcher.rest.updates import PathResponse, Updates
from millstream.dispatcher.uploads import UploadedWheels


class RestApi:
    """Serves the API of one dispatcher, whose gRPC address the programs of wheels are given."""

    def __init__(
        self,
        configuration: Configuration,
        clock: Clock,
        lifecycle: JobLifecycle,
        artifacts: ArtifactStore,
        dispatcher_address: str,
        leaders: LeaderLookup,
        audit: Audit,
        takes_programs: bool = True,
    ) -> None:
        self.address = ""
        self._forwarding = partial(ForwardingApp, lifecycle=lifecycle, leaders=leaders, configuration=configuration)
        self._cluster = ClusterView(configuration, clock, leaders)
        self._lifecycle = lifecycle
        self._server = RestServer(configuration)
        self._access = AccessPolicy.of(configuration)
        self._audit = audit
        self._configuration = configuration
        self._clock = clock
        self._authentication = Authentication(configuration, clock)
        self._operations = RestOperations(configuration, clock)
        environments = EnvironmentCache.of(configuration)
        runner = ProgramRunner(configuration, artifacts, environments, dispatcher_address, lifecycle.knows)
        self._uploads = UploadedWheels(configuration)
        wheels = WheelEndpoints(self._uploads, runner, lifecycle, artifacts, lambda: self._server.url)
        self._flame_graphs = FlameGraphs(configuration, clock, self._cluster.sample_stacks)
        self._profiles = Profiles(configuration, clock)
        self._state = StateEndpoints(configuration, lifecycle)
        self._job_logs = JobLogEndpoints(lifecycle, self._cluster, configuration)
        self._updates = Updates(self._own_response, lambda: lifecycle.leads, clock)
        self._health = HealthEndpoints(lifecycle, self._cluster, leaders)
        self._leases = ClientLeases(clock, lifecycle.cancel)
        process = ProcessEndpoints(configuration)
        interval = configuration.get(METRICS_FETCHER_UPDATE_INTERVAL)
        self._fetcher = MetricFetcher(interval, self._measured, self._cluster.metrics, clock)
        self._history = HistoryRecorder(lifecycle, self._fetcher, clock)
        self.routes = [
            *self._health.routes(),
            *HistoryEndpoints(lifecycle, self._history, JobHealth(lifecycle, clock), clock).routes(),
            *MetricEndpoints(lifecycle, self._cluster, self._fetcher).routes(),  # before single jobs and task managers
            *ClusterEndpoints(lifecycle, self._cluster, self._fetcher, dispatcher_address, takes_programs).routes(),
            *ApplicationEndpoints(lifecycle, clock, configuration).routes(),
            *DataSetEndpoints().routes(),
            *process.routes(),
            *JobProcessEndpoints(lifecycle, process, lambda: self._server.url).routes(),
            *ProcessesEndpoints(lifecycle, self._cluster, leaders, dispatcher_address).routes(),
            *FlameGraphEndpoints(lifecycle, self._cluster, self._flame_graphs).routes(),
            *ProfilerEndpoints(self._cluster, self._profiles).routes(),
            *LogEndpoints(self._cluster, configuration).routes(),
            *FlowEndpoints(lifecycle, self._fetcher).routes(),
            *JobEndpoints(lifecycle, clock, self._leases).routes(),
            *VertexEndpoints(lifecycle, clock).routes(),
            *self._job_logs.routes(),
            *StallEndpoints(lifecycle, clock).routes(),
            *CheckpointEndpoints(lifecycle).routes(),  # before the snapshots': their trigger ids are on one level
            *self._state.routes(),
            *SnapshotEndpoints(lifecycle, self._operations).routes(),
            *ScalingEndpoints(lifecycle, self._operations).routes(),
            *RescaleEndpoints(lifecycle, configuration).routes(),
            *DisposalEndpoints(lifecycle, self._operations).routes(),
            *(wheels.routes() if takes_programs else []),
            *UpdateEndpoints(self._updates).routes(),
            *ChallengeEndpoints(self._authentication).routes(),
        ]
        self.routes.append(RestRoute("GET", "/openapi.json", self._document, "The API's own description.", ANYTHING))
        self._app = make_app(self.routes, audit)

    async def _measured(self) -> list[str]:
        """Where metrics are: at the task managers that are registered, and the job managers that are connected."""
        overview = await self._cluster.overview()
        return [*(manager.address for manager in overview.task_managers), *self._lifecycle.job_managers]

    async def _own_response(self, path: str) -> PathResponse:
        return await own_response(self._app, path)

    async def _document(self, request: Request) -> Json:
        return openapi(self.routes, millstream_version(), self._authentication.is_open)

    async def start(self) -> None:
        """Listens. Raises MillstreamError when it cannot."""
        app = self._forwarding(self._app)
        known = AuthenticatedApp(app, self._authentication, self._configuration, self._clock, self._audit)
        await self._server.start(DashboardApp(GuardedApp(known, self._access)))
        self.address = self._server.address
        self._history.start()

    async def lacks(self) -> str:
        """What jobs could not run without; empty when all is there."""
        return await self._health.lacks()

    async def clean(self) -> None:
        """Deletes uploaded wheels that have not been used for long; called now and then."""
        await asyncio.to_thread(self._uploads.make_room)

    async def failure(self) -> MillstreamError:
        """Returns when the server ended by itself."""
        return await self._server.failure()

    async def stop(self) -> None:
        """Ends the server and its connections."""
        self._updates.close()
        await self._history.close()
        await self._server.stop()
        await self._operations.close()
        await self._leases.close()
        await self._flame_graphs.close()
        await self._profiles.close()
        self._state.close()
        self._job_logs.close()
        await self._fetcher.close()
        await self._cluster.close()
