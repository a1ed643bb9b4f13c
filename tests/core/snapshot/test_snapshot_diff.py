"""Differences between snapshots, compared window by window."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from snapshot_maker import Maker
from thoroughness import cases

from millstream.core.records import types as t
from millstream.core.snapshot import (
    FileFormat,
    SnapshotError,
    SnapshotKind,
    StateFile,
    StateKind,
    StateSnapshot,
    StateTypes,
)
from millstream.core.snapshot.inspection import diff
from millstream.core.snapshot.inspection.diff import ABSENT, Entry, SnapshotDiff, StateDiff, diff_snapshots
from millstream.core.snapshot.inspection.opened import KeyGroupReader, OpenedSnapshot

COUNTS = StateTypes(t.STRING, t.LONG)
PICKLED = StateTypes(t.PICKLED, t.PICKLED)
ELEMENTS = StateTypes(value=t.STRING)
RULES = StateTypes(value=t.LONG, map_key=t.STRING)


def compared(tmp_path: Path, make: Any, **more: Any) -> StateDiff:
    """The single state that `make` creates from a maker and each side's content."""
    sides = []
    for side in ("first", "second"):
        maker = Maker(tmp_path / side, **more)
        maker.operator("a", make(maker, side))
        sides.append(maker.finish())
    ((state,),) = [o.states for o in diff_snapshots(*sides, listed=100).operators]
    return state


def counted(state: StateDiff) -> tuple[int, int, int]:
    return state.added, state.removed, state.changed


entries = st.dictionaries(st.text("abc", max_size=3), st.integers(0, 3), max_size=12)


@settings(max_examples=cases(60))
@given(entries, entries, st.sampled_from([(128, 128), (128, 256), (128, 96), (127, 128)]), st.integers(1, 6))
def test_keyed_entries_are_compared_however_they_are_stored_in_files(
    old: dict[str, int], new: dict[str, int], groups: tuple[int, int], rows_per_file: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(diff, "WINDOW_ROWS", 2)
        sides = []
        for content, most, format in zip((old, new), groups, FileFormat, strict=True):
            maker = Maker(Path(folder, f"{format.value}"), most, format, rows_per_file)
            maker.operator("a", maker.values("counts", content, COUNTS))
            sides.append(maker.finish())
        found = diff_snapshots(*sides, listed=100)
    ((state,),) = [o.states for o in found.operators]
    expected = {Entry("+", (key,)) for key in new.keys() - old.keys()}
    expected |= {Entry("-", (key,)) for key in old.keys() - new.keys()}
    expected |= {Entry("~", (key,)) for key in old.keys() & new.keys() if old[key] != new[key]}
    assert set(state.entries) == expected
    for entry in state.entries:
        (key,) = entry.path
        assert (entry.old, entry.new) == (old.get(key, ABSENT), new.get(key, ABSENT))
    assert counted(state) == tuple(sum(entry.sign == sign for entry in expected) for sign in "+-~")
    assert found.equal == (old == new)


def test_maps_are_compared_by_entry_and_lists_by_key(tmp_path: Path) -> None:
    types = StateTypes(t.LONG, t.DOUBLE, map_key=t.STRING)
    old, new = {1: {"a": 1.0, "b": 2.0, "n": math.nan}}, {1: {"b": 3.0, "c": 1.0, "n": math.nan}, 2: {"a": 1.0}}
    found = compared(tmp_path, lambda maker, side: maker.maps("m", old if side == "first" else new, types))
    assert set(found.entries) == {
        Entry("-", (1, "a")), Entry("~", (1, "b")), Entry("+", (1, "c")), Entry("+", (2, "a"))
    }  # fmt: skip
    lists = {"first": {1: [1.0], 2: [5.0, 6.0]}, "second": {1: [1.0, 2.0], 2: [5.0, 6.0]}}
    types = StateTypes(t.LONG, t.DOUBLE)
    found = compared(tmp_path / "lists", lambda maker, side: maker.lists("l", lists[side], types))
    assert found.entries == (Entry("~", (1,)),)


def test_values_are_compared_although_their_type_has_changed(tmp_path: Path) -> None:
    types = {"first": StateTypes(t.STRING, t.LONG), "second": StateTypes(t.STRING, t.STRING)}
    sides = {"first": {"a": 1, "b": 2}, "second": {"a": "1"}}
    found = compared(tmp_path, lambda maker, side: maker.values("v", sides[side], types[side]))
    assert "changed from Long to String" in found.types
    listed = {(entry.sign, entry.path, entry.old, entry.new) for entry in found.entries}
    assert listed == {("~", ("a",), 1, "1"), ("-", ("b",), 2, ABSENT)}
    keys = {"first": StateTypes(t.STRING, t.LONG), "second": StateTypes(t.LONG, t.LONG)}
    other: dict[str, dict[Any, int]] = {"first": {"a": 1}, "second": {1: 1}}
    found = compared(tmp_path / "keys", lambda maker, side: maker.values("v", other[side], keys[side]))
    assert "the type of the key may not change" in found.types
    assert found.entries == ()


def test_entries_that_only_one_side_has_are_listed(tmp_path: Path) -> None:
    one, two = Maker(tmp_path / "1"), Maker(tmp_path / "2")
    one.operator("a", one.values("x", {"a": 1}, COUNTS))
    two.operator("a", two.broadcast("rules", {"r": 2}, RULES))
    two.operator("b", two.elements("l", [["e"]], ELEMENTS))
    found = diff_snapshots(one.finish(), two.finish(), listed=5)
    entries = [entry for operator in found.operators for state in operator.states for entry in state.entries]
    assert [(entry.sign, entry.path, entry.old, entry.new) for entry in entries] == [
        ("-", ("a",), 1, ABSENT), ("+", ("r",), ABSENT, 2), ("+", ("e",), ABSENT, ABSENT)
    ]  # fmt: skip


def test_timers_and_namespaces_belong_to_the_entry(tmp_path: Path) -> None:
    timers = {"first": [("a", 5, "event"), ("a", 6, "event")], "second": [("a", 5, "event"), ("a", 6, "processing")]}
    types = StateTypes(t.STRING)
    found = compared(tmp_path, lambda maker, side: maker.timers("timers", timers[side], types))
    assert set(found.entries) == {Entry("-", ("a", 6, "event")), Entry("+", ("a", 6, "processing"))}
    windowed = StateTypes(t.STRING, t.LONG, namespace=t.LONG)
    ends = {"first": [10], "second": [20]}
    found = compared(
        tmp_path / "windows",
        lambda maker, side: maker.values("sums", {"a": 1}, windowed, namespaces=ends[side]),
    )
    assert set(found.entries) == {Entry("-", ("a", 10)), Entry("+", ("a", 20))}


def test_pickled_values_are_compared_as_bytes(tmp_path: Path) -> None:
    sides = {"first": {("k", 1): [1], 5: {"x"}}, "second": {("k", 1): [2], 5: {"x"}}}
    found = compared(tmp_path, lambda maker, side: maker.values("any", sides[side], PICKLED))
    assert counted(found) == (0, 0, 1)


@pytest.mark.parametrize("kind", [StateKind.OPERATOR_LIST, StateKind.OPERATOR_UNION, StateKind.SPLITS])
def test_lists_of_operators_are_compared_as_multisets(tmp_path: Path, kind: StateKind) -> None:
    sides = {"first": [["a", "b"], ["c", "c"]], "second": [["c"], ["d"], ["b", "a"]]}
    found = compared(tmp_path, lambda maker, side: maker.elements("l", sides[side], ELEMENTS, kind))
    assert Counter(found.entries) == Counter([Entry("-", ("c",)), Entry("+", ("d",))])


def test_elements_that_cannot_be_hashed(tmp_path: Path) -> None:
    types = StateTypes(value=t.MapType(t.STRING, t.ListType(t.DOUBLE)))
    sides = {"first": [[{"a": [math.nan]}, {"b": [1.0]}]], "second": [[{"a": [math.nan]}, {"b": [2.0]}]]}
    found = compared(tmp_path, lambda maker, side: maker.elements("l", sides[side], types))
    assert found.entries == (Entry("-", ({"b": [1.0]},)), Entry("+", ({"b": [2.0]},)))


def test_one_copy_of_broadcast_state_is_compared(tmp_path: Path) -> None:
    sides: dict[str, tuple[dict[str, int], int]] = {"first": ({"a": 1, "b": 2}, 1), "second": ({"a": 1, "b": 3}, 3)}

    def make(maker: Maker, side: str) -> StateSnapshot:
        state = maker.broadcast("rules", sides[side][0], RULES, sides[side][1])
        for file in state.files[1:]:
            Path(f"{maker.location}/{file.path}".removeprefix("file://")).unlink()
        return state

    found = compared(tmp_path, make)
    assert found.entries == (Entry("~", ("b",)),)


def test_operators_states_types_and_properties(tmp_path: Path) -> None:
    one, two = Maker(tmp_path / "1"), Maker(tmp_path / "2")
    one.operator("same", one.values("x", {"a": 1}, COUNTS), parallelism=1)
    two.operator("same", two.values("x", {"a": 1}, COUNTS), parallelism=3)
    one.operator("changed", one.values("x", {"a": 1}, COUNTS), one.values("old", {"a": 1}, COUNTS))
    two.operator("changed", two.values("x", {"a": 1.0}, StateTypes(t.STRING, t.DOUBLE)), two.values("y", {}, COUNTS))
    one.operator("gone", one.values("x", {"a": 1}, COUNTS))
    two.operator("new", two.values("x", {"a": 1}, COUNTS))
    one.operator("stateless")
    one.properties["enumerator.same"] = "AA=="
    found = diff_snapshots(one.finish(), two.finish())
    assert [(o.operator.uid, o.equal) for o in found.operators] == [
        ("same", True), ("changed", False), ("gone", False), ("stateless", True), ("new", False)
    ]  # fmt: skip
    types, old, new = found.operators[1].states
    assert types.types.startswith("wider: from Long to Double")
    assert counted(types) == (0, 0, 0)
    assert (old.second, new.first) == (None, None)
    assert [state.name for state in found.operators[2].states] == ["x"]
    assert found.properties == ("enumerator.same",)
    assert not found.equal
    assert SnapshotDiff(found.operators[:1]).equal


def test_a_file_shared_by_both_snapshots_is_not_read(tmp_path: Path) -> None:
    maker = Maker(tmp_path, kind=SnapshotKind.CHECKPOINT)
    made = maker.values("x", {"a": 1}, COUNTS)
    shared = replace(made.files[0], path=f"{maker.location}/{made.files[0].path}")
    maker.operator("a", replace(made, files=(shared,)))
    snapshot = maker.finish()
    Path(shared.path.removeprefix("file://")).unlink()
    assert diff_snapshots(snapshot, snapshot).equal


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    sides = []
    for side in ("1", "2"):
        maker = Maker(tmp_path / side)
        maker.operator("a", maker.values("x", {"a": 1}, COUNTS))
        sides.append(maker.finish())
    (file,) = sides[1].metadata.files()
    path = Path(sides[1].where(file).removeprefix("file://"))
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(SnapshotError, match=r"x/part-0-0.parquet: is damaged"):
        diff_snapshots(*sides)


class CountingStorage:
    """Counts the files that are read."""

    def __init__(self, snapshot: OpenedSnapshot) -> None:
        self.reads: list[str] = []
        self._storage = snapshot.storage

    def read_file(self, location: str, path: str) -> Any:
        self.reads.append(path)
        return self._storage.read_file(location, path)


def test_a_file_is_fetched_once_and_dropped_after_use(tmp_path: Path) -> None:
    maker = Maker(tmp_path, rows_per_file=100)
    state = maker.values("x", {str(n): n for n in range(1000)}, COUNTS)
    maker.operator("a", state)
    snapshot = maker.finish()
    storage = CountingStorage(snapshot)
    reader = KeyGroupReader(replace(snapshot, storage=storage), state, state.files)  # type: ignore[arg-type]  # reads only
    rows = 0
    for group in range(128):
        table = reader.read([range(group, group + 1)])
        rows += 0 if table is None else table.num_rows
        held: list[StateFile] = [file for file in state.files if file.path in reader._fetched]
        assert all(group in (file.key_groups or ()) for file in held)
    assert rows == 1000
    assert Counter(storage.reads) == Counter(file.path for file in state.files)
    assert len(state.files) > 5
