"""Snapshots as DataFrames, in a running Spark."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from pyspark.sql.datasource import EqualTo
from shop import shop_snapshot
from snapshot_maker import Maker
from thoroughness import cases
from written_states import content_of, restored_content, rows_of_runtime, rows_of_spark, states

from millstream.common import Types
from millstream.core.keys.key_groups import key_group_of
from millstream.core.records import types as t
from millstream.core.snapshot import FileFormat, SnapshotError, SnapshotKind, StateKind, StateTypes
from millstream.core.snapshot.inspection.opened import open_snapshot
from millstream.spark import SavepointReader, SavepointWriter
from millstream.spark.reading.states import open_state

pytestmark = [pytest.mark.process, pytest.mark.slow]

KINDS: dict[StateKind, Callable[[SavepointReader, str, str], Any]] = {
    StateKind.VALUE: SavepointReader.read_keyed_state,
    StateKind.LIST: SavepointReader.read_list_state,
    StateKind.OPERATOR_LIST: SavepointReader.read_list_state,
    StateKind.OPERATOR_UNION: SavepointReader.read_union_state,
    StateKind.BROADCAST: SavepointReader.read_broadcast_state,
    StateKind.MAP: SavepointReader.read_map_state,
    StateKind.TIMERS: SavepointReader.read_timers,
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> str:
    return shop_snapshot(tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="module")
def reader(spark: Any, shop: str) -> SavepointReader:
    return SavepointReader.read(spark, shop)


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


@settings(max_examples=cases(2))
@given(data=st.data())
def test_state_of_every_kind_and_type_is_read_written_and_restored_as_the_runtime_wrote_it(
    spark: Any, data: st.DataObject
) -> None:
    with TemporaryDirectory() as folder:
        maker = Maker(folder, format=data.draw(st.sampled_from(FileFormat)))
        drawn = [data.draw(states(maker, f"state-{n}")) for n in range(3)]
        for state in drawn:
            maker.operator(state.name, state)  # which may have keys of another type
        snapshot = maker.finish()
        opened = SavepointReader.read(spark, snapshot.location)
        for operator in snapshot.metadata.operators:
            (state,) = operator.states
            windows = state.namespace_type is not None
            method = SavepointReader.read_window_state if windows else KINDS[state.kind]
            frame = method(opened, state.name, state.name)
            plan = open_state(snapshot.location, snapshot, operator, state)
            assert frame.schema == plan.schema
            assert rows_of_spark([frame.toArrow()], plan) == rows_of_runtime(snapshot, plan)
        writer = SavepointWriter.from_existing_savepoint(spark, snapshot.location, max_parallelism=13)
        for state in drawn:
            writer.transform_state(state.name, state.name, lambda rows: rows)
        writer.write(f"{folder}/again", partitions=2)
        again = open_snapshot(f"{folder}/again")
        for before, after in zip(snapshot.metadata.operators, again.metadata.operators, strict=True):
            assert restored_content(again, after, parallelism=3) == content_of(snapshot, before)


def test_the_contents_of_a_snapshot(reader: SavepointReader, shop: str) -> None:
    (about,) = reader.metadata().collect()
    assert (about.location, about.kind, about.job_name, about.checkpoint_id) == (shop, "savepoint", "counts", 3)
    assert about.created.timestamp() == 1.0
    assert rows(reader.operators().select("uid", "name", "max_parallelism", "states")) == [
        ("counter", "Counter", 128, 7), ("source", "Source", 128, 1),
    ]  # fmt: skip
    states = reader.states().filter("uid = 'counter' and name in ('counts', 'prices')")
    chosen = states.select("name", "kind", "key_type", "map_key_type", "value_type", "rows", "files", "pickled")
    assert rows(chosen) == [
        ("counts", "value", "Long", None, "Long", 1000, 4, False),
        ("prices", "map", "String", "String", "Double", 2, 1, False),
    ]


def test_the_size_of_a_state_is_not_underestimated_by_a_reader(reader: SavepointReader) -> None:
    frame = reader.read_keyed_state("counter", "counts")
    joined = frame.join(frame.select("key"), "key")
    assert "Broadcast" not in joined._jdf.queryExecution().executedPlan().toString()
    assert joined.count() == 1000


def test_dataclasses_are_structs(reader: SavepointReader) -> None:
    frame = reader.read_keyed_state("counter", "orders")
    assert frame.schema["value"].dataType.simpleString() == "struct<item:string,price:double>"
    assert rows(frame.select("key", "value.item", "value.price")) == [("a", "tea", 1.5), ("b", "cup", None)]


def test_entries_windows_and_timers(reader: SavepointReader) -> None:
    entries = reader.read_map_state("counter", "prices")
    assert rows(entries.select("key", "map_key", "map_value")) == [("a", "cup", 3.0), ("a", "tea", 1.5)]
    windows = reader.read_window_state("counter", "open")
    assert rows(windows.select("key", "namespace.start", "namespace.end", "value")) == [("a", 0, 1000, 5)]
    timers = reader.read_timers("counter")
    assert rows(timers) == [(key_group_of("a", 128), "a", 1000, "event")]


def test_sql_reads_a_state(spark: Any, reader: SavepointReader, shop: str) -> None:
    options = f"path '{shop}', uid 'counter', state 'counts', columns 'key, value'"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW counts USING millstream OPTIONS ({options})")
    assert rows(spark.sql("SELECT count(*), sum(value) FROM counts WHERE key < 10")) == [(10, 285)]
    some = f"(value BIGINT) USING millstream OPTIONS (path '{shop}', uid 'counter', state 'counts')"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW counts {some}")
    assert spark.sql("SELECT * FROM counts").columns == ["value"]


def test_only_the_files_of_selected_key_groups_are_read(spark: Any, tmp_path: Path) -> None:
    maker = Maker(tmp_path, rows_per_file=300)
    state = maker.values("counts", {n: n for n in range(1000)}, StateTypes(t.LONG, t.LONG))
    maker.operator("counter", state)
    where = maker.write()
    wanted = key_group_of(7, 128)
    for file in state.files:
        if wanted not in (file.key_groups or ()):
            Path(f"{where}/{file.path}".removeprefix("file://")).write_bytes(b"damaged")
    reader = SavepointReader.read(spark, where)
    groups = reader.key_groups("counter", "counts", EqualTo(("key",), 7))
    assert groups == [wanted]
    frame = reader.of_key_groups(groups).read_keyed_state("counter", "counts")
    assert rows(frame.filter("key = 7")) == [(wanted, 7, 7)]
    assert rows(frame) == sorted((wanted, n, n) for n in range(1000) if key_group_of(n, 128) == wanted)
    options = f"path '{where}', uid 'counter', state 'counts', keyGroups '{wanted}'"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW chosen USING millstream OPTIONS ({options})")
    assert rows(spark.sql("SELECT * FROM chosen WHERE key = 7")) == [(wanted, 7, 7)]
    frame = reader.read_keyed_state("counter", "counts")
    with pytest.raises(Exception, match=r"part-0-\d.parquet: is damaged: it has 7 bytes instead of"):
        frame.count()


def test_conditions_of_one_query_do_not_affect_another_of_the_same_frame(spark: Any, tmp_path: Path) -> None:
    maker = Maker(tmp_path, rows_per_file=300)
    maker.operator("counter", maker.values("counts", {n: n for n in range(1000)}, StateTypes(t.LONG, t.LONG)))
    frame = SavepointReader.read(spark, maker.write()).read_keyed_state("counter", "counts")
    both = frame.filter("key = 7").union(frame.filter("key = 8"))
    assert rows(both.select("key")) == [(7,), (8,)]
    groups = frame.filter("key_group = 1").union(frame.filter("key_group = 2"))
    wanted = sorted((key_group_of(n, 128), n) for n in range(1000) if key_group_of(n, 128) in (1, 2))
    assert rows(groups.select("key_group", "key")) == wanted
    assert frame.count() == 1000


def pushed_conditions() -> type:
    """A data source that reads the one row that a condition selects; its class is pickled by value."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    class Reader(DataSourceReader):  # type: ignore[misc]  # PySpark is not followed
        def __init__(self) -> None:
            self.wanted = [1, 2]

        def pushFilters(self, filters: list[Any]) -> Iterator[Any]:  # noqa: N802  # Spark's name
            for condition in filters:
                if isinstance(condition, EqualTo):
                    self.wanted = [condition.value]
                yield condition

        def partitions(self) -> list[Any]:
            return [InputPartition(value) for value in self.wanted]

        def read(self, partition: Any) -> Iterator[tuple[int]]:
            yield (partition.value,)

    class Source(DataSource):  # type: ignore[misc]  # PySpark is not followed
        @classmethod
        def name(cls) -> str:
            return "pushed_conditions"

        def schema(self) -> str:
            return "n int"

        def reader(self, schema: Any) -> Any:
            return Reader()

    return Source


def test_spark_still_reads_one_scan_with_the_conditions_of_another(spark: Any) -> None:
    """Why conditions of queries are not pushed to the data source: once this fails, Spark has fixed it and they can be.

    Up to 4.3, `PythonScanBuilder.pushFilters` gives what it planned to the relation's `PythonDataSourceV2`, where all
    other scans of the relation find it. Spark's main branch keeps it in the scan.
    """
    setting = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(setting, True)
    try:
        spark.dataSource.register(pushed_conditions())
        frame = spark.read.format("pushed_conditions").load()
        assert rows(frame.filter("n = 1")) == [(1,)]
        assert rows(frame) == [(1,)], "and not both rows"
    finally:
        spark.conf.unset(setting)


def test_only_rows_of_selected_keys_are_read(spark: Any, reader: SavepointReader) -> None:
    some = reader.for_keys([7, 8, 5000])
    assert rows(some.read_keyed_state("counter", "counts", columns=["key", "value"])) == [(7, 49), (8, 64)]
    named = reader.for_keys(["a"])
    assert rows(named.read_map_state("counter", "prices").select("map_key")) == [("cup",), ("tea",)]
    assert rows(named.read_timers("counter").select("key")) == [("a",)]


def test_a_checkpoint_is_read_like_a_savepoint(spark: Any, tmp_path: Path) -> None:
    maker = Maker(tmp_path, format=FileFormat.ARROW, kind=SnapshotKind.CHECKPOINT, rows_per_file=300)
    state = maker.values("counts", {n: n for n in range(1000)}, StateTypes(t.LONG, t.LONG))
    first, *others = state.files
    shared = replace(first, path=f"{maker.location}/{first.path}")
    maker.operator("counter", replace(state, files=(shared, *others)))
    frame = SavepointReader.read(spark, maker.write()).read_keyed_state("counter", "counts")
    assert rows(frame.selectExpr("count(distinct key)", "sum(value)")) == [(1000, 499500)]


def counting() -> Callable[[Any], int]:
    """A function that is pickled by value: executors cannot import this module."""

    def count_of(value: Any) -> int:
        return int(value["n"])

    return count_of


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"value_type": "struct<n: int, tags: array<string>>"}, (1, ["x"])),
        ({"function": counting()}, 1),
        ({"function": lambda value: [value["n"]] * 2, "value_type": list[int]}, [1, 1]),
        ({"function": lambda value: (value["n"], "y"), "value_type": Types.TUPLE([Types.INT(), Types.STRING()])},
         (1, "y")),
    ],
)  # fmt: skip
def test_pickled_values_are_loaded_as_the_given_type(
    reader: SavepointReader, given: dict[str, Any], wanted: Any
) -> None:
    frame = reader.read_keyed_state("counter", "seen", **given)
    (found,) = frame.filter("key = 'a'").collect()
    assert (tuple(found.value) if isinstance(found.value, tuple) else found.value) == wanted
    assert frame.filter("value is null").count() == 1


def test_pickled_parts_of_keys_and_values_are_loaded(reader: SavepointReader) -> None:
    frame = reader.read_keyed_state(
        "counter", "mixed", key_type=tuple[int, str], value_type="n bigint", function=lambda value: value[1]
    )
    assert rows(frame.select("key.f0", "key.f1", "value.n")) == [(1, "k", 3)]
    raw = reader.read_keyed_state(
        "counter", "mixed", key_type=Types.PICKLED_BYTE_ARRAY(), value_type=Types.PICKLED_BYTE_ARRAY()
    )
    assert raw.schema["value"].dataType.simpleString() == "struct<f0:bigint,f1:binary>"


def test_positions_of_a_source_are_decoded_by_a_function(reader: SavepointReader) -> None:
    frame = reader.read_source_positions("source", value_type="name string, at bigint", function=lambda split: split)
    assert rows(frame.select("subtask", "element.name", "element.at")) == [(0, "file", 7), (1, "other", 9)]


def test_a_value_that_is_not_of_the_given_type_fails_the_query(reader: SavepointReader) -> None:
    frame = reader.read_keyed_state("counter", "seen", value_type=int)
    with pytest.raises(Exception, match=r"column 'value', row 0: .* is not a Long"):
        frame.filter("key = 'a'").collect()


def test_a_folder_without_a_snapshot_is_refused(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match=r"is no snapshot: there is no _metadata\.json"):
        SavepointReader.read(spark, str(tmp_path))


def test_times_are_the_same_moments_in_every_time_zone(spark: Any, tmp_path: Path) -> None:
    maker = Maker(tmp_path)
    at = datetime.datetime(2026, 3, 29, 1, 30, 0, 1, tzinfo=datetime.UTC)
    maker.operator("clock", maker.values("at", {1: at}, StateTypes(t.LONG, t.INSTANT)))
    frame = SavepointReader.read(spark, maker.write()).read_keyed_state("clock", "at")
    assert rows(frame.selectExpr("unix_micros(value)")) == [(int(at.timestamp()) * 1_000_000 + 1,)]


def test_credentials_are_used_and_not_shown(spark: Any, s3_root: str, capfd: pytest.CaptureFixture[str]) -> None:
    where = s3_root.format(path="spark-secrets")
    maker = Maker(where)
    maker.operator("counter", maker.values("counts", {1: 2}, StateTypes(t.LONG, t.LONG)))
    location = maker.write()
    pointer = where.replace("/spark-secrets", location.removeprefix("s3://bucket"))
    frame = SavepointReader.read(spark, pointer).read_keyed_state("counter", "counts")
    assert rows(frame.select("key", "value")) == [(1, 2)]
    for mode in ("simple", "extended", "codegen", "cost", "formatted"):
        frame.filter("key = 1").explain(mode)
    with pytest.raises(Exception, match="has no state 'conts'") as caught:
        spark.read.format("millstream").options(uid="counter", state="conts").load(pointer)
    shown = capfd.readouterr()
    for text in (str(caught.value), shown.out, shown.err, str(frame), frame._jdf.queryExecution().toString()):
        assert "testsecret" not in text
