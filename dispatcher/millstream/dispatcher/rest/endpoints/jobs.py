"""REST endpoints of jobs."""

from __future__ import annotations

from starlette.requests import Request

from millstream.core.clock import Clock
from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.ids import JobId
from millstream.core.jobs.plan_json import plan_for_rest
from millstream.dispatcher.callers import Role
from millstream.dispatcher.lifecycle import JobLifecycle
from millstream.dispatcher.rest import job_json as shapes
from millstream.dispatcher.rest import schemas
from millstream.dispatcher.rest.flow_json import flow
from millstream.dispatcher.rest.job_json import Json
from millstream.dispatcher.rest.requests import job_id_of, whole_number
from millstream.dispatcher.rest.table import Parameter, RestError, RestRoute

_DEFAULT_EXCEPTIONS = 16


class JobEndpoints:
    """Shows and cancels jobs."""

    def __init__(self, lifecycle: JobLifecycle, clock: Clock) -> None:
        self._lifecycle = lifecycle
        self._clock = clock
        self._counted: dict[JobId, tuple[JobDetails, dict[str, int]]] = {}

    def routes(self) -> list[RestRoute]:
        """The rows of the table for these endpoints."""
        mode = Parameter("mode", {"type": "string", "enum": ["cancel"]}, "What to do; 'cancel' is the default.")
        limit = Parameter("maxExceptions", schemas.COUNT, "The most exceptions to answer.")
        job = "/jobs/{jobid}"
        return [
            RestRoute("GET", "/jobs", self.ids, "The ids and states of all jobs.", schemas.JOBS),
            RestRoute("GET", "/jobs/overview", self.overview, "An overview of all jobs.", schemas.JOBS_OVERVIEW),
            RestRoute("GET", job, self.job, "A job in detail.", schemas.JOB),
            RestRoute(
                "PATCH", job, self.cancel, "Cancels a job.", schemas.EMPTY, status=202, parameters=(mode,),
                errors=(409,), needs=Role.OPERATE, action="cancel",
            ),
            RestRoute("GET", f"{job}/plan", self.plan, "The dataflow of a job.", schemas.JOB_PLAN),
            RestRoute("GET", f"{job}/flow", self.flow, "Watermark and skew of each vertex of a job.", schemas.FLOW),
            RestRoute("GET", f"{job}/config", self.config, "The options of a job.", schemas.JOB_CONFIG),
            RestRoute(
                "GET", f"{job}/exceptions", self.exceptions, "What failed in a job, the root cause first.",
                schemas.EXCEPTIONS, parameters=(limit,),
            ),
            RestRoute(
                "GET", f"{job}/accumulators", self.accumulators, "The accumulators of a job.", schemas.ACCUMULATORS
            ),
        ]  # fmt: skip

    async def ids(self, request: Request) -> Json:
        """`GET /jobs`."""
        return {"jobs": [{"id": d.job_id, "status": d.state} for d in self._lifecycle.all()]}

    async def overview(self, request: Request) -> Json:
        """`GET /jobs/overview`."""
        now = self._clock.now_ms()
        self._counted = {details.job_id: self._count(details) for details in self._lifecycle.all()}
        changed = self._lifecycle.changed_ms
        return {"jobs": [shapes.job_overview(d, tasks, changed(d.job_id), now) for d, tasks in self._counted.values()]}

    def _count(self, details: JobDetails) -> tuple[JobDetails, dict[str, int]]:
        """The tasks by their states: counted once for each report, since many browsers ask for it every few seconds."""
        known = self._counted.get(details.job_id)
        return known if known is not None and known[0] is details else (details, shapes.task_counts(details))

    async def job(self, request: Request) -> Json:
        """`GET /jobs/:jobid`."""
        return shapes.job(self._details(request), self._clock.now_ms())

    async def cancel(self, request: Request) -> Json:
        """`PATCH /jobs/:jobid`."""
        mode = request.query_params.get("mode", "cancel")
        if mode != "cancel":
            raise RestError(400, f"mode '{mode}' is not supported; use mode=cancel")
        await self._lifecycle.cancel(self._details(request).job_id)
        return {}

    async def plan(self, request: Request) -> Json:
        """`GET /jobs/:jobid/plan`."""
        details = self._details(request)
        return {"plan": plan_for_rest(details.job_id, details.name, details.configuration, details.plan)}

    async def flow(self, request: Request) -> Json:
        """`GET /jobs/:jobid/flow`."""
        return flow(self._details(request))

    async def config(self, request: Request) -> Json:
        """`GET /jobs/:jobid/config`."""
        return shapes.job_config(self._details(request))

    async def exceptions(self, request: Request) -> Json:
        """`GET /jobs/:jobid/exceptions`."""
        wanted = request.query_params.get("maxExceptions", _DEFAULT_EXCEPTIONS)
        most = whole_number("maxExceptions", wanted, 0, schemas.HIGHEST)
        return shapes.exceptions(self._details(request), most)

    async def accumulators(self, request: Request) -> Json:
        """`GET /jobs/:jobid/accumulators`."""
        return shapes.accumulators(self._details(request))

    def _details(self, request: Request) -> JobDetails:
        return self._lifecycle.details(job_id_of(request))
