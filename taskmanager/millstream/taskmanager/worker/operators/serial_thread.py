"""Calls that may block, away from the task's thread: one at a time, in their order."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Protocol

from millstream.core.processes.task_thread import TaskThread


class SerialCalls(Protocol):
    """Runs calls in their order. A call catches what it raises, and reports to its task by a mail."""

    @property
    def is_stopped(self) -> bool:
        """Whether no further call is wanted; a long call looks at it between its parts."""

    def submit(self, call: Callable[[], None]) -> None:
        """Runs a call after those before it. Called on the task's thread."""

    def stop(self) -> None:
        """Drops the calls that have not begun, and waits for the one that has, a few seconds at most."""


class SerialThread:
    """On one thread, which starts with the first call."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: TaskThread | None = None
        self.is_stopped = False

    def submit(self, call: Callable[[], None]) -> None:
        """Queues a call."""
        self._calls.put(call)
        if self._thread is None:
            self._thread = TaskThread(self._run, self._name)

    def stop(self) -> None:
        """Ends the thread; one whose call does not return is abandoned."""
        self.is_stopped = True
        self._calls.put(None)
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while (call := self._calls.get()) is not None and not self.is_stopped:
            call()
