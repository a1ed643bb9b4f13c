"""The dispatcher: the cluster's front door. Composes the job lifecycle, the artifact store, gRPC and REST."""

from __future__ import annotations

import asyncio

import grpc
from starlette.requests import Request

from millstream.core.clock import Clock, SystemClock
from millstream.core.configuration import Configuration
from millstream.core.directories import work_directory
from millstream.core.environments import EnvironmentCache
from millstream.core.errors import MillstreamError
from millstream.core.rpc import serve, service_handler
from millstream.dispatcher.artifact_store import ArtifactStore
from millstream.dispatcher.cluster_view import ClusterView
from millstream.dispatcher.lifecycle import JobLifecycle
from millstream.dispatcher.programs import ProgramRunner
from millstream.dispatcher.rest_cluster import ClusterEndpoints, millstream_version
from millstream.dispatcher.rest_jobs import JobEndpoints
from millstream.dispatcher.rest_json import Json
from millstream.dispatcher.rest_schemas import ANYTHING
from millstream.dispatcher.rest_server import RestServer
from millstream.dispatcher.rest_table import RestRoute, make_app, openapi
from millstream.dispatcher.rest_wheels import Addresses, WheelEndpoints
from millstream.dispatcher.rpc_service import DispatcherRpc
from millstream.dispatcher.uploads import UploadedWheels
from millstream.proto import dispatcher_pb2

_GRACE = 1.0


class DispatcherService:
    """The service, as `millstream dispatcher` and the embedded cluster run it; the latter may leave REST out."""

    def __init__(self, configuration: Configuration, clock: Clock | None = None, with_rest: bool = True) -> None:
        self.address = ""
        self.rest_address = ""
        self._configuration = configuration
        self._clock = clock or SystemClock()
        self._with_rest = with_rest
        self._lifecycle = JobLifecycle(configuration, self._clock)
        self._cluster = ClusterView(configuration)
        self._rest = RestServer(configuration)
        self._server: grpc.aio.Server | None = None
        self._stopped = False

    async def start(self) -> None:
        """Listens for programs, job managers and REST clients. Raises MillstreamError when it cannot."""
        configuration = self._configuration
        folder = work_directory(configuration, "artifacts")
        artifacts = ArtifactStore(folder, configuration.integer("web.upload.max-size"))
        handler = service_handler(
            dispatcher_pb2.DESCRIPTOR.services_by_name["Dispatcher"],
            DispatcherRpc(configuration, self._lifecycle, artifacts),
        )
        host = configuration.string("dispatcher.rpc.address")
        port = configuration.integer("dispatcher.rpc.port")
        self._server, bound = await serve(host, port, [handler], configuration, "dispatcher.rpc.port")
        self.address = f"{host}:{bound}"
        if self._with_rest:
            await self._rest.start(make_app(self._routes(artifacts)))
            self.rest_address = self._rest.address

    def _routes(self, artifacts: ArtifactStore) -> list[RestRoute]:
        configuration = self._configuration
        python = configuration.string("python.executable") or None
        environments = EnvironmentCache(work_directory(configuration, "environments"), python)
        runner = ProgramRunner(configuration, artifacts, environments)
        addresses = Addresses(lambda: self.address, lambda: self._rest.url)
        routes = [
            *ClusterEndpoints(self._lifecycle, self._cluster).routes(),
            *JobEndpoints(self._lifecycle, self._clock).routes(),
            *WheelEndpoints(UploadedWheels(configuration), runner, self._lifecycle, artifacts, addresses).routes(),
        ]

        async def document(request: Request) -> Json:
            return openapi(routes, millstream_version())

        routes.append(RestRoute("GET", "/openapi.json", document, "This document.", ANYTHING))
        return routes

    async def stop(self) -> None:
        """Stops listening and ends the sessions. Jobs that run go on, and are taken up again by the next dispatcher."""
        if self._stopped:
            return
        self._stopped = True
        await self._rest.stop()
        self._lifecycle.close()
        if self._server is not None:
            await self._server.stop(_GRACE)
        await self._cluster.close()

    async def failure(self) -> MillstreamError:
        """Returns only when the REST server ended by itself: everything else is someone else's to reach."""
        if self._with_rest:
            return await self._rest.failure()
        never: asyncio.Future[MillstreamError] = asyncio.get_running_loop().create_future()
        return await never
