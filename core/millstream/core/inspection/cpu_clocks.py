"""The processor time and the scheduler state of single threads of this process, from the operating system.

Only on Linux. Elsewhere, and for threads that have ended, the result is None: reading a clock by a thread's number is
safe, while reading it by its handle may crash the process if the thread has just ended.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

_PER_THREAD, _SCHEDULED = 4, 2


def cpu_seconds(native_id: int) -> float | None:
    """Returns the processor time that the thread has used."""
    if sys.platform != "linux":
        return None
    try:
        return time.clock_gettime((~native_id << 3) | _PER_THREAD | _SCHEDULED)
    except OSError:
        return None


def scheduler_state(native_id: int) -> str | None:
    """Returns `R` for a running or runnable thread, `S` for a sleeping one, and others as in proc(5)."""
    try:
        return Path(f"/proc/self/task/{native_id}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError, UnicodeDecodeError):
        return None
