"""Small files that are written atomically, with a checksum.

A file is written under another name, made durable, and renamed: a crash at any point leaves the old one or the new one.
The checksum detects other damage: a damaged file raises an error that names it, and is neither read nor ignored.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path

from millstream.core.files.directories import for_user_only
from millstream.core.files.durable import sync_folder
from millstream.core.store.store import StoreError


class DamagedError(StoreError):
    """A file of the store does not match its checksum."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(f"{path} is damaged: restore it from a backup, or delete it if what it held is not needed")


def seal(content: bytes) -> bytes:
    """Returns the content after a line with its checksum."""
    return b"%08x\n%b" % (zlib.crc32(content), content)


def unseal(path: Path | str, raw: bytes) -> bytes:
    """Returns the content of the file. Raises DamagedError."""
    content = raw[9:]
    if raw != seal(content):
        raise DamagedError(path)
    return content


def read_sealed(path: Path) -> bytes | None:
    """Returns the content of the file, or None if it does not exist. Raises DamagedError."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    return unseal(path, raw)


def write_sealed(path: Path, content: bytes, *, by_way_of: Path) -> None:
    """Writes the file durably; a file that a crash has left at the temporary name is overwritten."""
    with open(by_way_of, "wb", opener=for_user_only) as file:
        file.write(seal(content))
        file.flush()
        os.fsync(file.fileno())
    os.replace(by_way_of, path)
    sync_folder(str(path.parent))
