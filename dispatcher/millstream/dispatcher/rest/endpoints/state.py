"""REST endpoints that look into checkpoints and savepoints: a state browser's side of the server.

The operators and states are for every caller who may read. Rows are the users' own data, and so are differences:
they need the role `operate`, which may copy a snapshot anywhere, and each request is in the audit log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec

from starlette.requests import Request

from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.submission import WEB_STATE_BROWSER_ENABLED
from millstream.dispatcher.callers import Role
from millstream.dispatcher.lifecycle import JobLifecycle
from millstream.dispatcher.rest import state_schemas as schemas
from millstream.dispatcher.rest.job_json import Json
from millstream.dispatcher.rest.requests import whole_number
from millstream.dispatcher.rest.schemas import COUNT, HIGHEST, STRING, Schema
from millstream.dispatcher.rest.state_browser import RowsWanted, StateBrowser
from millstream.dispatcher.rest.table import Parameter, RestError, RestRoute
from millstream.dispatcher.snapshot_folders import allowed_directories, pointer_within

P = ParamSpec("P")
_AT_ONCE = 2
_MOST_ROWS = 1000
_MOST_ENTRIES = 1000
_LOOKING = "look into state"


class StateEndpoints:
    """Shows state."""

    def __init__(self, configuration: Configuration, lifecycle: JobLifecycle) -> None:
        self._enabled = configuration.get(WEB_STATE_BROWSER_ENABLED)
        self._options = configuration.to_dict()
        self._lifecycle = lifecycle
        self._browser = StateBrowser(configuration)
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="state browser")

    def routes(self) -> list[RestRoute]:
        """The rows of the table for these endpoints."""
        some: Schema = {"type": "string", "minLength": 1}
        path = Parameter("path", some, "The folder of a checkpoint or savepoint, or its _metadata.json.", True)
        return [
            RestRoute(
                "GET", "/snapshots", self.listing, "The operators and states of a checkpoint or savepoint.",
                schemas.LISTING, parameters=(path,), errors=(404,),
            ),
            RestRoute(
                "GET", "/snapshots/rows", self.rows, "Rows of a state: those of a key, or a page of all.",
                schemas.ROWS, errors=(404,), needs=Role.OPERATE, action=_LOOKING,
                parameters=(
                    path,
                    Parameter("operator", some, "Its uid or id, or its name if only one has it.", True),
                    Parameter("state", some, "The name of the state.", True),
                    Parameter("key", STRING, "Only this key: plain text for a primitive, JSON for one with parts."),
                    Parameter("offset", COUNT, "How many rows are left out before the first; not with a key."),
                    Parameter("limit", _from_one(_MOST_ROWS), "How many rows are returned, 50 by default."),
                ),
            ),
            RestRoute(
                "GET", "/snapshots/diff", self.differences, "What differs between two snapshots.",
                schemas.DIFFERENCES, errors=(404,), needs=Role.OPERATE, action=_LOOKING,
                parameters=(
                    Parameter("first", some, "A snapshot, as in path.", True),
                    Parameter("second", some, "The one that it is compared with.", True),
                    Parameter("limit", _from_one(_MOST_ENTRIES), "Entries listed of each state, 20 by default."),
                ),
            ),
        ]  # fmt: skip

    async def listing(self, request: Request) -> Json:
        """`GET /snapshots`."""
        return await self._looked(self._browser.listing, self._pointer(request, "path"))

    async def rows(self, request: Request) -> Json:
        """`GET /snapshots/rows`."""
        given = request.query_params
        pointer = self._pointer(request, "path")
        wanted = RowsWanted(
            _needed(request, "operator"),
            _needed(request, "state"),
            given.get("key"),
            whole_number("offset", given.get("offset", "0"), 0, HIGHEST),
            whole_number("limit", given.get("limit", "50"), 1, _MOST_ROWS),
        )
        if wanted.key is not None and wanted.offset:
            raise RestError(400, "offset: the rows of a key are returned from the first on; leave it out")
        return await self._looked(self._browser.rows, pointer, wanted)

    async def differences(self, request: Request) -> Json:
        """`GET /snapshots/diff`."""
        limit = whole_number("limit", request.query_params.get("limit", "20"), 1, _MOST_ENTRIES)
        pointers = self._pointer(request, "first"), self._pointer(request, "second")
        return await self._looked(self._browser.differences, *pointers, limit)

    def _pointer(self, request: Request, name: str) -> str:
        location = _needed(request, name)
        if not self._enabled:
            raise RestError(404, "the state browser is disabled: web.state-browser.enabled")
        directories = allowed_directories(self._options, self._lifecycle.all())
        found = pointer_within(location, directories, self._lifecycle.taken)
        if found is None:
            raise RestError(
                404,
                f"{name}: '{location[:200]}' is in none of the directories of checkpoints and savepoints that the "
                "cluster or a job of it has (execution.checkpointing.dir, .savepoint-dir), and none that this "
                "dispatcher has had taken",
            )
        return found

    async def _looked(self, look: Callable[P, Json], *args: P.args, **kwargs: P.kwargs) -> Json:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(2 * self._browser.seconds):  # a store that hangs holds one thread only
                return await loop.run_in_executor(self._threads, lambda: look(*args, **kwargs))
        except TimeoutError:
            reason = "the storage does not respond, or there are too many requests for state: try again"
            raise RestError(503, reason) from None

    def close(self) -> None:
        """What waits is not begun."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _needed(request: Request, name: str) -> str:
    given = request.query_params.get(name, "")
    if not given:
        raise RestError(400, f"{name}: it is missing")
    return given


def _from_one(highest: int) -> Schema:
    return {"type": "integer", "minimum": 1, "maximum": highest}
