"""REST endpoints of applications, as Flink 2.3 has them: every job is one by itself, whose id is the job's.

Flink does the same for a job that a client submits to a cluster.
"""

from __future__ import annotations

from collections import Counter

from starlette.requests import Request

from millstream.core.clock import Clock
from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.ids import JobId
from millstream.core.jobs.states import JobStatus
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.secrets import shown_options
from millstream.dispatcher.admission import is_id
from millstream.dispatcher.callers import Role
from millstream.dispatcher.lifecycle import JobLifecycle
from millstream.dispatcher.rest import job_json, schemas
from millstream.dispatcher.rest.job_json import Json
from millstream.dispatcher.rest.process_schemas import OPTIONS
from millstream.dispatcher.rest.schemas import ID, INTEGER, STRING, array, mapping, record
from millstream.dispatcher.rest.table import RestError, RestRoute

_STATES = ("CREATED", "RUNNING", "FAILING", "FAILED", "CANCELING", "CANCELED", "FINISHED")
_STATE_OF = {
    JobStatus.INITIALIZING: "CREATED", JobStatus.CREATED: "RUNNING", JobStatus.RUNNING: "RUNNING",
    JobStatus.RESTARTING: "RUNNING", JobStatus.FAILING: "FAILING", JobStatus.FAILED: "FAILED",
    JobStatus.CANCELLING: "CANCELING", JobStatus.CANCELED: "CANCELED", JobStatus.FINISHED: "FINISHED",
}  # fmt: skip
_STATE: schemas.Schema = {"type": "string", "enum": list(_STATES)}
_COMMON = {
    "id": ID, "name": STRING, "status": _STATE, "start-time": INTEGER, "end-time": INTEGER, "duration": INTEGER,
}  # fmt: skip
OVERVIEW = record({"applications": array(record({**_COMMON, "jobs": mapping(INTEGER)}))})
APPLICATION = record({**_COMMON, "timestamps": mapping(INTEGER), "jobs": schemas.JOBS_OVERVIEW["properties"]["jobs"]})
EXCEPTIONS = record({
    "exceptionHistory": record({
        "entries": array(record({
            "exceptionName": STRING, "stacktrace": STRING, "timestamp": INTEGER, "jobId": ID,
        })),
    }),
})  # fmt: skip


class ApplicationEndpoints:
    """Shows and cancels applications."""

    def __init__(self, lifecycle: JobLifecycle, clock: Clock, configuration: Configuration) -> None:
        self._lifecycle = lifecycle
        self._clock = clock
        self._configuration = configuration

    def routes(self) -> list[RestRoute]:
        """The rows of the table for these endpoints."""
        one = "/applications/{applicationid}"
        return [
            RestRoute("GET", "/applications/overview", self.overview, "An overview of all applications.", OVERVIEW),
            RestRoute("GET", one, self.application, "An application with its job.", APPLICATION),
            RestRoute(
                "POST", f"{one}/cancel", self.cancel, "Cancels an application.", schemas.EMPTY, status=202,
                errors=(409,), needs=Role.OPERATE, action="cancel",
            ),
            RestRoute("GET", f"{one}/exceptions", self.exceptions, "What failed in an application.", EXCEPTIONS),
            RestRoute(
                "GET", f"{one}/jobmanager/config", self.config, "The options of the cluster, with those of its job.",
                OPTIONS,
            ),
        ]  # fmt: skip

    async def overview(self, request: Request) -> Json:
        """`GET /applications/overview`."""
        now = self._clock.now_ms()
        return {
            "applications": [
                {**_common(details, now), "jobs": dict(Counter([details.state.value]))}
                for details in self._lifecycle.all()
            ]
        }

    async def application(self, request: Request) -> Json:
        """`GET /applications/:applicationid`."""
        details, now = self._details(request), self._clock.now_ms()
        changed = self._lifecycle.changed_ms(details.job_id)
        times = dict.fromkeys(_STATES, 0)
        for state, entered in details.state_times.items():
            name = _STATE_OF.get(JobStatus(state), "") if state in JobStatus.__members__ else ""
            if name and entered and (not times[name] or entered < times[name]):
                times[name] = entered
        job = job_json.job_overview(details, job_json.task_counts(details), changed, now)
        return {**_common(details, now), "timestamps": times, "jobs": [job]}

    async def cancel(self, request: Request) -> Json:
        """`POST /applications/:applicationid/cancel`."""
        await self._lifecycle.cancel(self._details(request).job_id)
        return {}

    async def exceptions(self, request: Request) -> Json:
        """`GET /applications/:applicationid/exceptions`: the root causes of its job, newest first."""
        details = self._details(request)
        entries = [
            {**{name: entry[name] for name in ("exceptionName", "stacktrace", "timestamp")}, "jobId": details.job_id}
            for entry in job_json.exceptions(details, len(details.failures))["exceptionHistory"]["entries"]
        ]
        return {"exceptionHistory": {"entries": entries}}

    async def config(self, request: Request) -> list[Json]:
        """`GET /applications/:applicationid/jobmanager/config`."""
        details = self._details(request)
        shown = shown_options({**self._configuration.to_dict(), **details.configuration})
        return [{"key": key, "value": shown[key]} for key in sorted(shown)]

    def _details(self, request: Request) -> JobDetails:
        wanted = request.path_params["applicationid"].lower()
        if not is_id(wanted):
            raise RestError(400, f"'{wanted[:100]}' is not the id of an application; it has 32 hexadecimal digits")
        return self._lifecycle.details(JobId(wanted))


def _common(details: JobDetails, now_ms: int) -> Json:
    return {
        "id": details.job_id,
        "name": details.name,
        "status": _STATE_OF[details.state],
        "start-time": details.start_time,
        "end-time": details.end_time or -1,
        "duration": job_json.duration(details.start_time, details.end_time, now_ms),
    }
