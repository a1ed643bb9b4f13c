"""A thread that works for one task: its log lines are the task's, and the task waits for its end, but not for ever."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from millstream.core.logs.origins import for_this_task

log = logging.getLogger(__name__)

GRACE = 5.0  # seconds in which a thread that was requested to end has to


class TaskThread:
    """Started on the task's thread. It does not keep its process from ending."""

    def __init__(self, run: Callable[[], None], name: str) -> None:
        self._name = name
        self._thread = threading.Thread(target=for_this_task(run), name=name, daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self._thread.is_alive()

    def join(self) -> None:
        """Waits for the end; a thread that has not ended after `GRACE` is abandoned."""
        self._thread.join(GRACE)
        if self._thread.is_alive():
            log.warning("%s did not end within %g s; its thread is abandoned", self._name, GRACE)
