"""The command line that `ps` shows of this process: it may be written over, and not become longer."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from millstream.core.linux.losses import is_linux


def command_line(platform: str = sys.platform) -> tuple[int, bytes] | None:
    """Its address and its bytes; None when it is not where the kernel reports it, and elsewhere."""
    if not is_linux(platform):
        return None
    import ctypes

    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        start, end = int(fields[45]), int(fields[46])  # 48 and 49 of the whole line
        found = Path("/proc/self/cmdline").read_bytes()
        if start and len(found) == end - start and ctypes.string_at(start, len(found)) == found:
            return start, found
    return None


def overwrite_command_line(title: bytes, platform: str = sys.platform) -> None:
    """Puts the title in its place, which has to be as long. Does nothing where there is no command line as above."""
    found = command_line(platform)
    if found is not None and len(title) == len(found[1]):
        import ctypes

        ctypes.memmove(found[0], title, len(title))
