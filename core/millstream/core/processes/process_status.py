"""What the kernel says of another process of this host: whether it is stopped, or held by a debugger. Linux only."""

from __future__ import annotations

from pathlib import Path

_STOPPED = "T"
_PROC = Path("/proc")


def is_stopped(pid: int) -> bool:
    """Whether it was stopped by a signal (SIGSTOP, SIGTSTP), and not continued. False elsewhere than on Linux."""
    return _field(pid, "State").startswith(_STOPPED)


def is_traced(pid: int) -> bool:
    """Whether a debugger is attached, which may hold it for as long as it likes. False elsewhere than on Linux."""
    return _field(pid, "TracerPid") not in ("", "0")


def _field(pid: int, name: str) -> str:
    try:
        lines = (_PROC / str(pid) / "status").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(f"{name}:")), "")
