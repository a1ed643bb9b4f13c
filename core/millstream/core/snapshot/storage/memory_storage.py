"""Checkpoints in the job manager's memory: for tests and jobs with little state. They are lost when it dies.

State is sent in the acknowledgements of tasks and kept in the metadata, so the size of each state is limited.
Savepoints need a directory: they outlive the job.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from millstream.core.jobs.ids import JobId
from millstream.core.snapshot.errors import SnapshotError
from millstream.core.snapshot.metadata.model import SnapshotMetadata
from millstream.core.snapshot.metadata.model_json import metadata_from_bytes, metadata_to_bytes
from millstream.core.snapshot.storage.file_storage import FileSystemStorage
from millstream.core.snapshot.storage.storage import (
    StateWriter,
    StoredCheckpoint,
    checkpoint_folder,
    checkpoint_id_of,
    location_of,
    part_path,
    safe_name,
)
from millstream.core.snapshot.tables.writers import MemoryWriter

DEFAULT_LIMIT = 5 * 1024 * 1024
SCHEME = "memory://"


class MemoryStorage:
    """`CheckpointStorage` in this process. Locations that are not in memory are those of savepoints in files."""

    def __init__(self, job_id: JobId, limit: int = DEFAULT_LIMIT) -> None:
        self._job_id = job_id
        self._home = f"{SCHEME}{safe_name(job_id)}"
        self._limit = limit
        self._metadata: dict[str, bytes] = {}

    def checkpoint_location(self, checkpoint_id: int) -> str:
        """`memory://<job id>/chk-<n>`."""
        return f"{self._home}/{checkpoint_folder(checkpoint_id)}"

    def savepoint_location(self, directory: str | None = None) -> str:
        """Below a directory, which has to be given."""
        if directory is None:
            raise SnapshotError(
                "savepoint", "needs a directory: give one, or set execution.checkpointing.savepoint-dir"
            )
        return self._storage_of(directory).savepoint_location(directory)

    def create_writer(
        self, location: str, operator: str, state: str, subtask: int, suffix: str, *, part: int = 0,
        shared: bool = False, inline_below: int = 0,
    ) -> StateWriter:  # fmt: skip
        """A writer whose content goes into the metadata."""
        if _in_memory(location):
            return MemoryWriter(part_path(operator, state, subtask, part, suffix), self._limit)
        return self._storage_of(location).create_writer(
            location, operator, state, subtask, suffix, part=part, shared=shared, inline_below=inline_below
        )

    def write_metadata(self, location: str, metadata: SnapshotMetadata) -> str:
        """Keeps it, as the bytes that a file would have."""
        if not _in_memory(location):
            return self._storage_of(location).write_metadata(location, metadata)
        pointer = location_of(location)
        self._metadata[pointer] = metadata_to_bytes(metadata)
        return pointer

    def read_metadata(self, pointer: str) -> SnapshotMetadata:
        """What was kept."""
        if not _in_memory(pointer):
            return self._storage_of(pointer).read_metadata(pointer)
        data = self._metadata.get(location_of(pointer))
        if data is None:
            raise SnapshotError(pointer, "is no snapshot: nothing is kept in memory under this name")
        return metadata_from_bytes(data, pointer)

    def read_file(self, location: str, path: str) -> Any:
        """Only snapshots in files have any: the others are inline."""
        if _in_memory(location):
            raise SnapshotError(f"{location_of(location)}/{path}", "does not exist: the content is in the metadata")
        return self._storage_of(location).read_file(location, path)

    def file_size(self, location: str, path: str) -> int:
        """Only snapshots in files have any."""
        if _in_memory(location):
            return len(self.read_file(location, path))
        return self._storage_of(location).file_size(location, path)

    def list_checkpoints(self) -> list[StoredCheckpoint]:
        """Those that are kept: all are complete."""
        found = ((checkpoint_id_of(location.rpartition("/")[2]), location) for location in self._metadata)
        return sorted(
            (StoredCheckpoint(n, location, True) for n, location in found if n is not None),
            key=lambda stored: stored.checkpoint_id,
        )

    def delete_checkpoint(self, checkpoint_id: int) -> None:
        """Forgets it."""
        self._metadata.pop(self.checkpoint_location(checkpoint_id), None)

    def delete_folder(self, location: str) -> None:
        """Forgets it, or deletes its files."""
        if _in_memory(location):
            self._metadata.pop(location_of(location), None)
        else:
            self._storage_of(location).delete_folder(location)

    def delete_snapshot(self, pointer: str) -> None:
        """Forgets it, or deletes its files."""
        if not _in_memory(pointer):
            self._storage_of(pointer).delete_snapshot(pointer)
            return
        self.read_metadata(pointer)
        del self._metadata[location_of(pointer)]

    def delete_files(self, paths: Iterable[str]) -> None:
        """Files of snapshots that are not in memory."""
        for path in paths:
            if not _in_memory(path):
                self._storage_of(path).delete_files([path])

    def delete_unused_files(self, in_use: Collection[str]) -> None:
        """There are none."""

    def delete_empty_folders(self) -> None:
        """There are none."""

    def _storage_of(self, location: str) -> FileSystemStorage:
        return FileSystemStorage(location, self._job_id)


def _in_memory(location: str) -> bool:
    return location.startswith(SCHEME)
