"""REST endpoints of what a job, a vertex or a subtask logged and printed: events of all the files that have them.

The files are those of the job's workers on the registered task managers, and what job managers whose files are in this
dispatcher's `env.log.dir` logged of the job. Ended jobs have theirs for as long as the files are kept.

Megabytes may have to be searched: that is done on a thread, one piece of a file at a time, and those of all who
search take turns on it. The dispatcher's loop only fetches the pieces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import Request

from millstream.core.errors import UnreachableError
from millstream.core.logs.log_events import LEVELS, LogEvent, LogFilter
from millstream.core.logs.log_files import log_folder
from millstream.core.logs.log_lines import json_event
from millstream.core.logs.log_reading import list_logs, read_piece
from millstream.core.logs.recent_events import Piece, Search, chain_of, recent_events
from millstream.core.logs.short_ids import short_id
from millstream.core.messages.logs import LogContent
from millstream.core.settings.configuration import Configuration
from millstream.dispatcher.cluster_view import ClusterView, NoSuchLogError
from millstream.dispatcher.lifecycle import JobLifecycle
from millstream.dispatcher.rest import schemas
from millstream.dispatcher.rest.job_json import Json
from millstream.dispatcher.rest.requests import job_id_of, whole_number
from millstream.dispatcher.rest.table import Parameter, RestError, RestRoute

_LIMIT, _MOST = 1000, 10_000
_AT_ONCE = 8

Read = Callable[[Piece], Awaitable[LogContent]]


class _File(Struct, frozen=True):
    """A file that has events of the job, with those of it that were moved aside."""

    chain: list[str]
    task_manager: str
    wanted: LogFilter
    read: Read


class JobLogEndpoints:
    """Searches log files."""

    def __init__(self, lifecycle: JobLifecycle, cluster: ClusterView, configuration: Configuration) -> None:
        self._lifecycle = lifecycle
        self._cluster = cluster
        self._folder = log_folder(configuration)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="log search")

    def routes(self) -> list[RestRoute]:
        """The rows of the table for these endpoints."""
        job, vertex = "/jobs/{jobid}", "/jobs/{jobid}/vertices/{vertexid}"
        parameters = (
            Parameter("level", {"type": "string", "enum": list(LEVELS)}, "The least level; default all."),
            Parameter("since", schemas.COUNT, "Milliseconds since 1970 from which on events are wanted."),
            Parameter("limit", {"type": "integer", "minimum": 1, "maximum": _MOST}, f"How many; default {_LIMIT}."),
        )
        rows = (
            (f"{job}/logs", "The last events that a job logged and printed, or job managers logged of it."),
            (f"{vertex}/logs", "The last events that the tasks of a vertex logged and printed."),
            (f"{vertex}/subtasks/{{subtaskindex}}/logs", "The last events that a subtask logged and printed."),
        )
        return [
            RestRoute("GET", path, self.logs, what, schemas.LOG_EVENTS, parameters=parameters) for path, what in rows
        ]

    async def logs(self, request: Request) -> Json:
        """`GET /jobs/:jobid/logs`, and those of a vertex and of a subtask of it."""
        wanted, limit, vertices = self._wanted(request)
        files, gate = await self._files(wanted), asyncio.Semaphore(_AT_ONCE)

        async def events_in(file: _File) -> list[tuple[LogEvent, _File]]:
            async with gate:
                continued = not file.chain[0].endswith(".out")
                found = await self._driven(recent_events(file.chain, file.wanted, limit, continued), file.read)
            return [(event, file) for event in found]

        found = chain.from_iterable(await asyncio.gather(*map(events_in, files)))
        loop = asyncio.get_running_loop()
        return {"events": await loop.run_in_executor(self._thread, _last, found, limit, vertices)}

    async def _driven(self, search: Search, read: Read) -> list[LogEvent]:
        """What the search finds. A file that goes meanwhile has nothing more."""
        loop = asyncio.get_running_loop()
        step = await loop.run_in_executor(self._thread, _step, search, None)
        while isinstance(step, Piece):
            try:
                content = await read(step)
            except (NoSuchLogError, UnreachableError):
                content = LogContent(b"", 0, 0)
            step = await loop.run_in_executor(self._thread, _step, search, content)
        return step

    def close(self) -> None:
        """What waits is not begun."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _wanted(self, request: Request) -> tuple[LogFilter, int, Sequence[str]]:
        """The filter, how many events are returned at most, and the ids of the job's vertices."""
        details = self._lifecycle.details(job_id_of(request))
        vertex, subtask, query = request.path_params.get("vertexid", ""), None, request.query_params
        if vertex and all(known.id != vertex for known in details.vertices):
            raise RestError(404, f"job {details.job_id} has no vertex {vertex}")
        if "subtaskindex" in request.path_params:
            subtask = whole_number("subtask", request.path_params["subtaskindex"], 0, schemas.HIGHEST)
        level = query.get("level", "")
        if level and level not in LEVELS:
            raise RestError(400, f"level: '{level[:100]}' is not one of {', '.join(LEVELS)}")
        since = whole_number("since", query.get("since", "0"), 0, schemas.HIGHEST)
        limit = whole_number("limit", query.get("limit", str(_LIMIT)), 1, _MOST)
        vertices = [known.id for known in details.vertices]
        return LogFilter(details.job_id, vertex, subtask, level, since), limit, vertices

    async def _files(self, wanted: LogFilter) -> list[_File]:
        managers = (await self._cluster.overview()).task_managers
        listed = await asyncio.gather(*(self._of_task_manager(m.task_manager_id, m.address, wanted) for m in managers))
        own = [] if wanted.of_tasks else await asyncio.to_thread(self._of_services, wanted)
        return [*chain.from_iterable(listed), *own]

    async def _of_task_manager(self, manager: str, address: str, wanted: LogFilter) -> list[_File]:
        async def read(piece: Piece) -> LogContent:
            return await self._cluster.read_log(address, piece.name, piece.offset, piece.length)

        try:
            names = [file.name for file in await self._cluster.list_logs(address)]
        except UnreachableError:
            return []  # it has just gone, and its files with it
        of_job = [n for n in names if f".{wanted.job_id}.slot-" in n and n.endswith((".log", ".out"))]
        all_in_file = replace(wanted, job_id="")
        return [_File(chain_of(name, names), manager, all_in_file, read) for name in of_job]

    def _of_services(self, wanted: LogFilter) -> list[_File]:
        folder = self._folder or Path()

        async def read(piece: Piece) -> LogContent:
            return await asyncio.to_thread(read_piece, folder / piece.name, piece.offset, piece.length)

        names = [file.name for file in list_logs(self._folder, lambda name: name.startswith("jobmanager-"))]
        return [_File(chain_of(name, names), "", wanted, read) for name in names if name.endswith(".log")]


def _step(search: Search, content: LogContent | None) -> Piece | list[LogEvent]:
    """The piece that the search needs next, or what it has found. It begins with no content."""
    try:
        return next(search) if content is None else search.send(content)
    except StopIteration as done:
        found: list[LogEvent] = done.value
        return found


def _last(found: Iterable[tuple[LogEvent, _File]], limit: int, vertices: Sequence[str]) -> list[Json]:
    last = sorted(found, key=lambda item: item[0].line.time)[-limit:]
    whole = {short_id(vertex): vertex for vertex in vertices}
    return [_shown(event, file, whole) for event, file in last]


def _shown(event: LogEvent, file: _File, whole: dict[str, str]) -> Json:
    shown = json_event(event.line)
    rest = "\n".join(event.lines[1:])
    return {
        "time": shown["time"],
        "level": shown["level"],
        "logger": shown["logger"],
        "message": shown["message"],
        "exception": shown.get("exception") or rest or None,
        "vertex": whole.get(short_id(shown.get("vertex", "")), shown.get("vertex")),
        "task": shown.get("task"),
        "subtask": shown.get("subtask"),
        "attempt": shown.get("attempt"),
        "taskmanager": file.task_manager or None,
        "file": file.chain[0],
    }
