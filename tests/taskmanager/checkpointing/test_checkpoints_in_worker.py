"""Checkpoints of a slot worker driven manually: triggers, acknowledgements, notifications, and restores."""

from __future__ import annotations

import json
import random
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from checkpoint_rig import (
    COUNTED,
    SOURCE,
    CheckpointRig,
    Counting,
    PositionedSource,
    Remembering,
    counted,
    merged,
    operators,
    state_of,
    stored_state,
)
from msgspec.structs import replace
from worker_rig import chain, local_pair, writing, written

from millstream.core.jobs.failure_kinds import DeclineReason
from millstream.core.jobs.ids import JobId, OperatorId
from millstream.core.jobs.plan import plan
from millstream.core.keys.key_groups import key_group_of
from millstream.core.messages.checkpoints import CheckpointAck
from millstream.core.messages.deployment import TaskDeployment
from millstream.core.messages.task_manager import TaskUpdate
from millstream.core.records import types as t
from millstream.core.snapshot import (
    FileFormat,
    FileSystemStorage,
    OperatorSnapshot,
    SnapshotError,
    StateFile,
    StateKind,
    StateSnapshot,
    StateTypes,
    element_table,
    write_state,
)
from millstream.core.snapshot.metadata.operator_json import operators_to_json
from millstream.core.snapshot.storage.storage import FileSource
from millstream.datastream.adapters.keyed_adapters import with_keys
from millstream.datastream.functions import KeyedProcessFunction, RuntimeContext
from millstream.taskmanager.testing import DEPLOYMENT
from millstream.taskmanager.worker.checkpointing.restoring import restore_task

WORDS = [f"word {n % 37}" for n in range(400)]
PIPELINE = (SOURCE, COUNTED)


@pytest.fixture(autouse=True)
def fresh() -> None:
    Remembering.calls.clear()
    Remembering.fails = False


def run_until(rig: CheckpointRig, name: str, rows: int) -> None:
    rig.turn_until(lambda: len(written(name)) >= rows)


def counting(rig: CheckpointRig, name: str, rows: int, words: list[str] = WORDS) -> TaskDeployment:
    """A task that counts words, and has written so many results."""
    task = rig.start(*PIPELINE, writing(name))
    rig.feed(task, words)
    run_until(rig, name, rows)
    return task


def finish(rig: CheckpointRig, task: TaskDeployment) -> None:
    rig.feed(task, last=True)
    rig.turn_until(rig.ended(task))
    assert rig.state(task) == "FINISHED"


def files_of(ack: CheckpointAck) -> list[StateFile]:
    return [file for operator in operators(ack) for state in operator.states for file in state.files]


# A source task


def test_a_source_is_triggered_between_batches_and_acknowledges_its_state(rig: CheckpointRig) -> None:
    task = counting(rig, "sink", 100)
    done = len(written("sink"))
    (ack,) = rig.checkpoint(1, task)
    assert (ack.allocation_id, ack.checkpoint_id) == ("allocation", 1)
    assert ack.bytes_written > 0
    count = state_of(ack, "count")
    assert stored_state(rig.location(1), count) == Counter(WORDS[:done])
    assert (count.kind, count.files[0].subtask, count.files[0].key_groups) == (StateKind.VALUE, 0, range(128))
    positions = state_of(ack, "splits")
    assert positions.kind is StateKind.SPLITS
    assert list(stored_state(rig.location(1), positions).values()) == [[WORDS, done]]
    assert [type(json.loads(ack.operators))] == [list]


def test_a_restored_task_continues_as_if_nothing_had_happened(rig: CheckpointRig) -> None:
    task = counting(rig, "before", 150)
    rig.trigger(1, task)
    before = written("before")
    (ack,) = rig.acknowledged(1, task)
    run_until(rig, "before", len(before) + 50)
    rig.cancel(task.attempt_id)
    again = rig.restored(*PIPELINE, writing("after"), restore=ack.operators)
    finish(rig, again)
    assert Counter(before + written("after")) == counted(WORDS)


@pytest.mark.parametrize(("old", "new"), [(1, 3), (2, 3), (3, 1), (2, 2)])
def test_state_is_redistributed_under_another_parallelism(rig: CheckpointRig, old: int, new: int) -> None:
    def of_subtask(words: list[str], subtask: int, parallelism: int) -> list[str]:
        return [word for word in words if key_group_of(word, 128) * parallelism // 128 == subtask]

    acks, results, rest = [], [], []
    for subtask in range(old):
        mine = of_subtask(WORDS, subtask, old)
        first, second = mine[: len(mine) // 2], mine[len(mine) // 2 :]
        name = f"old {subtask}"
        task = rig.subtask(chain(*PIPELINE, writing(name)), subtask, old)
        rig.deploy(task)
        rig.feed(task, first)
        run_until(rig, name, len(first))
        acks += rig.checkpoint(1, task)
        results += written(name)
        rest += second
        rig.cancel(task.attempt_id)
    for subtask in range(new):
        name = f"new {subtask}"
        task = rig.restored(*PIPELINE, writing(name), restore=merged(acks), subtask=subtask, parallelism=new)
        rig.feed(task, of_subtask(rest, subtask, new))
        finish(rig, task)
        results += written(name)
    assert Counter(results) == counted(WORDS)


def test_a_task_that_ends_waits_for_its_snapshot_and_sends_no_barrier_after_the_end(rig: CheckpointRig) -> None:
    output, gate = local_pair(rig, 900)
    source = rig.start(*PIPELINE, outputs=[output])
    sink = rig.start(writing("ends"), inputs=[gate])
    rig.feed(source, WORDS)
    rig.trigger(1, source)
    rig.feed(source, last=True)
    rig.turn_until(rig.ended(source, sink))
    assert {ack.attempt_id for ack in rig.acks(1)} == {source.attempt_id, sink.attempt_id}
    kinds = [
        type(m) for m in rig.sent if isinstance(m, CheckpointAck | TaskUpdate) and m.attempt_id == source.attempt_id
    ]
    assert kinds[-1] is TaskUpdate
    assert CheckpointAck in kinds


def test_savepoints_are_parquet_files_and_never_inline(rig: CheckpointRig, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    task = counting(rig, "savepoint", 400)
    location = (tmp_path / "elsewhere" / "savepoint-1").as_uri()
    (ack,) = rig.checkpoint(1, task, location=location, savepoint=True, full=True)
    (file,) = state_of(ack, "count").files
    assert file.inline is None
    assert file.path.endswith(FileFormat.PARQUET.value)
    stored = tmp_path / "elsewhere" / "savepoint-1" / file.path
    table = pq.read_table(stored)
    assert dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)) == Counter(WORDS)
    again = rig.restored(*PIPELINE, restore=ack.operators, location=location)
    assert rig.state(again) == "RUNNING"
    for content, reason in ((bytes(file.size), "checksum; checkpoint 1 at "), (b"x", "it has 1 bytes")):
        stored.write_bytes(content)
        damaged = rig.restored(*PIPELINE, restore=ack.operators, location=location)
        assert rig.state(damaged) == "FAILED"
        failure = rig.failure(damaged)
        assert f"UnusableFileError: {location}/{file.path}: is damaged: " in failure.exception
        assert reason in failure.exception
        assert failure.final, "it stays damaged"
    stored.unlink()
    missing = rig.restored(*PIPELINE, restore=ack.operators, location=location)
    failure = rig.failure(missing)
    assert failure.exception.endswith(f"MissingFileError: {location}/{file.path}: does not exist")
    assert not failure.final, "storage may be away for a while"


def test_native_savepoints_are_the_files_of_checkpoints_and_never_inline(rig: CheckpointRig, tmp_path: Path) -> None:
    task = counting(rig, "native", 400)
    location = (tmp_path / "elsewhere" / "savepoint-1").as_uri()
    (ack,) = rig.checkpoint(1, task, location=location, savepoint=True, full=True, native=True)
    kinds = {(Path(file.path).suffix, file.inline, file.shared) for file in files_of(ack)}
    assert kinds == {(".arrow", None, False)}
    assert stored_state(location, state_of(ack, "count")) == Counter(WORDS)


class OtherCounting(Counting):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state("count", str)


class ListCounting(Counting):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_list_state("count", int)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (OtherCounting(), "state 'count': cannot be restored: changed from Long to String: stored Long, declared "),
        (ListCounting(), "state 'count' was stored as value state of Long, and the program declares it as list state"),
    ],
)
def test_a_state_stored_with_another_kind_fails_the_task_permanently(
    rig: CheckpointRig, function: Counting, reason: str
) -> None:
    (ack,) = rig.checkpoint(1, counting(rig, "typed", 100))
    changed = plan.KeyedProcessSpec(function, plan.KeySelector(function=str), t.STRING)
    failure = rig.failure(rig.restored(SOURCE, changed, restore=ack.operators))
    assert failure.final
    assert reason in failure.exception


# Functions


def function_of(rig: CheckpointRig, task: TaskDeployment) -> Any:
    return rig.operator(task, 1).function


@pytest.mark.parametrize("keyed", [False, True])
def test_checkpointed_functions_are_initialized_before_open_and_notified_of_checkpoints(
    rig: CheckpointRig, keyed: bool
) -> None:
    def remembering() -> plan.OperatorSpec:
        spec = plan.MapSpec(Remembering())
        return with_keys(spec, plan.KeySelector(function=str), t.STRING) if keyed else spec

    task = rig.start(SOURCE, remembering())
    assert Remembering.calls == ["fresh", "open"]
    rig.feed(task, WORDS)
    rig.turn_until(lambda: not rig.unread(task))
    (ack,) = rig.checkpoint(1, task)
    rig.notice(1, True, task)
    rig.checkpoint(2, task)
    rig.notice(2, False, task)
    assert Remembering.calls[2:] == [("complete", 1), ("aborted", 2)]
    Remembering.calls.clear()
    again = rig.restored(SOURCE, remembering(), restore=ack.operators)
    assert Remembering.calls == [("restored", 1), "open"]
    function = function_of(rig, again)
    assert (function.function if keyed else function).total == len(WORDS)


def test_a_function_that_cannot_be_captured_declines_and_processing_continues(rig: CheckpointRig) -> None:
    task = rig.start(SOURCE, plan.MapSpec(Remembering()), writing("declines"))
    Remembering.fails = True
    rig.trigger(1, task)
    (decline,) = rig.declines(1)
    assert (decline.reason, decline.attempt_id) == (DeclineReason.RAISED, task.attempt_id)
    assert decline.message == "op 1: ValueError: the state is not in order"
    assert (decline.failure.operator_name, decline.failure.vertex_id) == ("op 1", task.vertex_id)
    assert "in snapshot_state" in decline.failure.traceback
    Remembering.fails = False
    rig.feed(task, WORDS)
    rig.checkpoint(2, task)
    finish(rig, task)


@pytest.mark.parametrize(("old", "new"), [(2, 2), (2, 3), (3, 1)])
def test_lists_are_redistributed_under_another_parallelism(rig: CheckpointRig, old: int, new: int) -> None:
    acks = []
    for subtask in range(old):
        task = rig.subtask(chain(SOURCE, plan.MapSpec(Remembering())), subtask, old)
        rig.deploy(task)
        function_of(rig, task).total = 10**subtask
        (ack,) = rig.checkpoint(1, task)
        assert state_of(ack, "total").kind is StateKind.OPERATOR_LIST
        acks.append(ack)
    totals = []
    for subtask in range(new):
        specs = (SOURCE, plan.MapSpec(Remembering()))
        task = rig.restored(*specs, restore=merged(acks), subtask=subtask, parallelism=new)
        totals.append(function_of(rig, task).total)
    assert totals == {2: [1, 10], 3: [1, 10, 0], 1: [111]}[new]


# Storage


def test_a_directory_that_cannot_be_written_declines_and_processing_continues(
    rig: CheckpointRig, tmp_path: Path
) -> None:
    (tmp_path / "job").write_text("in the way")
    task = counting(rig, "unwritable", 2000, [f"{'long' * 50} {n}" for n in range(2000)])
    rig.trigger(1, task)
    rig.turn_until(rig.responded(1, 1))
    (decline,) = rig.declines(1)
    assert decline.reason == DeclineReason.NOT_WRITTEN
    assert "/job/chk-1/op-1/" in decline.message
    finish(rig, task)


class Exiting:
    """Cannot be stored."""

    def __reduce__(self) -> Any:
        sys.exit(3)


class KeepingExits(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.kept = runtime_context.get_state("kept", Exiting)

    def process_element(self, value: str, ctx: Any) -> Iterator[Any]:
        self.kept.update(Exiting())
        yield (value,)


def test_a_value_that_exits_when_it_is_stored_declines_and_processing_continues(rig: CheckpointRig) -> None:
    keeping = plan.KeyedProcessSpec(KeepingExits(), plan.KeySelector(function=str), t.STRING)
    task = rig.start(SOURCE, keeping, writing("exits"))
    rig.feed(task, WORDS[:1])
    run_until(rig, "exits", 1)
    rig.trigger(1, task)
    rig.turn_until(rig.responded(1, 1))
    assert "SystemExit" in rig.declines(1)[0].message
    finish(rig, task)


def test_with_the_job_managers_memory_everything_is_inline_up_to_a_limit() -> None:
    rig = CheckpointRig()
    try:
        task = counting(rig, "memory", 400)
        (ack,) = rig.checkpoint(1, task)
        assert files_of(ack)
        assert all(file.inline is not None for file in files_of(ack))
        again = rig.restored(*PIPELINE, writing("after memory"), restore=ack.operators)
        rig.feed(again, ["word 1"])
        run_until(rig, "after memory", 1)
        assert written("after memory") == [("word 1", WORDS.count("word 1") + 1, WORDS.count("word 1") + 1)]
        rig.feed(task, [f"{random.Random(n).getrandbits(4_000_000):x}" for n in range(12)])
        run_until(rig, "memory", 412)
        rig.trigger(2, task)
        rig.turn_until(rig.responded(2, 1))
        assert "is larger than the 5242880 bytes" in rig.declines(2)[0].message
    finally:
        rig.close()


def test_the_files_of_an_aborted_checkpoint_are_deleted(rig: CheckpointRig, tmp_path: Path) -> None:
    def files(checkpoint: int) -> list[Path]:
        return [path for path in (tmp_path / "job" / f"chk-{checkpoint}").rglob("*") if path.is_file()]

    task = counting(rig, "aborted", 900, [f"{n:0400x}" for n in range(2**1000, 2**1000 + 900)])
    for checkpoint in (1, 2):
        rig.checkpoint(checkpoint, task)
        assert files(checkpoint)
    rig.notice(1, False, task)
    rig.notice(2, True, task)
    with rig.writers_held():
        rig.trigger(3, task)
        rig.notice(3, False, task)
    rig.turn_until(lambda: not rig.running(task).checkpoints.is_writing)
    rig.worker.writers.shutdown(wait=True)
    assert [bool(files(checkpoint)) for checkpoint in (1, 2, 3)] == [False, True, False]
    assert not rig.acks(3)


# Incremental checkpoints


@pytest.mark.parametrize("options", [{"execution.checkpointing.incremental": "true"}])
def test_an_incremental_checkpoint_writes_what_was_modified_and_refers_to_the_rest(rig: CheckpointRig) -> None:
    sums = plan.ReduceSpec(
        lambda a, b: (a[0], a[1] + b[1]), plan.KeySelector(fields=(0,)), t.LONG, t.TupleType((t.LONG, t.LONG))
    )
    task = rig.start(plan.SourceSpec(PositionedSource(20_000)), sums, writing("i"))
    rig.feed(task, [(n, 1) for n in range(100_000)])
    run_until(rig, "i", 100_000)
    (first,) = rig.checkpoint(1, task)
    rig.notice(1, True, task)
    rig.feed(task, [(5, 10)])
    run_until(rig, "i", 100_001)
    (second,) = rig.checkpoint(2, task)

    def contents(checkpoint: int, ack: CheckpointAck) -> dict[Any, Any]:
        return stored_state(rig.location(checkpoint), state_of(ack, "reduce"))

    def paths(ack: CheckpointAck) -> set[str]:
        return {file.path for file in state_of(ack, "reduce").files}

    assert second.bytes_written < first.bytes_written / 10
    expected = {n: (n, 11 if n == 5 else 1) for n in range(100_000)}
    assert contents(2, second) == expected
    assert len(paths(second) - paths(first)) == 1
    (third,) = rig.checkpoint(3, task, full=True)
    assert not paths(third) & (paths(first) | paths(second))
    rig.notice(2, False, task)
    rig.notice(3, True, task)
    (fourth,) = rig.checkpoint(4, task, oldest_base=3)
    assert state_of(fourth, "reduce").files == state_of(third, "reduce").files
    # the fourth has completed, and the third may be deleted: the notification is in flight
    (fifth,) = rig.checkpoint(5, task, oldest_base=4)
    assert not paths(fifth) & paths(third)
    assert contents(5, fifth) == expected
    rig.worker.writers.shutdown(wait=True)
    assert contents(1, first)[5] == (5, 1)
    assert contents(3, third) == expected


class Stuck:
    """A storage in which one file is damaged, and all others are only read to their end when the test allows it."""

    def __init__(self, storage: FileSource, damaged: str) -> None:
        self._storage, self._damaged = storage, damaged
        self.read: list[str] = []
        self.go_on = threading.Event()

    def read_file(self, location: str, path: str) -> Any:
        self.read.append(path)
        if path == self._damaged:
            raise SnapshotError(path, "is damaged")
        self.go_on.wait(60)
        return self._storage.read_file(location, path)


def test_a_failed_restore_waits_for_no_other_file(tmp_path: Path) -> None:
    storage = FileSystemStorage(tmp_path.as_uri(), JobId("job"))
    location = storage.checkpoint_location(1)
    table = element_table([b"x"], StateTypes(value=t.PICKLED), pickler=bytes)
    files = [
        file
        for part in range(20)
        for file in write_state(storage, location, "op-0", "s", 0, table, FileFormat.ARROW, first_part=part)
    ]
    kept = StateSnapshot("s", StateKind.OPERATOR_UNION, files=tuple(files))
    stored = OperatorSnapshot(OperatorId("op-0"), None, "op", 1, 128, (kept,))
    deployment = replace(DEPLOYMENT, restore=operators_to_json([stored]), restore_location=location)
    stuck = Stuck(storage, files[0].path)
    try:
        with pytest.raises(SnapshotError, match="is damaged"):
            restore_task(deployment, stuck)
        assert len(stuck.read) < 20
    finally:
        stuck.go_on.set()
