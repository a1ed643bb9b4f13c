"""Amounts of memory, as they are told to users, and what is known about a process that had none left."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

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
    """What the kernel says about a lack of memory, from now on: of this process's control group, or of the host."""

    root: Path
    kills: int

    @staticmethod
    def begin(root: Path = Path("/")) -> MemoryWatch:
        """Before a process is started. `root` is where `proc` and `sys` are."""
        return MemoryWatch(root, _kills(root))

    def blamed(self, peak: int) -> str:
        """What is to be said of a process that was killed by no one known; empty without evidence.

        `peak` is the most memory that it held.
        """
        available = _available(self.root)
        held = f"it held up to {amount(peak)}" + (f" of {amount(available)}" if available else "")
        if _kills(self.root) > self.kills:
            cause = "the kernel has killed a process for lack of memory meanwhile"
        elif available and peak >= _NEAR * available:
            cause = "the system running out of memory is a likely cause"
        else:
            return ""
        return (
            f"{cause}: {held}. The kernel's log (dmesg) or the container's memory limit show it; fewer slots on a host,"
            " or a limit for each (taskmanager.memory.task.heap.size), may help"
        )


def _kills(root: Path) -> int:
    """How many processes the kernel has killed for lack of memory; 0 where that is not counted."""
    for group in _groups(root):
        for name in ("memory.events", "memory.oom_control"):  # of version 2, of version 1
            if (count := _number(group / name, "oom_kill")) is not None:
                return count
    return _number(root / "proc/vmstat", "oom_kill") or 0


def _available(root: Path) -> int:
    """What all processes beside this one may take together, with it; 0 when that is not known."""
    total = (_number(root / "proc/meminfo", "MemTotal:") or 0) * 1024
    limits = [
        limit
        for group in _groups(root)
        for name in ("memory.max", "memory.limit_in_bytes")
        if (limit := _number(group / name)) is not None
    ]
    return min((size for size in (total, *limits) if size), default=0)


def _groups(root: Path) -> Iterator[Path]:
    """The folders of this process's control group; in a container, what it sees as the top is its own."""
    lines = []
    with contextlib.suppress(OSError):
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "memory"):
            top = root / "sys/fs/cgroup" / controllers
            yield from dict.fromkeys((top / path.lstrip("/"), top))


def _number(file: Path, key: str = "") -> int | None:
    """The file's only number, or the one behind a key at the beginning of a line."""
    with contextlib.suppress(OSError, ValueError):
        for line in file.read_text().splitlines():
            name, *values = ["", *line.split()] if not key else line.split()
            if name == key:
                return int(values[0])
    return None
