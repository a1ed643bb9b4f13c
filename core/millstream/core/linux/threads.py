"""Threads of this process: processor time, state, and what reads them from outside the interpreter."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from pathlib import Path

from millstream.core.linux.losses import is_linux

_PER_THREAD, _SCHEDULED = 4, 2
_SET_TRACER = 0x59616D61  # PR_SET_PTRACER: for the parent and what it starts


def cpu_seconds(native_id: int, platform: str = sys.platform) -> float | None:
    """The processor time that a thread has taken; None when the thread is gone, and elsewhere.

    A clock that is read by a thread's number is safe, while one that is read by its handle may crash the process when
    the thread has just ended.
    """
    if is_linux(platform):
        with contextlib.suppress(OSError):
            return time.clock_gettime((~native_id << 3) | _PER_THREAD | _SCHEDULED)
    return None


def scheduler_state(native_id: int, platform: str = sys.platform) -> str | None:
    """`R` for a thread that runs or could, `S` for one that waits, others as in proc(5); None as above."""
    if is_linux(platform):
        with contextlib.suppress(OSError, IndexError, UnicodeDecodeError):
            return Path(f"/proc/self/task/{native_id}/stat").read_text().rpartition(")")[2].split()[0]
    return None


def main_thread_seconds(platform: str = sys.platform) -> float:
    """The processor time of the main thread; elsewhere, of all threads but the current one."""
    if not is_linux(platform):
        return time.process_time() - time.thread_time()
    return time.clock_gettime(time.pthread_getcpuclockid(threading.main_thread().ident or 0))


def dump_signal(platform: str = sys.platform) -> int | None:
    """An unused real-time signal: the first few are the C library's. Elsewhere None."""
    return signal.SIGRTMIN + 4 if is_linux(platform) else None


def allow_tracing_by_parent(platform: str = sys.platform) -> None:
    """Lets the parent have this process profiled where Yama would let only ancestors trace it; elsewhere nothing."""
    if is_linux(platform):
        with contextlib.suppress(ImportError, OSError, AttributeError):
            import ctypes

            ctypes.CDLL(None).prctl(_SET_TRACER, os.getppid())  # no kernel without Yama knows it: EINVAL
