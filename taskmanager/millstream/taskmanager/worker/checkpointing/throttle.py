"""Limits the impact of writing snapshots on the tasks.

Python values are converted to columns under the interpreter lock, which the tasks need too, and the rest needs the
processor. So that a task loses only a part of its speed while its state is written, the writers of a process together
are limited to a share of one core's time, and pause when they exceed it: the snapshot takes longer, the work is the
same. A small budget is free, so that small states are never delayed, and so is all work while tasks are idle.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from millstream.core.linux.threads import main_thread_seconds

SHARE = 0.1  # of a core
FREE = 0.025  # seconds of processor time without a pause
LONGEST = 0.25  # seconds of a pause; a longer debt is paid after the next piece of work, if there is one
_BUSY = 0.1  # of a core: the least that active tasks use


class Throttle:
    """Accounts for the processor time that the writers of a process share. Safe on any thread."""

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        own_time: Callable[[], float] = time.thread_time,
        tasks_time: Callable[[], float] = main_thread_seconds,  # where the loop of the worker runs
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._monotonic, self._own_time, self._tasks_time, self._sleep = monotonic, own_time, tasks_time, sleep
        self._lock = threading.Lock()
        self._owed = 0.0
        self._settled = monotonic()

    @contextlib.contextmanager
    def work(self) -> Iterator[None]:
        """A piece of a writer's work, followed by the pause that it requires."""
        began, own, tasks = self._monotonic(), self._own_time(), self._tasks_time()
        yield
        if self._tasks_time() - tasks > _BUSY * (self._monotonic() - began):
            pause = self._settle(self._own_time() - own)
            if pause > 0:
                self._sleep(min(pause, LONGEST))

    def _settle(self, used: float) -> float:
        with self._lock:
            now = self._monotonic()
            self._owed = max(0.0, self._owed - (now - self._settled) * SHARE) + used
            self._settled = now
            return (self._owed - FREE) / SHARE


WRITERS = Throttle()
"""One account, since a process has one interpreter lock."""
