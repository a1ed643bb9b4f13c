"""The REST endpoint that a job's live graph is drawn from, beside the job itself."""

from __future__ import annotations

from starlette.requests import Request

from millstream.dispatcher.lifecycle import JobLifecycle
from millstream.dispatcher.metrics.fetcher import MetricFetcher
from millstream.dispatcher.rest import schemas
from millstream.dispatcher.rest.flow_json import flow
from millstream.dispatcher.rest.job_json import Json
from millstream.dispatcher.rest.requests import job_id_of
from millstream.dispatcher.rest.table import RestRoute


class FlowEndpoints:
    """Shows how records flow."""

    def __init__(self, lifecycle: JobLifecycle, fetcher: MetricFetcher) -> None:
        self._lifecycle = lifecycle
        self._fetcher = fetcher

    def routes(self) -> list[RestRoute]:
        """The row of the table."""
        what = "Watermark and skew of each vertex of a job, rate, queues and credit of each edge."
        return [RestRoute("GET", "/jobs/{jobid}/flow", self.flow, what, schemas.FLOW)]

    async def flow(self, request: Request) -> Json:
        """`GET /jobs/:jobid/flow`."""
        details = self._lifecycle.details(job_id_of(request))
        if details.state.is_terminal:
            return flow(details, lambda _: ())
        store = await self._fetcher.fresh()
        return flow(details, lambda vertex_id: store.vertex(details.job_id, vertex_id).values())
