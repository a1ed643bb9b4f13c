"""An asyncio loop on a thread of its own, for blocking callers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from millstream.core.loop_end import end_tasks

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for threads that wait for their results."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Has the coroutine run; nobody has to wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def call(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """The coroutine's result. An interrupt of the waiting thread cancels the coroutine."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result(timeout)
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Ends what is left, and the thread."""
        if self._thread.is_alive():
            self.call(end_tasks())
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
            self.loop.close()
