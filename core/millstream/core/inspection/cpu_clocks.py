"""What the operating system knows of a single thread of this process: how much processor time it took, and its state.

Only on Linux. Elsewhere, and of threads that are gone, the result is None: a clock that is read by a thread's number
is safe, while one that is read by its handle may crash the process when the thread has just ended.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

_PER_THREAD, _SCHEDULED = 4, 2


def cpu_seconds(native_id: int) -> float | None:
    """The processor time that the thread has taken."""
    if sys.platform != "linux":
        return None
    try:
        return time.clock_gettime((~native_id << 3) | _PER_THREAD | _SCHEDULED)
    except OSError:
        return None


def scheduler_state(native_id: int) -> str | None:
    """`R` for a thread that runs or could, `S` for one that waits, and others as in proc(5)."""
    try:
        return Path(f"/proc/self/task/{native_id}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError, UnicodeDecodeError):
        return None
