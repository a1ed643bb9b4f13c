"""Inspects a process without its interpreter, whose lock native code may hold. Linux only.

For a dump of its threads, the process opens a file in memory, to which `faulthandler` writes when the process receives
a signal: that happens in native code, independent of the interpreter. Its parent sends the signal, and reads the file
through `/proc`.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import time

from millstream.core.linux.descriptors import file_in_memory, file_named
from millstream.core.linux.threads import dump_signal

_NAME = "millstream-threads"
_SETTLED = 0.05
_PATIENCE = 2.0
_LIMIT = 256 * 1024


def allow_dumps_from_outside() -> None:
    """Allows the parent to dump this process's threads. Called once, when the process starts."""
    number = dump_signal()
    if number is not None:
        with contextlib.suppress(OSError):
            faulthandler.register(number, file=file_in_memory(_NAME), all_threads=True)


def dump_from_outside(pid: int) -> str:
    """Returns the stacks of a child that has allowed it, or an empty string. Blocks for a moment."""
    file, number = file_named(pid, _NAME), dump_signal()
    if file is None or number is None:
        return ""
    try:
        before = file.stat().st_size
        os.kill(pid, number)
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
