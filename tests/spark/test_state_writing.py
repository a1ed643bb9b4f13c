"""The halves of a write, without Spark: hashes of stored columns, blocks to parts, rows to merge, and the plan."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from snapshot_maker import Maker
from typed_values import BASIC, typed_values
from written_states import states

from millstream.core.keys.key_groups import key_group_of, stable_hash
from millstream.core.keys.key_values import hashable
from millstream.core.records import types as t
from millstream.core.snapshot import (
    StateKind,
    StateSnapshot,
    StateTypes,
    read_rows,
    read_state,
    storage_at,
    type_to_json,
)
from millstream.core.snapshot.inspection.opened import open_snapshot
from millstream.core.snapshot.metadata.model import FORMAT_VERSION, SnapshotKind, SnapshotMetadata
from millstream.core.snapshot.tables.columns import from_array, to_array
from millstream.core.snapshot.tables.key_columns import key_hashes
from millstream.core.snapshot.tables.table import list_table, map_table, value_table
from millstream.spark.errors import SavepointWriteError
from millstream.spark.functions import KeyedStateBootstrapFunction
from millstream.spark.operator_identifier import OperatorIdentifier
from millstream.spark.writing.blocks import PART, Cut, blocks
from millstream.spark.writing.draft import Draft, FromRows
from millstream.spark.writing.filling import ORDER, PREFIX, Filling, fill_part, keyed_rows
from millstream.spark.writing.identity import KeepOnConflict
from millstream.spark.writing.parts import Destination, PartReport, write_part

TYPES = StateTypes(t.STRING, t.LONG)
STATE = TYPES.snapshot("count", StateKind.VALUE)


@given(st.data())
def test_stored_columns_hash_like_their_values(data: st.DataObject) -> None:
    kind, values = data.draw(typed_values().filter(lambda of: not _holds_map(of[0])))
    keys = data.draw(st.lists(st.none() | values, max_size=5))
    array = to_array(keys, kind, "key")
    expected = [stable_hash(hashable(key)) for key in from_array(array, kind, "key")]
    assert key_hashes(array, type_to_json(kind)).tolist() == expected


def _holds_map(kind: t.TypeInformation) -> bool:
    match kind:
        case t.MapType():
            return True
        case t.ListType(element):
            return _holds_map(element)
        case t.TupleType(fields) | t.RowType(fields):
            return any(map(_holds_map, fields))
    return False


@dataclasses.dataclass(frozen=True)
class Place:
    name: str
    note: str = dataclasses.field(compare=False)
    size: int


def test_only_the_compared_fields_of_a_dataclass_count() -> None:
    keys = [Place("a", "x", 1), Place("a", "y", 1), Place("b", "x", 2)]
    array = to_array(keys, t.DataclassType(Place), "key")
    assert key_hashes(array, type_to_json(t.DataclassType(Place))).tolist() == [stable_hash(key) for key in keys]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_have_equal_hashes_in_every_unit(unit: str) -> None:
    instants = pa.array([0, 86_400, None], pa.int64())
    scale = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    column = pa.compute.multiply(instants, scale).cast(pa.timestamp(unit))
    document = type_to_json(t.TIMESTAMP)
    assert key_hashes(column, document).tolist() == key_hashes(column.cast(pa.timestamp("us")), document).tolist()


# A whole write, as Spark would run it


def moved(made: Iterable[pa.RecordBatch], parts: int) -> list[list[pa.RecordBatch]]:
    """Blocks by the parts that they are for."""
    found: list[list[pa.RecordBatch]] = [[] for _ in range(parts)]
    for batch in made:
        for row, part in enumerate(batch.column(PART).to_pylist()):
            found[part].append(batch.slice(row, 1))
    return found


def written(
    folder: Path, state: StateSnapshot, sides: list[list[pa.Table]], cut: Cut, rule: Any = KeepOnConflict.NEITHER,
    in_memory: int = 1 << 20,
) -> list[PartReport]:  # fmt: skip
    made: list[pa.RecordBatch] = []
    for side, tables in enumerate(sides):
        made += blocks(tables, Cut(cut.max_parallelism, cut.parts, cut.key, side), gathered=512)
    destination = Destination(str(folder), "op", in_memory)
    return [
        write_part(batches, state, destination, part, rule) for part, batches in enumerate(moved(made, cut.parts))
    ]


def read_back(folder: Path, state: StateSnapshot, reports: list[PartReport], most: int) -> Iterator[Any]:
    assert [report.fault for report in reports] == [""] * len(reports)
    storage, location = storage_at(str(folder))
    for report in reports:
        for _, files in report.files:
            for file in files:
                yield read_rows(read_state(storage, location, state, file, max_parallelism=most), state)


def rows_of(keys: list[Any], values: list[Any]) -> pa.Table:
    return value_table(keys, values, TYPES, 128).drop_columns("key_group")


CUT = Cut(16, 3, type_to_json(t.STRING))


@given(st.dictionaries(BASIC[t.STRING], BASIC[t.LONG], max_size=30), st.integers(1, 16), st.sampled_from([1, 1 << 20]))
def test_every_row_reaches_its_part_once(
    tmp_path_factory: pytest.TempPathFactory, entries: dict[str, int], parts: int, in_memory: int
) -> None:
    folder = tmp_path_factory.mktemp("part")
    tables = [rows_of([key], [value]) for key, value in entries.items()]
    cut = Cut(16, parts, CUT.key)
    reports = written(folder, STATE, [tables], cut, in_memory=in_memory)
    found: dict[Any, Any] = {}
    for rows in read_back(folder, STATE, reports, 16):
        assert rows.key_groups == sorted(rows.key_groups) == [key_group_of(key, 16) for key in rows.keys]
        found |= dict(zip(rows.keys, rows.content, strict=True))
    assert found == entries


def test_parts_have_key_groups_of_their_own(tmp_path: Path) -> None:
    reports = written(tmp_path, STATE, [[rows_of([str(i) for i in range(200)], list(range(200)))]], CUT)
    held = [range(f.key_group_start or 0, f.key_group_end or 0) for r in reports for _, files in r.files for f in files]
    assert all(one.stop <= other.start for one, other in pairwise(held))


def test_an_error_in_the_rows_is_reported_and_leaves_no_file(tmp_path: Path) -> None:
    rows = rows_of(["a", "b", "a"], [1, 2, 3])
    reports = written(tmp_path, STATE, [[rows]], Cut(16, 1, CUT.key))
    assert [report.fault for report in reports] == ["state 'count' has 2 rows for key 'a': keep one of them"]
    assert not list(tmp_path.rglob("*.parquet"))


def test_two_attempts_write_files_of_their_own(tmp_path: Path) -> None:
    tables = [rows_of(["a", "b"], [1, 2])]
    reports = [written(tmp_path, STATE, [tables], Cut(16, 1, CUT.key)) for _ in range(2)]
    assert len(list(tmp_path.rglob("*.parquet"))) == 2
    for attempt in reports:
        (rows,) = read_back(tmp_path, STATE, attempt, 16)
        assert dict(zip(rows.keys, rows.content, strict=True)) == {"a": 1, "b": 2}
    paths = {file.path for attempt in reports for report in attempt for _, files in report.files for file in files}
    assert len(paths) == 2


def test_a_report_is_decoded_unchanged_by_the_driver(tmp_path: Path) -> None:
    (report,) = written(tmp_path, STATE, [[rows_of(["a"], [1])]], Cut(16, 1, CUT.key))
    assert PartReport.decoded(report.encoded().column(0)[0].as_py()) == report


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (KeepOnConflict.EXISTING, {"a": 1, "b": 2, "c": 4}),
        (KeepOnConflict.NEW, {"a": 3, "b": 2, "c": 4}),
        (lambda old, new: 10 * old + new, {"a": 13, "b": 2, "c": 4}),
    ],
)
def test_the_rule_decides_between_the_sides(tmp_path: Path, rule: Any, expected: dict[str, int]) -> None:
    sides = [[rows_of(["a", "b"], [1, 2])], [rows_of(["a", "c"], [3, 4])]]
    reports = written(tmp_path, STATE, sides, CUT, rule)
    found = read_back(tmp_path, STATE, reports, 16)
    assert {k: v for rows in found for k, v in zip(rows.keys, rows.content, strict=True)} == expected


def test_lists_are_joined_and_maps_are_merged_by_entry(tmp_path: Path) -> None:
    types = StateTypes(t.STRING, t.LONG, map_key=t.STRING)
    state = types.snapshot("m", StateKind.MAP)
    sides = [
        [map_table(["a"], [entries], types, 128).drop_columns("key_group")]
        for entries in ({"x": 1, "y": 2}, {"y": 3, "z": 4})
    ]
    reports = written(tmp_path, state, sides, CUT, KeepOnConflict.NEW)
    (rows,) = read_back(tmp_path, state, reports, 16)
    assert dict(zip(rows.detail, rows.content, strict=True)) == {"x": 1, "y": 3, "z": 4}
    state = TYPES.snapshot("l", StateKind.LIST)
    sides = [[list_table(["a"], [items], TYPES, 128).drop_columns("key_group")] for items in ([1, 2], [3])]
    reports = written(tmp_path, state, sides, CUT, KeepOnConflict.BOTH)
    (rows,) = read_back(tmp_path, state, reports, 16)
    assert rows.lists() == {("a", None): [1, 2, 3]}


@given(st.data())
def test_state_of_every_kind_and_type_is_the_same_in_other_key_groups(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("rewritten")
    maker = Maker(folder / "before", rows_per_file=3)
    state = data.draw(states(maker, "state"))
    maker.operator("op", state)
    opened = open_snapshot(maker.write())
    state = opened.metadata.operators[0].states[0]
    of_one = state.kind is StateKind.BROADCAST  # of which each subtask has a copy
    files = [file for file in state.files if not of_one or file.subtask == 0]
    tables = [read_state(opened.storage, opened.location, state, file) for file in files]
    cut = Cut(13, 4 if state.kind.keyed else 1, state.key_type if state.kind.keyed else None)
    keyed = state.kind.keyed
    moving = [table.drop_columns("key_group") if keyed else _placed(tables, n) for n, table in enumerate(tables)]
    reports = written(folder / "after", state, [moving], cut)
    assert _told(read_back(folder / "after", state, reports, 13), state) == _told(
        (read_rows(table, state) for table in tables), state
    )


def _placed(tables: list[pa.Table], number: int) -> pa.Table:
    """Elements of several subtasks one after another."""
    table, before = tables[number], sum(table.num_rows for table in tables[:number])
    if "position" not in table.column_names:
        return table
    places = pa.array(range(before, before + table.num_rows), pa.int64())
    return table.set_column(table.column_names.index("position"), "position", places)


def _told(found: Iterable[Any], state: StateSnapshot) -> list[str]:
    texts = []
    for rows in found:
        detail = rows.detail if state.kind.keyed or state.kind is StateKind.BROADCAST else []
        columns = [column for column in (rows.keys, rows.namespaces, detail, rows.expires_at, rows.content) if column]
        texts += map(repr, zip(*columns, strict=True))
    return sorted(texts)


# Filled by a function


class Totals(KeyedStateBootstrapFunction):
    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state("total", int)

    def process_element(self, value: Any, ctx: Any) -> None:
        if value.n < 0:
            raise ValueError("below zero")
        self.total.update((self.total.value() or 0) * 10 + value.n)
        ctx.timer_service().register_processing_time_timer(value.n)


def filled(folder: Path, numbers: list[int]) -> list[PartReport]:
    filling = Filling(None, pickle.dumps(Totals()), t.LONG, ("n",), ordered=True)
    batch = pa.RecordBatch.from_pydict({"key": [n % 2 for n in numbers], f"{PREFIX}0": numbers, ORDER: numbers})
    cut = Cut(16, 2, type_to_json(t.LONG))
    made = blocks(keyed_rows(filling)([batch]), cut)
    destination = Destination(str(folder), "op")
    return [fill_part(batches, filling, destination, part, 16) for part, batches in enumerate(moved(made, 2))]


def test_a_function_sees_the_rows_of_each_key_in_order(tmp_path: Path) -> None:
    reports = filled(tmp_path, [6, 1, 4, 3, 2])
    states = {state.name: state for report in reports for state, _ in report.files}
    assert states["user-timers"].kind is StateKind.TIMERS
    storage, location = storage_at(str(tmp_path))
    found: dict[Any, Any] = {}
    for report in reports:
        for state, files in report.files:
            for file in files:
                rows = read_rows(read_state(storage, location, state, file, max_parallelism=16), state)
                for key, content in zip(rows.keys, rows.content, strict=True):
                    found.setdefault((state.name, key), []).append(content)
    assert found == {
        ("total", 0): [246], ("total", 1): [13], ("user-timers", 0): [2, 4, 6], ("user-timers", 1): [1, 3],
    }  # fmt: skip


def test_an_error_of_a_function_is_reported_with_the_key(tmp_path: Path) -> None:
    faults = [report.fault for report in filled(tmp_path, [-1, 1]) if report.fault]
    assert faults == ["the function failed for the key 1: ValueError: below zero"]


# The plan


def planned() -> Draft:
    draft = Draft(128, "job")
    for uid in ("visits", "rules"):
        draft.put(draft.operator_for(uid), STATE, FromRows(()))
    return draft


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    draft = planned()
    with pytest.raises(SavepointWriteError, match="no operator 'visit': did you mean 'visits'"):
        draft.remove_operator("visit")
    with pytest.raises(SavepointWriteError, match="no state 'cuont': did you mean 'count'"):
        draft.rename_state("visits", "cuont", "n")
    with pytest.raises(SavepointWriteError, match="must be from 1 to 32768"):
        Draft(0)


def test_an_operator_has_keys_of_one_type() -> None:
    draft = planned()
    other = StateTypes(t.LONG, t.LONG).snapshot("other", StateKind.VALUE)
    with pytest.raises(SavepointWriteError, match="an operator has keys of one type"):
        draft.put(draft.operator("visits"), other, FromRows(()))


def test_operators_and_states_are_renamed_in_their_place() -> None:
    draft = planned()
    draft.set_enumerator(OperatorIdentifier.for_uid("visits"), "state")
    draft.rename_operator("visits", "calls")
    draft.rename_state("calls", "count", "total")
    with pytest.raises(SavepointWriteError, match="there is an operator 'rules' already"):
        draft.rename_operator("calls", "rules")
    operators = draft.metadata_operators(
        {(o.identifier.operator_id, p.state.name): p.state for o in draft.operators.values() for p in o.states.values()}
    )
    assert [(o.uid, [s.name for s in o.states]) for o in operators] == [("calls", ["total"]), ("rules", ["count"])]
    assert draft.properties == {"enumerator.calls": "state"}
    draft.remove_operator("calls")
    assert not draft.properties


def test_a_snapshot_is_planned_unchanged() -> None:
    operators = planned().metadata_operators({})
    metadata = SnapshotMetadata(FORMAT_VERSION, "job", "name", 7, SnapshotKind.SAVEPOINT, 0, operators)  # type: ignore[arg-type]  # an id
    assert Draft.of(metadata, None).metadata_operators({}) == operators
    smaller = Draft.of(metadata, 64).operator("visits")
    assert smaller.is_rehashed
    assert smaller.max_parallelism == 64
