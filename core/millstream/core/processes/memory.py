"""Amounts of memory, as they are told to users, and what is known about a process that had none left."""

from __future__ import annotations

import contextlib

_UNITS = ("bytes", "kb", "mb", "gb", "tb")


def amount(size: int) -> str:
    """As options take it, with one digit behind the point."""
    value = float(size)
    for unit in _UNITS[:-1]:
        if value < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} {_UNITS[-1]}"


def killed_from_outside(peak: int) -> str:
    """What is likely when a process was killed and nobody here did it. `peak` is the most memory that it held."""
    system = _total()
    held = f"it held up to {amount(peak)}" + (f" of this host's {amount(system)}" if system else "")
    return (
        f"the system running out of memory is a likely cause: {held}. The kernel's log (dmesg) or the container's "
        "memory limit tell; fewer slots on a host, or a limit for each (taskmanager.memory.task.heap.size), may help"
    )


def _total() -> int:
    with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/meminfo", "rb") as file:
        return int(file.readline().split()[1]) * 1024
    return 0
