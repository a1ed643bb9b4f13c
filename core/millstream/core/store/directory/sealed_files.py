"""Small files that are there as they were written, or not at all.

A file is written under another name, made durable, and renamed: a crash at any point leaves the old one or the new one.
A checksum detects what no crash does: a damaged file is an error that names it, and never an entry, nor none.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path

from millstream.core.files.directories import for_user_only
from millstream.core.files.durable import sync_folder
from millstream.core.store.store import StoreError


class DamagedError(StoreError):
    """A file of the store holds something else than what was written."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(f"{path} is damaged: restore it from a backup, or delete it if what it held is not needed")


def seal(content: bytes) -> bytes:
    """The content below a line with its checksum."""
    return b"%08x\n%b" % (zlib.crc32(content), content)


def unseal(path: Path | str, raw: bytes) -> bytes:
    """The content of the file. Raises DamagedError."""
    content = raw[9:]
    if raw != seal(content):
        raise DamagedError(path)
    return content


def read_sealed(path: Path) -> bytes | None:
    """The content of the file, or None when there is none. Raises DamagedError."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    return unseal(path, raw)


def write_sealed(path: Path, content: bytes, *, by_way_of: Path) -> None:
    """Returns when the file is durable; what a crash has left at the other name is overwritten."""
    with open(by_way_of, "wb", opener=for_user_only) as file:
        file.write(seal(content))
        file.flush()
        os.fsync(file.fileno())
    os.replace(by_way_of, path)
    sync_folder(str(path.parent))
