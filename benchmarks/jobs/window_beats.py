"""When a window's function is called, recorded per process: only the pauses between calls are kept.

In a separate module, so that all functions of a slot worker share it.
"""

from __future__ import annotations

import os
import time
from array import array

from marks import report, report_samples

_PAUSE = 1_000_000  # ns; shorter ones are ignored
_BEATS = 255  # between two samples of the processor's time, less than one: each is a system call


class Beats:
    """The calls in one process."""

    def __init__(self) -> None:
        self.windows = 0
        self._last = 0
        self._from = array("q")
        self._to = array("q")
        self._worked = array("q")
        self._count = 0
        self._processor = 0

    def opened(self) -> None:
        """A window was created."""
        if not self.windows:
            report("flowing", moment=time.monotonic_ns())
        self.windows += 1

    def beat(self) -> None:
        """A record was added to a window."""
        now = time.monotonic_ns()
        is_late = now - self._last > _PAUSE
        self._count += 1
        if is_late or not self._count & _BEATS:
            before, self._processor = self._processor, time.process_time_ns()
            if is_late:
                self._from.append(self._last or now)
                self._to.append(now)
                self._worked.append(self._processor - before)
        self._last = now

    def end(self) -> None:
        """Reports the pauses, and the CPU time of the process in each."""
        report_samples("pauses", self._from, self._to, [os.getpid()] * len(self._to), self._worked)


BEATS = Beats()
