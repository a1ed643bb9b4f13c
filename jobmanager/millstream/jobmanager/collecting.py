"""Requests for the results of collecting tasks: forwarded to the task, and the response to the dispatcher."""

from __future__ import annotations

from collections.abc import Callable

from millstream.core.jobs.ids import AllocationId, TaskManagerId
from millstream.core.messages import task_manager as tm
from millstream.core.messages.results import CollectRequest, CollectResponse
from millstream.jobmanager.job_master.job_slots import Place

_NOT_COLLECTING = "the collecting task is not running"


class Collecting:
    """Owned by the job manager's loop."""

    def __init__(
        self,
        command: Callable[[TaskManagerId, tm.JobManagerCommand], None],
        respond: Callable[[CollectResponse], None],
    ) -> None:
        self._command = command
        self._respond = respond
        self._requested: dict[str, tuple[TaskManagerId, AllocationId]] = {}

    def request(self, request: CollectRequest, place: Place | None) -> None:
        """Forwards a request to the task, if it runs."""
        if place is None:
            self.responded(CollectResponse(request.request_id, error=_NOT_COLLECTING))
            return
        task_manager, allocation_id, execution = place
        self._requested[request.request_id] = (task_manager, allocation_id)
        self._command(task_manager, tm.CollectFromTask(allocation_id, execution.attempt_id, request))

    def responded(self, response: CollectResponse) -> None:
        """Forwards the response to a request."""
        self._requested.pop(response.request_id, None)
        self._respond(response)

    def lost(self, task_manager: TaskManagerId, allocation_id: AllocationId | None = None) -> None:
        """Fails the requests to a collecting task that was lost."""
        for request_id, (collecting, slot) in list(self._requested.items()):
            if collecting == task_manager and allocation_id in (None, slot):
                self.responded(CollectResponse(request_id, error=_NOT_COLLECTING))
