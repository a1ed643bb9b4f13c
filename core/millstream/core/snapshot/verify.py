"""Checking a whole snapshot before a job starts from it: nothing is changed, and the first fault is named."""

from __future__ import annotations

from millstream.core.snapshot.files import fetch, read_state
from millstream.core.snapshot.model import SnapshotKind, SnapshotMetadata
from millstream.core.snapshot.storage import CheckpointStorage, location_of


def verify_snapshot(storage: CheckpointStorage, pointer: str) -> SnapshotMetadata:
    """The metadata of a snapshot of which every file is there and undamaged.

    Of a savepoint, which others may have written, the content is checked too: columns, types and key groups.
    """
    metadata, location = storage.read_metadata(pointer), location_of(pointer)
    for operator in metadata.operators:
        for state in operator.states:
            for file in state.files:
                if metadata.kind is SnapshotKind.SAVEPOINT:
                    read_state(storage, location, state, file, max_parallelism=operator.max_parallelism)
                else:
                    fetch(storage, location, file)
    return metadata
