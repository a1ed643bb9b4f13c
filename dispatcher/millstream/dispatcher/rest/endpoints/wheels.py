"""REST endpoints of uploaded wheels, as `/jars` and as `/wheels`: upload, list, run, plan, delete."""

from __future__ import annotations

import shlex
from collections.abc import Callable

from msgspec.structs import replace
from starlette.datastructures import QueryParams
from starlette.requests import Request

from millstream.core.jobs.ids import JobId
from millstream.core.jobs.plan_json import named_plan_for_rest, plan_nodes
from millstream.core.keys.key_groups import HIGHEST_MAX_PARALLELISM
from millstream.core.settings.options.execution import (
    STATE_RECOVERY_CLAIM_MODE,
    STATE_RECOVERY_IGNORE_UNCLAIMED_STATE,
    STATE_RECOVERY_PATH,
)
from millstream.core.settings.options.scheduling import PARALLELISM_DEFAULT
from millstream.dispatcher.admission import check_graph, is_id
from millstream.dispatcher.artifact_store import ArtifactStore
from millstream.dispatcher.callers import Role
from millstream.dispatcher.claims import check_start
from millstream.dispatcher.lifecycle import JobLifecycle
from millstream.dispatcher.programs import ProgramCall, ProgramFailedError, ProgramRunner
from millstream.dispatcher.rest import schemas
from millstream.dispatcher.rest.job_json import Json
from millstream.dispatcher.rest.requests import choice, flag, json_object, location, text, while_connected, whole_number
from millstream.dispatcher.rest.table import Parameter, RestError, RestRoute
from millstream.dispatcher.rest.upload import receive_upload
from millstream.dispatcher.uploads import UnknownWheelError, UploadedWheel, UploadedWheels

_PARAMETERS = (
    Parameter("entry-class", schemas.STRING, "The entry point: 'package.module:main', or its name in the wheel."),
    Parameter("programArg", schemas.STRING, "Arguments, separated by commas."),
    Parameter("program-args", schemas.STRING, "Arguments in one string, split as a shell does."),
    Parameter("parallelism", schemas.PARALLELISM, "The job's parallelism."),
    Parameter("savepointPath", schemas.LOCATION, "The savepoint or retained checkpoint to start from."),
    Parameter("allowNonRestoredState", schemas.BOOLEAN, "Whether state that no operator claims is left out."),
    Parameter("claimMode", schemas.CLAIM_MODE, "Whether the job takes the snapshot over."),
)


class WheelEndpoints:
    """Takes wheels and runs them."""

    def __init__(
        self,
        uploads: UploadedWheels,
        runner: ProgramRunner,
        lifecycle: JobLifecycle,
        artifacts: ArtifactStore,
        url: Callable[[], str],
    ) -> None:
        self._uploads = uploads
        self._runner = runner
        self._lifecycle = lifecycle
        self._artifacts = artifacts
        self._url = url

    def routes(self) -> list[RestRoute]:
        """The rows of the table for these endpoints."""
        return [*self._routes("/jars", "jarid"), *self._routes("/wheels", "wheelid")]

    def _routes(self, root: str, name: str) -> list[RestRoute]:
        one = f"{root}/{{{name}}}"
        form = {
            "type": "object",
            "properties": {"jarfile": {"type": "string", "format": "binary"}},
            "required": ["jarfile"],
        }
        return [
            RestRoute("GET", root, self.all, "All uploaded wheels.", schemas.WHEELS),
            RestRoute(
                "POST", f"{root}/upload", self.upload, "Uploads a wheel in the form field 'jarfile'.", schemas.UPLOADED,
                body=form, body_type="multipart/form-data", needs=Role.SUBMIT, action="upload",
            ),
            RestRoute(
                "DELETE", one, self.delete, "Deletes a wheel.", schemas.EMPTY, needs=Role.SUBMIT, action="delete wheel"
            ),
            RestRoute(
                "POST", f"{one}/run", self.run, "Runs a wheel's entry point and submits its job.", schemas.RUN,
                parameters=_PARAMETERS, body=schemas.RUN_REQUEST, errors=(409,), needs=Role.SUBMIT, action="run",
            ),
            RestRoute(
                "POST", f"{one}/run-application", self.run_application, "The same, as an application.",
                schemas.RUN_APPLICATION, status=202, parameters=_PARAMETERS, body=schemas.APPLICATION_REQUEST,
                errors=(409,), needs=Role.SUBMIT, action="run",
            ),
            RestRoute(  # which runs the wheel's code
                "GET", f"{one}/plan", self.plan, "The dataflow of a wheel's job.", schemas.JOB_PLAN,
                parameters=_PARAMETERS, needs=Role.SUBMIT, action="plan",
            ),
            RestRoute(
                "POST", f"{one}/plan", self.plan, "The dataflow of a wheel's job.", schemas.JOB_PLAN,
                parameters=_PARAMETERS, body=schemas.RUN_REQUEST, needs=Role.SUBMIT, action="plan",
            ),
        ]  # fmt: skip

    async def all(self, request: Request) -> Json:
        """`GET /jars`."""
        files = [
            {
                "id": wheel.id,
                "name": wheel.name,
                "uploaded": wheel.uploaded_ms,
                "entry": [{"name": e, "description": n} for n, e in sorted(wheel.info.entry_points.items())],
            }
            for wheel in self._uploads.all()
        ]
        return {"address": self._url(), "files": files}

    async def upload(self, request: Request) -> Json:
        """`POST /jars/upload`."""
        wheel = await receive_upload(request, self._uploads)
        return {"filename": str(wheel.path), "status": "success"}

    async def delete(self, request: Request) -> Json:
        """`DELETE /jars/:jarid`."""
        self._uploads.delete(self._wheel(request).id)
        return {}

    async def run(self, request: Request) -> Json:
        """`POST /jars/:jarid/run`."""
        return await self._submitted(request, *await self._call(request))

    async def run_application(self, request: Request) -> Json:
        """`POST /jars/:jarid/run-application`: its id is the job's."""
        run = await self._submitted(request, *await self._call(request, schemas.APPLICATION_REQUEST))
        return {"applicationid": run.pop("applicationId"), **{name: run[name] for name in run if name != "jobid"}}

    async def _submitted(self, request: Request, call: ProgramCall, job_id: JobId | None) -> Json:
        try:
            if job_id is None:
                submitted = await while_connected(request, self._runner.run(call))
                warnings = {"warnings": list(submitted.warnings)} if submitted.warnings else {}
                return {"jobid": submitted.job_ids[0], "applicationId": submitted.job_ids[0], **warnings}
            if self._lifecycle.knows(job_id):
                raise RestError(409, f"a job with the id {job_id} was already submitted")
            graph = replace(await while_connected(request, self._runner.plan(call)), job_id=JobId(job_id))
        except ProgramFailedError as error:
            raise _program_failed(error) from error
        await check_graph(graph, self._lifecycle.knows, self._artifacts.has)
        check_start(graph.configuration, self._lifecycle.all())
        await self._lifecycle.submit(graph)
        return {"jobid": job_id, "applicationId": job_id}

    async def plan(self, request: Request) -> Json:
        """`GET` and `POST /jars/:jarid/plan`."""
        call, job_id = await self._call(request)
        try:
            graph = await while_connected(request, self._runner.plan(call))
        except ProgramFailedError as error:
            raise _program_failed(error) from error
        own = job_id or graph.job_id
        return {"plan": named_plan_for_rest(own, graph.name, graph.configuration, plan_nodes(graph))}

    def _wheel(self, request: Request) -> UploadedWheel:
        try:
            return self._uploads.get(next(iter(request.path_params.values())))
        except UnknownWheelError as error:
            raise RestError(404, str(error)) from error

    async def _call(
        self, request: Request, schema: schemas.Schema = schemas.RUN_REQUEST
    ) -> tuple[ProgramCall, JobId | None]:
        wheel = self._wheel(request)
        self._uploads.used(wheel)
        query = request.query_params
        body = await json_object(request, schema)
        options = {**_options(body), **_state_recovery(query, body)}
        for parallelism in (query.get("parallelism"), body.get("parallelism")):  # both are checked, the body's counts
            if parallelism is not None:
                checked = whole_number("parallelism", parallelism, 1, HIGHEST_MAX_PARALLELISM)
                options[PARALLELISM_DEFAULT] = str(checked)
        written = text(body, "applicationId") or text(body, "jobId")
        job_id = query.get("jobId") if written is None else written
        if job_id is not None and not is_id(job_id):
            raise RestError(400, f"jobId: '{job_id}' is not a job id; it has 32 hexadecimal digits")
        entry = text(body, "entryClass") or query.get("entry-class") or query.get("entryClass")
        call = ProgramCall(wheel, entry or None, _arguments(request, body), tuple(options.items()))
        return call, JobId(job_id) if job_id else None


def _program_failed(error: ProgramFailedError) -> RestError:
    return RestError(400, str(error), *([error.traceback] if error.traceback else []))


def _arguments(request: Request, body: Json) -> tuple[str, ...]:
    listed = body.get("programArgsList")
    if listed is not None:
        if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
            raise RestError(400, "programArgsList: expected a list of strings")
        return tuple(listed)
    query = request.query_params
    arguments = text(body, "programArgs") or query.get("program-args") or query.get("programArgs")
    if arguments:
        try:
            return tuple(shlex.split(arguments))
        except ValueError as error:
            raise RestError(400, f"programArgs: {error}") from error
    return tuple(part for value in query.getlist("programArg") for part in value.split(","))


def _options(body: Json) -> dict[str, str]:
    options = {} if body.get("flinkConfiguration") is None else body["flinkConfiguration"]
    if not isinstance(options, dict) or not all(isinstance(v, str | int | float | bool) for v in options.values()):
        raise RestError(400, "flinkConfiguration: expected an object of options and their values")
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in options.items()}


def _state_recovery(query: QueryParams, body: Json) -> dict[str, str]:
    """The options for where the job's state comes from, as far as the request has them."""
    options: dict[str, str] = {}
    in_url = location(dict(query), "savepointPath")
    path = location(body, "savepointPath") or in_url
    if path:
        options[STATE_RECOVERY_PATH] = path
    in_query = query.get("allowNonRestoredState", "")
    if in_query.lower() not in ("", "true", "false"):
        raise RestError(400, f"allowNonRestoredState: '{in_query}' is neither true nor false")
    if flag(body, "allowNonRestoredState") or in_query.lower() == "true":
        options[STATE_RECOVERY_IGNORE_UNCLAIMED_STATE] = "true"
    modes = [  # all are checked, the last one counts; restoreMode is what Flink called it before
        choice(given, name, schemas.CLAIM_MODES)
        for name in ("restoreMode", "claimMode")
        for given in (dict(query), body)
        if given.get(name)
    ]
    if modes:
        options[STATE_RECOVERY_CLAIM_MODE] = modes[-1]
    return options
