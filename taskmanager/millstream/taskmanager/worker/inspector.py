"""Answers the task manager's questions about this slot worker, beside the loop, which may be held up by what it runs.

Each question has a thread of its own, and there are never many: nothing of this is there while nobody asks.
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

    def look(self, asked: InspectWorker) -> None:
        """Begins to answer, and returns."""
        if not self._free.acquire(blocking=False):
            problem = f"{_AT_ONCE} others look into it at the same time; try again"
            self._send(WorkerInspected(asked.request_id, problem=problem))
            return
        threading.Thread(target=self._answer, args=(asked,), name="inspection", daemon=True).start()

    def _answer(self, asked: InspectWorker) -> None:
        try:
            answer = self._looked(asked)
        except Exception as error:
            answer = WorkerInspected(asked.request_id, problem=f"looking into it failed: {one_line(error)}")
        finally:
            self._free.release()
        self._send(answer)

    def _looked(self, asked: InspectWorker) -> WorkerInspected:
        if asked.sample is None:
            from millstream.core.inspection.threads import dump_threads

            return WorkerInspected(asked.request_id, threads=dump_threads())
        from millstream.taskmanager.worker.profiling import StackSampler

        return WorkerInspected(asked.request_id, stacks=StackSampler(self._worker, asked.sample).run())
