"""Checking a whole snapshot before a job starts from it: nothing is changed, and the first fault is named."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from millstream.core.snapshot.errors import SnapshotError
from millstream.core.snapshot.files import fetch, file_name, read_state
from millstream.core.snapshot.model import SnapshotKind, SnapshotMetadata, StateFile
from millstream.core.snapshot.restore import read_rows
from millstream.core.snapshot.storage import CheckpointStorage, location_of

_READERS = 8


def verify_snapshot(storage: CheckpointStorage, pointer: str) -> SnapshotMetadata:
    """The metadata of a snapshot of which every file is there and undamaged.

    Of a savepoint, which others may have written, the content is checked too: columns, types, values and key groups.
    """
    metadata, location = storage.read_metadata(pointer), location_of(pointer)
    for operator in metadata.operators:
        for state in operator.states:
            for file in state.files:
                if metadata.kind is SnapshotKind.SAVEPOINT:
                    table = read_state(storage, location, state, file, max_parallelism=operator.max_parallelism)
                    read_rows(table, state, where=file_name(location, file))
                else:
                    fetch(storage, location, file)
    return metadata


def check_files(storage: CheckpointStorage, location: str, metadata: SnapshotMetadata) -> None:
    """Whether all files of a snapshot are there, and whole as far as one can tell before they are read for use.

    Files of a savepoint, which may have been copied about, are compared with their checksums; those of a checkpoint,
    which may be large, with their sizes. The first fault in the order of the metadata is raised.
    """

    def check(file: StateFile) -> None:
        if metadata.kind is SnapshotKind.SAVEPOINT:
            fetch(storage, location, file)
        elif (size := storage.file_size(location, file.path)) != file.size:
            raise SnapshotError(file_name(location, file), f"is damaged: it has {size} bytes instead of {file.size}")

    with ThreadPoolExecutor(_READERS, thread_name_prefix="verify") as readers:
        checks = [readers.submit(check, file) for file in metadata.files() if file.inline is None]
        try:
            for done in checks:
                done.result()
        finally:
            readers.shutdown(cancel_futures=True)
