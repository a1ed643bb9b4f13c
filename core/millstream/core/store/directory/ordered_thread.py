"""A thread that runs one call after another for an asyncio loop, in the order of submission.

It is a daemon: it may wait for a lock that a frozen process holds, which must keep no process from ending.
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
"""Seconds without work, after which the thread ends; the next work starts another."""


class _Work(Struct, frozen=True, eq=False):
    do: Callable[[], Any]
    outcome: asyncio.Future[Any]


class OrderedThread:
    """Submitted to from a loop, any number of times."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: queue.SimpleQueue[_Work] = queue.SimpleQueue()
        self._starting = threading.Lock()
        self._runs = False

    def submit(self, do: Callable[[], T]) -> asyncio.Future[T]:
        """Has it done after all that was submitted before. Cancelled before its turn, it is not done at all."""
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
                del work  # what it refers to is not kept until there is more to do

    def _do(self, work: _Work) -> None:
        result, raised = None, None
        try:
            result = work.do()
        except BaseException as error:
            raised = error
        with contextlib.suppress(RuntimeError):  # the loop is closed: no caller waits any more
            work.outcome.get_loop().call_soon_threadsafe(_settle, work.outcome, result, raised)


def _settle(outcome: asyncio.Future[Any], result: Any, raised: BaseException | None) -> None:
    if outcome.cancelled():
        return
    if raised is not None:
        outcome.set_exception(raised)
    else:
        outcome.set_result(result)
