"""The storage that a location of the job manager's choice lies in, as seen from a slot worker."""

from __future__ import annotations

from urllib.parse import urlsplit

from millstream.core.ids import JobId
from millstream.core.snapshot.file_storage import FileSystemStorage
from millstream.core.snapshot.memory_storage import SCHEME, MemoryStorage
from millstream.core.snapshot.storage import CheckpointStorage, location_of
from millstream.core.snapshot.uri_files import plain_uri

DIRECTORIES = (
    "execution.checkpointing.dir", "execution.checkpointing.savepoint-dir", "execution.state-recovery.path"
)  # fmt: skip
"""The options whose URIs may have credentials and options in them; locations have none."""


class Storages:
    """Storages by location. `directories` are the configured ones, that of checkpoints first; empty when not set."""

    def __init__(self, job_id: str, *directories: str) -> None:
        self._job_id = JobId(job_id)
        self._directories = [directory for directory in directories if directory]
        self._memory = MemoryStorage(self._job_id)
        self._files: dict[str, FileSystemStorage] = {}

    def at(self, location: str) -> CheckpointStorage:
        """The storage for a snapshot's folder. With the job manager's memory, all state goes into the metadata."""
        if location.startswith(SCHEME):
            return self._memory
        root = self._root(location)
        if root not in self._files:
            self._files[root] = FileSystemStorage(root, self._job_id)
        return self._files[root]

    def _root(self, location: str) -> str:
        """The configured directory that it lies in; else one of the same scheme, whose credentials may serve it."""
        uri = plain_uri(location)
        inside = [d for d in self._directories if f"{uri}/".startswith(f"{location_of(plain_uri(d))}/")]
        alike = [d for d in self._directories if urlsplit(plain_uri(d)).scheme == urlsplit(uri).scheme]
        return next(iter(inside + alike), location)

    def shares_files(self, location: str, checkpoint_id: int) -> bool:
        """Whether files written here can serve later checkpoints: only in the job's own folder of checkpoints."""
        storage = self.at(location)
        return isinstance(storage, FileSystemStorage) and storage.checkpoint_location(checkpoint_id) == location
