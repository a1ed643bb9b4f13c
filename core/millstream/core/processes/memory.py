"""Amounts of memory, as they are shown to users, and what is known about a process that had none left."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from millstream.core.linux.memory import available_memory, kills_for_memory

_UNITS = ("bytes", "kb", "mb", "gb", "tb")
_NEAR = 0.8
"""Of the memory that there is: a process that held as much may have been killed for it."""


def amount(size: int) -> str:
    """As options take it, with one digit behind the point."""
    value = float(size)
    for unit in _UNITS[:-1]:
        if value < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} {_UNITS[-1]}"


class MemoryWatch(Struct, frozen=True):
    """What the kernel reports about a lack of memory, from now on: of this process's control group, or of the host."""

    root: Path
    kills: int

    @staticmethod
    def begin(root: Path = Path("/")) -> MemoryWatch:
        """Before a process is started. `root` is where `proc` and `sys` are."""
        return MemoryWatch(root, kills_for_memory(root))

    def blamed(self, peak: int) -> str:
        """What to report of a process that was killed by an unknown sender; empty without evidence.

        `peak` is the most memory that it held.
        """
        available = available_memory(self.root)
        held = f"it held up to {amount(peak)}" + (f" of {amount(available)}" if available else "")
        if kills_for_memory(self.root) > self.kills:
            cause = "the kernel has killed a process for lack of memory while it ran"
        elif available and peak >= _NEAR * available:
            cause = "the system running out of memory is a likely cause"
        else:
            return ""
        return (
            f"{cause}: {held}. The kernel's log (dmesg) or the container's memory limit show it; fewer slots on a host,"
            " or a limit for each (taskmanager.memory.task.heap.size), may help"
        )
