"""Contents in files, one each, in any storage. A pointer is the name of the file, so files may be moved together.

Each file has a checksum: a damaged file raises an error that names it, and is never returned as content.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from millstream.core.jobs.ids import new_id
from millstream.core.settings.secrets import without_secrets
from millstream.core.snapshot.errors import SnapshotError
from millstream.core.store.contents import NoContentError, UnreachableContentError
from millstream.core.store.directory.sealed_files import DamagedError, seal, unseal

T = TypeVar("T")
R = TypeVar("R")
_POINTER = re.compile(r"[0-9a-f]{32}\Z")


class ContentFiles(Protocol):
    """The storage of the files. The calls block, may come from any thread, and raise OSError and SnapshotError."""

    def where(self, name: str) -> str:
        """Returns the file's location, for messages."""
        ...

    def write(self, name: str, raw: bytes) -> None:
        """Writes the file durably. It appears under its name only when it is complete."""
        ...

    def read(self, name: str) -> bytes | None:
        """Returns the file's content, or None if there is no such file."""
        ...

    def delete(self, name: str) -> None:
        """Deletes the file, if it exists."""
        ...


class FileContents(Generic[T]):
    """`Contents`, written and read by the two functions."""

    def __init__(self, files: ContentFiles, to_bytes: Callable[[T], bytes], from_bytes: Callable[[bytes], T]) -> None:
        self._files = files
        self._to_bytes = to_bytes
        self._from_bytes = from_bytes

    async def put(self, content: T) -> str:
        """See `Contents`."""
        pointer = new_id()
        await _in_thread(lambda: self._files.write(pointer, seal(self._to_bytes(content))))
        return pointer

    async def get(self, pointer: str) -> T:
        """See `Contents`. Damaged content counts as missing."""
        where = self._files.where(pointer)
        raw = await _in_thread(lambda: self._files.read(pointer)) if _POINTER.match(pointer) else None
        if raw is None:
            raise NoContentError(f"there is nothing at {where}")
        try:
            return self._from_bytes(unseal(where, raw))
        except DamagedError as error:
            raise NoContentError(str(error)) from error

    async def delete(self, pointer: str) -> None:
        """See `Contents`."""
        if _POINTER.match(pointer):
            await _in_thread(lambda: self._files.delete(pointer))


async def _in_thread(call: Callable[[], R]) -> R:
    try:
        return await asyncio.to_thread(call)
    except (OSError, SnapshotError) as error:
        raise UnreachableContentError(f"high-availability.storageDir: {without_secrets(str(error))}") from error
