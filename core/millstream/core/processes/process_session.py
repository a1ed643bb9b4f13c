"""Everything that a process which leads a session has started, and how to end it: nothing else is touched.

A session is inherited by all children, also by those that make a process group of their own; only who makes a session
of its own leaves it, as daemons do on purpose. As long as its leader has not been waited for, or anything of it lives,
no other process gets its number. Elsewhere than on Linux, only the process group of the leader is killed.
"""

from __future__ import annotations

import contextlib
import os
import signal

from millstream.core.linux.processes import kill_member, process_ids, status_of

_PASSES = 20  # each finds what the one before had started before it was killed


def kill_session(leader: int) -> None:
    """Kills the leader's process group, and what else is in its session; called on this process's own, it is last."""
    for _ in range(_PASSES):
        members = [pid for pid in process_ids() if pid != os.getpid() and _is_member(pid, leader)]
        for pid in members:
            kill_member(pid, leader)
        if not members:
            break
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def _is_member(pid: int, leader: int) -> bool:
    status = status_of(pid)
    return status is not None and status.is_alive and status.session == leader
