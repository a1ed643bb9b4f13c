"""A thread that runs one call after another for an asyncio loop, in the order of submission.

It is a daemon thread: it may wait for a lock that a frozen process holds, which must not keep this process alive.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct

T = TypeVar("T")
_IDLE = 1.0
"""Idle time in seconds after which the thread ends; the next work starts another one."""


class _Work(Struct, frozen=True, eq=False):
    do: Callable[[], Any]
    outcome: asyncio.Future[Any]


class OrderedThread:
    """Runs work that is submitted from a loop."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: queue.SimpleQueue[_Work] = queue.SimpleQueue()
        self._starting = threading.Lock()
        self._runs = False

    def submit(self, do: Callable[[], T]) -> asyncio.Future[T]:
        """Queues work after all that was submitted before. It does not run if it is cancelled before its turn."""
        outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with self._starting:
            self._queue.put(_Work(do, outcome))
            if not self._runs:
                self._runs = True
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
        return outcome

    def _run(self) -> None:
        while True:
            try:
                work = self._queue.get(timeout=_IDLE)
            except queue.Empty:
                with self._starting:
                    if self._queue.empty():
                        self._runs = False
                        return
            else:
                if not work.outcome.cancelled():
                    self._do(work)
                del work  # releases its references before the thread waits

    def _do(self, work: _Work) -> None:
        result, raised = None, None
        try:
            result = work.do()
        except BaseException as error:
            raised = error
        with contextlib.suppress(RuntimeError):  # the loop is closed: there are no waiting callers
            work.outcome.get_loop().call_soon_threadsafe(_settle, work.outcome, result, raised)


def _settle(outcome: asyncio.Future[Any], result: Any, raised: BaseException | None) -> None:
    if outcome.cancelled():
        return
    if raised is not None:
        outcome.set_exception(raised)
    else:
        outcome.set_result(result)
