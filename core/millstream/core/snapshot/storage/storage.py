"""The interface of checkpoint storage, and the names of files and folders in it.

```
<root>/<job id>/chk-<n>/<operator>/<state>/part-<subtask>-<part>.<suffix>   files of one checkpoint only
<root>/<job id>/chk-<n>/_metadata.json                                      written last: without it there is none
<root>/<job id>/shared/<random>.<suffix>                                    files that several checkpoints reference
<directory>/savepoint-<start of the job id>-<random>/                       a savepoint, with the same layout inside
```

A *location* is the URI of a snapshot's folder, and also the pointer to the snapshot. A job manager decides on
locations and writes metadata; task managers only need a location to write and read files. All calls may block on
storage: they belong on a thread of their own. An implementation passes the conformance suite in
`tests/core/snapshot/test_storage_conformance.py`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable
from typing import Any, Protocol

from msgspec import Struct

from millstream.core.snapshot.metadata.model import METADATA_FILE, SnapshotMetadata

_CHECKPOINT = re.compile(r"chk-(\d+)\Z")
_UNSAFE = re.compile(rb"[^A-Za-z0-9_.\-]")
_NAME_LIMIT = 120


class WrittenFile(Struct, frozen=True):
    """The result of a writer, for a `StateFile`. With `inline`, there is no file."""

    path: str
    size: int
    checksum: str
    inline: bytes | None = None


class StoredCheckpoint(Struct, frozen=True):
    """A checkpoint's folder found in storage; it is complete when its metadata is there."""

    checkpoint_id: int
    location: str
    complete: bool


class StateWriter(Protocol):
    """A stream into one new file. Exactly one of `commit` and `abort` ends it; after a failed write, `abort`."""

    @property
    def path(self) -> str:
        """The path for the metadata: relative to the snapshot's folder, or the URI of a shared file."""
        ...

    def write(self, data: Any) -> int:
        """Appends bytes, or any buffer."""
        ...

    def commit(self) -> WrittenFile:
        """Makes the content durable, and returns what was written."""
        ...

    def abort(self) -> None:
        """Discards the content. Never raises; a file that cannot be deleted now is deleted with its folder."""
        ...


class FileSource(Protocol):
    """Where state files are read from."""

    def read_file(self, location: str, path: str) -> Any:
        """The whole content of a file of a snapshot, as a buffer: relative to the location, or by URI."""
        ...


class FileTarget(Protocol):
    """Where state files are written to."""

    def create_writer(
        self, location: str, operator: str, state: str, subtask: int, suffix: str, *, part: int = 0,
        shared: bool = False, inline_below: int = 0,
    ) -> StateWriter:  # fmt: skip
        """A writer for one file of a snapshot. Content smaller than `inline_below` bytes is kept in the metadata."""
        ...

    def delete_files(self, paths: Iterable[str]) -> None:
        """Deletes files by URI, if they exist."""
        ...


class CheckpointStorage(FileSource, FileTarget, Protocol):
    """Where the snapshots of one job are written, read and deleted."""

    def checkpoint_location(self, checkpoint_id: int) -> str:
        """The location of a checkpoint; nothing is made."""
        ...

    def savepoint_location(self, directory: str | None = None) -> str:
        """A fresh location for a savepoint below a directory (the storage's root without one); nothing is made."""
        ...

    def write_metadata(self, location: str, metadata: SnapshotMetadata) -> str:
        """Completes a snapshot, atomically and durably. Returns its pointer."""
        ...

    def read_metadata(self, pointer: str) -> SnapshotMetadata:
        """The checked metadata of a snapshot, by its folder or its metadata file."""
        ...

    def file_size(self, location: str, path: str) -> int:
        """How many bytes a file of a snapshot has; an error when it is not there."""
        ...

    def list_checkpoints(self) -> list[StoredCheckpoint]:
        """The checkpoint folders of the job, complete or not, oldest first."""
        ...

    def delete_checkpoint(self, checkpoint_id: int) -> None:
        """Deletes a checkpoint's own folder, complete or not. Shared files stay. No folder is no error."""
        ...

    def delete_folder(self, location: str) -> None:
        """Deletes a snapshot's own folder with all that is in it, complete or not. No folder is no error."""
        ...

    def delete_snapshot(self, pointer: str) -> None:
        """Deletes a complete snapshot: its metadata, then the files that it lists in its own folder, nothing else."""
        ...

    def delete_unused_files(self, in_use: Collection[str]) -> None:
        """Deletes the job's shared files that are not among these URIs; called when the job is over."""
        ...

    def delete_empty_folders(self) -> None:
        """Deletes the job's folders if no file is left in them; called when the job is over."""
        ...


def safe_name(name: str) -> str:
    """A name as one folder name on every file system, and not that of the metadata; different names stay different."""
    encoded = name.encode("utf-8", "surrogatepass")
    safe = _UNSAFE.sub(lambda m: b"~%02x" % m[0][0], encoded).decode()
    if safe.strip(".") == "" or safe == METADATA_FILE:
        safe = safe.replace(".", "~2e") or "~"
    if len(safe) > _NAME_LIMIT:
        safe = f"{safe[: _NAME_LIMIT - 33]}~{hashlib.sha256(encoded).hexdigest()[:32]}"
    return safe


def part_path(operator: str, state: str, subtask: int, part: int, suffix: str) -> str:
    """The path of a state file in its snapshot's folder. The operator is its uid, or its id when it has none."""
    return f"{safe_name(operator)}/{safe_name(state)}/part-{subtask}-{part}.{suffix}"


def checkpoint_folder(checkpoint_id: int) -> str:
    """The name of a checkpoint's folder."""
    return f"chk-{checkpoint_id}"


def checkpoint_id_of(folder: str) -> int | None:
    """The checkpoint that a folder's name means, or None."""
    match = _CHECKPOINT.match(folder)
    return int(match[1]) if match else None


def savepoint_folder(job_id: str, random: str) -> str:
    """The name of a savepoint's folder."""
    return f"savepoint-{safe_name(job_id)[:6]}-{random[:12]}"


def location_of(pointer: str) -> str:
    """The snapshot's folder, when a pointer names it or its metadata file."""
    return pointer.rstrip("/").removesuffix(f"/{METADATA_FILE}").rstrip("/")
