"""REST endpoints for probes: whether the dispatcher is alive, and whether jobs that are submitted can run.

One that stands by passes what it is asked on to the one that leads, so it is ready when there is one.
"""

from __future__ import annotations

from starlette.requests import Request

from millstream.core.errors import UnreachableError
from millstream.core.services.leader_lookup import LeaderLookup
from millstream.core.services.leader_lookup import Role as ServiceRole
from millstream.dispatcher.callers import Role
from millstream.dispatcher.cluster_view import ClusterView
from millstream.dispatcher.lifecycle import JobLifecycle
from millstream.dispatcher.rest import schemas
from millstream.dispatcher.rest.job_json import Json
from millstream.dispatcher.rest.table import RestError, RestRoute


class HealthEndpoints:
    """Answered on the dispatcher's own loop: when that does not turn any more, nobody is."""

    def __init__(self, lifecycle: JobLifecycle, cluster: ClusterView, leaders: LeaderLookup) -> None:
        self._lifecycle = lifecycle
        self._cluster = cluster
        self._leaders = leaders

    def routes(self) -> list[RestRoute]:
        """The rows of the table for these endpoints."""
        return [
            RestRoute(
                "GET", "/healthz", self.healthy, "Whether the dispatcher works at all.", schemas.PROBED,
                needs=Role.ANYONE,
            ),
            RestRoute(
                "GET", "/readyz", self.ready, "Whether jobs can be run: 503 while not.", schemas.PROBED,
                needs=Role.ANYONE,
            ),
        ]  # fmt: skip

    async def healthy(self, request: Request) -> Json:
        """`GET /healthz`."""
        return {"status": "healthy"}

    async def ready(self, request: Request) -> Json:
        """`GET /readyz`."""
        lacking = await self.lacks()
        if lacking:
            raise RestError(503, lacking)
        return {"status": "ready"}

    async def lacks(self) -> str:
        """What jobs could not run without; empty when all is there."""
        if not self._lifecycle.leads:
            try:
                await self._leaders.leader_of(ServiceRole.REST)
            except UnreachableError as error:
                return str(error)
            return ""
        if lacking := self._lifecycle.lacks():
            return lacking
        return "" if await self._cluster.is_reachable() else "the resource manager does not respond"
