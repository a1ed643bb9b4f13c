"""The storage that a location of the job manager's choice lies in, as seen from a slot worker."""

from __future__ import annotations

from millstream.core.ids import JobId
from millstream.core.snapshot.file_storage import FileSystemStorage
from millstream.core.snapshot.memory_storage import SCHEME, MemoryStorage
from millstream.core.snapshot.storage import CheckpointStorage


class Storages:
    """Storages by location. `directory` is the configured one, whose URI may have credentials and options."""

    def __init__(self, job_id: str, directory: str) -> None:
        self._job_id = JobId(job_id)
        self._directory = directory
        self._memory = MemoryStorage(self._job_id)
        self._files: dict[str, FileSystemStorage] = {}

    def at(self, location: str) -> CheckpointStorage:
        """The storage for a snapshot's folder. With the job manager's memory, all state goes into the metadata."""
        if location.startswith(SCHEME):
            return self._memory
        root = self._directory or location.rstrip("/").rpartition("/")[0].rpartition("/")[0] or location
        if root not in self._files:
            self._files[root] = FileSystemStorage(root, self._job_id)
        return self._files[root]

    def shares_files(self, location: str, checkpoint_id: int) -> bool:
        """Whether files written here can serve later checkpoints: only in the job's own folder of checkpoints."""
        storage = self.at(location)
        return isinstance(storage, FileSystemStorage) and storage.checkpoint_location(checkpoint_id) == location
