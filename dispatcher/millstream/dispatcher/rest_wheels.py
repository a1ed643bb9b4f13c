"""REST endpoints of uploaded wheels, as `/jars` and as `/wheels`: upload, list, run, plan, delete."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from starlette.requests import Request

from millstream.core.graph import JobGraph
from millstream.core.ids import JobId
from millstream.dispatcher import rest_schemas as schemas
from millstream.dispatcher.admission import check_graph, is_id
from millstream.dispatcher.artifact_store import ArtifactStore
from millstream.dispatcher.details import plan_of
from millstream.dispatcher.lifecycle import JobLifecycle
from millstream.dispatcher.programs import ProgramCall, ProgramFailedError, ProgramRunner
from millstream.dispatcher.rest_json import Json
from millstream.dispatcher.rest_json import plan as plan_shape
from millstream.dispatcher.rest_table import Parameter, RestError, RestRoute
from millstream.dispatcher.rest_upload import receive_upload
from millstream.dispatcher.uploads import UnknownWheelError, UploadedWheel, UploadedWheels

_BODY_LIMIT = 1024 * 1024
_PARAMETERS = (
    Parameter("entry-class", schemas.STRING, "The entry point: 'package.module:main', or its name in the wheel."),
    Parameter("programArg", schemas.STRING, "Arguments, separated by commas."),
    Parameter("program-args", schemas.STRING, "Arguments in one string, split as a shell does."),
    Parameter("parallelism", {"type": "integer", "minimum": 1}, "The job's parallelism."),
)
_UNSUPPORTED = ("savepointPath", "allowNonRestoredState", "claimMode", "restoreMode")


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
        form = {"type": "object", "properties": {"jarfile": {"type": "string", "format": "binary"}}}
        return [
            RestRoute("GET", root, self.all, "All uploaded wheels.", schemas.WHEELS),
            RestRoute(
                "POST", f"{root}/upload", self.upload, "Uploads a wheel in the form field 'jarfile'.", schemas.UPLOADED,
                body=form, body_type="multipart/form-data",
            ),
            RestRoute("DELETE", one, self.delete, "Deletes a wheel.", schemas.EMPTY),
            RestRoute(
                "POST", f"{one}/run", self.run, "Runs a wheel's entry point and submits its job.", schemas.RUN,
                parameters=_PARAMETERS, body=schemas.RUN_REQUEST,
            ),
            RestRoute(
                "GET", f"{one}/plan", self.plan, "The dataflow of a wheel's job.", schemas.JOB_PLAN,
                parameters=_PARAMETERS,
            ),
            RestRoute(
                "POST", f"{one}/plan", self.plan, "The dataflow of a wheel's job.", schemas.JOB_PLAN,
                parameters=_PARAMETERS, body=schemas.RUN_REQUEST,
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
        call, job_id = await self._call(request)
        try:
            if job_id is None:
                return {"jobid": await self._runner.run(call)}
            if self._lifecycle.knows(job_id):
                raise RestError(400, f"a job with the id {job_id} was already submitted")
            graph = replace(await self._runner.plan(call), job_id=JobId(job_id))
        except ProgramFailedError as error:
            raise _program_failed(error) from error
        check_graph(graph, self._lifecycle.knows, self._artifacts.has)
        self._lifecycle.submit(graph)
        return {"jobid": job_id}

    async def plan(self, request: Request) -> Json:
        """`GET` and `POST /jars/:jarid/plan`."""
        call, job_id = await self._call(request)
        try:
            graph: JobGraph = await self._runner.plan(call)
        except ProgramFailedError as error:
            raise _program_failed(error) from error
        return {"plan": plan_shape(job_id or graph.job_id, graph.name, plan_of(graph))}

    def _wheel(self, request: Request) -> UploadedWheel:
        try:
            return self._uploads.get(next(iter(request.path_params.values())))
        except UnknownWheelError as error:
            raise RestError(404, str(error)) from error

    async def _call(self, request: Request) -> tuple[ProgramCall, JobId | None]:
        wheel = self._wheel(request)
        query = request.query_params
        body = await _json_object(request)
        for name in _UNSUPPORTED:
            if body.get(name) or query.get(name, "false") != "false":
                raise RestError(400, f"{name} is not supported: jobs cannot be started from savepoints yet")
        options = _options(body)
        parallelism = body.get("parallelism", query.get("parallelism"))
        if parallelism is not None:
            options["parallelism.default"] = _positive("parallelism", parallelism)
        job_id = _text(body, "jobId") or query.get("jobId")
        if job_id is not None and not is_id(job_id):
            raise RestError(400, f"jobId: '{job_id}' is not a job id; it has 32 hexadecimal digits")
        entry = _text(body, "entryClass") or query.get("entry-class") or query.get("entryClass")
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
    text = _text(body, "programArgs") or query.get("program-args") or query.get("programArgs")
    if text:
        try:
            return tuple(shlex.split(text))
        except ValueError as error:
            raise RestError(400, f"programArgs: {error}") from error
    return tuple(part for value in query.getlist("programArg") for part in value.split(","))


def _options(body: Json) -> dict[str, str]:
    options = body.get("flinkConfiguration") or {}
    if not isinstance(options, dict) or not all(isinstance(v, str | int | float | bool) for v in options.values()):
        raise RestError(400, "flinkConfiguration: expected an object of options and their values")
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in options.items()}


def _positive(name: str, value: Any) -> str:
    text = str(value)
    if isinstance(value, bool) or not text.isascii() or not text.isdigit() or int(text) < 1:
        raise RestError(400, f"{name}: '{value}' is not a whole number of at least 1")
    return text


def _text(body: Json, name: str) -> str | None:
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise RestError(400, f"{name}: expected a string")
    return value


async def _json_object(request: Request) -> Json:
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > _BODY_LIMIT:
            raise RestError(413, f"the request's body is larger than {_BODY_LIMIT} bytes")
    if not content.strip():
        return {}
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise RestError(400, f"the request's body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise RestError(400, "the request's body is not a JSON object")
    return body
