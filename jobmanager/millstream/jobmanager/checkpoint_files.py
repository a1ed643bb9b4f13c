"""What a job's checkpoints leave in storage, and the order in which it goes again.

Owned by the job manager's loop; everything that may block runs on threads. Deletions run one after the other. A file
that another retained checkpoint refers to stays; what cannot be deleted is logged and left.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from urllib.parse import quote

from millstream.core.background import BackgroundTasks
from millstream.core.errors import MillstreamError
from millstream.core.graph import JobGraph
from millstream.core.snapshot import (
    CheckpointStorage,
    FileSystemStorage,
    MemoryStorage,
    SharedFileRegistry,
    SnapshotMetadata,
    StateFile,
)
from millstream.jobmanager.checkpoints import events as ev
from millstream.jobmanager.checkpoints.model import CheckpointContent, CheckpointId, SnapshotOptions
from millstream.jobmanager.checkpoints.settings import CheckpointSettings, StorageKind
from millstream.jobmanager.snapshot_content import AcknowledgedState, snapshot_metadata

log = logging.getLogger(__name__)


def storage_of(graph: JobGraph, settings: CheckpointSettings) -> CheckpointStorage:
    """Files when a directory is set, unless the job manager's memory was asked for."""
    if settings.directory is not None and settings.storage is not StorageKind.JOB_MANAGER:
        return FileSystemStorage(settings.directory, graph.job_id)
    if settings.storage is StorageKind.FILESYSTEM:
        raise MillstreamError(
            "option 'execution.checkpointing.storage': filesystem needs a directory; set execution.checkpointing.dir"
        )
    return MemoryStorage(graph.job_id)


class CheckpointFiles:
    """One job's."""

    def __init__(self, graph: JobGraph, storage: CheckpointStorage, background: BackgroundTasks) -> None:
        self._graph = graph
        self._storage = storage
        self._background = background
        self._shared = SharedFileRegistry()
        self._locations: dict[CheckpointId, str] = {}
        self._written: dict[CheckpointId, tuple[str, ...]] = {}
        self._deletions: deque[tuple[str, Callable[[], None]]] = deque()
        self._deleting = False

    def location(self, checkpoint_id: CheckpointId, options: SnapshotOptions) -> str:
        """The folder of a snapshot that is being taken; the same each time."""
        if checkpoint_id not in self._locations:
            self._locations[checkpoint_id] = (
                self._storage.savepoint_location(options.target_directory)
                if options.is_savepoint
                else self._storage.checkpoint_location(checkpoint_id)
            )
        return self._locations[checkpoint_id]

    async def write_metadata(self, content: CheckpointContent, now_ms: int) -> ev.MetadataWritten | ev.MetadataFailed:
        """Completes a snapshot."""

        def write() -> tuple[str, SnapshotMetadata]:
            metadata = snapshot_metadata(self._graph, content, now_ms)
            location = self.location(content.checkpoint_id, content.options)
            return self._storage.write_metadata(location, metadata), metadata

        try:
            pointer, metadata = await asyncio.to_thread(write)
        except (MillstreamError, OSError, ValueError) as error:
            return ev.MetadataFailed(content.checkpoint_id, str(error))
        self._written[content.checkpoint_id] = metadata.shared_files()
        return ev.MetadataWritten(content.checkpoint_id, pointer)

    async def read_metadata(self, pointer: str) -> SnapshotMetadata:
        """A snapshot's metadata."""
        return await asyncio.to_thread(self._storage.read_metadata, pointer)

    def retained(self, checkpoint_id: CheckpointId) -> None:
        """The checkpoint is a restore point: the shared files that it refers to stay."""
        self._shared.register(checkpoint_id, self._written.pop(checkpoint_id, ()))

    def released(self, checkpoint_id: CheckpointId) -> None:
        """The checkpoint is no longer the job's; its files are left to their owner."""
        self._shared.unregister(checkpoint_id)
        self._locations.pop(checkpoint_id, None)

    def delete(self, checkpoint_id: CheckpointId) -> None:
        """A completed checkpoint goes, with the shared files that no other refers to."""
        self._locations.pop(checkpoint_id, None)
        self._delete_later(f"checkpoint {checkpoint_id}", lambda: self._storage.delete_checkpoint(checkpoint_id))
        if unused := self._shared.unregister(checkpoint_id):
            self._delete_later(
                f"shared files of checkpoint {checkpoint_id}", lambda: self._storage.delete_files(unused)
            )

    def discard(self, effect: ev.DiscardState, is_alive: bool) -> None:
        """What was acknowledged to a checkpoint that will not be. While the checkpoint lives, its own folder stays."""
        files = [
            file
            for state in effect.states
            if isinstance(state, AcknowledgedState)
            for operator in state.operators
            for kept in operator.states
            for file in kept.files
            if file.inline is None
        ]
        what = f"the remains of checkpoint {effect.checkpoint_id}"
        if unused := self._shared.unused(file.path for file in files if file.shared):
            self._delete_later(what, lambda: self._storage.delete_files(unused))
        if is_alive:
            return
        self._written.pop(effect.checkpoint_id, None)
        location = self._locations.get(effect.checkpoint_id)
        if location is None or location == self._storage.checkpoint_location(effect.checkpoint_id):
            self._delete_later(what, lambda: self._storage.delete_checkpoint(effect.checkpoint_id))
        elif effect.pointer is not None:
            pointer = effect.pointer
            self._delete_later(what, lambda: self._storage.delete_snapshot(pointer))
        else:
            own = _own_files(location, files)
            self._delete_later(what, lambda: self._storage.delete_files(own))

    def job_ended(self) -> None:
        """Folders that are empty now go, after everything that is being deleted."""
        self._delete_later("empty folders", self._storage.delete_empty_folders)

    def _delete_later(self, what: str, work: Callable[[], None]) -> None:
        self._deletions.append((what, work))
        if not self._deleting:
            self._deleting = True
            self._background.spawn(self._delete_all())

    async def _delete_all(self) -> None:
        try:
            while self._deletions:
                what, work = self._deletions.popleft()
                try:
                    await asyncio.to_thread(work)
                except (MillstreamError, OSError) as error:
                    log.warning("job %s: %s could not be deleted: %s", self._graph.job_id, what, error)
        finally:
            self._deleting = False


def _own_files(location: str, files: list[StateFile]) -> list[str]:
    return [f"{location}/{quote(file.path)}" for file in files if not file.shared]
