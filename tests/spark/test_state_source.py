"""The data source as its Python workers use it, without a running Spark."""

from __future__ import annotations

import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from pyspark.sql import types as s
from snapshot_maker import Maker
from written_states import rows_of_runtime, rows_of_spark, states

from millstream.core.keys.key_groups import key_group_of
from millstream.core.records import types as t
from millstream.core.snapshot import FileFormat, SnapshotError, SnapshotKind, StateKind, StateTypes
from millstream.core.snapshot.inspection.opened import OpenedSnapshot, open_snapshot
from millstream.spark.reading.source import OptionError, StateSource
from millstream.spark.reading.states import open_state

COUNTS = StateTypes(t.LONG, t.LONG)
UTC = datetime.UTC


def source(path: str, state: str = "counts", **options: str) -> StateSource:
    return StateSource({"path": path, "uid": "counter", "state": state, **options})


def read(of: StateSource) -> list[pa.Table]:
    reader = of.reader(of.schema())
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    return [pa.Table.from_batches([batch]) for batch in batches]


def keys(tables: list[pa.Table]) -> list[Any]:
    return sorted(key for table in tables for key in table.column("key").to_pylist())


def counts(tmp_path: Path, rows: int = 1000, **more: Any) -> OpenedSnapshot:
    maker = Maker(tmp_path, **more)
    maker.operator("counter", maker.values("counts", {n: n * n for n in range(rows)}, COUNTS))
    return maker.finish()


@given(st.data())
def test_state_of_every_kind_and_type_is_read_as_the_runtime_wrote_it(data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        encoded, rows = data.draw(st.sampled_from(FileFormat)), data.draw(st.sampled_from([2, 1 << 20]))
        maker = Maker(folder, data.draw(st.sampled_from([1, 128])), encoded, rows)
        state = data.draw(states(maker, "any"))
        maker.operator("counter", state)
        snapshot = maker.finish()
        opened = open_state(snapshot.location, snapshot, snapshot.metadata.operators[0], state)
        assert rows_of_spark(read(source(snapshot.location, "any")), opened) == rows_of_runtime(snapshot, opened)


def test_only_selected_key_groups_are_read(tmp_path: Path) -> None:
    where = counts(tmp_path, rows_per_file=100).location
    wanted = key_group_of(7, 128)
    chosen = source(where, keyGroups=str(wanted))
    assert keys(read(chosen)) == [n for n in range(1000) if key_group_of(n, 128) == wanted]
    assert (
        len(chosen.reader(chosen.schema()).partitions()) == 1 < len(source(where).reader(chosen.schema()).partitions())
    )
    some = {wanted, 0, 1, 2}
    found = read(source(where, keyGroups=f"0-2,{wanted}"))
    assert keys(found) == [n for n in range(1000) if key_group_of(n, 128) in some]
    assert read(source(where, keyGroups="")) == []


def test_key_groups_of_unkeyed_state_are_refused(tmp_path: Path) -> None:
    maker = Maker(tmp_path)
    maker.operator("counter", maker.elements("all", [[1, 2], [3]], StateTypes(value=t.LONG)))
    opened = source(maker.write(), "all", keyGroups="1")
    with pytest.raises(SnapshotError, match="is not by key, so it has no key groups: leave out the option keyGroups"):
        read(opened)


def test_a_relative_path_is_relative_to_where_the_query_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(counts(tmp_path, 10).location.removeprefix("file://"))
    monkeypatch.chdir(folder.parent)
    opened = source(folder.name)
    reader = opened.reader(opened.schema())
    monkeypatch.chdir("/")
    assert sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part)) == 10


def test_a_large_file_is_read_by_several_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millstream.core.snapshot.tables.files.ROWS_PER_BATCH", 100)
    where = counts(tmp_path).location
    reader = source(where, rowsPerPartition="300").reader(source(where).schema())
    shares = [[batch.num_rows for batch in reader.read(part)] for part in reader.partitions()]
    assert len(shares) == 4
    assert all(shares)
    assert sum(map(sum, shares)) == 1000


def test_only_the_requested_columns_are_read(tmp_path: Path) -> None:
    where = counts(tmp_path, 10).location
    assert source(where, columns="value, key").schema().fieldNames() == ["value", "key"]
    (table,) = read(source(where, columns="value"))
    assert table.column_names == ["value"]
    some = s.StructType([s.StructField("value", s.LongType())])
    reader = source(where).reader(some)
    assert [batch.schema.names for part in reader.partitions() for batch in reader.read(part)] == [["value"]]
    elements = Maker(tmp_path)
    elements.operator("counter", elements.elements("all", [[1, 2], [3]], StateTypes(value=t.LONG)))
    tables = read(source(elements.write(), "all", columns="subtask"))
    assert [table.column("subtask").to_pylist() for table in tables] == [[0, 0], [1]]


@pytest.mark.parametrize("encoded", FileFormat)
def test_only_the_requested_columns_of_a_file_are_decoded(tmp_path: Path, encoded: FileFormat) -> None:
    where = counts(tmp_path, 10, format=encoded).location
    (table,) = read(source(where, columns="key"))
    assert table.column_names == ["key"]
    assert keys([table]) == list(range(10))


def test_a_checkpoint_is_read_with_shared_and_inline_files(tmp_path: Path) -> None:
    maker = Maker(tmp_path, format=FileFormat.ARROW, kind=SnapshotKind.CHECKPOINT, rows_per_file=300)
    state = maker.values("counts", {n: n for n in range(1000)}, COUNTS)
    first, second, *others = state.files
    shared = replace(first, path=f"{maker.location}/{first.path}")
    data = maker.storage.read_file(maker.location, second.path).to_pybytes()
    inline = replace(second, inline=data)
    Path(f"{maker.location}/{second.path}".removeprefix("file://")).unlink()
    maker.operator("counter", replace(state, files=(shared, inline, *others)))
    assert keys(read(source(maker.write()))) == list(range(1000))


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([datetime.datetime(2026, 1, 1)], "timestamp_ntz"),
        ([datetime.datetime(2026, 1, 1, tzinfo=UTC)], "timestamp"),
        ([datetime.datetime(2026, 1, 1), datetime.datetime(2026, 1, 1, tzinfo=UTC)],
         "struct<time:timestamp_ntz,zone:string,fold:boolean>"),
    ],
)  # fmt: skip
def test_times_have_the_type_of_the_files(tmp_path: Path, times: list[Any], expected: str) -> None:
    maker = Maker(tmp_path, rows_per_file=1)
    maker.operator("counter", maker.values("at", dict(enumerate(times)), StateTypes(t.LONG, t.TIMESTAMP)))
    where = maker.write()
    assert source(where, "at").schema()["value"].dataType.simpleString() == expected
    always = source(where, "at", times="zoned").schema()["value"].dataType.simpleString()
    assert always == "struct<time:timestamp_ntz,zone:string,fold:boolean>"
    assert sum(table.num_rows for table in read(source(where, "at", times="zoned"))) == len(times)


def test_times_that_differ_from_the_schema_are_refused(tmp_path: Path) -> None:
    maker = Maker(tmp_path)
    entries = {1: datetime.datetime(2026, 1, 1, tzinfo=UTC)}
    maker.operator("counter", maker.values("at", entries, StateTypes(t.LONG, t.TIMESTAMP)))
    with pytest.raises(SnapshotError, match=r"parquet: column value holds times as timestamp\[us, tz=UTC\], where"):
        read(source(maker.write(), "at", times="local"))


def test_a_file_is_verified_before_it_is_used(tmp_path: Path) -> None:
    snapshot = counts(tmp_path)
    (file,) = snapshot.metadata.operators[0].states[0].files
    path = Path(f"{snapshot.location}/{file.path}".removeprefix("file://"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(SnapshotError, match=r"part-0-0.parquet: is damaged: its content does not match its checksum"):
        read(source(snapshot.location))
    path.write_bytes(data[:-1])
    with pytest.raises(SnapshotError, match="is damaged: it has"):
        read(source(snapshot.location))
    path.unlink()
    with pytest.raises(SnapshotError, match=r"part-0-0.parquet: does not exist"):
        read(source(snapshot.location))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"rows": 5}, "has 1000 rows, and the metadata lists 5"),
        ({"key_group_start": 0, "key_group_end": 3}, "the metadata promises only 0 to 2"),
    ],
)
def test_a_file_that_does_not_match_the_metadata_is_refused(
    tmp_path: Path, change: dict[str, Any], expected: str
) -> None:
    maker = Maker(tmp_path)
    state = maker.values("counts", {n: n for n in range(1000)}, COUNTS)
    maker.operator("counter", replace(state, files=tuple(replace(file, **change) for file in state.files)))
    with pytest.raises(SnapshotError, match=expected):
        read(source(maker.write()))


def test_columns_of_another_type_are_refused(tmp_path: Path) -> None:
    maker = Maker(tmp_path)
    state = maker.values("counts", {1: "text"}, StateTypes(t.LONG, t.STRING))
    maker.operator("counter", replace(state, value_type=COUNTS.snapshot("counts", StateKind.VALUE).value_type))
    with pytest.raises(SnapshotError, match="column value: holds string, and must hold int64 for Long"):
        read(source(maker.write()))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"uid": "countr"}, "has no operator 'countr': it has counter .*did you mean 'counter'"),
        ({"state": "count"}, "has no state 'count': it has counts, seen; did you mean 'counts'"),
        ({"state": "seen"}, r"has pickled values \(value\), which are not loaded unasked: set the option pickled"),
        ({"columns": "kye"}, "has no column 'kye': it has key_group, key, value; did you mean 'key'"),
        ({"colums": "key"}, "has no option 'colums': did you mean 'columns'"),
        ({"uid": ""}, "the option uid is missing"),
        ({"times": "utc"}, "the option times is 'utc', and must be one of stored, local, moments, zoned"),
        ({"pickled": "load"}, "the option pickled is 'load'"),
        ({"keyGroups": "3, 128"}, "the option keyGroups is '3, 128', and must be .* from 0 to 127"),
        ({"keyGroups": "8-3"}, "the option keyGroups is '8-3'"),
        ({"keyGroups": "a"}, "the option keyGroups is 'a'"),
        ({"rowsPerPartition": "0"}, "the option rowsPerPartition is '0'"),
    ],
)
def test_unreadable_state_is_refused_before_anything_is_read(
    tmp_path: Path, options: dict[str, str], expected: str
) -> None:
    maker = Maker(tmp_path)
    seen = maker.values("seen", {1: {"a"}}, StateTypes(t.LONG, t.PICKLED))
    maker.operator("counter", maker.values("counts", {1: 2}, COUNTS), seen)
    opened = StateSource({"path": maker.write(), "uid": "counter", "state": "counts", **options})
    with pytest.raises((SnapshotError, OptionError), match=expected):
        opened.reader(opened.schema())


def test_a_schema_with_another_type_is_refused(tmp_path: Path) -> None:
    wrong = s.StructType([s.StructField("value", s.StringType())])
    with pytest.raises(SnapshotError, match="column value of the type bigint, and the schema requires string"):
        source(counts(tmp_path, 1).location).reader(wrong)


def test_pickled_values_are_bytes_on_request(tmp_path: Path) -> None:
    maker = Maker(tmp_path)
    maker.operator("counter", maker.values("seen", {1: {"a"}}, StateTypes(t.LONG, t.PICKLED)))
    opened = source(maker.write(), "seen", pickled="binary")
    assert opened.schema()["value"].dataType == s.BinaryType()
    (table,) = read(opened)
    assert table.column("value")[0].as_py().startswith(b"\x80\x05")


def test_a_folder_that_is_not_a_snapshot_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match=r"is no snapshot: there is no _metadata\.json in it"):
        source(str(tmp_path)).schema()
    (tmp_path / "_metadata.json").write_text('{"version": 99}')
    with pytest.raises(SnapshotError, match="version"):
        source(str(tmp_path)).schema()


def test_files_of_a_state_backend_are_refused(tmp_path: Path) -> None:
    snapshot = counts(tmp_path, 5)
    operator = snapshot.metadata.operators[0]
    (state,) = operator.states
    native = replace(state, files=tuple(replace(file, path="a/part-0-0.rocksdb.native") for file in state.files))
    with pytest.raises(SnapshotError, match="format of the state backend rocksdb, which only a job with it reads"):
        open_state(snapshot.location, snapshot, operator, native)


def test_a_plan_does_not_show_credentials(tmp_path: Path) -> None:
    snapshot = counts(tmp_path, 5)
    operator = snapshot.metadata.operators[0]
    opened = open_state("s3://key:secret@bucket/path?region=x", snapshot, operator, operator.states[0])
    assert "secret" not in repr(opened)
    assert "secret" not in str(opened.refused("is odd"))
    assert open_snapshot(snapshot.location).location == opened.location
