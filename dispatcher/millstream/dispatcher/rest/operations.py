"""Long operations behind REST: each runs as a task, and its outcome is kept in the table for a later request."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from starlette.requests import Request

from millstream.core.clock import Clock
from millstream.core.errors import MillstreamError
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.services import REST_ASYNC_STORE_DURATION
from millstream.dispatcher.operations import OperationKey, OperationKind, Operations, Outcome, TooManyOperationsError
from millstream.dispatcher.rest.job_json import Json
from millstream.dispatcher.rest.table import RestError

log = logging.getLogger(__name__)
_CAPACITY = 1000


class RestOperations:
    """Starts operations and shows them. Owned by the dispatcher's loop."""

    def __init__(self, configuration: Configuration, clock: Clock) -> None:
        self._clock = clock
        self._table = Operations(configuration.get(REST_ASYNC_STORE_DURATION), _CAPACITY)
        self._tasks: set[asyncio.Task[None]] = set()

    def knows(self, key: OperationKey) -> bool:
        """Whether the operation was started before, and is not forgotten."""
        return self._table.knows(key, self._clock.monotonic())

    def start(self, key: OperationKey, work: Callable[[], Awaitable[Outcome]]) -> None:
        """Starts an operation that is not known. An error meant for the user is its outcome."""
        try:
            self._table.begin(key, self._clock.monotonic())
        except TooManyOperationsError as error:
            raise RestError(503, str(error)) from error
        task = asyncio.create_task(self._run(key, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, key: OperationKey, work: Callable[[], Awaitable[Outcome]]) -> None:
        try:
            outcome = await work()
        except MillstreamError as error:
            outcome = Outcome(failure=str(error))
        except Exception:
            log.exception("failed to carry out %s %s", key.kind.value, key.trigger_id)
            outcome = Outcome(failure="internal error; the dispatcher's log has the details")
        self._table.end(key, outcome, self._clock.monotonic())

    def shown(self, kind: OperationKind, job_id: str, request: Request, shape: Callable[[Outcome], Json]) -> Json:
        """The operation that the path names, in Flink's shape."""
        key = OperationKey(kind, job_id, request.path_params["triggerid"].lower())
        if not self.knows(key):
            of_job = f" of job {job_id}" if job_id else ""
            raise RestError(404, f"no {kind.value}{of_job} has the trigger id {key.trigger_id}, or no longer")
        outcome = self._table.outcome(key)
        if outcome is None:
            return {"status": {"id": "IN_PROGRESS"}, "operation": None}
        return {"status": {"id": "COMPLETED"}, "operation": shape(outcome)}

    async def close(self) -> None:
        """Waits for nothing: what a job manager has begun continues there."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def failure_cause(outcome: Outcome) -> Json:
    """Why an operation failed, in Flink's shape. There is no serialized exception: it would be Java's."""
    return {"class": "millstream.core.errors.MillstreamError", "stack-trace": outcome.failure}
