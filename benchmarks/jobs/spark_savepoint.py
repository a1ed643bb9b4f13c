"""`spark_savepoint.py KEYS FOLDER`: a savepoint with one value state (int64 to int64), as four subtasks write it."""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa
from marks import report
from msgspec.structs import replace

from millstream.core.jobs.ids import JobId, OperatorId
from millstream.core.keys.key_groups import key_group_range, stable_hash_column
from millstream.core.records.types import LONG
from millstream.core.snapshot import (
    FileFormat,
    FileSystemStorage,
    OperatorSnapshot,
    SnapshotKind,
    SnapshotMetadata,
    StateKind,
    StateTypes,
    value_table,
    write_state,
)

MAX_PARALLELISM, SUBTASKS = 128, 4
TYPES = StateTypes(LONG, LONG)


def main(count: int, folder: str) -> None:
    """Each key's value is three times the key."""
    job = JobId("benchmark")
    storage = FileSystemStorage(folder, job)
    location = storage.savepoint_location()
    keys = np.arange(count, dtype=np.int64)
    groups = stable_hash_column(pa.array(keys)) % np.uint64(MAX_PARALLELISM)
    files = []
    for subtask in range(SUBTASKS):
        owned = key_group_range(subtask, MAX_PARALLELISM, SUBTASKS)
        mine = keys[(groups >= owned.start) & (groups < owned.stop)]
        table = value_table(pa.array(mine), pa.array(mine * 3), TYPES, MAX_PARALLELISM)
        files += write_state(
            storage, location, "counter", "counts", subtask, table, FileFormat.PARQUET, key_groups=owned
        )
    state = replace(TYPES.snapshot("counts", StateKind.VALUE), files=tuple(files))
    operator = OperatorSnapshot(OperatorId("counter"), "counter", "counter", SUBTASKS, MAX_PARALLELISM, (state,))
    metadata = SnapshotMetadata(1, job, "benchmark", 1, SnapshotKind.SAVEPOINT, 0, (operator,))
    report("savepoint", path=storage.write_metadata(location, metadata))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
