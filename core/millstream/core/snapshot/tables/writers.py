"""Writers of state files: into memory up to a limit, then into a file."""

from __future__ import annotations

import contextlib
import hashlib
from typing import Any

from millstream.core.snapshot.errors import SnapshotError
from millstream.core.snapshot.storage.storage import WrittenFile
from millstream.core.snapshot.storage.uri_files import UriFiles, plain_uri


class FileWriter:
    """Writes a file; content that stays below `inline_below` bytes never becomes one."""

    def __init__(self, files: UriFiles, uri: str, path: str, inline_below: int, *, private: bool) -> None:
        self._files, self._uri, self._path = files, uri, path
        self._private = private
        self._inline_below = inline_below
        self._buffer: bytearray = bytearray()
        self._stream: Any = None
        self._hash = hashlib.sha256()
        self._size = 0

    @property
    def path(self) -> str:
        """The path for the metadata."""
        return self._path

    def write(self, data: Any) -> int:
        """Appends; opens the file when the content is no longer small."""
        view = memoryview(data).cast("B")
        self._hash.update(view)
        self._size += len(view)
        if self._stream is None:
            if self._size < self._inline_below:
                self._buffer += view
                return len(view)
            self._open()
        with self._files.explained(plain_uri(self._uri)):
            self._stream.write(view)
        return len(view)

    def _open(self) -> None:
        self._stream = self._files.open_output(self._uri, private=self._private)
        if self._buffer:
            with self._files.explained(plain_uri(self._uri)):
                self._stream.write(bytes(self._buffer))
            self._buffer.clear()

    def commit(self) -> WrittenFile:
        """Closes the file and makes it durable."""
        checksum = f"sha256:{self._hash.hexdigest()}"
        if self._stream is None and self._size < self._inline_below:
            return WrittenFile(self._path, self._size, checksum, bytes(self._buffer))
        if self._stream is None:
            self._open()
        with self._files.explained(plain_uri(self._uri)):
            self._stream.close()
        self._files.settle(self._uri)
        return WrittenFile(self._path, self._size, checksum)

    def abort(self) -> None:
        """Deletes what was written."""
        if self._stream is not None:
            with contextlib.suppress(Exception):
                self._stream.close()
            with contextlib.suppress(Exception):
                self._files.delete_file(self._uri)


class MemoryWriter:
    """Keeps the content for the metadata, up to a limit."""

    def __init__(self, path: str, limit: int) -> None:
        self._path, self._limit = path, limit
        self._buffer = bytearray()

    @property
    def path(self) -> str:
        """The path for the metadata."""
        return self._path

    def write(self, data: Any) -> int:
        """Appends, up to the limit."""
        view = memoryview(data).cast("B")
        if len(self._buffer) + len(view) > self._limit:
            raise SnapshotError(
                self._path,
                f"is larger than the {self._limit} bytes that the job manager's memory takes for each state: set "
                "execution.checkpointing.dir to a directory, so that checkpoints go to files",
            )
        self._buffer += view
        return len(view)

    def commit(self) -> WrittenFile:
        """The content."""
        checksum = f"sha256:{hashlib.sha256(self._buffer).hexdigest()}"
        return WrittenFile(self._path, len(self._buffer), checksum, bytes(self._buffer))

    def abort(self) -> None:
        """Nothing was left anywhere."""
        self._buffer = bytearray()
