"""Copies of a task's state files on its own host, for a restart in the same slot.

While a checkpoint is written, each file is written to a local file as well. A copy is found by the URI of the original
file, and is verified by size and checksum when it is read, like the file itself: so it need not be durable, and an
incomplete or damaged one is ignored. Errors of copies never fail a checkpoint or a restore.

Each checkpoint in progress, and the last completed one, lists the files that it refers to, which may include those of
earlier ones. Files that no checkpoint lists, including those of failed attempts, are deleted when one begins or ends.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any

from msgspec import Struct

from millstream.core.files.directories import for_user_only, make_private
from millstream.core.snapshot.errors import SnapshotError, one_line
from millstream.core.snapshot.metadata.model import StateFile, is_uri
from millstream.core.snapshot.storage.storage import FileTarget, StateWriter, WrittenFile, safe_name

log = logging.getLogger(__name__)


class SlotCopies(Struct, frozen=True):
    """Where the tasks of a slot keep copies, if there is a folder, and whether they restore from them."""

    folder: str = ""
    restores: bool = False

    def of(self, vertex_id: str, subtask: int) -> LocalCopies | None:
        """The copies of one subtask."""
        folder = Path(self.folder) / f"{safe_name(vertex_id)}-{subtask}"
        return LocalCopies(folder, self.restores) if self.folder else None


class LocalCopies:
    """The copies of one subtask, in a folder of its own. Safe on any thread."""

    def __init__(self, folder: Path, restores: bool = True) -> None:
        self._folder = folder
        self._restores = restores
        self._lock = threading.Lock()
        self._named: dict[int, set[str]] = {}

    def copying(self, storage: FileTarget, checkpoint_id: int) -> FileTarget:
        """The storage for one checkpoint: each file that is written to it is also copied."""
        return _CopyingFiles(storage, self, checkpoint_id)

    def written(self, checkpoint_id: int, location: str, files: Iterable[StateFile]) -> None:
        """The checkpoint is acknowledged: these are all files that it refers to."""
        with self._lock:
            self._named[checkpoint_id] = _names(location, files)

    def completed(self, checkpoint_id: int) -> None:
        """Earlier checkpoints are not needed any more."""
        with self._lock:
            if checkpoint_id in self._named:
                self._named = {number: names for number, names in self._named.items() if number >= checkpoint_id}
                self._sweep()

    def given_up(self, checkpoint_id: int) -> None:
        """The checkpoint was aborted."""
        with self._lock:
            if self._named.pop(checkpoint_id, None) is not None:
                self._sweep()

    def restored(self, checkpoint_id: int, location: str, files: Iterable[StateFile]) -> None:
        """The task was restored from these files, and may be again; no others are needed."""
        with self._lock:
            self._named = {checkpoint_id: _names(location, files)}
            self._sweep()

    def has(self, location: str, file: StateFile) -> bool:
        """Whether a copy exists, valid or not."""
        return self._restores and file.inline is None and (self._folder / _name(location, file.path)).exists()

    def read_file(self, location: str, path: str) -> Any:
        """The content of a copy."""
        import pyarrow as pa

        copy = self._folder / _name(location, path)
        try:
            return pa.py_buffer(copy.read_bytes())
        except OSError as error:
            raise SnapshotError(str(copy), f"cannot be read: {one_line(error)}") from error

    def create(self, checkpoint_id: int, location: str, path: str) -> Path:
        """Creates the path and the folder for a new copy, named by its checkpoint."""
        name = _name(location, path)
        with self._lock:
            if checkpoint_id not in self._named:
                self._named[checkpoint_id] = set()
                self._sweep()
            self._named[checkpoint_id].add(name)
        make_private(self._folder)
        return self._folder / name

    def _sweep(self) -> None:
        kept = set().union(*self._named.values())
        with contextlib.suppress(OSError):
            for copy in self._folder.iterdir():
                if copy.name not in kept:
                    copy.unlink(missing_ok=True)


class _CopyingFiles:
    """The files of one checkpoint of one task. After one copy has failed, no further copies are made."""

    def __init__(self, storage: FileTarget, copies: LocalCopies, checkpoint_id: int) -> None:
        self._storage, self._copies, self._checkpoint_id = storage, copies, checkpoint_id
        self.delete_files = storage.delete_files
        self._failed = False

    def create_writer(
        self, location: str, operator: str, state: str, subtask: int, suffix: str, *, part: int = 0,
        shared: bool = False, inline_below: int = 0,
    ) -> StateWriter:  # fmt: skip
        """The storage's writer, with a copy unless one failed before."""
        writer = self._storage.create_writer(
            location, operator, state, subtask, suffix, part=part, shared=shared, inline_below=inline_below
        )
        if self._failed:
            return writer
        try:
            path = self._copies.create(self._checkpoint_id, location, writer.path)
            return _CopyingWriter(writer, path, open(path, "wb", opener=for_user_only), self._copy_failed)
        except OSError as error:
            self._copy_failed(error)
            return writer

    def _copy_failed(self, error: OSError) -> None:
        self._failed = True
        log.warning("checkpoint %d is written without further local copies: %s", self._checkpoint_id, one_line(error))


class _CopyingWriter:
    """Writes a file and its copy; the copy of inline content is deleted."""

    def __init__(self, writer: StateWriter, path: Path, copy: IO[bytes], failed: Callable[[OSError], None]) -> None:
        self._writer, self._path, self._failed = writer, path, failed
        self._copy: IO[bytes] | None = copy

    @property
    def path(self) -> str:
        """The path for the metadata."""
        return self._writer.path

    def write(self, data: Any) -> int:
        """Appends to both."""
        written = self._writer.write(data)
        if self._copy is not None:
            try:
                self._copy.write(data)
            except OSError as error:
                self._drop()
                self._failed(error)
        return written

    def commit(self) -> WrittenFile:
        """Commits; returns what the storage returned."""
        result = self._writer.commit()
        if result.inline is not None:
            self._drop()
        elif self._copy is not None:
            try:
                self._copy.close()
            except OSError as error:
                self._drop()
                self._failed(error)
        return result

    def abort(self) -> None:
        """Deletes both."""
        self._drop()
        self._writer.abort()

    def _drop(self) -> None:
        if self._copy is not None:
            copy, self._copy = self._copy, None
            with contextlib.suppress(OSError):
                copy.close()
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)


def _names(location: str, files: Iterable[StateFile]) -> set[str]:
    return {_name(location, file.path) for file in files if file.inline is None}


def _name(location: str, path: str) -> str:
    uri = path if is_uri(path) else f"{location}/{path}"
    return hashlib.sha256(uri.encode()).hexdigest()
