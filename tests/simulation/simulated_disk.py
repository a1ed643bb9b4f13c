"""What all simulated hosts reach and what outlives them: graphs and results of jobs, metadata and states in checkpoints

Real metadata is written and read, in the product's own format. A write or a deletion happens in the process that does
it, a little later (`VirtualLoop.run_in_executor`): one that is killed before has not written. States of tasks are plain
values in the folder of their checkpoint, and go with it: who restores from a checkpoint that was deleted finds none.
"""

from __future__ import annotations

from typing import Any

from world import World

from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import JobId
from millstream.core.snapshot import MemoryStorage, SnapshotMetadata
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
        self.graphs = MemoryContents[JobGraph]()
        self.results = MemoryContents[JobDetails]()
        self._storages: dict[JobId, DiskStorage] = {}
        self._states: dict[str, dict[Place, Any]] = {}

    def storage_of(self, job_id: JobId, _settings: CheckpointSettings) -> CheckpointStorage:
        if job_id not in self._storages:
            self._storages[job_id] = DiskStorage(job_id, self)
        return self._storages[job_id]

    def has_metadata(self, location: str) -> bool:
        return any(storage.has(location) for storage in self._storages.values())

    def write_state(self, location: str, place: Place, state: Any) -> None:
        self._states.setdefault(location, {})[place] = state

    def read_state(self, location: str, place: Place) -> Any:
        """None: the checkpoint has none of this subtask's."""
        if location not in self._states:
            raise FileNotFoundError(f"no such directory: {location}")
        return self._states[location].get(place)

    def deleted(self, location: str) -> None:
        self._states.pop(location, None)


class DiskStorage(MemoryStorage):
    """A job's, for whichever job manager runs it."""

    def __init__(self, job_id: JobId, disk: SimulatedDisk) -> None:
        super().__init__(job_id)
        self._disk = disk
        self._written: set[str] = set()

    def has(self, location: str) -> bool:
        return location in self._written

    def write_metadata(self, location: str, metadata: SnapshotMetadata) -> str:
        if self._disk.world.mishap(_FAILS):
            raise OSError("no space left on device")
        pointer = super().write_metadata(location, metadata)
        self._written.add(pointer)
        return pointer

    def delete_folder(self, location: str) -> None:
        if self._disk.world.mishap(_FAILS):
            raise OSError("input/output error")
        super().delete_folder(location)
        self._written.discard(location)
        self._disk.deleted(location)
