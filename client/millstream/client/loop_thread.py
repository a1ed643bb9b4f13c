"""An asyncio loop on a thread of its own, for blocking callers."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from millstream.core.errors import MillstreamError
from millstream.core.processes.loops import end_tasks

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for threads that wait for their results."""

    def __init__(self, name: str) -> None:
        self.loop: asyncio.AbstractEventLoop
        self._owner = os.getpid()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._started = threading.Event()
        self._thread.start()
        self._started.wait()

    @property
    def was_left(self) -> bool:
        """Whether this is a forked child: the thread stayed with its parent, and nothing can be called."""
        return self._owner != os.getpid()

    def _run(self) -> None:
        self.loop = asyncio.new_event_loop()  # here: what asyncio logs about it is not the program's
        self.loop.set_default_executor(ThreadPoolExecutor(thread_name_prefix=f"{self._thread.name} worker"))
        asyncio.set_event_loop(self.loop)
        self._started.set()
        self.loop.run_forever()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Has the coroutine run, without waiting for it."""
        if self.was_left:
            work.close()
            raise MillstreamError("a forked child cannot use the job of its parent; do it in the parent")
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def call(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """The coroutine's result. An interrupt of the waiting thread cancels the coroutine."""
        future = self.start(work)
        try:
            return future.result(timeout)
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Cancels what still runs, and ends the thread."""
        if self._thread.is_alive():
            self.call(end_tasks())
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
            self.loop.close()
