"""Inspects a process without its interpreter, whose lock native code may hold. Linux only.

For a dump of its threads, the process opens a file in memory, to which `faulthandler` writes when the process receives
a signal: that happens in native code, independent of the interpreter. Its parent sends the signal, and reads the file
through `/proc`.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
import time
from pathlib import Path

_NAME = "millstream-threads"
_SET_TRACER = 0x59616D61  # PR_SET_PTRACER: for the parent and what it starts
_SETTLED = 0.05
_PATIENCE = 2.0
_LIMIT = 256 * 1024


def _signal() -> int:
    return signal.SIGRTMIN + 4  # an unused one: the C library uses the first few


def allow_dumps_from_outside() -> None:
    """Allows the parent to dump this process's threads. Called once, when the process starts."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            faulthandler.register(_signal(), file=os.memfd_create(_NAME), all_threads=True)


def allow_tracing_by_parent() -> None:
    """Allows the parent's tools to trace this process, which Yama permits only to ancestors by default."""
    if sys.platform == "linux":
        with contextlib.suppress(ImportError, OSError, AttributeError):
            import ctypes

            ctypes.CDLL(None).prctl(_SET_TRACER, os.getppid())  # kernels without Yama return EINVAL


def dump_from_outside(pid: int) -> str:
    """Returns the stacks of a child that has allowed it, or an empty string. Blocks for a moment."""
    file = _file_of(pid)
    if file is None:
        return ""
    try:
        before = file.stat().st_size
        os.kill(pid, _signal())
        deadline, size = time.monotonic() + _PATIENCE, before
        while time.monotonic() < deadline:
            time.sleep(_SETTLED)
            last, size = size, file.stat().st_size
            if size == last > before:
                break
        with file.open("rb") as content:
            content.seek(max(before, size - _LIMIT))
            return content.read().decode(errors="replace")
    except OSError:
        return ""


def _file_of(pid: int) -> Path | None:
    with contextlib.suppress(OSError):
        for path in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if _NAME in os.readlink(path):
                    return path
    return None
