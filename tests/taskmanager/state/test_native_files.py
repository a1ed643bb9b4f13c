"""A backend with a native format: its checkpoints are its files, stored once, and nothing in them is decoded."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from bytes_backend import BytesStateBackend
from msgspec.structs import replace
from ordered_bytes import ValueCodec
from state_rig import GROUPS, ttl

from millstream.core.clock import ManualClock
from millstream.core.jobs.ids import JobId
from millstream.core.keys.key_groups import key_group_of, key_group_range
from millstream.core.records import types as t
from millstream.core.records.batches import Barrier
from millstream.core.snapshot import FileSystemStorage, SnapshotError, read_state
from millstream.core.snapshot.metadata.operator_json import operators_to_json
from millstream.datastream.state import MapStateDescriptor, StateAccessError, ValueStateDescriptor
from millstream.taskmanager.testing import DEPLOYMENT
from millstream.taskmanager.worker.checkpointing.capture import CapturedOperator, CapturedTask
from millstream.taskmanager.worker.checkpointing.restoring import restore_task
from millstream.taskmanager.worker.checkpointing.writing import SnapshotTarget, WrittenSnapshot, write_snapshot
from millstream.taskmanager.worker.state.backend import KeyedStateBackend, StateBackend
from millstream.taskmanager.worker.state.heap import HashMapStateBackend
from millstream.taskmanager.worker.state.key_group_index import KeyGroupIndex

KEYS = list(range(200))


@dataclass
class Job:
    """One operator's checkpoints in a folder."""

    folder: Path
    bases: dict[int, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.storage = FileSystemStorage(str(self.folder), JobId("job"))

    def backend(self, made: StateBackend, subtask: int = 0, parallelism: int = 1) -> KeyedStateBackend:
        owned = key_group_range(subtask, GROUPS, parallelism)
        return made.keyed_backend("op", t.LONG, KeyGroupIndex(GROUPS, owned), ManualClock(1000))

    def write(self, backend: KeyedStateBackend, number: int, savepoint: bool = False) -> WrittenSnapshot:
        captured = CapturedTask((CapturedOperator("op", "op", "op", backend.capture(number, not savepoint)),))
        barrier = Barrier(number, 0, self.storage.checkpoint_location(number), is_savepoint=savepoint)
        deployment = replace(DEPLOYMENT, max_parallelism=GROUPS)
        written = write_snapshot(captured, SnapshotTarget(self.storage, barrier, deployment, not savepoint, self.bases))
        captured.release()
        self.bases[number] = written.layout
        return written

    def restored(
        self, written: WrittenSnapshot, number: int, made: StateBackend, subtask: int = 0, parallelism: int = 1
    ) -> KeyedStateBackend:
        deployment = replace(
            DEPLOYMENT, subtask=subtask, parallelism=parallelism, max_parallelism=GROUPS, restored_checkpoint_id=number,
            restore=operators_to_json(written.operators), restore_location=self.storage.checkpoint_location(number),
        )  # fmt: skip
        backend = self.backend(made, subtask, parallelism)
        backend.restore(restore_task(deployment, self.storage).keyed_state("op"))
        return backend


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def fill(backend: KeyedStateBackend, padding: str = "x" * 5000) -> Any:
    """Enough for files that are not inline."""
    state: Any = backend.state(ValueStateDescriptor("text", str))
    for key in KEYS:
        backend.set_current_key(key)
        state.update(f"{key}{padding}")
    backend.timers("timers").event.register_all(KEYS, KEYS)
    return state


def test_files_are_restored_without_decoding(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = job.backend(BytesStateBackend())
    state = fill(backend)
    with monkeypatch.context() as patch:
        patch.setattr(ValueCodec, "decode", None)
        patch.setattr(ValueCodec, "encode", None)
        written = job.write(backend, 1)
        restored = {p: [job.restored(written, 1, BytesStateBackend(), n, p) for n in range(p)] for p in (1, 3)}
        for backends in restored.values():
            for made in backends:
                made.state(ValueStateDescriptor("text", str))
    files = [file for stored in written.operators[0].states for file in stored.files]
    assert all(file.path.endswith(".bytes.native") for file in files)
    assert {file.key_groups for file in files} == {range(group, group + 1) for group in range(GROUPS)}
    for parallelism, backends in restored.items():
        fired = []
        for subtask, made in enumerate(backends):
            again: Any = made.state(ValueStateDescriptor("text", str))
            owned = key_group_range(subtask, GROUPS, parallelism)
            for key in KEYS:
                made.set_current_key(key)
                backend.set_current_key(key)
                assert again.value() == (state.value() if key_group_of(key, GROUPS) in owned else None)
            fired += [timer.key for timer in made.timers("timers").event.due(10**6)]
        assert sorted(fired) == KEYS


def test_a_file_is_stored_once(job: Job) -> None:
    backend = job.backend(BytesStateBackend())
    state = fill(backend)
    first = job.write(backend, 1)
    backend.confirm(1)
    backend.set_current_key(7)
    state.update("another" * 5000)
    second = job.write(backend, 2)
    before, after = ({file.path for file in written.files() if file.inline is None} for written in (first, second))
    (new,) = after - before
    assert second.new_files == (new,)
    assert len(after & before) == len(before) - 1
    again: Any = job.restored(second, 2, BytesStateBackend()).state(ValueStateDescriptor("text", str))
    assert again is not None


def test_a_savepoint_is_rows_that_every_backend_reads(job: Job) -> None:
    backend = job.backend(BytesStateBackend())
    fill(backend)
    written = job.write(backend, 1, savepoint=True)
    assert all(file.path.endswith(".parquet") for file in written.files())
    heap = job.restored(written, 1, HashMapStateBackend())
    state: Any = heap.state(ValueStateDescriptor("text", str))
    heap.set_current_key(7)
    assert state.value().startswith("7x")
    assert len(list(heap.timers("timers").event.due(10**6))) == len(KEYS)


def test_other_backends_refuse_native_files(job: Job) -> None:
    backend = job.backend(BytesStateBackend())
    fill(backend)
    written = job.write(backend, 1)
    heap = job.restored(written, 1, HashMapStateBackend())
    message = r"^file:.*\.bytes\.native: holds state '{}' in the format of the state backend bytes: start with that one"
    with pytest.raises(SnapshotError, match=message.format("text")):
        heap.state(ValueStateDescriptor("text", str))
    with pytest.raises(SnapshotError, match=r"holds state 'timers' in the format"):
        heap.timers("timers")
    state = written.operators[0].states[0]
    with pytest.raises(SnapshotError, match="only a job with it reads: take a savepoint to inspect its state"):
        read_state(job.storage, job.storage.checkpoint_location(1), state, state.files[0])


def test_types_and_time_to_live_cannot_change(job: Job) -> None:
    backend = job.backend(BytesStateBackend())
    backend.state(ValueStateDescriptor("text", str))
    written = job.write(_used(backend), 1)
    expiring = ValueStateDescriptor("text", str)
    expiring.enable_time_to_live(ttl().build())
    with pytest.raises(StateAccessError, match=r"'text' has got its time-to-live since .* start from a savepoint"):
        job.restored(written, 1, BytesStateBackend()).state(expiring)
    with pytest.raises(SnapshotError, match="cannot be restored"):
        job.restored(written, 1, BytesStateBackend()).state(ValueStateDescriptor("text", int))
    with pytest.raises(StateAccessError, match="was stored as value state"):
        job.restored(written, 1, BytesStateBackend()).state(MapStateDescriptor("text", str, int))


def _used(backend: KeyedStateBackend) -> KeyedStateBackend:
    state: Any = backend.state(ValueStateDescriptor("text", str))
    backend.set_current_key(1)
    state.update("x")
    return backend
