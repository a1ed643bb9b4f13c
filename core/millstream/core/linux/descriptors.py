"""Descriptors: files in memory, what they belong to, and what is at the other end of a socket."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys
import tempfile
from pathlib import Path

from millstream.core.linux.losses import is_linux


def file_in_memory(name: str, platform: str = sys.platform) -> int:
    """A descriptor of a new file without a path, closed in children. Elsewhere it is on disk."""
    if is_linux(platform):
        return os.memfd_create(name, os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def path_of(descriptor: int, platform: str = sys.platform) -> Path | None:
    """The file that this process has open there; None when it has no path, and elsewhere."""
    if is_linux(platform):
        with contextlib.suppress(OSError):
            path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
            return path if path.is_absolute() else None
    return None


def file_named(pid: int, name: str, platform: str = sys.platform) -> Path | None:
    """Where to open a file in memory that another process of this user has; elsewhere None."""
    if is_linux(platform):
        with contextlib.suppress(OSError):
            for path in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if name in os.readlink(path):
                        return path
    return None


def peer_user(connection: socket.socket, platform: str = sys.platform) -> int | None:
    """The id of the user at the other end of a Unix socket; elsewhere None."""
    if not is_linux(platform):
        return None
    size = struct.calcsize("3i")
    _pid, user, _group = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return int(user)


def synchronise_file_system(descriptor: int, platform: str = sys.platform) -> None:
    """Writes what is cached of the file system that the file or folder is on; elsewhere, of all. Raises OSError."""
    if not is_linux(platform):
        os.sync()
        return
    import ctypes  # 2 ms, and most programs make no environment

    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "syncfs"):  # of another C library
        os.sync()
    elif library.syncfs(descriptor) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), str(path_of(descriptor)))
