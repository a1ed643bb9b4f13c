"""Serves the task manager's inspections of this slot worker on other threads, since a task may block the loop.

Each request has a thread of its own, and their number is limited; without requests there is none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from millstream.core.logs.tracebacks import one_line
from millstream.core.messages.inspection import InspectWorker, WorkerInspected

if TYPE_CHECKING:
    from millstream.taskmanager.worker.slot_worker import SlotWorker

_AT_ONCE = 4


class WorkerInspector:
    """Owned by the thread that takes commands."""

    def __init__(self, worker: SlotWorker, send: Callable[[WorkerInspected], None]) -> None:
        self._worker = worker
        self._send = send
        self._free = threading.BoundedSemaphore(_AT_ONCE)

    def look(self, request: InspectWorker) -> None:
        """Starts the inspection and returns immediately."""
        if not self._free.acquire(blocking=False):
            problem = f"{_AT_ONCE} inspections of this worker are in progress; try again"
            self._send(WorkerInspected(request.request_id, problem=problem))
            return
        try:
            threading.Thread(target=self._respond, args=(request,), name="inspection", daemon=True).start()
        except RuntimeError as error:  # no memory for a thread: the failure is reported, and commands continue
            self._free.release()
            self._send(WorkerInspected(request.request_id, problem=f"the inspection failed: {one_line(error)}"))

    def _respond(self, request: InspectWorker) -> None:
        try:
            response = self._inspected(request)
        except Exception as error:
            response = WorkerInspected(request.request_id, problem=f"the inspection failed: {one_line(error)}")
        finally:
            self._free.release()
        self._send(response)

    def _inspected(self, request: InspectWorker) -> WorkerInspected:
        if request.sample is None:
            from millstream.core.inspection.threads import dump_threads

            return WorkerInspected(request.request_id, threads=dump_threads())
        from millstream.taskmanager.worker.profiling import StackSampler

        return WorkerInspected(request.request_id, stacks=StackSampler(self._worker, request.sample).run())
