"""Processes: which there are, since when, in which session, and their ends.

Elsewhere, `ps` shows a single process that is known by its id; nothing lists them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from calendar import timegm
from time import strptime

from msgspec import Struct

from millstream.core.linux.losses import is_linux

_PROC = "/proc"


class ProcessStatus(Struct, frozen=True):
    """Of one process, as the system has it."""

    state: str
    """One letter, as in proc(5) and ps(1)."""
    session: int
    start_time: int
    """In ticks since the host started; elsewhere in seconds since 1970."""

    @property
    def is_alive(self) -> bool:
        """Not a zombie: one that ended, and that its parent has not waited for."""
        return self.state not in "ZX"


def process_ids(platform: str = sys.platform) -> list[int]:
    """Of all processes on this host; elsewhere none."""
    return [int(name) for name in os.listdir(_PROC) if name.isdecimal()] if is_linux(platform) else []


def status_of(pid: int, platform: str = sys.platform) -> ProcessStatus | None:
    """Of this process; None when there is none."""
    if not is_linux(platform):
        return _status_by_ps(pid)
    try:
        with open(f"{_PROC}/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return ProcessStatus(fields[0].decode(), int(fields[3]), int(fields[19]))
    except (OSError, ValueError, IndexError):
        return None


def is_stopped(pid: int, platform: str = sys.platform) -> bool:
    """Whether it was stopped by a signal (SIGSTOP, SIGTSTP), and not continued. Elsewhere False."""
    return _status_field(pid, "State", platform).startswith("T")


def is_traced(pid: int, platform: str = sys.platform) -> bool:
    """Whether a debugger is attached, which may hold it for any time. Elsewhere False."""
    return _status_field(pid, "TracerPid", platform) not in ("", "0")


def processor_ticks(pid: int, platform: str = sys.platform) -> int:
    """The processor time that it has used so far, in ticks of the system; 0 when there is none. Elsewhere 0."""
    if is_linux(platform):
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"{_PROC}/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
            return int(fields[11]) + int(fields[12])
    return 0


def _status_field(pid: int, name: str, platform: str) -> str:
    if is_linux(platform):
        with contextlib.suppress(OSError), open(f"{_PROC}/{pid}/status", errors="replace") as file:
            for line in file:
                if line.startswith(f"{name}:"):
                    return line.partition(":")[2].strip()
    return ""


def _status_by_ps(pid: int) -> ProcessStatus | None:
    command = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    variables = {**os.environ, "LC_ALL": "C", "TZ": "UTC0"}
    try:
        shown = subprocess.run(command, capture_output=True, text=True, env=variables, check=True).stdout
        state, began = shown.split(maxsplit=1)
        return ProcessStatus(state[0], os.getsid(pid), timegm(strptime(began.strip(), "%a %b %d %H:%M:%S %Y")))
    except (OSError, ValueError, subprocess.CalledProcessError):
        return None


def variables_of(pid: int, platform: str = sys.platform) -> list[bytes]:
    """The environment variables that a process of this user was started with; none of others', and elsewhere."""
    if is_linux(platform):
        with contextlib.suppress(OSError):
            if os.stat(f"{_PROC}/{pid}").st_uid == os.geteuid():
                with open(f"{_PROC}/{pid}/environ", "rb") as file:
                    return file.read().split(b"\0")
    return []


def kill_member(pid: int, session: int, platform: str = sys.platform) -> None:
    """Kills the process if it is in the session: never another one that has got its id. Elsewhere it does nothing."""
    if not is_linux(platform):
        return
    with contextlib.suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            status = status_of(pid)
            if status is not None and status.session == session:  # read after the handle, which is of this process
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)


def open_process(pid: int, platform: str = sys.platform) -> int | None:
    """A descriptor that is readable once the process has ended, waited for or not; elsewhere None."""
    return os.pidfd_open(pid) if is_linux(platform) else None


def await_end(pid: int, platform: str = sys.platform) -> bool:
    """Returns True when the child has ended, and keeps its id until it is waited for. Elsewhere False, at once.

    Raises ChildProcessError when another part of this program has waited for it.
    """
    if not is_linux(platform):
        return False
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return True
