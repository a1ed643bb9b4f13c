"""What REST endpoints of log files share: listings, pieces, and files of another service."""

from __future__ import annotations

import re
from collections.abc import Iterable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from millstream.core.errors import UnreachableError
from millstream.core.logs.log_reading import LIMIT
from millstream.core.messages.logs import LogContent, LogFile
from millstream.dispatcher.cluster_view import ClusterView, NoSuchLogError
from millstream.dispatcher.rest.job_json import Json
from millstream.dispatcher.rest.table import RestError

_RANGE = re.compile(r"bytes=(\d*)-(\d*)\Z")


async def listed_logs(cluster: ClusterView, address: str) -> Json:
    """The log files of the service at this address."""
    try:
        return listing(await cluster.list_logs(address))
    except UnreachableError as error:
        raise RestError(500, str(error)) from error


async def log_of(request: Request, cluster: ClusterView, address: str, name: str) -> Response:
    """A log file of the service at this address, or what the request wants of it."""
    offset, length = wanted_piece(request)
    try:
        return piece_response(request, await cluster.read_log(address, name, offset, length))
    except NoSuchLogError as error:
        raise RestError(404, str(error)) from error
    except UnreachableError as error:
        raise RestError(500, str(error)) from error


def listing(files: Iterable[LogFile]) -> Json:
    """As Flink lists log files."""
    return {"logs": [{"name": file.name, "size": file.size, "mtime": file.modified} for file in files]}


def wanted_piece(request: Request) -> tuple[int | None, int]:
    """Offset and length of the `Range` of a request."""
    found = _RANGE.match(request.headers.get("range", ""))
    if found is None or found.groups() == ("", ""):
        return None, LIMIT
    first, last = (int(text[:18]) if text else None for text in found.groups())
    if first is None:
        return -min(last or 0, LIMIT), LIMIT
    return first, LIMIT if last is None else min(max(last - first + 1, 0), LIMIT)


def piece_response(request: Request, piece: LogContent) -> Response:
    """The response to a request for a piece of a file."""
    if "range" not in request.headers:
        return PlainTextResponse(piece.content)
    end = piece.start + len(piece.content)
    given = f"{piece.start}-{end - 1}" if piece.content else "*"
    return PlainTextResponse(piece.content, 206, {"Content-Range": f"bytes {given}/{piece.size}"})
