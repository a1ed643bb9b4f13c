"""`savepoint_memory_worker.py write|restore KEYS FOLDER`: the keyed state of one task, written or restored."""

from __future__ import annotations

import gc
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from marks import report, resident_megabytes
from msgspec.structs import replace

from millstream.core.clock import SystemClock
from millstream.core.jobs.ids import JobId
from millstream.core.records.batches import Barrier
from millstream.core.records.types import LONG
from millstream.core.snapshot import FileSystemStorage
from millstream.core.snapshot.metadata.operator_json import operators_to_json
from millstream.datastream.state import ValueStateDescriptor
from millstream.taskmanager.testing import DEPLOYMENT
from millstream.taskmanager.worker.checkpointing.capture import CapturedOperator, CapturedTask
from millstream.taskmanager.worker.checkpointing.restoring import restore_task
from millstream.taskmanager.worker.checkpointing.writing import SnapshotTarget, warm_up, write_snapshot
from millstream.taskmanager.worker.main import GC_THRESHOLDS
from millstream.taskmanager.worker.state.backend import KeyedStateBackend
from millstream.taskmanager.worker.state.heap import HashMapStateBackend
from millstream.taskmanager.worker.state.key_group_index import KeyGroupIndex

_STRIDE = 7919  # neighbours in the stream are not neighbours in memory


def _state(backend: KeyedStateBackend) -> Any:
    return backend.state(ValueStateDescriptor("count", tuple[int, int]))


def _backend() -> KeyedStateBackend:
    index = KeyGroupIndex(DEPLOYMENT.max_parallelism)
    return HashMapStateBackend().keyed_backend("counting", LONG, index, SystemClock())


def _fill(backend: KeyedStateBackend, keys: int) -> None:
    state = _state(backend)
    for number in range(keys):
        key = number * _STRIDE % keys
        backend.set_current_key(key)
        state.update((number + 1_000, key + 1_000))


def _sum(backend: KeyedStateBackend, keys: int) -> int:
    state, total = _state(backend), 0
    for key in range(keys):
        backend.set_current_key(key)
        first, second = state.value()
        total += first * 3 + second
    return total


def _write(backend: KeyedStateBackend, number: int, storage: FileSystemStorage) -> bytes:
    """A savepoint; returns what a deployment refers to it by."""
    captured = CapturedTask((CapturedOperator("op", "op", "counting", backend.capture(number)),))
    barrier = Barrier(number, 0, storage.checkpoint_location(number), is_savepoint=True)
    try:
        written = write_snapshot(captured, SnapshotTarget(storage, barrier, DEPLOYMENT))
    finally:
        captured.release()
    return operators_to_json(written.operators)


def _restore(operators: bytes, number: int, storage: FileSystemStorage) -> KeyedStateBackend:
    location = storage.checkpoint_location(number)
    deployment = replace(DEPLOYMENT, restore=operators, restore_location=location, restored_checkpoint_id=number)
    backend = _backend()
    backend.restore(restore_task(deployment, storage).keyed_state("op"))
    return backend


def _peak() -> float:
    """The most resident memory since `_reset`, in MiB."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def _reset() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def main(what: str, keys: int, folder: str) -> None:
    """Everything that is loaded on the first use is loaded before the measurement, by a small state."""
    gc.set_threshold(*GC_THRESHOLDS)
    warm_up()
    storage, metadata = FileSystemStorage(folder, JobId("job")), Path(folder) / "operators.json"
    with ThreadPoolExecutor(1) as writer:
        small = _backend()
        _fill(small, 10)
        _state(_restore(writer.submit(_write, small, 9, storage).result(), 9, storage))
        if what == "write":
            backend = _backend()
            _fill(backend, keys)
            _reset()
            memory = resident_megabytes()
            metadata.write_bytes(writer.submit(_write, backend, 1, storage).result())
            report("written", memory=memory, peak=_peak(), sum=_sum(backend, keys))
        else:
            _reset()
            backend = _restore(metadata.read_bytes(), 1, storage)
            _state(backend)
            backend.hold_restored()
            memory = resident_megabytes()
            report("restored", memory=memory, peak=_peak(), sum=_sum(backend, keys))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
