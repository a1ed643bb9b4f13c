"""REST endpoints of the processes of the cluster: which services there are, their logs, metrics and threads.

`/jobmanager/…` is about the process that responds, the dispatcher that leads. `/jobmanagers/:id/…` is about any service
that it knows: itself, the resource manager that leads, all job managers that are registered, and the dispatchers and
resource managers that stand by.
"""

from __future__ import annotations

import contextlib

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from millstream.core.errors import UnreachableError
from millstream.core.messages.inspection import ThreadDump
from millstream.core.metrics.model import Scope, decode_groups
from millstream.core.metrics.naming import values_of
from millstream.core.services.inspection import own_threads
from millstream.core.services.leader_lookup import LeaderLookup, Role
from millstream.dispatcher.cluster_view import ClusterView
from millstream.dispatcher.lifecycle import JobLifecycle
from millstream.dispatcher.metrics.store import Values
from millstream.dispatcher.rest import process_schemas as schemas
from millstream.dispatcher.rest.job_json import Json
from millstream.dispatcher.rest.log_responses import listed_logs, log_of
from millstream.dispatcher.rest.metric_values import WANTED_METRICS, single
from millstream.dispatcher.rest.schemas import LOGS, METRIC_VALUES
from millstream.dispatcher.rest.table import RestError, RestRoute


class KnownService(Struct, frozen=True):
    """One process of the cluster, but for task managers."""

    id: str
    role: Role
    address: str
    jobs: tuple[str, ...] = ()
    stands_by: bool = False


class ProcessesEndpoints:
    """Looks into services."""

    def __init__(self, lifecycle: JobLifecycle, cluster: ClusterView, leaders: LeaderLookup, own_address: str) -> None:
        self._lifecycle = lifecycle
        self._cluster = cluster
        self._leaders = leaders
        self._own_address = own_address

    def routes(self) -> list[RestRoute]:
        """The rows of the table for these endpoints."""
        one = "/jobmanagers/{jobmanagerid}"
        return [
            RestRoute("GET", "/jobmanagers", self.services, "The services, but for task managers.", schemas.SERVICES),
            RestRoute("GET", f"{one}/log", self.log, "A service's own log.", None),
            RestRoute("GET", f"{one}/stdout", self.stdout, "What it printed.", None),
            RestRoute("GET", f"{one}/logs", self.logs, "Its log files.", LOGS),
            RestRoute("GET", f"{one}/logs/{{name}}", self.file, "One of them.", None),
            RestRoute("GET", f"{one}/thread-dump", self.threads, "Where its threads are.", schemas.THREAD_DUMP),
            RestRoute(
                "GET", f"{one}/metrics", self.metrics, "What its process and it measure.", METRIC_VALUES,
                parameters=(WANTED_METRICS,),
            ),
            RestRoute(
                "GET", "/jobmanager/thread-dump", self.own_threads, "Where the threads of the dispatcher are.",
                schemas.THREAD_DUMP,
            ),
            RestRoute(
                "GET", "/taskmanagers/{taskmanagerid}/thread-dump", self.task_manager_threads,
                "Where the threads of a task manager and of its slot workers are.", schemas.THREAD_DUMP,
            ),
        ]  # fmt: skip

    async def services(self, request: Request) -> Json:
        """`GET /jobmanagers`."""
        return {
            "jobmanagers": [
                {
                    "id": one.id,
                    "role": one.role,
                    "address": one.address,
                    "jobs": list(one.jobs),
                    "standby": one.stands_by,
                }
                for one in await self._known()
            ]
        }

    async def log(self, request: Request) -> Response:
        """`GET /jobmanagers/:jobmanagerid/log`."""
        return await log_of(request, self._cluster, await self._address(request), "log")

    async def stdout(self, request: Request) -> Response:
        """`GET /jobmanagers/:jobmanagerid/stdout`."""
        return await log_of(request, self._cluster, await self._address(request), "stdout")

    async def logs(self, request: Request) -> Json:
        """`GET /jobmanagers/:jobmanagerid/logs`."""
        return await listed_logs(self._cluster, await self._address(request))

    async def file(self, request: Request) -> Response:
        """`GET /jobmanagers/:jobmanagerid/logs/:name`."""
        return await log_of(request, self._cluster, await self._address(request), request.path_params["name"])

    async def threads(self, request: Request) -> Json:
        """`GET /jobmanagers/:jobmanagerid/thread-dump`."""
        return await self._dumped(await self._address(request))

    async def metrics(self, request: Request) -> list[Json]:
        """`GET /jobmanagers/:jobmanagerid/metrics`."""
        try:
            groups = decode_groups(await self._cluster.metrics(await self._address(request)))
        except UnreachableError as error:
            raise RestError(503, str(error)) from error
        values: Values = {}
        for group in groups:
            if group.scope is Scope.JOB_MANAGER:
                values |= values_of(group)
        return single(values, request.query_params.get(WANTED_METRICS.name))

    async def own_threads(self, request: Request) -> Json:
        """`GET /jobmanager/thread-dump`."""
        return _dump_json(ThreadDump((await own_threads(),)))

    async def task_manager_threads(self, request: Request) -> Json:
        """`GET /taskmanagers/:taskmanagerid/thread-dump`."""
        wanted = request.path_params["taskmanagerid"]
        for manager in (await self._cluster.overview()).task_managers:
            if manager.task_manager_id == wanted:
                return await self._dumped(manager.address)
        raise RestError(404, f"no task manager {wanted} is registered")

    async def _dumped(self, address: str) -> Json:
        try:
            return _dump_json(await self._cluster.dump_threads(address))
        except UnreachableError as error:
            raise RestError(503, str(error)) from error

    async def _known(self) -> list[KnownService]:
        found = [KnownService(Role.DISPATCHER.value, Role.DISPATCHER, self._own_address)]
        for manager, (address, jobs) in self._lifecycle.managers().items():
            found.append(KnownService(manager, Role.JOB_MANAGER, address, tuple(jobs)))
        with contextlib.suppress(UnreachableError):
            resources = (await self._leaders.leader_of(Role.RESOURCE_MANAGER)).address
            found.append(KnownService(Role.RESOURCE_MANAGER.value, Role.RESOURCE_MANAGER, resources))
        for role in (Role.DISPATCHER, Role.RESOURCE_MANAGER):
            for address in await self._leaders.standing_by(role):
                found.append(KnownService(f"{role}@{address}", role, address, stands_by=True))
        return found

    async def _address(self, request: Request) -> str:
        wanted = request.path_params["jobmanagerid"]
        known = await self._known()
        for one in known:
            if one.id == wanted:
                return one.address
        raise RestError(404, f"no service {wanted[:100]} is known; there are {', '.join(one.id for one in known)}")


def _dump_json(dump: ThreadDump) -> Json:
    """In Flink's shape: threads of other processes than the service's own have its name before theirs."""
    infos: list[Json] = []
    for process in dump.processes:
        where = f"{process.name} (process {process.pid}): " if process.name else ""
        if process.problem:
            infos.append({"threadName": f"{where}problem", "stringifiedThreadInfo": process.problem})
        infos += [
            {"threadName": f"{where}{thread.name}", "stringifiedThreadInfo": thread.stack} for thread in process.threads
        ]
    return {"threadInfos": infos}
