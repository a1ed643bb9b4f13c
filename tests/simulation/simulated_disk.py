"""What all simulated hosts reach and what outlives them: graphs and results of jobs, metadata and states in checkpoints

A write or a deletion happens in the process that does it, a little later (`VirtualLoop.run_in_executor`): one that is
killed before has not written. States of tasks are values in files, which lie in the folder of their checkpoint and go
with it: who restores from a checkpoint that was deleted finds none. Metadata is kept as it is, or, in some runs, in the
product's own format (`converts`).
"""

from __future__ import annotations

import itertools
from typing import Any

from story import must
from world import World

from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import JobId
from millstream.core.snapshot import MemoryStorage, SnapshotMetadata, StateFile
from millstream.core.snapshot.storage.storage import CheckpointStorage
from millstream.core.store.contents import MemoryContents
from millstream.jobmanager.checkpoints.settings import CheckpointSettings

_FAILS = 0.02
Place = tuple[str, int]
"""A vertex and a subtask."""


class SimulatedDisk:
    """`storage_of` stands for the job manager's."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.converts = True
        self.graphs = MemoryContents[JobGraph]()
        self.results = MemoryContents[JobDetails]()
        self._storages: dict[JobId, DiskStorage] = {}
        self._files: dict[str, dict[str, tuple[str, Any]]] = {}
        self._numbers = itertools.count(1)

    def storage_of(self, job_id: JobId, _settings: CheckpointSettings) -> CheckpointStorage:
        if job_id not in self._storages:
            self._storages[job_id] = DiskStorage(job_id, self)
        return self._storages[job_id]

    def metadata(self, location: str) -> SnapshotMetadata | None:
        """Of the snapshot that lies there; none when that is not complete, or gone."""
        found = (storage.kept.get(location) for storage in self._storages.values())
        return next((metadata for metadata in found if metadata is not None), None)

    def write_file(self, location: str, path: str, content: Any) -> str:
        """Returns its checksum. Nothing may change the content afterwards."""
        checksum = f"sha256:{next(self._numbers):064x}"
        self._files.setdefault(location, {})[path] = checksum, content
        return checksum

    def read_file(self, location: str, file: StateFile) -> Any:
        """What was written, and acknowledged."""
        if location not in self._files:
            raise FileNotFoundError(f"no such directory: {location}")
        checksum, content = self._files[location].get(file.path, ("no such file", None))
        must(checksum == file.checksum, f"{location}/{file.path} is {checksum} and not {file.checksum}", location)
        return content

    def deleted(self, location: str) -> None:
        self._files.pop(location, None)


class DiskStorage(MemoryStorage):
    """A job's, for whichever job manager runs it."""

    def __init__(self, job_id: JobId, disk: SimulatedDisk) -> None:
        super().__init__(job_id)
        self._disk = disk
        self.kept: dict[str, SnapshotMetadata] = {}

    def write_metadata(self, location: str, metadata: SnapshotMetadata) -> str:
        if self._disk.world.mishap(_FAILS):
            raise OSError("no space left on device")
        if self._disk.converts:
            location = super().write_metadata(location, metadata)
        else:
            self._metadata[location] = b""
        self.kept[location] = metadata
        return location

    def read_metadata(self, pointer: str) -> SnapshotMetadata:
        is_kept = pointer in self.kept and not self._disk.converts
        return self.kept[pointer] if is_kept else super().read_metadata(pointer)

    def delete_folder(self, location: str) -> None:
        if self._disk.world.mishap(_FAILS):
            raise OSError("input/output error")
        super().delete_folder(location)
        self.kept.pop(location, None)
        self._disk.deleted(location)
