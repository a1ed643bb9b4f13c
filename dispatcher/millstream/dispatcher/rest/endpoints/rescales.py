"""REST endpoints of the history of a job's rescales, as Flink 2.3 has them, also after the job's end."""

from __future__ import annotations

from starlette.requests import Request

from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.rescales import RescaleRecord, rescale_records
from millstream.core.settings.configuration import Configuration
from millstream.dispatcher.lifecycle import JobLifecycle
from millstream.dispatcher.rest import rescale_json as shapes
from millstream.dispatcher.rest.job_json import Json
from millstream.dispatcher.rest.requests import job_id_of
from millstream.dispatcher.rest.table import RestError, RestRoute


class RescaleEndpoints:
    """Shows rescales."""

    def __init__(self, lifecycle: JobLifecycle, configuration: Configuration) -> None:
        self._lifecycle = lifecycle
        self._configuration = configuration

    def routes(self) -> list[RestRoute]:
        """The rows of the table for these endpoints."""
        root = "/jobs/{jobid}/rescales"
        return [
            RestRoute("GET", f"{root}/overview", self.overview, "Numbers and last ones of rescales.", shapes.OVERVIEW),
            RestRoute("GET", f"{root}/summary", self.summary, "How long rescales took.", shapes.SUMMARY),
            RestRoute("GET", f"{root}/history", self.history, "The last rescales.", shapes.HISTORY),
            RestRoute("GET", f"{root}/config", self.config, "The options of rescales.", shapes.CONFIG),
            RestRoute("GET", f"{root}/details/{{rescaleuuid}}", self.details, "A rescale.", shapes.DETAILS),
        ]

    async def overview(self, request: Request) -> Json:
        """`GET /jobs/:jobid/rescales/overview`."""
        return shapes.overview(self._records(request))

    async def summary(self, request: Request) -> Json:
        """`GET /jobs/:jobid/rescales/summary`."""
        return shapes.summary(self._records(request))

    async def history(self, request: Request) -> list[Json]:
        """`GET /jobs/:jobid/rescales/history`."""
        return shapes.history(self._records(request))

    async def config(self, request: Request) -> Json:
        """`GET /jobs/:jobid/rescales/config`."""
        return shapes.config(self._configuration.merged(dict(self._job(request).configuration)))

    async def details(self, request: Request) -> Json:
        """`GET /jobs/:jobid/rescales/details/:rescaleuuid`."""
        wanted = request.path_params["rescaleuuid"].lower()
        for one in self._records(request):
            if one.id == wanted:
                return shapes.details(one)
        raise RestError(404, f"job {job_id_of(request)} has no rescale {wanted[:100]}, or it is no longer remembered")

    def _records(self, request: Request) -> list[RescaleRecord]:
        return rescale_records(self._job(request).rescales)

    def _job(self, request: Request) -> JobDetails:
        return self._lifecycle.details(job_id_of(request))
