"""Only the rows of selected keys are read, for every type of keys; without a running Spark."""

from __future__ import annotations

import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as s
from snapshot_maker import Maker
from typed_values import BASIC

from millstream.core.keys.key_groups import key_group_of
from millstream.core.records import types as t
from millstream.core.snapshot import FileFormat, SnapshotError, StateTypes
from millstream.core.snapshot.inspection.opened import OpenedSnapshot
from millstream.spark.reading.chosen_keys import keys_as_text
from millstream.spark.reading.source import OptionError, StateSource
from millstream.spark.reading.states import OpenState, open_state


def opened(snapshot: OpenedSnapshot, state: int = 0) -> OpenState:
    operator = snapshot.metadata.operators[0]
    return open_state(snapshot.location, snapshot, operator, operator.states[state])


def values(snapshot: OpenedSnapshot, keys: list[Any], **options: str) -> list[int]:
    """The values of the rows that are read for these keys."""
    text = keys_as_text(keys, opened(snapshot))
    source = StateSource({"path": snapshot.location, "uid": "op", "state": "n", "keys": text, **options})
    reader = source.reader(s.StructType([s.StructField("value", s.LongType())]))
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return sorted(value for batch in batches for value in batch.column("value").to_pylist())


@given(st.data())
def test_each_selected_key_is_found_and_no_other(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from([*BASIC, t.TupleType((t.LONG, t.STRING))]))
    each = BASIC[kind] if kind in BASIC else st.tuples(BASIC[t.LONG], BASIC[t.STRING])
    keys = data.draw(st.lists(each, max_size=12, unique_by=repr if kind in (t.FLOAT, t.DOUBLE) else None))
    keys = list(dict.fromkeys(keys))
    chosen = data.draw(st.lists(st.sampled_from(keys), max_size=4)) if keys else []
    others = data.draw(st.lists(each, max_size=3))
    with TemporaryDirectory() as folder:
        maker = Maker(folder, data.draw(st.sampled_from([1, 128])), data.draw(st.sampled_from(FileFormat)), 3)
        maker.operator("op", maker.values("n", {key: n for n, key in enumerate(keys)}, StateTypes(kind, t.LONG)))
        snapshot = maker.finish()
        wanted = {*map(_alike, chosen), *map(_alike, others)}
        expected = [n for n, key in enumerate(keys) if _alike(key) in wanted]
        assert values(snapshot, [*chosen, *others]) == expected


def _alike(key: Any) -> Any:
    return "nan" if key != key else key


def test_files_without_the_keys_are_not_read(tmp_path: Path) -> None:
    maker = Maker(tmp_path, rows_per_file=100)
    state = maker.values("n", {n: n for n in range(1000)}, StateTypes(t.LONG, t.LONG))
    maker.operator("op", state)
    snapshot = maker.finish()
    for file in state.files:
        if key_group_of(7, 128) not in (file.key_groups or ()):
            Path(f"{snapshot.location}/{file.path}".removeprefix("file://")).write_bytes(b"damaged")
    assert values(snapshot, [7]) == [7]
    assert values(snapshot, []) == []


def test_keys_of_another_type_are_refused(tmp_path: Path) -> None:
    maker = Maker(tmp_path)
    day = datetime.date(2026, 1, 1)
    pickled = maker.values("p", {("a",): 1}, StateTypes(t.PICKLED, t.LONG))
    elements = maker.elements("e", [[1]], StateTypes(value=t.LONG))
    maker.operator("op", maker.values("n", {day: 1}, StateTypes(t.DATE, t.LONG)), pickled, elements)
    snapshot = maker.finish()
    with pytest.raises(SnapshotError, match=r"the state 'n' of 'op' has other keys than those that were chosen: .*'x'"):
        keys_as_text(["x"], opened(snapshot))
    with pytest.raises(SnapshotError, match="has pickled keys, which are not loaded: choose key groups"):
        keys_as_text([("a",)], opened(snapshot, 1))
    with pytest.raises(SnapshotError, match="is not by key: leave out the choice of keys"):
        keys_as_text([1], opened(snapshot, 2))
    source = StateSource({"path": snapshot.location, "uid": "op", "state": "n", "keys": "a, b"})
    with pytest.raises(OptionError, match=r"the option keys is not one that SavepointReader\.for_keys has made"):
        source.reader(source.schema())
