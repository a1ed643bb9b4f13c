"""REST endpoints for probes: whether the dispatcher is alive, and whether jobs that are submitted can run."""

from __future__ import annotations

from starlette.requests import Request

from millstream.dispatcher.cluster_view import ClusterView
from millstream.dispatcher.lifecycle import JobLifecycle
from millstream.dispatcher.rest import schemas
from millstream.dispatcher.rest.job_json import Json
from millstream.dispatcher.rest.table import RestError, RestRoute


class HealthEndpoints:
    """Answered on the dispatcher's own loop: when that does not turn any more, nobody is."""

    def __init__(self, lifecycle: JobLifecycle, cluster: ClusterView) -> None:
        self._lifecycle = lifecycle
        self._cluster = cluster

    def routes(self) -> list[RestRoute]:
        """The rows of the table for these endpoints."""
        return [
            RestRoute("GET", "/healthz", self.healthy, "Whether the dispatcher works at all.", schemas.PROBED),
            RestRoute("GET", "/readyz", self.ready, "Whether jobs can be run: 503 while not.", schemas.PROBED),
        ]

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
        if lacking := self._lifecycle.lacks():
            return lacking
        return "" if await self._cluster.is_reachable() else "the resource manager does not answer"
