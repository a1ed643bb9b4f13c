"""Everything that a process which leads a session has started, and how to end it: nothing else is touched.

A session is inherited by all children, also by those that make a process group of their own; only who makes a session
of its own leaves it, as daemons do on purpose. As long as its leader has not been waited for, or anything of it lives,
no other process gets its number.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

_PROC = "/proc"
_PASSES = 20  # each finds what the one before had started before it was killed


def kill_session(leader: int) -> None:
    """Kills the leader's process group, and what else is in its session; called on this process's own, it is last."""
    for _ in range(_PASSES):
        members = [pid for pid in _members(leader) if pid != os.getpid()]
        for pid in members:
            _kill(pid, leader)
        if not members:
            break
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def _members(leader: int) -> Iterator[int]:
    """Those that live, where the system can tell."""
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(_PROC):
            if name.isdecimal() and _session(int(name)) == leader:
                yield int(name)


def _session(pid: int) -> int | None:
    """None when the process is gone, or a zombie."""
    try:
        with open(f"{_PROC}/{pid}/stat", "rb") as file:
            state, _parent, _group, session = file.read().rpartition(b")")[2].split()[:4]
    except (OSError, ValueError):
        return None
    return None if state in (b"Z", b"X") else int(session)


def _kill(pid: int, leader: int) -> None:
    with contextlib.suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            if _session(pid) == leader:  # and not another process by now: the handle is of this one
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)
