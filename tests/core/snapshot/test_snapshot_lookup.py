"""Rows by key, as users write keys."""

from __future__ import annotations

import contextlib
import datetime
import json
from collections.abc import Hashable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from snapshot_maker import Maker

from millstream.core.errors import MillstreamError
from millstream.core.keys.key_groups import key_group_of
from millstream.core.records import types as t
from millstream.core.row import Row
from millstream.core.snapshot import FileFormat, Pickled, SnapshotError, StateKind, StateTypes, type_to_json
from millstream.core.snapshot.inspection.literals import KeyLiteralError, keys_from_text
from millstream.core.snapshot.inspection.lookup import rows_of, rows_of_key
from millstream.core.snapshot.inspection.opened import OpenedSnapshot, open_snapshot
from millstream.core.snapshot.inspection.readable import readable, to_json
from millstream.core.snapshot.tables.restore import check_keys
from millstream.core.snapshot.tables.table import value_table

ROW = t.RowType((t.LONG, t.STRING), ("id", "name"))


@dataclass(frozen=True)
class Place:
    id: int
    name: str


@pytest.mark.parametrize(
    ("kind", "text", "key"),
    [
        (t.STRING, "5", "5"),
        (t.STRING, "", ""),
        (t.LONG, "-5", -5),
        (t.BOOLEAN, "true", True),
        (t.DOUBLE, "2.5", 2.5),
        (t.BYTES, "00ff", b"\x00\xff"),
        (t.BIG_DEC, "1.10", Decimal("1.1")),
        (t.DATE, "2026-01-31", datetime.date(2026, 1, 31)),
        (t.TIMESTAMP, "2026-01-31T10:00:00", datetime.datetime(2026, 1, 31, 10)),
        (t.TupleType((t.LONG, t.STRING)), '[1, "a"]', (1, "a")),
        (t.TupleType((t.DOUBLE, t.TupleType((t.DATE,)))), '[1, ["2026-01-31"]]', (1.0, (datetime.date(2026, 1, 31),))),
        (ROW, '{"name": "a", "id": 1}', Row(id=1, name="a")),
        (ROW, '[1, "a"]', Row(id=1, name="a")),
        (t.DataclassType(Place), '{"id": 1, "name": "a"}', Row(id=1, name="a")),
    ],
)
def test_keys_as_they_are_written(kind: t.TypeInformation, text: str, key: Any) -> None:
    assert keys_from_text(text, type_to_json(kind)) == [key]


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (t.LONG, "five", "'five' is not a Long: write a whole number"),
        (t.BOOLEAN, "True", "write true or false"),
        (t.TupleType((t.LONG, t.STRING)), "1,a", "write one as JSON"),
        (t.TupleType((t.LONG, t.STRING)), "[1]", "[1] must be a list of 2"),
        (t.TupleType((t.LONG, t.STRING)), '["x", "a"]', '"x" is not a Long'),
        (t.TupleType((t.LONG, t.STRING)), '[1.5, "a"]', "1.5 is not a Long"),
        (ROW, '{"id": 1}', "or an object of id, name"),
    ],
)
def test_text_that_is_not_a_key(kind: t.TypeInformation, text: str, message: str) -> None:
    with pytest.raises(KeyLiteralError) as caught:
        keys_from_text(text, type_to_json(kind))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.text())
def test_any_text_is_a_key_or_an_error(text: str) -> None:
    for kind in (t.LONG, t.DOUBLE, t.BIG_DEC, t.BYTES, t.TIME, t.PICKLED, t.TupleType((t.LONG, t.PICKLED)), ROW):
        with contextlib.suppress(MillstreamError):
            assert keys_from_text(text, type_to_json(kind))


def one_state(tmp_path: Path, entries: dict[Any, Any], types: StateTypes, **more: Any) -> OpenedSnapshot:
    maker = Maker(tmp_path, **more)
    maker.operator("a", maker.values("x", entries, types))
    return maker.finish()


def looked_up(snapshot: OpenedSnapshot, text: str, unpickle: bool = False) -> list[Any]:
    operator = snapshot.operator("a")
    parts = rows_of_key(snapshot, operator, operator.states[0], text, unpickle)
    return [value for _, rows in parts for value in rows.content]


@pytest.mark.parametrize("format", list(FileFormat))
def test_only_the_files_and_rows_of_the_keys_group_are_read(tmp_path: Path, format: FileFormat) -> None:
    snapshot = one_state(
        tmp_path, {n: -n for n in range(1000)}, StateTypes(t.LONG, t.LONG), format=format, rows_per_file=100
    )
    group = key_group_of(77, 128)
    for file in snapshot.metadata.files():
        assert file.key_groups is not None
        if group not in file.key_groups:
            Path(snapshot.where(file).removeprefix("file://")).unlink()
    assert looked_up(snapshot, "77") == [-77]
    (state,) = snapshot.operator("a").states
    ((_, table),) = snapshot.tables(state, group)
    assert set(table.column("key_group").to_pylist()) == {group}


def test_a_snapshot_in_an_object_store(s3_root: str) -> None:
    maker = Maker(s3_root.format(path="looked-into"))
    maker.operator("a", maker.values("x", {7: 8}, StateTypes(t.LONG, t.LONG)))
    pointer = maker.write()
    opened = open_snapshot(s3_root.format(path=pointer.removeprefix("s3://bucket/")))
    assert opened.location == pointer
    assert looked_up(opened, "7") == [8]


def test_a_missing_key(tmp_path: Path) -> None:
    assert looked_up(one_state(tmp_path, {1: 1}, StateTypes(t.LONG, t.LONG)), "2") == []


@pytest.mark.parametrize(
    ("key", "text"),
    [(5, "5"), ("5", "5"), ("word", "word"), (5.0, "5"), (True, "1"), (2.5, "2.5"), (None, "null"), ("null", "null")],
)
def test_plain_pickled_keys_are_found_by_their_bytes(tmp_path: Path, key: Hashable, text: str) -> None:
    snapshot = one_state(tmp_path, {key: 1, "other": 2}, StateTypes(t.PICKLED, t.LONG))
    assert looked_up(snapshot, text) == [1]


def test_pickled_keys_with_parts_are_found_only_by_loading_them(tmp_path: Path) -> None:
    snapshot = one_state(tmp_path, {("a", 1): 7}, StateTypes(t.PICKLED, t.LONG))
    with pytest.raises(MillstreamError, match="only --unpickle can look for one that has parts"):
        looked_up(snapshot, '["a", 1]')
    assert looked_up(snapshot, '["a", 1]', unpickle=True) == [7]


LOADED: list[str] = []


class Trap:
    """Records when it is loaded."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> Any:
        return _spring, (self.name,)


def _spring(name: str) -> Trap:
    LOADED.append(name)
    return Trap(name)


def test_no_pickle_is_loaded_unless_requested_and_then_only_the_keys_own(tmp_path: Path) -> None:
    entries = {n: Trap(f"trap {n}") for n in range(300)}
    snapshot = one_state(tmp_path, entries, StateTypes(t.LONG, t.PICKLED))
    LOADED.clear()
    (value,) = looked_up(snapshot, "8")
    assert isinstance(value, Pickled)
    assert readable(value).startswith("<pickled, ")
    assert LOADED == []
    assert [value.name for value in looked_up(snapshot, "8", unpickle=True)] == ["trap 8"]
    assert LOADED == ["trap 8"]


def test_the_first_rows_of_a_state(tmp_path: Path) -> None:
    snapshot = one_state(tmp_path, {n: n for n in range(100)}, StateTypes(t.LONG, t.LONG), rows_per_file=10)
    (state,) = snapshot.operator("a").states
    assert sum(len(rows.content) for _, rows in rows_of(snapshot, state, 1000)) == 100
    assert list(rows_of_key(snapshot, snapshot.operator("a"), state, "100")) == []
    Path(snapshot.where(state.files[-1]).removeprefix("file://")).unlink()
    assert sum(len(rows.content) for _, rows in rows_of(snapshot, state, 15)) == 15


def test_state_without_keys_has_no_rows_of_a_key(tmp_path: Path) -> None:
    maker = Maker(tmp_path)
    maker.operator("a", maker.elements("x", [["e"]], StateTypes(value=t.STRING), StateKind.OPERATOR_UNION))
    with pytest.raises(SnapshotError, match="is operator-union state: it has no keys"):
        looked_up(maker.finish(), "e")


def test_operators_by_uid_id_or_name(tmp_path: Path) -> None:
    maker = Maker(tmp_path)
    maker.operator("a", name="Counter")
    maker.operator("b", name="Counter")
    maker.operator(None, name="Sink")
    snapshot = maker.finish()
    assert snapshot.operator("a").uid == "a"
    assert snapshot.operator("id-b").uid == "b"
    assert snapshot.operator("Sink").uid is None
    with pytest.raises(SnapshotError, match="has 2 operators named 'Counter': say which, by a, b"):
        snapshot.operator("Counter")
    with pytest.raises(SnapshotError, match=r"has no operator 'x': it has a \(Counter\), b \(Counter\), id-2 \(Sink\)"):
        snapshot.operator("x")


VALUE = [
    ({"a": (1, None)}, "{'a': (1, None)}", {"a": [1, None]}),
    ({1: 2.5}, "{1: 2.5}", [[1, 2.5]]),
    (Row(id=1, name="x"), "(id=1, name='x')", {"id": 1, "name": "x"}),
    (Row(1, b"\x01"), "(1, b'\\x01')", [1, "01"]),
    ((float("nan"),), "(nan,)", ["nan"]),
    (Decimal("1.5"), "1.5", "1.5"),
    (datetime.date(2026, 1, 31), "2026-01-31", "2026-01-31"),
    (Pickled(b"abc"), "<pickled, 3 bytes>", {"pickled_bytes": 3}),
    ("text", "text", "text"),
    (["text"], "['text']", ["text"]),
    (Place(1, "x"), "Place(id=1, name='x')", "Place(id=1, name='x')"),
]


@pytest.mark.parametrize(("value", "text", "document"), VALUE)
def test_values_for_users_and_as_json(value: Any, text: str, document: Any) -> None:
    assert readable(value) == text
    assert to_json(value) == document
    assert json.loads(json.dumps(to_json(value), allow_nan=False)) == document


@dataclass(frozen=True)
class Tagged:
    id: int
    tag: str = field(default="", compare=False)


@pytest.mark.parametrize(
    ("kind", "keys", "text"),
    [
        (t.DataclassType(Tagged), [Tagged(1, "a"), Tagged(2, "b")], '{"id": 1, "tag": "other"}'),
        (
            t.TupleType((t.DataclassType(Tagged), t.LONG)),
            [(Tagged(1, "a"), 5), (None, 6), (Tagged(2, "b"), 5)],
            '[{"id": 1, "tag": ""}, 5]',
        ),
    ],
)
def test_a_field_that_is_not_compared_does_not_identify_a_key(
    tmp_path: Path, kind: t.TypeInformation, keys: list[Any], text: str
) -> None:
    types = StateTypes(kind, t.LONG)
    state = types.snapshot("s", StateKind.VALUE)
    check_keys(value_table(keys, list(range(len(keys))), types, 128), state, 128, "here")
    maker = Maker(tmp_path)
    maker.operator("a", maker.values("s", dict(zip(keys, range(len(keys)), strict=True)), types))
    snapshot = maker.finish()
    operator = snapshot.metadata.operators[0]
    ((_, rows),) = rows_of_key(snapshot, operator, operator.states[0], text)
    assert rows.content == [0]
