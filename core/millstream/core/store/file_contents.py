"""Contents in files, one each, wherever those lie. A pointer is the name of the file: where they lie may change.

Each file has a checksum: what is damaged is an error that names it, and never another content.
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
    """Where the files lie. The calls block, and may come from any thread; they raise OSError and SnapshotError."""

    def where(self, name: str) -> str:
        """The file, for people."""
        ...

    def write(self, name: str, raw: bytes) -> None:
        """Returns when the file is there and durable. It gets its name only when it is whole."""
        ...

    def read(self, name: str) -> bytes | None:
        """The file's content, or None when there is no such file."""
        ...

    def delete(self, name: str) -> None:
        """What is gone already is no error."""
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
        """See `Contents`. What is damaged is nothing."""
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
