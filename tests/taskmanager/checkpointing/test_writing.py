"""States that are written in several steps are restored completely, sorted by key group, rows of a key in order."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from millstream.core.jobs.ids import JobId
from millstream.core.keys.key_groups import key_group_of, key_group_range
from millstream.core.records import types as t
from millstream.core.records.batches import Barrier
from millstream.core.snapshot import (
    FileSystemStorage,
    Rows,
    SnapshotError,
    StateKind,
    StateTypes,
    read_rows,
    read_state,
)
from millstream.core.snapshot.tables.columns import OversizedColumnError
from millstream.datastream.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from millstream.taskmanager.testing import DEPLOYMENT
from millstream.taskmanager.worker.checkpointing.capture import CapturedOperator, CapturedTask
from millstream.taskmanager.worker.checkpointing.writing import SnapshotTarget, write_snapshot
from millstream.taskmanager.worker.state.capturing.arrow_tables import StateRows, joined, keyed_table
from millstream.taskmanager.worker.state.capturing.captured import StateDeclaration
from millstream.taskmanager.worker.state.heap import HeapKeyedStateBackend, HeapOperatorStateBackend
from millstream.taskmanager.worker.state.heap import captured as heap_captures
from millstream.taskmanager.worker.state.heap.captured import GroupColumn, HeapCapture
from millstream.taskmanager.worker.state.key_group_index import KeyGroupIndex

KEYS = 40_000
ZONES = [datetime.timezone(datetime.timedelta(hours=hours)) for hours in range(3)]


def moment(key: int) -> datetime.datetime:
    """In another time zone in each third of the keys."""
    return datetime.datetime(2026, 1, 1, tzinfo=ZONES[key * 3 // KEYS]) + datetime.timedelta(seconds=key)


def by_key(rows: Rows) -> dict[int, Any]:
    return dict(zip(rows.keys, rows.content, strict=True))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    ("descriptor", "write", "read", "value"),
    [
        (
            ValueStateDescriptor("s", t.TupleType((t.LONG, t.STRING))),
            lambda state, key: state.update((key, str(key))), by_key, lambda key: (key, str(key)),
        ),
        (ValueStateDescriptor("s", t.INSTANT), lambda state, key: state.update(moment(key)), by_key, moment),
        (
            ListStateDescriptor("s", t.LONG), lambda state, key: state.add_all([3, key, 1]),
            lambda rows: {key: elements for (key, _), elements in rows.lists().items()}, lambda key: [3, key, 1],
        ),
        (
            MapStateDescriptor("s", t.STRING, t.LONG), lambda state, key: state.put("a", key),
            lambda rows: {k: {entry: v} for k, entry, v in zip(rows.keys, rows.detail, rows.content, strict=True)},
            lambda key: {"a": key},
        ),
    ],
    ids=["tuples", "times", "lists", "maps"],
)  # fmt: skip
def test_a_state_of_several_steps(
    tmp_path: Path, descriptor: Any, write: Callable[..., None], read: Callable[[Rows], dict[int, Any]],
    value: Callable[[int], Any], shared: bool,
) -> None:  # fmt: skip
    backend = HeapKeyedStateBackend("op", t.LONG, KeyGroupIndex(128), incremental=shared)
    state = backend.state(descriptor)
    for key in range(KEYS):
        backend.set_current_key(key)
        write(state, key)
    storage = FileSystemStorage(str(tmp_path), JobId("job"))
    location = storage.checkpoint_location(1)
    captured = CapturedTask((CapturedOperator("op", "op", "op", backend.capture(1, shared)),))
    target = SnapshotTarget(storage, Barrier(1, 0, location), DEPLOYMENT, shared)
    with ThreadPoolExecutor(1) as writer:
        written = writer.submit(write_snapshot, captured, target).result()
    captured.release()
    (stored,) = written.operators[0].states
    found: dict[int, Any] = {}
    groups: list[int] = []
    for file in stored.files:
        table = read_state(storage, location, stored, file, max_parallelism=128)
        groups += table["key_group"].to_pylist()
        found |= read(read_rows(table, stored))
    assert found == {key: value(key) for key in range(KEYS)}
    assert groups == sorted(groups)
    assert {key_group_of(key, 128) for key in found} == set(groups)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("incremental", [False, True])
def test_state_of_a_key_of_another_subtask_is_not_written(tmp_path: Path, shared: bool, incremental: bool) -> None:
    owned = key_group_range(1, 128, 2)
    backend = HeapKeyedStateBackend("counter", t.LONG, KeyGroupIndex(128, owned), incremental=incremental)
    state: Any = backend.state(ValueStateDescriptor("total", int))
    ours, foreign = ([key for key in range(100) if (key_group_of(key, 128) in owned) is mine] for mine in (True, False))
    storage = FileSystemStorage(str(tmp_path), JobId("job"))
    deployment = replace(DEPLOYMENT, subtask=1, parallelism=2)
    bases: dict[int, Any] = {}
    for number, keys in enumerate((ours, foreign[:1]), 1):
        for key in keys:
            backend.set_current_key(key)
            state.update(1)
        captured = CapturedTask((CapturedOperator("op", "op", "counter", backend.capture(number, incremental)),))
        target = SnapshotTarget(
            storage, Barrier(number, 0, storage.checkpoint_location(number)), deployment, shared, bases
        )
        if number == 1:
            bases[1] = write_snapshot(captured, target).layout
            backend.confirm(1)
            continue
        group = key_group_of(foreign[0], 128)
        message = (
            f"counter: state 'total': cannot be written: it holds .*key.* of key group {group}, .* groups 64 to 127"
        )
        with pytest.raises(SnapshotError, match=f"^{message}.*key selector"):
            write_snapshot(captured, target)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (1, 2**70, r"counter: state 'total': cannot be written: column 'value', row 0: 1180591620717411303424 is not"),
        (1.5, 1, r"counter: state 'total': cannot be written: column 'key', row 0: 1\.5 is not a Long"),
    ],
)
def test_an_unwritable_value_is_reported_with_its_operator_and_state(
    tmp_path: Path, key: Any, value: int, message: str
) -> None:
    backend = HeapKeyedStateBackend("counter", t.LONG, KeyGroupIndex(128))
    state: Any = backend.state(ValueStateDescriptor("total", int))
    backend.set_current_key(key)
    state.update(value)
    storage = FileSystemStorage(str(tmp_path), JobId("job"))
    captured = CapturedTask((CapturedOperator("op", "op", "counter", backend.capture(1)),))
    target = SnapshotTarget(storage, Barrier(1, 0, storage.checkpoint_location(1)), DEPLOYMENT)
    with pytest.raises(SnapshotError, match=f"^{message}"):
        write_snapshot(captured, target)


def test_unwritable_operator_state_is_reported_the_same_way(tmp_path: Path) -> None:
    backend = HeapOperatorStateBackend("counter")
    backend.store.get_list_state("offsets", int).add("x")
    storage = FileSystemStorage(str(tmp_path), JobId("job"))
    captured = CapturedTask((CapturedOperator("op", "op", "counter", operator=backend.capture(1)),))
    target = SnapshotTarget(storage, Barrier(1, 0, storage.checkpoint_location(1)), DEPLOYMENT)
    with pytest.raises(SnapshotError, match=r"^counter: state 'offsets': cannot be written: column 'element', row 0"):
        write_snapshot(captured, target)


def captured_values(declaration: StateDeclaration, values: dict[int, int]) -> HeapCapture:
    index = KeyGroupIndex(128)
    return HeapCapture(declaration, values, index, lambda entries: GroupColumn().of(entries, False, 0, index))


def test_rows_that_are_too_large_together_are_converted_in_smaller_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a table of more than 50 rows had more than 2 GiB in a column."""

    def limited(declaration: StateDeclaration, rows: StateRows, max_parallelism: int) -> Any:
        if len(rows) > 50:
            raise OversizedColumnError("too much")
        return keyed_table(declaration, rows, max_parallelism)

    monkeypatch.setattr(heap_captures, "keyed_table", limited)
    declaration = StateDeclaration("s", StateKind.VALUE, StateTypes(t.LONG, t.LONG))
    (table,) = joined(captured_values(declaration, {n: -n for n in range(1000)}).parts())
    assert dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)) == {n: -n for n in range(1000)}
    groups = table["key_group"].to_pylist()
    assert groups == sorted(groups)


def test_one_value_that_is_too_large_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(declaration: StateDeclaration, rows: StateRows, max_parallelism: int) -> Any:
        raise OversizedColumnError("too much")

    monkeypatch.setattr(heap_captures, "keyed_table", full)
    declaration = StateDeclaration("s", StateKind.VALUE, StateTypes(t.LONG, t.LONG))
    with pytest.raises(OversizedColumnError):
        list(captured_values(declaration, {1: 1, 2: 2}).parts())
