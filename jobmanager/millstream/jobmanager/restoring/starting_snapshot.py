"""The snapshot that a job starts from: its location, and whether the job can be restored from it.

It is read and checked completely before any task of the job is deployed. It is not changed if it cannot be used.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from millstream.core.jobs.graph import JobGraph
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.execution import (
    STATE_RECOVERY_CLAIM_MODE,
    STATE_RECOVERY_IGNORE_UNCLAIMED_STATE,
    STATE_RECOVERY_PATH,
)
from millstream.core.snapshot import FileSystemStorage, SnapshotKind, SnapshotMetadata, check_files, storage_at
from millstream.core.store.checkpoint_pointers import Pointer
from millstream.jobmanager.checkpoints.model import (
    CheckpointContent,
    CheckpointId,
    CompletedCheckpoint,
    SnapshotOptions,
)
from millstream.jobmanager.restoring.snapshot_fit import fit_to_snapshot


class RecoverySettings(Struct, frozen=True):
    """The snapshot a job starts from. With `claim`, the job owns it and deletes it like its own checkpoints."""

    path: str
    claim: bool = False
    ignore_unclaimed_state: bool = False
    older: tuple[str, ...] = ()
    """The other checkpoints of the job, when it continues from its own."""
    own_id: int = 0
    """Its id if an earlier leader of the job has stored it, otherwise 0. A savepoint among those, which was to stop the
    job, still belongs to the user.
    """

    @staticmethod
    def of_pointers(pointers: Sequence[Pointer]) -> RecoverySettings:
        """Returns the settings of a job that continues from the checkpoints of an earlier leader."""
        *older, latest = pointers
        places = tuple(pointer.location for pointer in older)
        own_id = latest.checkpoint_id
        return RecoverySettings(latest.location, claim=True, ignore_unclaimed_state=True, older=places, own_id=own_id)

    @staticmethod
    def from_configuration(options: Configuration) -> RecoverySettings | None:
        """Reads the job's settings; None when it starts without a snapshot."""
        path = options.get(STATE_RECOVERY_PATH)
        if not path:
            return None
        return RecoverySettings(
            path,
            options.get(STATE_RECOVERY_CLAIM_MODE) == "CLAIM",
            options.get(STATE_RECOVERY_IGNORE_UNCLAIMED_STATE),
        )


class StartingSnapshot(Struct, frozen=True):
    """A verified snapshot, and the job fitted to it."""

    graph: JobGraph
    metadata: SnapshotMetadata
    location: str
    storage: FileSystemStorage
    claimed: bool

    @property
    def checkpoint(self) -> CompletedCheckpoint:
        """The job's first restore point."""
        return completed_checkpoint(self.metadata, self.location, self.claimed)


def completed_checkpoint(metadata: SnapshotMetadata, location: str, owned: bool) -> CompletedCheckpoint:
    """Builds the completed checkpoint for a snapshot that this coordinator did not take."""
    is_savepoint = metadata.kind is SnapshotKind.SAVEPOINT
    checkpoint_id = CheckpointId(metadata.checkpoint_id)
    content = CheckpointContent(checkpoint_id, SnapshotOptions(is_savepoint=is_savepoint), metadata.created_ms, ())
    return CompletedCheckpoint(content, location, owned=owned)


def read_starting_snapshot(recovery: RecoverySettings, graph: JobGraph) -> StartingSnapshot:
    """Reads and checks the snapshot, and fits the job to it. Blocks on storage; raises SnapshotError."""
    storage, location = storage_at(recovery.path)
    metadata = storage.read_metadata(location)
    fitted = fit_to_snapshot(graph, metadata, location, recovery.ignore_unclaimed_state)
    check_files(storage, location, metadata)
    is_users = bool(recovery.own_id) and metadata.kind is SnapshotKind.SAVEPOINT
    return StartingSnapshot(fitted, metadata, location, storage, recovery.claim and not is_users)
