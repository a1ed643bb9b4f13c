"""Checkpoints of a slot worker driven by hand: triggers, acknowledgements, notices, and restores from them."""

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
from checkpoint_rig import COUNTED, CheckpointRig, Counting, PositionedSource, Remembering, chain_of
from msgspec.structs import replace
from worker_rig import WRITTEN, NamedSink, local_pair

from millstream.core.jobs import plan
from millstream.core.jobs.failure_kinds import DeclineReason
from millstream.core.jobs.ids import JobId, OperatorId
from millstream.core.keys.key_groups import key_group_of
from millstream.core.messages.checkpoints import CheckpointAck
from millstream.core.messages.deployment import TaskDeployment
from millstream.core.messages.sources import NoMoreSplits, Splits
from millstream.core.messages.task_manager import TaskUpdate
from millstream.core.pickling import to_bytes
from millstream.core.records import types as t
from millstream.core.snapshot import (
    FileFormat,
    FileSystemStorage,
    OperatorSnapshot,
    SnapshotError,
    StateKind,
    StateSnapshot,
    StateTypes,
    element_table,
    read_rows,
    read_state,
    storage_at,
    write_state,
)
from millstream.core.snapshot.metadata.operator_json import operators_from_json, operators_to_json
from millstream.core.snapshot.storage.storage import FileSource
from millstream.datastream.adapters.keyed_adapters import with_keys
from millstream.datastream.functions import KeyedProcessFunction, RuntimeContext
from millstream.taskmanager.testing import DEPLOYMENT
from millstream.taskmanager.worker.checkpointing.restoring import restore_task

WORDS = [f"word {n % 37}" for n in range(400)]
SOURCE = plan.SourceSpec(PositionedSource())
PIPELINE = (SOURCE, COUNTED)


@pytest.fixture(autouse=True)
def fresh() -> None:
    Remembering.told.clear()
    Remembering.fails = False


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[CheckpointRig]:
    made = CheckpointRig(tmp_path)
    yield made
    made.close()


def splits(*rows: list[Any]) -> bytes:
    return to_bytes([(part, 0) for part in rows])


def operators(ack: CheckpointAck) -> dict[str, OperatorSnapshot]:
    return {operator.operator_id: operator for operator in operators_from_json(ack.operators, "ack")}


def state(ack: CheckpointAck, operator_id: str, name: str) -> StateSnapshot:
    return next(s for s in operators(ack)[operator_id].states if s.name == name)


def contents(location: str, stored: StateSnapshot) -> dict[Any, Any]:
    storage, folder = storage_at(location)
    found: dict[Any, Any] = {}
    for file in stored.files:
        rows = read_rows(read_state(storage, folder, stored, file), stored, unpickle=True)
        found.update(zip(rows.keys or rows.detail, rows.content, strict=True))
    return found


def straight() -> Counter[Any]:
    counts: Counter[str] = Counter()
    results: Counter[Any] = Counter()
    for word in WORDS:
        counts[word] += 1
        results[word, counts[word], counts[word]] += 1
    return results


def words_written(name: str) -> list[Any]:
    return [row for row in WRITTEN[name] if isinstance(row, tuple)]


def run_until(rig: CheckpointRig, name: str, rows: int) -> None:
    rig.turn_until(lambda: name in WRITTEN and len(words_written(name)) >= rows)


# A source task


def test_a_source_is_triggered_between_batches_and_acknowledges_its_state(rig: CheckpointRig) -> None:
    task = rig.subtask(chain_of(*PIPELINE, plan.SinkSpec(NamedSink("sink"))))
    rig.deploy(task)
    rig.tell(task, Splits(splits(WORDS)))
    run_until(rig, "sink", 100)
    done = len(words_written("sink"))
    rig.trigger(1, task)
    (ack,) = rig.acknowledged(1, task)
    assert (ack.allocation_id, ack.checkpoint_id) == ("allocation", 1)
    assert ack.bytes_written > 0
    count = state(ack, "op-1", "count")
    assert contents(rig.location(1), count) == Counter(WORDS[:done])
    assert (count.kind, count.files[0].subtask, count.files[0].key_groups) == (StateKind.VALUE, 0, range(128))
    positions = state(ack, "op-0", "splits")
    assert positions.kind is StateKind.SPLITS
    assert list(contents(rig.location(1), positions).values()) == [[WORDS, done]]
    assert [type(json.loads(ack.operators))] == [list]


def test_a_restored_task_goes_on_as_if_nothing_had_happened(rig: CheckpointRig) -> None:
    task = rig.subtask(chain_of(*PIPELINE, plan.SinkSpec(NamedSink("before"))))
    rig.deploy(task)
    rig.tell(task, Splits(splits(WORDS)))
    run_until(rig, "before", 150)
    rig.trigger(1, task)
    before = words_written("before")
    (ack,) = rig.acknowledged(1, task)
    run_until(rig, "before", len(before) + 50)
    rig.cancel(task.attempt_id)
    again = rig.subtask(chain_of(*PIPELINE, plan.SinkSpec(NamedSink("after"))), restore=ack.operators)
    rig.deploy(again)
    rig.tell(again, NoMoreSplits())
    rig.turn_until(rig.ended(again))
    assert rig.states(again)[-1] == "FINISHED"
    assert Counter(before + words_written("after")) == straight()


@pytest.mark.parametrize(("old", "new"), [(1, 3), (2, 3), (3, 1), (2, 2)])
def test_state_is_redistributed_under_another_parallelism(rig: CheckpointRig, old: int, new: int) -> None:
    half = len(WORDS) // 2
    merged: dict[tuple[str, str], StateSnapshot] = {}
    shape: dict[str, OperatorSnapshot] = {}
    before: list[Any] = []
    for subtask in range(old):
        mine = [word for word in WORDS if key_group_of(word, 128) * old // 128 == subtask]
        first, second = mine[: len(mine) // 2], mine[len(mine) // 2 :]
        name = f"old {subtask}"
        task = rig.subtask(chain_of(*PIPELINE, plan.SinkSpec(NamedSink(name))), subtask, old)
        rig.deploy(task)
        rig.tell(task, Splits(splits(first)))
        run_until(rig, name, len(first))
        rig.trigger(1, task)
        before += words_written(name) + second
        (ack,) = rig.acknowledged(1, task)
        for operator in operators(ack).values():
            shape[operator.operator_id] = operator
            for stored in operator.states:
                known = merged.get((operator.operator_id, stored.name))
                files = (known.files if known else ()) + stored.files
                merged[operator.operator_id, stored.name] = replace(stored, files=files)
        rig.cancel(task.attempt_id)
    restore = operators_to_json(
        replace(operator, states=tuple(s for (owner, _), s in merged.items() if owner == operator_id))
        for operator_id, operator in shape.items()
    )
    rest = [row for row in before if isinstance(row, str)]
    results = [row for row in before if isinstance(row, tuple)]
    assert half <= len(rest) + len(results)
    for subtask in range(new):
        mine = [word for word in rest if key_group_of(word, 128) * new // 128 == subtask]
        name = f"new {subtask}"
        task = rig.subtask(chain_of(*PIPELINE, plan.SinkSpec(NamedSink(name))), subtask, new, restore)
        rig.deploy(task)
        rig.tell(task, Splits(splits(mine)))
        rig.tell(task, NoMoreSplits())
        rig.turn_until(rig.ended(task))
        assert rig.states(task)[-1] == "FINISHED"
        results += words_written(name)
    assert Counter(results) == straight()


def test_several_checkpoints_may_be_under_way(rig: CheckpointRig) -> None:
    task = rig.subtask(chain_of(*PIPELINE, plan.SinkSpec(NamedSink("several"))))
    rig.deploy(task)
    rig.tell(task, Splits(splits(WORDS)))
    marks = []
    for checkpoint in (1, 2, 3):
        run_until(rig, "several", 60 * checkpoint)
        marks.append(len(words_written("several")))
        rig.trigger(checkpoint, task)
    for checkpoint, mark in zip((1, 2, 3), marks, strict=True):
        (ack,) = rig.acknowledged(checkpoint, task)
        assert contents(rig.location(checkpoint), state(ack, "op-1", "count")) == Counter(WORDS[:mark])


def test_a_task_that_ends_waits_for_its_snapshot_and_sends_no_barrier_behind_the_end(rig: CheckpointRig) -> None:
    output, gate = local_pair(rig, 900)
    source = rig.subtask(chain_of(*PIPELINE, outputs=1), outputs=[output])
    sink = rig.subtask(chain_of(plan.SinkSpec(NamedSink("ends")), prefix="sink"), inputs=[gate])
    rig.deploy(source, sink)
    rig.tell(source, Splits(splits(WORDS)))
    rig.trigger(1, source)
    rig.tell(source, NoMoreSplits())
    rig.turn_until(rig.ended(source, sink))
    assert {ack.attempt_id for ack in rig.acks(1)} == {source.attempt_id, sink.attempt_id}
    kinds = [
        type(m) for m in rig.sent if isinstance(m, CheckpointAck | TaskUpdate) and m.attempt_id == source.attempt_id
    ]
    assert kinds[-1] is TaskUpdate
    assert CheckpointAck in kinds


def test_savepoints_are_parquet_files_and_never_inline(rig: CheckpointRig, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    task = rig.subtask(chain_of(*PIPELINE, plan.SinkSpec(NamedSink("savepoint"))))
    rig.deploy(task)
    rig.tell(task, Splits(splits(WORDS)))
    run_until(rig, "savepoint", 400)
    location = (tmp_path / "elsewhere" / "savepoint-1").as_uri()
    rig.trigger(1, task, location=location, savepoint=True, full=True)
    (ack,) = rig.acknowledged(1, task)
    (file,) = state(ack, "op-1", "count").files
    assert file.inline is None
    assert file.path.endswith(FileFormat.PARQUET.value)
    table = pq.read_table(tmp_path / "elsewhere" / "savepoint-1" / file.path)
    assert dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)) == Counter(WORDS)
    again = rig.subtask(chain_of(*PIPELINE), restore=ack.operators, location=location)
    rig.deploy(again)
    assert rig.states(again)[-1] == "RUNNING"
    stored = tmp_path / "elsewhere" / "savepoint-1" / file.path
    for content, reason in ((bytes(file.size), "checksum; checkpoint 1 at "), (b"x", "it has 1 bytes")):
        stored.write_bytes(content)
        damaged = rig.subtask(chain_of(*PIPELINE), restore=ack.operators, location=location)
        rig.deploy(damaged)
        assert rig.states(damaged)[-1] == "FAILED"
        failure = rig.updates(damaged)[-1].failure
        assert f"UnusableFileError: {location}/{file.path}: is damaged: " in failure.exception
        assert reason in failure.exception
        assert failure.final, "it stays damaged"
    stored.unlink()
    missing = rig.subtask(chain_of(*PIPELINE), restore=ack.operators, location=location)
    rig.deploy(missing)
    failure = rig.updates(missing)[-1].failure
    assert failure.exception.endswith(f"SnapshotError: {location}/{file.path}: does not exist")
    assert not failure.final, "storage may be away for a while"


def test_native_savepoints_are_the_files_of_checkpoints_and_never_inline(rig: CheckpointRig, tmp_path: Path) -> None:
    task = rig.subtask(chain_of(*PIPELINE, plan.SinkSpec(NamedSink("native"))))
    rig.deploy(task)
    rig.tell(task, Splits(splits(WORDS)))
    run_until(rig, "native", 400)
    location = (tmp_path / "elsewhere" / "savepoint-1").as_uri()
    rig.trigger(1, task, location=location, savepoint=True, full=True, native=True)
    (ack,) = rig.acknowledged(1, task)
    files = [file for operator in operators(ack).values() for kept in operator.states for file in kept.files]
    assert {(Path(file.path).suffix, file.inline, file.shared) for file in files} == {(".arrow", None, False)}
    assert contents(location, state(ack, "op-1", "count")) == Counter(WORDS)


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
def test_a_state_that_was_stored_as_something_else_fails_the_task_for_good(
    rig: CheckpointRig, function: Counting, reason: str
) -> None:
    task = rig.subtask(chain_of(*PIPELINE, plan.SinkSpec(NamedSink("typed"))))
    rig.deploy(task)
    rig.tell(task, Splits(splits(WORDS)))
    run_until(rig, "typed", 100)
    rig.trigger(1, task)
    (ack,) = rig.acknowledged(1, task)
    changed = plan.KeyedProcessSpec(function, plan.KeySelector(function=str), t.STRING)
    again = rig.subtask(chain_of(SOURCE, changed), restore=ack.operators)
    rig.deploy(again)
    failure = rig.updates(again)[-1].failure
    assert failure.final
    assert reason in failure.exception


# Functions


@pytest.mark.parametrize("keyed", [False, True])
def test_checkpointed_functions_are_initialized_before_open_and_hear_what_came_of_checkpoints(
    rig: CheckpointRig, keyed: bool
) -> None:
    def remembering() -> plan.OperatorSpec:
        spec = plan.MapSpec(Remembering())
        return with_keys(spec, plan.KeySelector(function=str), t.STRING) if keyed else spec

    task = rig.subtask(chain_of(SOURCE, remembering()))
    rig.deploy(task)
    assert Remembering.told == ["fresh", "open"]
    rig.tell(task, Splits(splits(WORDS)))
    rig.turn_until(lambda: not rig.unread(task))
    rig.trigger(1, task)
    (ack,) = rig.acknowledged(1, task)
    rig.notice(1, True, task)
    rig.trigger(2, task)
    rig.acknowledged(2, task)
    rig.notice(2, False, task)
    assert Remembering.told[2:] == [("complete", 1), ("aborted", 2)]
    Remembering.told.clear()
    again = rig.subtask(chain_of(SOURCE, remembering()), restore=ack.operators)
    rig.deploy(again)
    assert Remembering.told == [("restored", 1), "open"]
    function = function_of(rig, again)
    assert (function.function if keyed else function).total == len(WORDS)


def test_a_function_that_cannot_be_captured_declines_and_processing_goes_on(rig: CheckpointRig) -> None:
    task = rig.subtask(chain_of(SOURCE, plan.MapSpec(Remembering()), plan.SinkSpec(NamedSink("declines"))))
    rig.deploy(task)
    Remembering.fails = True
    rig.trigger(1, task)
    (decline,) = rig.declines(1)
    assert (decline.reason, decline.attempt_id) == (DeclineReason.RAISED, task.attempt_id)
    assert decline.message == "op 1: ValueError: the state is not in order"
    assert (decline.failure.operator_name, decline.failure.vertex_id) == ("op 1", task.vertex_id)
    assert "in snapshot_state" in decline.failure.traceback
    Remembering.fails = False
    rig.tell(task, Splits(splits(WORDS)))
    rig.tell(task, NoMoreSplits())
    rig.trigger(2, task)
    rig.acknowledged(2, task)
    rig.turn_until(rig.ended(task))
    assert rig.states(task)[-1] == "FINISHED"


@pytest.mark.parametrize(("old", "new"), [(2, 2), (2, 3), (3, 1)])
def test_lists_are_dealt_out_under_another_parallelism(rig: CheckpointRig, old: int, new: int) -> None:
    stored: OperatorSnapshot | None = None
    for subtask in range(old):
        task = rig.subtask(chain_of(SOURCE, plan.MapSpec(Remembering())), subtask, old)
        rig.deploy(task)
        function_of(rig, task).total = 10 ** subtask
        rig.trigger(1, task)
        (ack,) = rig.acknowledged(1, task)
        mine = operators(ack)["op-1"]
        (total,) = mine.states
        assert total.kind is StateKind.OPERATOR_LIST
        files = total.files if stored is None else stored.states[0].files + total.files
        stored = replace(mine, states=(replace(total, files=files),))
    assert stored is not None
    totals = []
    for subtask in range(new):
        restored = rig.subtask(
            chain_of(SOURCE, plan.MapSpec(Remembering())), subtask, new, operators_to_json([stored])
        )
        rig.deploy(restored)
        totals.append(function_of(rig, restored).total)
    assert totals == {2: [1, 10], 3: [1, 10, 0], 1: [111]}[new]


def function_of(rig: CheckpointRig, task: TaskDeployment) -> Any:
    return rig.operator(task, 1).function


# Storage


def test_a_directory_that_cannot_be_written_declines_and_processing_goes_on(rig: CheckpointRig, tmp_path: Path) -> None:
    (tmp_path / "job").write_text("in the way")
    task = rig.subtask(chain_of(*PIPELINE, plan.SinkSpec(NamedSink("unwritable"))))
    rig.deploy(task)
    rig.tell(task, Splits(splits([f"{'long' * 50} {n}" for n in range(2000)])))
    run_until(rig, "unwritable", 2000)
    rig.trigger(1, task)
    rig.turn_until(rig.answered(1, 1))
    (decline,) = rig.declines(1)
    assert decline.reason == DeclineReason.NOT_WRITTEN
    assert "/job/chk-1/op-1/" in decline.message
    rig.tell(task, NoMoreSplits())
    rig.turn_until(rig.ended(task))
    assert rig.states(task)[-1] == "FINISHED"


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


def test_a_value_that_exits_when_it_is_stored_declines_and_processing_goes_on(rig: CheckpointRig) -> None:
    keeping = plan.KeyedProcessSpec(KeepingExits(), plan.KeySelector(function=str), t.STRING)
    task = rig.subtask(chain_of(SOURCE, keeping, plan.SinkSpec(NamedSink("exits"))))
    rig.deploy(task)
    rig.tell(task, Splits(splits(WORDS[:1])))
    run_until(rig, "exits", 1)
    rig.trigger(1, task)
    rig.turn_until(rig.answered(1, 1))
    assert "SystemExit" in rig.declines(1)[0].message
    rig.tell(task, NoMoreSplits())
    rig.turn_until(rig.ended(task))
    assert rig.states(task)[-1] == "FINISHED"


def test_with_the_job_managers_memory_everything_is_inline_up_to_a_limit() -> None:
    rig = CheckpointRig()
    try:
        task = rig.subtask(chain_of(*PIPELINE, plan.SinkSpec(NamedSink("memory"))))
        rig.deploy(task)
        rig.tell(task, Splits(splits(WORDS)))
        run_until(rig, "memory", 400)
        rig.trigger(1, task)
        (ack,) = rig.acknowledged(1, task)
        files = [file for operator in operators(ack).values() for s in operator.states for file in s.files]
        assert files
        assert all(file.inline is not None for file in files)
        again = rig.subtask(chain_of(*PIPELINE, plan.SinkSpec(NamedSink("after memory"))), restore=ack.operators)
        rig.deploy(again)
        rig.tell(again, Splits(splits(["word 1"])))
        run_until(rig, "after memory", 1)
        assert words_written("after memory") == [("word 1", WORDS.count("word 1") + 1, WORDS.count("word 1") + 1)]
        rig.tell(task, Splits(splits([f"{random.Random(n).getrandbits(4_000_000):x}" for n in range(12)])))
        run_until(rig, "memory", 412)
        rig.trigger(2, task)
        rig.turn_until(rig.answered(2, 1))
        assert "is larger than the 5242880 bytes" in rig.declines(2)[0].message
    finally:
        rig.close()


def test_the_files_of_an_aborted_checkpoint_are_deleted(rig: CheckpointRig, tmp_path: Path) -> None:
    task = rig.subtask(chain_of(*PIPELINE, plan.SinkSpec(NamedSink("aborted"))))
    rig.deploy(task)
    rig.tell(task, Splits(splits([f"{n:0400x}" for n in range(2**1000, 2**1000 + 900)])))
    run_until(rig, "aborted", 900)
    rig.trigger(1, task)
    rig.acknowledged(1, task)
    rig.trigger(2, task)
    rig.acknowledged(2, task)
    assert _files(tmp_path / "job" / "chk-1")
    assert _files(tmp_path / "job" / "chk-2")
    rig.notice(1, False, task)
    rig.notice(2, True, task)
    with rig.writers_held():
        rig.trigger(3, task)
        rig.notice(3, False, task)
    rig.turn_until(lambda: not rig.running(task).checkpoints.is_writing)
    rig.worker.writers.shutdown(wait=True)
    assert not _files(tmp_path / "job" / "chk-1")
    assert _files(tmp_path / "job" / "chk-2")
    assert not _files(tmp_path / "job" / "chk-3")
    assert not rig.acks(3)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


# Incremental checkpoints


def test_an_incremental_checkpoint_writes_what_was_touched_and_refers_to_the_rest(tmp_path: Path) -> None:
    options = {"execution.checkpointing.incremental": "true", "execution.checkpointing.dir": str(tmp_path)}
    rig = CheckpointRig(tmp_path, **options)
    try:
        _check_incremental(rig)
    finally:
        rig.close()


def _check_incremental(rig: CheckpointRig) -> None:
    counted = plan.ReduceSpec(
        lambda a, b: (a[0], a[1] + b[1]), plan.KeySelector(fields=(0,)), t.LONG, t.TupleType((t.LONG, t.LONG))
    )
    task = rig.subtask(chain_of(plan.SourceSpec(PositionedSource(20_000)), counted, plan.SinkSpec(NamedSink("i"))))
    rig.deploy(task)
    records = [(n, 1) for n in range(100_000)]
    rig.tell(task, Splits(splits(records)))
    run_until(rig, "i", 100_000)
    rig.trigger(1, task)
    (first,) = rig.acknowledged(1, task)
    rig.notice(1, True, task)
    rig.tell(task, Splits(splits([(5, 10)])))
    run_until(rig, "i", 100_001)
    rig.trigger(2, task)
    (second,) = rig.acknowledged(2, task)
    assert second.bytes_written < first.bytes_written / 10
    expected = {n: (n, 11 if n == 5 else 1) for n in range(100_000)}
    assert contents(rig.location(2), state(second, "op-1", "reduce")) == expected
    old = {file.path for file in state(first, "op-1", "reduce").files}
    new = {file.path for file in state(second, "op-1", "reduce").files}
    assert len(new - old) == 1
    rig.trigger(3, task, full=True)
    (third,) = rig.acknowledged(3, task)
    assert not {file.path for file in state(third, "op-1", "reduce").files} & (old | new)
    rig.notice(2, False, task)
    rig.notice(3, True, task)
    rig.trigger(4, task, oldest_base=3)
    (fourth,) = rig.acknowledged(4, task)
    assert state(fourth, "op-1", "reduce").files == state(third, "op-1", "reduce").files
    rig.trigger(5, task, oldest_base=4)  # the fourth is complete, and the third may be gone: the notice is on its way
    (fifth,) = rig.acknowledged(5, task)
    kept = {file.path for file in state(third, "op-1", "reduce").files}
    assert not {file.path for file in state(fifth, "op-1", "reduce").files} & kept
    assert contents(rig.location(5), state(fifth, "op-1", "reduce")) == expected
    rig.worker.writers.shutdown(wait=True)
    assert contents(rig.location(1), state(first, "op-1", "reduce"))[5] == (5, 1)
    assert contents(rig.location(3), state(third, "op-1", "reduce")) == expected


class Stuck:
    """A storage in which one file is damaged, and all others are never read to their end unless the test says so."""

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


def test_a_restore_that_cannot_be_waits_for_no_other_file(tmp_path: Path) -> None:
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
