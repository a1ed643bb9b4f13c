"""REST endpoints that name, for a job, the processes which run it: where their logs are, and how they are configured.

Flink has them for its history server: a job's page there leads to the logs of the processes that ran it.
"""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request

from millstream.core.jobs.details import JobDetails
from millstream.dispatcher.lifecycle import JobLifecycle
from millstream.dispatcher.rest import process_schemas as schemas
from millstream.dispatcher.rest.endpoints.process import ProcessEndpoints
from millstream.dispatcher.rest.job_json import Json
from millstream.dispatcher.rest.requests import job_id_of
from millstream.dispatcher.rest.schemas import STRING, record
from millstream.dispatcher.rest.table import RestError, RestRoute

LOG_URL = record({"url": STRING})


class JobProcessEndpoints:
    """Shows the processes of jobs. `url` is where this API is reached."""

    def __init__(self, lifecycle: JobLifecycle, process: ProcessEndpoints, url: Callable[[], str]) -> None:
        self._lifecycle = lifecycle
        self._process = process
        self._url = url

    def routes(self) -> list[RestRoute]:
        """The rows of the table for these endpoints."""
        job = "/jobs/{jobid}"
        return [
            RestRoute(
                "GET", f"{job}/jobmanager/config", self.config, "The options that were set for the cluster.",
                schemas.OPTIONS,
            ),
            RestRoute(
                "GET", f"{job}/jobmanager/environment", self.environment, "The Python that the dispatcher runs on.",
                schemas.ENVIRONMENT,
            ),
            RestRoute("GET", f"{job}/jobmanager/log-url", self.log_url, "Where its job manager's log is.", LOG_URL),
            RestRoute(
                "GET", f"{job}/taskmanagers/{{taskmanagerid}}/log-url", self.task_manager_log_url,
                "Where the log is of a task manager that runs or ran tasks of it.", LOG_URL,
            ),
        ]  # fmt: skip

    async def config(self, request: Request) -> list[Json]:
        """`GET /jobs/:jobid/jobmanager/config`."""
        self._details(request)
        return await self._process.config(request)

    async def environment(self, request: Request) -> Json:
        """`GET /jobs/:jobid/jobmanager/environment`."""
        self._details(request)
        return await self._process.environment(request)

    async def log_url(self, request: Request) -> Json:
        """`GET /jobs/:jobid/jobmanager/log-url`; of a job that no job manager has, that of the newest one."""
        job_id = self._details(request).job_id
        manager = next((one for one, (_, jobs) in self._lifecycle.managers().items() if job_id in jobs), None)
        return {"url": f"{self._url()}/jobmanager{f's/{manager}' if manager else ''}/log"}

    async def task_manager_log_url(self, request: Request) -> Json:
        """`GET /jobs/:jobid/taskmanagers/:taskmanagerid/log-url`."""
        details, wanted = self._details(request), request.path_params["taskmanagerid"]
        if not any(one.task_manager == wanted for vertex in details.vertices for one in vertex.subtasks):
            raise RestError(404, f"no task of job {details.job_id} runs or ran on a task manager {wanted[:100]}")
        return {"url": f"{self._url()}/taskmanagers/{wanted}/log"}

    def _details(self, request: Request) -> JobDetails:
        return self._lifecycle.details(job_id_of(request))
