"""REST endpoints of log files, as Flink's: those of task managers, and those of the other services.

A response holds at most 8 MB, the end of a larger file. `Range: bytes=` requests another piece of it, also of a file
that grows: what begins behind the end is empty, with the size in `Content-Range`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from millstream.core.logs.log_files import log_folder, output_files, output_path
from millstream.core.logs.log_reading import list_logs, read_piece
from millstream.core.messages.logs import LogFile
from millstream.core.services.inspection import OwnLogs
from millstream.core.settings.configuration import Configuration
from millstream.dispatcher.cluster_view import ClusterView
from millstream.dispatcher.rest import schemas
from millstream.dispatcher.rest.job_json import Json
from millstream.dispatcher.rest.log_responses import listed_logs, listing, log_of, piece_response, wanted_piece
from millstream.dispatcher.rest.table import RestError, RestRoute

_SERVICES = ("jobmanager", "dispatcher", "resourcemanager")


class LogEndpoints:
    """Shows logs. Those of services are files in this dispatcher's `env.log.dir`: by their names, and its own ones."""

    def __init__(self, cluster: ClusterView, configuration: Configuration) -> None:
        self._cluster = cluster
        self._folder = log_folder(configuration)
        self._own = OwnLogs(configuration)

    def routes(self) -> list[RestRoute]:
        """The rows of the table for these endpoints."""
        one, service = "/taskmanagers/{taskmanagerid}", "/jobmanager"
        return [
            RestRoute("GET", f"{one}/log", self.log, "A task manager's own log.", None),
            RestRoute("GET", f"{one}/stdout", self.stdout, "What a task manager's jobs printed.", None),
            RestRoute("GET", f"{one}/logs", self.logs, "Log files of a task manager and its workers.", schemas.LOGS),
            RestRoute("GET", f"{one}/logs/{{name}}", self.file, "One of them.", None),
            RestRoute("GET", f"{service}/log", self.service_log, "The job manager's log.", None),
            RestRoute("GET", f"{service}/stdout", self.service_stdout, "What it printed.", None),
            RestRoute("GET", f"{service}/logs", self.service_logs, "The log files of the services.", schemas.LOGS),
            RestRoute("GET", f"{service}/logs/{{name}}", self.service_file, "One of them.", None),
        ]

    async def logs(self, request: Request) -> Json:
        """`GET /taskmanagers/:taskmanagerid/logs`."""
        return await listed_logs(self._cluster, await self._address(request))

    async def log(self, request: Request) -> Response:
        """`GET /taskmanagers/:taskmanagerid/log`."""
        return await self._of_task_manager(request, "log")

    async def stdout(self, request: Request) -> Response:
        """`GET /taskmanagers/:taskmanagerid/stdout`."""
        return await self._of_task_manager(request, "stdout")

    async def file(self, request: Request) -> Response:
        """`GET /taskmanagers/:taskmanagerid/logs/:name`."""
        return await self._of_task_manager(request, request.path_params["name"])

    async def service_logs(self, request: Request) -> Json:
        """`GET /jobmanager/logs`."""
        return listing(await asyncio.to_thread(self._service_files))

    async def service_log(self, request: Request) -> Response:
        """`GET /jobmanager/log`."""
        return await self._of_service(request, self._first(".log", 2))

    async def service_stdout(self, request: Request) -> Response:
        """`GET /jobmanager/stdout`."""
        return await self._of_service(request, self._first(".out", 1))

    async def service_file(self, request: Request) -> Response:
        """`GET /jobmanager/logs/:name`."""
        name = request.path_params["name"]
        known = await asyncio.to_thread(self._service_files)
        if self._folder is None or not any(file.name == name for file in known):
            raise RestError(404, f"the services have no log '{name[:200]}'")
        return await self._of_service(request, self._folder / name)

    async def _of_task_manager(self, request: Request, name: str) -> Response:
        return await log_of(request, self._cluster, await self._address(request), name)

    async def _of_service(self, request: Request, path: Path) -> Response:
        return piece_response(request, await asyncio.to_thread(read_piece, path, *wanted_piece(request)))

    async def _address(self, request: Request) -> str:
        wanted = request.path_params["taskmanagerid"]
        for manager in (await self._cluster.overview()).task_managers:
            if manager.task_manager_id == wanted:
                return str(manager.address)
        raise RestError(404, f"no task manager {wanted} is registered")

    def _service_files(self) -> list[LogFile]:
        own = {file.name for file in self._own.files()}
        return list_logs(
            self._folder, lambda name: name in own or name.startswith(tuple(f"{service}-" for service in _SERVICES))
        )

    def _first(self, suffix: str, descriptor: int) -> Path:
        """A job manager's, when its files are in the same folder; else this dispatcher's own."""
        files = [file for file in self._service_files() if file.name.startswith("jobmanager-")]
        newest = max((f for f in files if f.name.endswith(suffix)), key=lambda f: f.modified, default=None)
        if newest is not None and self._folder is not None:
            return self._folder / newest.name
        return output_files(self._folder).get(descriptor) or output_path(descriptor)
