"""Contents in a folder, one file each. A pointer is the name of the file: the folder may be moved.

A file gets its name when it is whole and durable. Until then its writer holds it locked, and what a crash leaves of one
is deleted by the next process that puts something there.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from millstream.core.files.durable import make_folder, sync_folder
from millstream.core.jobs.ids import new_id
from millstream.core.store.contents import NoContentError
from millstream.core.store.directory.lock_files import is_locked, release_lock, take_lock
from millstream.core.store.directory.sealed_files import DamagedError, read_sealed, seal

T = TypeVar("T")
_POINTER = re.compile(r"[0-9a-f]{32}\Z")
_PARTIAL = ".partial-"


class FolderContents(Generic[T]):
    """`Contents`, written and read by the two functions. Any number of processes share a folder."""

    def __init__(self, folder: Path, to_bytes: Callable[[T], bytes], from_bytes: Callable[[bytes], T]) -> None:
        self._folder = folder
        self._to_bytes = to_bytes
        self._from_bytes = from_bytes
        self._is_swept = False

    async def put(self, content: T) -> str:
        """See `Contents`."""
        return await asyncio.to_thread(self._put, content)

    async def get(self, pointer: str) -> T:
        """See `Contents`. What is damaged is nothing."""
        return await asyncio.to_thread(self._get, pointer)

    async def delete(self, pointer: str) -> None:
        """See `Contents`."""
        await asyncio.to_thread(self._delete, pointer)

    def _put(self, content: T) -> str:
        raw = seal(self._to_bytes(content))
        make_folder(str(self._folder), 0o700)
        self._sweep()
        pointer = new_id()
        partial = self._folder / f"{_PARTIAL}{pointer}"
        held = take_lock(partial)
        try:
            with open(held.fileno(), "wb", closefd=False) as file:
                file.write(raw)
            os.fsync(held.fileno())
            os.replace(partial, self._folder / pointer)
            sync_folder(str(self._folder))
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        finally:
            release_lock(held)
        return pointer

    def _get(self, pointer: str) -> T:
        path = self._folder / pointer
        try:
            content = read_sealed(path) if _POINTER.match(pointer) else None
        except DamagedError as error:
            raise NoContentError(str(error)) from error
        if content is None:
            raise NoContentError(f"there is nothing at {path}")
        return self._from_bytes(content)

    def _delete(self, pointer: str) -> None:
        if _POINTER.match(pointer) and self._folder.is_dir():
            (self._folder / pointer).unlink(missing_ok=True)
            sync_folder(str(self._folder))

    def _sweep(self) -> None:
        if not self._is_swept:
            self._is_swept = True
            for left_over in self._folder.glob(f"{_PARTIAL}*"):
                if not is_locked(left_over):
                    left_over.unlink(missing_ok=True)
