"""What REST handlers read from requests, each checked, with an error that names the field."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request

from millstream.core.jobs.details import JobDetails, VertexStatus
from millstream.core.jobs.ids import JobId, new_id
from millstream.core.snapshot.metadata.model import is_uri
from millstream.dispatcher.admission import is_id
from millstream.dispatcher.rest.job_json import Json
from millstream.dispatcher.rest.schemas import Schema
from millstream.dispatcher.rest.table import RestError

_BODY_LIMIT = 1024 * 1024
T = TypeVar("T")


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of work that is cancelled when the client goes away. Only after the body was read."""

    async def disconnected() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            continue

    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(disconnected())
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def json_object(request: Request, schema: Schema) -> Json:
    """The body, with no fields but those of the schema; an empty one is an empty object."""
    body = await json_content(request)
    unknown = next((name for name in body if name not in schema["properties"]), None)
    if unknown is not None:
        raise RestError(400, f"{unknown}: there is no such field; there are {', '.join(schema['properties'])}")
    return body


async def json_content(request: Request) -> Json:
    """The body, an object with any fields; an empty one is an empty object."""
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > _BODY_LIMIT:
            raise RestError(413, f"the request's body is larger than {_BODY_LIMIT} bytes")
    if not content.strip():
        return {}
    try:
        body = json.loads(content)
        json.dumps(body, ensure_ascii=False).encode()  # escapes can make text that no encoding has
    except (ValueError, RecursionError) as error:
        raise RestError(400, f"the request's body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise RestError(400, "the request's body is not a JSON object")
    return body


def text(body: Json, name: str) -> str | None:
    """A string that may be missing."""
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise RestError(400, f"{name}: expected a string")
    return value


def whole_number(name: str, value: Any, lowest: int, highest: int) -> int:
    """A number as JSON has it, or in digits. Text with more of these than Python converts is too large as well."""
    written = str(value) if isinstance(value, int) and -highest <= value <= highest else value
    if not isinstance(written, str) or isinstance(value, bool) or not written.isascii() or not written.isdigit():
        raise RestError(400, f"{name}: '{_shown(value)}' is not a whole number from {lowest} to {highest}")
    digits = written.lstrip("0") or "0"
    if len(digits) > len(str(highest)) or not lowest <= int(digits) <= highest:
        raise RestError(400, f"{name}: '{_shown(digits)}' is not a whole number from {lowest} to {highest}")
    return int(digits)


def _shown(value: Any) -> str:
    text = f"a number of {value.bit_length()} bits" if isinstance(value, int) and abs(value) >= 2**64 else str(value)
    return text if len(text) <= 100 else f"{text[:100]}..."


def location(body: Json, name: str) -> str | None:
    """A path or a URI that means the same in every process; it may be missing."""
    value = text(body, name)
    if value and not is_uri(value) and not value.removeprefix("file:").startswith("/"):
        raise RestError(400, f"{name}: '{value}' is a relative path; write an absolute one, or a URI")
    return value


def flag(body: Json, name: str) -> bool:
    """True or false; false when it is missing."""
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise RestError(400, f"{name}: expected true or false")
    return bool(value)


def boolean_of(request: Request, name: str) -> bool:
    """A query parameter that is true or false; false when it is missing."""
    given = request.query_params.get(name, "false").lower()
    if given not in ("true", "false"):
        raise RestError(400, f"{name}: expected true or false")
    return given == "true"


def choice(body: Json, name: str, choices: Sequence[str]) -> str:
    """One of the choices; the first when it is missing."""
    value = (text(body, name) or choices[0]).upper()
    if value not in choices:
        raise RestError(400, f"{name}: '{body[name]}' is not one of {', '.join(choices)}")
    return value


def job_id_of(request: Request) -> JobId:
    """The job that the path names, whether there is one or not."""
    job_id = request.path_params["jobid"].lower()
    if not is_id(job_id):
        raise RestError(400, f"'{job_id}' is not a job id; it has 32 hexadecimal digits")
    return JobId(job_id)


def vertex_of(request: Request, details: JobDetails) -> VertexStatus:
    """The vertex of the job that the path names."""
    wanted = request.path_params["vertexid"]
    for vertex in details.vertices:
        if vertex.id == wanted:
            return vertex
    raise RestError(404, f"job {details.job_id} has no vertex {wanted}")


def trigger_id_of(body: Json) -> str:
    """The trigger id that the client chose, or a new one."""
    trigger_id = text(body, "triggerId")
    if trigger_id is None:
        return new_id()
    if not is_id(trigger_id.lower()):
        raise RestError(400, f"triggerId: '{trigger_id}' is not a trigger id; it has 32 hexadecimal digits")
    return trigger_id.lower()
