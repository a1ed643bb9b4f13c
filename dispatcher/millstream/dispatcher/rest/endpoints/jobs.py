"""REST endpoints of jobs."""

from __future__ import annotations

from starlette.requests import Request

from millstream.core.clock import Clock
from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.ids import JobId
from millstream.core.jobs.plan_json import plan_for_rest
from millstream.dispatcher.callers import Role
from millstream.dispatcher.lifecycle import JobEndedError, JobLifecycle
from millstream.dispatcher.rest import accumulator_json, result_json, schemas
from millstream.dispatcher.rest import job_json as shapes
from millstream.dispatcher.rest.client_leases import ClientLeases
from millstream.dispatcher.rest.job_json import Json
from millstream.dispatcher.rest.requests import boolean_of, job_id_of, json_object, whole_number
from millstream.dispatcher.rest.table import Parameter, RestError, RestRoute

_DEFAULT_EXCEPTIONS = 16
_LABELS: schemas.Schema = {"type": "string", "pattern": "^([^:,]*:[^:,]*)?(,([^:,]*:[^:,]*)?)*$"}
_NO_STOP = (
    "the termination mode 'stop' has been removed from Flink: GET /jobs/:jobid/yarn-cancel cancels a job, POST "
    "/jobs/:jobid/stop ends it with a savepoint"
)


class JobEndpoints:
    """Shows and cancels jobs."""

    def __init__(self, lifecycle: JobLifecycle, clock: Clock, leases: ClientLeases) -> None:
        self._lifecycle = lifecycle
        self._clock = clock
        self._leases = leases
        self._counted: dict[JobId, tuple[JobDetails, dict[str, int]]] = {}

    def routes(self) -> list[RestRoute]:
        """The rows of the table for these endpoints."""
        mode = Parameter("mode", {"type": "string", "enum": ["cancel"]}, "What to do; 'cancel' is the default.")
        limit = Parameter("maxExceptions", schemas.COUNT, "The most exceptions to return.")
        job = "/jobs/{jobid}"
        labels = Parameter(
            "failureLabelFilter", _LABELS, "Only exceptions with these labels, as in key1:value1,key2:value2."
        )
        serialized = Parameter(
            "includeSerializedValue", schemas.BOOLEAN, "Whether values are also returned as they were serialized."
        )
        return [
            RestRoute("GET", "/jobs", self.ids, "The ids and states of all jobs.", schemas.JOBS),
            RestRoute("GET", "/jobs/overview", self.overview, "An overview of all jobs.", schemas.JOBS_OVERVIEW),
            RestRoute("GET", job, self.job, "A job in detail.", schemas.JOB),
            RestRoute(
                "PATCH", job, self.cancel, "Cancels a job.", schemas.EMPTY, status=202, parameters=(mode,),
                errors=(409,), needs=Role.OPERATE, action="cancel",
            ),
            RestRoute("GET", f"{job}/plan", self.plan, "The dataflow of a job.", schemas.JOB_PLAN),
            RestRoute("GET", f"{job}/config", self.config, "The options of a job.", schemas.JOB_CONFIG),
            RestRoute(
                "GET", f"{job}/exceptions", self.exceptions, "What failed in a job, the root cause first.",
                schemas.EXCEPTIONS, parameters=(limit, labels),
            ),
            RestRoute(
                "GET", f"{job}/accumulators", self.accumulators, "The accumulators of a job, merged.",
                schemas.ACCUMULATORS, parameters=(serialized,),
            ),
            RestRoute(
                "PATCH", f"{job}/clientHeartbeat", self.heartbeat,
                "Reports that a job's client is alive: without another report in time, the job is cancelled.",
                schemas.EMPTY, status=202, body=result_json.HEARTBEAT, errors=(409,), needs=Role.OPERATE,
                action="heartbeat",
            ),
            RestRoute("GET", f"{job}/status", self.status, "The state of a job.", result_json.STATUS),
            RestRoute(
                "GET", f"{job}/execution-result", self.result, "The result of a job that has ended.", result_json.RESULT
            ),
            RestRoute(
                "GET", f"{job}/yarn-cancel", self.yarn_cancel, "Cancels a job, for clients behind a proxy of YARN.",
                schemas.EMPTY, status=202, errors=(409,), needs=Role.OPERATE, action="cancel", changes=True,
            ),
            RestRoute(
                "GET", f"{job}/yarn-stop", self.yarn_stop, "Is refused, as Flink does: names what to use instead.",
                schemas.EMPTY, status=202, errors=(308,), needs=Role.OPERATE, action="stop", changes=True,
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
        """The tasks by their states: counted once for each report, since many browsers request it every few seconds."""
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

    async def yarn_cancel(self, request: Request) -> Json:
        """`GET /jobs/:jobid/yarn-cancel`: what Flink's dashboard sends."""
        await self._lifecycle.cancel(self._details(request).job_id)
        return {}

    async def yarn_stop(self, request: Request) -> Json:
        """`GET /jobs/:jobid/yarn-stop`."""
        self._details(request)
        raise RestError(308, _NO_STOP)

    async def heartbeat(self, request: Request) -> Json:
        """`PATCH /jobs/:jobid/clientHeartbeat`."""
        details = self._details(request)
        body = await json_object(request, result_json.HEARTBEAT)
        until = whole_number("expiredTimestamp", body.get("expiredTimestamp"), 0, schemas.HIGHEST)
        if details.state.is_terminal:
            raise JobEndedError(f"job {details.job_id} needs no client any more: it is already {details.state}")
        self._leases.renew(details.job_id, until)
        return {}

    async def status(self, request: Request) -> Json:
        """`GET /jobs/:jobid/status`."""
        return {"status": self._details(request).state}

    async def result(self, request: Request) -> Json:
        """`GET /jobs/:jobid/execution-result`."""
        return result_json.execution_result(self._details(request))

    async def plan(self, request: Request) -> Json:
        """`GET /jobs/:jobid/plan`."""
        details = self._details(request)
        return {"plan": plan_for_rest(details.job_id, details.name, details.configuration, details.plan)}

    async def config(self, request: Request) -> Json:
        """`GET /jobs/:jobid/config`."""
        return shapes.job_config(self._details(request))

    async def exceptions(self, request: Request) -> Json:
        """`GET /jobs/:jobid/exceptions`."""
        wanted = request.query_params.get("maxExceptions", _DEFAULT_EXCEPTIONS)
        most = whole_number("maxExceptions", wanted, 0, schemas.HIGHEST)
        labels = request.query_params.get("failureLabelFilter", "")
        if any(part.count(":") != 1 for part in labels.split(",") if part):
            raise RestError(400, f"failureLabelFilter: '{labels[:100]}'; write it like key1:value1,key2:value2")
        return shapes.exceptions(self._details(request), most, is_labelled=bool(labels))

    async def accumulators(self, request: Request) -> Json:
        """`GET /jobs/:jobid/accumulators`."""
        return accumulator_json.of_job(self._details(request), boolean_of(request, "includeSerializedValue"))

    def _details(self, request: Request) -> JobDetails:
        return self._lifecycle.details(job_id_of(request))
