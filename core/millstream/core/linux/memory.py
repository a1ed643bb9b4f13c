"""Memory: what the host and the control group have, what this process takes, and kills for a lack of it."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

from millstream.core.linux.losses import is_linux

_TOP = Path("/")
_SHARED = Path("/dev/shm")


def kills_for_memory(root: Path = _TOP, platform: str = sys.platform) -> int:
    """How many processes the kernel has killed for lack of memory; 0 where that is not counted."""
    for group in _groups(root, platform):
        for name in ("memory.events", "memory.oom_control"):  # of version 2, of version 1
            if (count := _number(group / name, "oom_kill")) is not None:
                return count
    return (_number(root / "proc/vmstat", "oom_kill") or 0) if is_linux(platform) else 0


def available_memory(root: Path = _TOP, platform: str = sys.platform) -> int:
    """What all processes of this control group may take together, or of this host; 0 when that is not known."""
    if not is_linux(platform):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    total = (_number(root / "proc/meminfo", "MemTotal:") or 0) * 1024
    limits = [
        limit
        for group in _groups(root, platform)
        for name in ("memory.max", "memory.limit_in_bytes")
        if (limit := _number(group / name)) is not None
    ]
    return min((size for size in (total, *limits) if size), default=0)


def shared_memory(platform: str = sys.platform) -> Path | None:
    """The file system of POSIX shared memory, which containers limit; elsewhere None."""
    return _SHARED if is_linux(platform) and _SHARED.is_dir() else None


def peak_memory(usage: resource.struct_rusage, platform: str = sys.platform) -> int:
    """The most memory that a process held, in bytes: Linux counts in kilobytes, macOS in bytes."""
    return usage.ru_maxrss * (1 if platform == "darwin" else 1024)


def threads_and_memory(platform: str = sys.platform) -> tuple[int, int]:
    """Of this process: how many threads it has, and its memory in pages; elsewhere 0."""
    if is_linux(platform):
        with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
            return int(fields[17]), int(fields[21])
    return 0, 0


def writable_memory(platform: str = sys.platform) -> int | None:
    """What counts against RLIMIT_DATA in this process; elsewhere None, since that limit is not enforced there."""
    if not is_linux(platform):
        return None
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmData:"))


def _groups(root: Path, platform: str) -> Iterator[Path]:
    """The folders of this process's control group; in a container, what it sees as the top is its own."""
    lines = []
    if is_linux(platform):
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
