"""Checks a whole snapshot before a job starts from it. Changes nothing, and reports the first fault."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock

from millstream.core.snapshot.errors import UnusableFileError
from millstream.core.snapshot.metadata.model import (
    OperatorSnapshot,
    SnapshotKind,
    SnapshotMetadata,
    StateFile,
    StateSnapshot,
)
from millstream.core.snapshot.storage.storage import CheckpointStorage, location_of
from millstream.core.snapshot.tables.files import fetch, file_name, read_state
from millstream.core.snapshot.tables.restore import read_rows

_READERS = 8


def verify_snapshot(storage: CheckpointStorage, pointer: str) -> SnapshotMetadata:
    """The metadata of a snapshot of which every file is there and undamaged.

    Of a savepoint, which others may have written, the content is checked too: columns, types, values and key groups.
    """
    metadata, location = storage.read_metadata(pointer), location_of(pointer)
    one_file = Lock()  # at a time: as Python objects, rows take many times the memory of their columns

    def check(operator: OperatorSnapshot, state: StateSnapshot, file: StateFile) -> None:
        if metadata.kind is SnapshotKind.SAVEPOINT:
            table = read_state(storage, location, state, file, max_parallelism=operator.max_parallelism)
            with one_file:
                read_rows(table, state, where=file_name(location, file))
        else:
            fetch(storage, location, file)

    _check_all(
        partial(check, operator, state, file)
        for operator in metadata.operators
        for state in operator.states
        for file in state.files
    )
    return metadata


def check_files(storage: CheckpointStorage, location: str, metadata: SnapshotMetadata) -> None:
    """Whether all files of a snapshot are there, and whole as far as can be checked before they are read for use.

    Files of a savepoint, which may have been copied about, are compared with their checksums; those of a checkpoint,
    which may be large, with their sizes.
    """

    def check(file: StateFile) -> None:
        if metadata.kind is SnapshotKind.SAVEPOINT:
            fetch(storage, location, file)
        elif (size := storage.file_size(location, file.path)) != file.size:
            where = file_name(location, file)
            raise UnusableFileError(where, f"is damaged: it has {size} bytes instead of {file.size}")

    _check_all(partial(check, file) for file in metadata.files() if file.inline is None)


def _check_all(checks: Iterable[Callable[[], None]]) -> None:
    """In parallel. The first fault in their order is raised."""
    with ThreadPoolExecutor(_READERS, thread_name_prefix="verify") as readers:
        under_way = [readers.submit(check) for check in checks]
        try:
            for done in under_way:
                done.result()
        finally:
            readers.shutdown(cancel_futures=True)
