"""An asyncio loop on a thread of its own, for blocking callers."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from millstream.core.errors import MillstreamError

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for threads that wait for their results."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._owner = os.getpid()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def was_left(self) -> bool:
        """Whether this is a forked child: the thread stayed with its parent, and nothing can be called."""
        return self._owner != os.getpid()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def call(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """The coroutine's result. An interrupt of the waiting thread cancels the coroutine."""
        if self.was_left:
            work.close()
            raise MillstreamError("a forked child cannot use the job of its parent; do it in the parent")
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result(timeout)
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Cancels what is left and ends the thread."""
        if self._thread.is_alive():
            self.call(self._cancel_rest())
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
            self.loop.close()

    async def _cancel_rest(self) -> None:
        rest = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
