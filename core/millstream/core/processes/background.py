"""The background tasks of a service: started, watched, and cancelled together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

log = logging.getLogger(__name__)


class BackgroundTasks:
    """Owned by one asyncio loop. What a task raises is logged: nothing fails in silence."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], None] = {}  # in the order of their start

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Runs the work until it ends or `cancel` is called."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._done)

    async def cancel(self) -> None:
        """Cancels what still runs, and waits for it."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[Any]) -> None:
        del self._tasks[task]
        if not task.cancelled() and task.exception() is not None:
            log.error("a background task failed", exc_info=task.exception())
