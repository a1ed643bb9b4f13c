"""Opens the storage of a location chosen by the job manager, in a slot worker."""

from __future__ import annotations

from msgspec import Struct

from millstream.core.jobs.ids import JobId
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.execution import (
    CHECKPOINTING_DATA_INLINE_THRESHOLD,
    CHECKPOINTING_DIR,
    CHECKPOINTING_JOBMANAGER_STORAGE_MAX_STATE_SIZE,
    CHECKPOINTING_SAVEPOINT_DIR,
    CHECKPOINTING_WRITE_BUFFER_SIZE,
    STATE_RECOVERY_PATH,
)
from millstream.core.snapshot.storage.file_storage import FileSystemStorage
from millstream.core.snapshot.storage.memory_storage import DEFAULT_LIMIT, SCHEME, MemoryStorage
from millstream.core.snapshot.storage.storage import CheckpointStorage
from millstream.core.snapshot.storage.uri_files import has_options, plain_uri, root_of, with_options_of

DIRECTORIES = (
    CHECKPOINTING_DIR, CHECKPOINTING_SAVEPOINT_DIR, STATE_RECOVERY_PATH
)  # fmt: skip
"""The options whose URIs may have credentials and options in them.

Other locations have none, except that of a savepoint, which may have those of the requested directory.
"""

INLINE_BELOW = 20 * 1024


class StorageSizes(Struct, frozen=True):
    """Sizes in bytes."""

    inline_below: int = INLINE_BELOW
    """State of a checkpoint that is smaller is stored in the metadata."""
    write_buffer: int | None = None
    """The size of the write buffer of a file."""
    in_memory: int = DEFAULT_LIMIT
    """The largest state in the job manager's memory."""

    @staticmethod
    def of(configuration: Configuration) -> StorageSizes:
        """The configured sizes."""
        return StorageSizes(
            configuration.get(CHECKPOINTING_DATA_INLINE_THRESHOLD),
            configuration.get(CHECKPOINTING_WRITE_BUFFER_SIZE),
            configuration.get(CHECKPOINTING_JOBMANAGER_STORAGE_MAX_STATE_SIZE),
        )


class Storages:
    """Storages by location. `directories` are the configured ones, that of checkpoints first; empty if not set."""

    def __init__(self, job_id: str, *directories: str, sizes: StorageSizes | None = None) -> None:
        self.sizes = sizes or StorageSizes()
        self._job_id = JobId(job_id)
        self._directories = [directory for directory in directories if directory]
        self._memory = MemoryStorage(self._job_id, self.sizes.in_memory)
        self._files: dict[str, FileSystemStorage] = {}

    def at(self, location: str) -> CheckpointStorage:
        """The storage for a snapshot's folder. With the job manager's memory, all state goes into the metadata."""
        if location.startswith(SCHEME):
            return self._memory
        if has_options(location):  # the same location may be given without them later
            directory = with_options_of(location, plain_uri(location).rpartition("/")[0])
            if directory not in self._directories:
                self._directories.append(directory)
        root = root_of(location, self._directories)
        if root not in self._files:
            self._files[root] = FileSystemStorage(root, self._job_id, self.sizes.write_buffer)
        return self._files[root]

    def shares_files(self, location: str, checkpoint_id: int) -> bool:
        """Whether files written here can serve later checkpoints: only in the job's own folder of checkpoints."""
        storage = self.at(location)
        return isinstance(storage, FileSystemStorage) and storage.checkpoint_location(checkpoint_id) == location
