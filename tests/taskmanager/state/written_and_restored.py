"""`written_and_restored.py write|restore KEYS FOLDER`: prints its memory around a savepoint or a restore, in MiB."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from millstream.core.clock import SystemClock
from millstream.core.jobs.ids import JobId
from millstream.core.records.batches import Barrier
from millstream.core.records.types import LONG
from millstream.core.snapshot import FileSystemStorage
from millstream.core.snapshot.metadata.operator_json import operators_to_json
from millstream.datastream.state import ListStateDescriptor, ValueStateDescriptor
from millstream.taskmanager.testing import DEPLOYMENT
from millstream.taskmanager.worker.checkpointing.capture import CapturedOperator, CapturedTask
from millstream.taskmanager.worker.checkpointing.restoring import restore_task
from millstream.taskmanager.worker.checkpointing.writing import SnapshotTarget, warm_up, write_snapshot
from millstream.taskmanager.worker.state.heap import HashMapStateBackend
from millstream.taskmanager.worker.state.key_group_index import KeyGroupIndex

TEXT = ValueStateDescriptor("text", str)
NUMBERS = ListStateDescriptor("numbers", int)


def memory(line: str) -> float:
    found = next(each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith(line))
    return int(found.split()[1]) / 1024


def backend() -> Any:
    index = KeyGroupIndex(DEPLOYMENT.max_parallelism)
    return HashMapStateBackend().keyed_backend("op", LONG, index, SystemClock())


def filled(keys: int) -> Any:
    made = backend()
    text, numbers = made.state(TEXT), made.state(NUMBERS)
    for key in range(keys):
        made.set_current_key(key)
        text.update(f"the text of the key {key} " * 40)
        if key % 10 == 3:
            numbers.update([key + 1_000, key + 2_000, key + 3_000])
    made.clear_current_key()
    return made


def write(made: Any, number: int, storage: FileSystemStorage) -> bytes:
    captured = CapturedTask((CapturedOperator("op", "op", "op", made.capture(number)),))
    barrier = Barrier(number, 0, storage.checkpoint_location(number), is_savepoint=True)
    written = write_snapshot(captured, SnapshotTarget(storage, barrier, DEPLOYMENT))
    captured.release()
    return operators_to_json(written.operators)


def restored(operators: bytes, number: int, storage: FileSystemStorage) -> Any:
    location = storage.checkpoint_location(number)
    deployment = replace(DEPLOYMENT, restore=operators, restore_location=location, restored_checkpoint_id=number)
    made = backend()
    made.restore(restore_task(deployment, storage).keyed_state("op"))
    text, numbers = made.state(TEXT), made.state(NUMBERS)
    made.hold_restored()
    made.set_current_key(3)
    assert text.value() == "the text of the key 3 " * 40
    assert numbers.get() == [1_003, 2_003, 3_003]
    return made


def main(what: str, keys: int, folder: str) -> None:
    warm_up()
    storage, metadata = FileSystemStorage(folder, JobId("job")), Path(folder) / "operators.json"
    restored(write(filled(10), 9, storage), 9, storage)  # so that everything is loaded
    empty = memory("VmRSS:")
    made = filled(keys) if what == "write" else None
    size = memory("VmRSS:")
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    if what == "write":
        metadata.write_bytes(write(made, 1, storage))
    else:
        made = restored(metadata.read_bytes(), 1, storage)
    found = {"empty": empty, "size": size, "state": size - empty, "peak": memory("VmHWM:")}
    print(json.dumps({**found, "keys": made.entry_counts()["text"]}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
