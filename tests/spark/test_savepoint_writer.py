"""The runtime reads what Spark writes: every kind of state, bad rows, and changes to a savepoint."""

from __future__ import annotations

import datetime
import decimal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from millstream.common import Types
from millstream.core.keys.key_groups import key_group_of
from millstream.core.row import Row
from millstream.core.snapshot import (
    METADATA_FILE,
    SnapshotMetadata,
    StateKind,
    read_rows,
    read_state,
    storage_at,
    verify_snapshot,
)
from millstream.datastream.connectors.index_split import IndexSplit
from millstream.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from millstream.spark import (
    KeepOnConflict,
    KeyedStateBootstrapFunction,
    OperatorIdentifier,
    SavepointReader,
    SavepointWriter,
    StateBootstrapFunction,
)
from millstream.spark.errors import SavepointWriteError
from millstream.spark.planning import planned

pytestmark = [pytest.mark.process, pytest.mark.slow]

USERS = 300


def restored(path: Path, uid: str, name: str, unpickle: bool = False) -> Any:
    """The rows of a state as a task reads them, each key checked to be in its key group."""
    storage, location = storage_at(str(path))
    metadata = verify_snapshot(storage, location)
    operator = next(o for o in metadata.operators if o.uid == uid)
    state = next(s for s in operator.states if s.name == name)
    tables = [read_state(storage, location, state, f, max_parallelism=operator.max_parallelism) for f in state.files]
    found = [read_rows(table, state, unpickle=unpickle) for table in tables]
    for rows in found:
        assert rows.key_groups == [key_group_of(key, operator.max_parallelism) for key in rows.keys]
    return found


def values(path: Path, uid: str, name: str, **how: Any) -> dict[Any, Any]:
    found = restored(path, uid, name, **how)
    return {key: value for rows in found for key, value in zip(rows.keys, rows.content, strict=True)}


def lists(path: Path, uid: str, name: str) -> dict[Any, list[Any]]:
    return {key: items for rows in restored(path, uid, name) for (key, _), items in rows.lists().items()}


def maps(path: Path, uid: str, name: str) -> dict[Any, dict[Any, Any]]:
    found: dict[Any, dict[Any, Any]] = {}
    for rows in restored(path, uid, name):
        for key, map_key, value in zip(rows.keys, rows.detail, rows.content, strict=True):
            found.setdefault(key, {})[map_key] = value
    return found


@pytest.fixture(scope="module")
def history(spark: Any) -> Any:
    from pyspark.sql import functions as f

    number = f.col("id")
    return spark.range(USERS).select(
        f.concat(f.lit("user "), number.cast("string")).alias("user"),
        number.alias("n"),
        f.array(number, number + 1).alias("recent"),
        f.map_from_arrays(f.array(f.lit("a"), f.lit("b")), f.array(number, -number)).alias("by_page"),
        f.timestamp_millis(number * 1000).alias("at"),
    )


@pytest.fixture(scope="module")
def savepoint(spark: Any, history: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A savepoint with a state of each kind."""
    path = tmp_path_factory.mktemp("savepoints") / "first"
    writer = SavepointWriter.new_savepoint(spark, 128, job_name="visits")
    writer.with_keyed_state("visits", "count", history, key="user", value="n")
    writer.with_keyed_state("visits", ListStateDescriptor("recent", int), history, key="user", value="recent")
    writer.with_keyed_state("visits", MapStateDescriptor("pages", str, int), history, key="user", value="by_page")
    writer.with_timers("visits", history, key="user", timestamp="at")
    writer.with_broadcast_state("rules", "limits", history.limit(9), key="user", value="n")
    writer.with_operator_state("rules", "seen", history.orderBy("n").limit(5), value=["user", "n"])
    writer.with_source_positions("numbers", [("a", 1), ("b", 2)], enumerator_state=[("c", 0)])
    writer.write(str(path))
    return path


def test_the_runtime_reads_each_kind_of_state(savepoint: Path) -> None:
    assert values(savepoint, "visits", "count") == {f"user {i}": i for i in range(USERS)}
    assert lists(savepoint, "visits", "recent") == {f"user {i}": [i, i + 1] for i in range(USERS)}
    assert maps(savepoint, "visits", "pages") == {f"user {i}": {"a": i, "b": -i} for i in range(USERS)}
    assert values(savepoint, "visits", "user-timers") == {f"user {i}": i * 1000 for i in range(USERS)}
    (rows,) = restored(savepoint, "rules", "seen")
    assert rows.content == [Row(user=f"user {i}", n=i) for i in range(5)]
    (rows,) = restored(savepoint, "rules", "limits")
    assert dict(zip(rows.detail, rows.content, strict=True)) == {f"user {i}": i for i in range(9)}
    (rows,) = restored(savepoint, "numbers", "splits", unpickle=True)
    assert rows.content == [("a", 1), ("b", 2)]


def test_keys_of_every_type_are_in_the_key_groups_of_the_runtime(spark: Any, tmp_path: Path) -> None:
    frame = spark.sql(
        "select id, cast(id as byte) b, cast(id % 2 = 0 as boolean) o, id / 4 d, cast(id / 8 as decimal(20, 3)) c, "
        "timestamp_seconds(id * 86400 * 30) z, cast(timestamp_seconds(id * 7) as timestamp_ntz) l, "
        "date_add(date'1969-12-30', cast(id as int)) t, cast(concat('ü', id) as binary) y from range(2)"
        " union all select id, 5, true, -0.0, -2.5, timestamp'1950-06-01 12:00:00.5', "
        "timestamp_ntz'1950-06-01 12:00:00.5', date'0900-01-01', X'00' from range(0)"
    )
    columns = {"b": int, "o": bool, "d": float, "c": decimal.Decimal, "z": datetime.datetime, "l": datetime.datetime,
               "t": datetime.date, "y": bytes}  # fmt: skip
    writer = SavepointWriter.new_savepoint(spark, 32768)
    for column in columns:
        writer.with_keyed_state(column, "n", frame, key=column, value="id")
    writer.with_keyed_state("pair", "n", frame, key=["d", "z"], value="id")
    writer.with_keyed_state("dec", "n", frame, key="id", key_type=Types.BIG_DEC(), value="id")
    writer.write(str(tmp_path / "s"))
    for column, kind in columns.items():
        found = values(tmp_path / "s", column, "n")
        assert sorted(found.values()) == [0, 1]
        assert {type(key) for key in found} == {kind}
    assert values(tmp_path / "s", "dec", "n") == {decimal.Decimal(0): 0, decimal.Decimal(1): 1}
    assert all(type(key) is tuple for key in values(tmp_path / "s", "pair", "n"))


def test_rows_expire_at_the_time_in_their_column(spark: Any, history: Any, tmp_path: Path) -> None:
    writer = SavepointWriter.new_savepoint(spark, 128)
    day = datetime.timedelta(days=1)
    writer.with_keyed_state("op", "count", history, key="user", value="n", ttl=day, expires_at="at")
    metadata = writer.write(str(tmp_path / "s"))
    (state,) = metadata.operators[0].states
    assert state.ttl is not None
    assert state.ttl.ttl_ms == 86_400_000
    found = restored(tmp_path / "s", "op", "count")
    expiring = {key: at for rows in found for key, at in zip(rows.keys, rows.expires_at, strict=True)}
    assert expiring == {f"user {i}": i * 1000 for i in range(USERS)}


def filling() -> KeyedStateBootstrapFunction:
    """A function of a class that no other process can import: it is pickled by value."""

    class Visits(KeyedStateBootstrapFunction):
        def open(self, runtime_context: Any) -> None:
            self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
            self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))

        def process_element(self, value: Any, ctx: Any) -> None:
            self.total.update((self.total.value() or 0) + value.n)
            self.seen.add(value.n)
            ctx.timer_service().register_event_time_timer(int(ctx.get_current_key()) + 10)

    return Visits()


def test_a_function_fills_state_and_timers_with_the_runtimes_own(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as f

    rows = spark.range(90).select((f.col("id") % 30).alias("key"), f.col("id").alias("n"), f.lit(0).alias("a.b"))
    writer = SavepointWriter.new_savepoint(spark, 64)
    writer.with_keyed_function("op", rows, "key", filling(), order_by="n").write(str(tmp_path / "s"))
    assert values(tmp_path / "s", "op", "total") == {i: 3 * i + 90 for i in range(30)}
    assert lists(tmp_path / "s", "op", "seen") == {i: [i, i + 30, i + 60] for i in range(30)}
    assert values(tmp_path / "s", "op", "user-timers") == {i: i + 10 for i in range(30)}


def counting() -> StateBootstrapFunction:
    """A function of a class that is pickled by value."""

    class Kept(StateBootstrapFunction):
        def initialize_state(self, context: Any) -> None:
            store = context.get_operator_state_store()
            self.seen = store.get_list_state(ListStateDescriptor("seen", Types.LONG()))
            self.totals = store.get_union_list_state("totals", int)
            self.names = store.get_broadcast_state("names", str, int)
            self.total = 0

        def process_element(self, value: Any) -> None:
            self.seen.add(value.n)
            self.names.put(value.user, value.n)
            self.total += value.n

        def snapshot_state(self, context: Any) -> None:
            self.totals.add(self.total)

    return Kept()


def test_a_function_fills_operator_state_with_the_runtimes_own(spark: Any, history: Any, tmp_path: Path) -> None:
    rows = history.select("user", "n").where("n < 4").repartition(2).orderBy("n", ascending=False)
    SavepointWriter.new_savepoint(spark, 64).with_operator_function("op", rows, counting()).write(str(tmp_path / "s"))
    (seen,) = restored(tmp_path / "s", "op", "seen")
    assert seen.content == [3, 2, 1, 0]
    (totals,) = restored(tmp_path / "s", "op", "totals")
    assert totals.content == [6]
    (names,) = restored(tmp_path / "s", "op", "names")
    assert dict(zip(names.detail, names.content, strict=True)) == {f"user {i}": i for i in range(4)}


BAD_ROWS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "a key twice": (lambda w, h: w.with_keyed_state("op", "s", h.union(h), key="user", value="n"), "2 rows for key"),
    "a null key": (
        lambda w, h: w.with_keyed_state("op", "s", h.selectExpr("nullif(user, 'user 7') u", "n"), key="u", value="n"),
        "null key",
    ),
    "another type": (
        lambda w, h: w.with_keyed_state("op", "s", h, key="user", value="user", value_type=int), "must hold int64"
    ),
    "out of range": (
        lambda w, h: w.with_keyed_state("op", "s", h, key="user", value="n", value_type=Types.BYTE()), "not in range"
    ),
    "an entry twice": (lambda w, h: w.with_broadcast_state("op", "s", h.union(h), key="user", value="n"), "2 rows for"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD_ROWS)
def test_bad_rows_are_refused_with_their_reason_and_nothing_is_left(
    spark: Any, history: Any, tmp_path: Path, what: str
) -> None:
    plan, reason = BAD_ROWS[what]
    writer = SavepointWriter.new_savepoint(spark, 128).with_keyed_state("good", "s", history, key="user", value="n")
    plan(writer, history)
    with pytest.raises(SavepointWriteError, match=reason):
        writer.write(str(tmp_path / "s"))
    assert not (tmp_path / "s").exists()


def test_errors_in_columns_are_reported_before_anything_runs(spark: Any, history: Any, savepoint: Path) -> None:
    writer = SavepointWriter.new_savepoint(spark, 128)
    with pytest.raises(SavepointWriteError, match="did you mean 'user'"):
        writer.with_keyed_state("op", "s", history, key="usr", value="n")
    with pytest.raises(SavepointWriteError, match="column of arrays"):
        writer.with_keyed_state("op", "s", history, key="user", value="n", kind="list")
    with pytest.raises(SavepointWriteError, match="there is a savepoint already"):
        SavepointWriter.from_existing_savepoint(spark, str(savepoint)).write(str(savepoint))


def test_keyed_state_is_hashed_again_for_another_max_parallelism(spark: Any, savepoint: Path, tmp_path: Path) -> None:
    before = (savepoint / METADATA_FILE).read_bytes()
    writer = SavepointWriter.from_existing_savepoint(spark, str(savepoint), max_parallelism=60)
    writer.rename_state("visits", "count", "visits").change_operator_identifier("rules", "limits")
    writer.remove_operator("numbers").remove_state("limits", "seen")
    metadata = writer.write(str(tmp_path / "s"))
    assert {o.uid: (o.max_parallelism, [s.name for s in o.states]) for o in metadata.operators} == {
        "visits": (60, ["visits", "recent", "pages", "user-timers"]), "limits": (60, ["limits"]),
    }  # fmt: skip
    assert not metadata.properties
    assert values(tmp_path / "s", "visits", "visits") == values(savepoint, "visits", "count")
    assert lists(tmp_path / "s", "visits", "recent") == lists(savepoint, "visits", "recent")
    assert maps(tmp_path / "s", "visits", "pages") == maps(savepoint, "visits", "pages")
    assert (savepoint / METADATA_FILE).read_bytes() == before


def test_untouched_states_are_copied_or_linked_byte_for_byte(spark: Any, savepoint: Path, tmp_path: Path) -> None:
    def checksums(metadata: SnapshotMetadata) -> list[str]:
        return sorted(file.checksum for file in metadata.files())

    writer = SavepointWriter.from_existing_savepoint(spark, str(savepoint))
    copied = writer.write(str(tmp_path / "copy"))
    linked = writer.write(str(tmp_path / "link"), untouched="link")
    storage, location = storage_at(str(savepoint))
    assert checksums(copied) == checksums(linked) == checksums(storage.read_metadata(location))
    assert all((tmp_path / "link" / file.path).stat().st_nlink == 2 for file in linked.files())
    storage.delete_snapshot(str(tmp_path / "link"))
    assert values(savepoint, "visits", "count")  # whose files have lost one of their names


def test_states_are_transformed_filtered_and_merged(spark: Any, savepoint: Path, tmp_path: Path) -> None:
    from pyspark.sql import functions as f

    new = spark.createDataFrame([("user 1", -1), ("another", -2)], "user string, n long")
    writer = SavepointWriter.from_existing_savepoint(spark, str(savepoint))
    rule = lambda old, now: old * 1000 + now  # noqa: E731  # as a caller writes it
    writer.with_keyed_state("visits", "count", new, key="user", value="n", on_conflict=rule)
    writer.transform_state("visits", "pages", "select key, map_key, cast(map_value as string) map_value from {state}")
    metadata = writer.write(str(tmp_path / "s"))
    pages = next(s for s in metadata.operators[0].states if s.name == "pages")
    assert pages.value_type == {"type": "basic", "name": "String"}
    assert maps(tmp_path / "s", "visits", "pages") == {f"user {i}": {"a": str(i), "b": str(-i)} for i in range(USERS)}
    expected = {f"user {i}": i for i in range(USERS)} | {"user 1": 999, "another": -2}
    assert values(tmp_path / "s", "visits", "count") == expected
    writer = SavepointWriter.from_existing_savepoint(spark, str(tmp_path / "s"))
    writer.filter_keys("visits", f.col("key").endswith("7")).write(str(tmp_path / "t"))
    assert values(tmp_path / "t", "visits", "count") == {k: v for k, v in expected.items() if k.endswith("7")}
    assert set(lists(tmp_path / "t", "visits", "recent")) == {f"user {i}" for i in range(7, USERS, 10)}


def test_conflicts_are_resolved_by_the_rule(spark: Any, history: Any, tmp_path: Path) -> None:
    new = spark.createDataFrame([("user 1", [7])], "user string, recent array<bigint>")

    def merged(rule: KeepOnConflict, name: str) -> Any:
        writer = SavepointWriter.new_savepoint(spark, 8)
        writer.with_keyed_state("op", "l", history.limit(3), key="user", value="recent", kind="list")
        writer.with_keyed_state("op", "l", new, key="user", value="recent", kind="list", on_conflict=rule)
        writer.write(str(tmp_path / name), verify=False)
        return lists(tmp_path / name, "op", "l")["user 1"]

    assert merged(KeepOnConflict.EXISTING, "a") == [1, 2]
    assert merged(KeepOnConflict.NEW, "b") == [7]
    assert merged(KeepOnConflict.BOTH, "c") == [1, 2, 7]
    with pytest.raises(SavepointWriteError, match="a list on each side"):
        merged(KeepOnConflict.NEITHER, "d")


def test_pickled_state_gets_its_types_and_small_files_are_merged(spark: Any, history: Any, tmp_path: Path) -> None:
    writer = SavepointWriter.new_savepoint(spark, 128)
    pickled = Types.PICKLED_BYTE_ARRAY()
    writer.with_keyed_state("op", "s", history, key="user", value="n", value_type=pickled)
    metadata = writer.write(str(tmp_path / "a"), partitions=8)
    assert len(list(metadata.files())) == 8
    with pytest.raises(SavepointWriteError, match="load_pickles"):
        SavepointWriter.from_existing_savepoint(spark, str(tmp_path / "a")).declare_state("op", "s", value_type=int)
    writer = SavepointWriter.from_existing_savepoint(spark, str(tmp_path / "a"), load_pickles=True)
    typed = writer.declare_state("op", "s", value_type=int).write(str(tmp_path / "b"))
    assert len(list(typed.files())) == 1
    assert values(tmp_path / "b", "op", "s") == {f"user {i}": i for i in range(USERS)}
    compact = SavepointWriter.from_existing_savepoint(spark, str(tmp_path / "a")).compact().write(str(tmp_path / "c"))
    assert len(list(compact.files())) == 1
    assert values(tmp_path / "c", "op", "s", unpickle=True) == {f"user {i}": i for i in range(USERS)}


def test_windows_have_the_timers_that_fire_them(spark: Any, tmp_path: Path) -> None:
    frame = spark.createDataFrame([("a", 0, 1000, 5), ("a", 1000, 2000, 6)], "k string, s long, e long, v long")
    writer = SavepointWriter.new_savepoint(spark, 8)
    late = datetime.timedelta(seconds=3)
    writer.with_window_state("w", frame, key="k", value="v", window=("s", "e"), allowed_lateness=late)
    metadata = writer.write(str(tmp_path / "s"))
    assert [s.kind for s in metadata.operators[0].states] == [StateKind.REDUCING, StateKind.TIMERS]
    (rows,) = restored(tmp_path / "s", "w", "window-timers")
    assert sorted(zip(rows.namespaces, rows.content, strict=True)) == [
        ((0, 1000), 999), ((0, 1000), 3999), ((1000, 2000), 1999), ((1000, 2000), 4999),
    ]  # fmt: skip


def test_settings_apply_to_one_frame(spark: Any) -> None:
    def sizes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pylist([{"rows": batch.num_rows}])

    frame = spark.range(0, 100, 1, 1).mapInArrow(sizes, "rows long").repartition(1)
    small = planned(frame, {"spark.sql.execution.arrow.maxRecordsPerBatch": "40"})
    assert sorted(row.rows for row in small.collect()) == [20, 40, 40]
    assert [row.rows for row in frame.collect()] == [100]


def test_the_reader_reads_what_was_written(spark: Any, savepoint: Path) -> None:
    frame = SavepointReader.read(spark, str(savepoint)).read_keyed_state("visits", "count")
    assert {row.key: row.value for row in frame.collect()} == {f"user {i}": i for i in range(USERS)}
    assert OperatorIdentifier.for_uid("visits").uid == "visits"


JOB = """
import sys
from millstream.common import Configuration, Types
from millstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment


class Visits(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state("count", int)
        self.recent = runtime_context.get_list_state("recent", int)
        self.pages = runtime_context.get_map_state("pages", str, int)

    def process_element(self, value, ctx):
        pages = sorted(self.pages.items())
        yield f"{ctx.get_current_key()}={self.count.value()},{list(self.recent.get())},{pages}"

    def on_timer(self, timestamp, ctx):
        yield f"timer {ctx.get_current_key()}={timestamp}"


configuration = Configuration()
configuration.set_string("execution.state-recovery.path", sys.argv[1])
env = StreamExecutionEnvironment.get_execution_environment(configuration)
env.set_parallelism(3)
users = env.from_collection([f"user {i}" for i in range(300)], Types.STRING())
visits = users.key_by(lambda user: user, key_type=Types.STRING()).process(Visits(), output_type=Types.STRING())
visits.uid("visits").print("out")
env.execute("visits")
"""


def test_a_job_continues_from_it_at_another_parallelism_and_max_parallelism(
    spark: Any, savepoint: Path, tmp_path: Path
) -> None:
    writer = SavepointWriter.from_existing_savepoint(spark, str(savepoint), max_parallelism=33)
    writer.remove_operator("rules").remove_operator("numbers")
    (tmp_path / "job.py").write_text(JOB)
    writer.write(str(tmp_path / "s"), job=str(tmp_path / "job.py"), job_arguments=(str(tmp_path / "s"),))
    expected = [f"user {i}={i},{[i, i + 1]},{[('a', i), ('b', -i)]}" for i in range(USERS)]
    timers = [f"timer user {i}={i * 1000}" for i in range(USERS)]
    assert printed(tmp_path / "job.py", str(tmp_path / "s")) == sorted([*expected, *timers])


WINDOW_JOB = """
import sys
from millstream.common import Configuration, Time, WatermarkStrategy
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors import NumberSequenceSource
from millstream.datastream.window import TumblingEventTimeWindows

configuration = Configuration()
configuration.set_string("execution.state-recovery.path", sys.argv[1])
env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(1)
times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda number, _: number * 10)
numbers = env.from_source(NumberSequenceSource(0, 299), times, "numbers").uid("numbers")
windows = numbers.key_by(lambda number: number % 2, key_type=int).window(TumblingEventTimeWindows.of(Time.seconds(1)))
windows.reduce(lambda one, other: one + other).uid("sums").print("out")
env.execute("windows")
"""


def test_a_job_continues_with_windows_and_source_positions(spark: Any, tmp_path: Path) -> None:
    past = spark.range(150).selectExpr("id % 2 as key", "id div 100 * 1000 as start", "id").where("start > 0")
    open_windows = past.groupBy("key", "start").agg({"id": "sum"}).toDF("key", "start", "sum")
    open_windows = open_windows.selectExpr("key", "start", "start + 1000 as end", "sum")
    writer = SavepointWriter.new_savepoint(spark, 128)
    writer.with_window_state("sums", open_windows, key="key", value="sum", window=("start", "end"))
    writer.with_source_positions("numbers", [IndexSplit("rest", 150, 300)], enumerator_state=[])
    (tmp_path / "job.py").write_text(WINDOW_JOB)
    writer.write(str(tmp_path / "s"), job=str(tmp_path / "job.py"), job_arguments=(str(tmp_path / "s"),))
    assert printed(tmp_path / "job.py", str(tmp_path / "s")) == sorted(
        str(sum(range(start + key, start + 100, 2))) for start in (100, 200) for key in (0, 1)
    )


def printed(job: Path, *arguments: str) -> list[str]:
    """What a job prints, sorted."""
    command = [sys.executable, str(job), *arguments]
    done = subprocess.run(command, cwd=job.parent, capture_output=True, text=True, timeout=120, check=False)
    lines = [line.split("> ")[1] for line in done.stdout.splitlines() if line.startswith(("out:", "out>"))]
    assert lines, done.stderr[-2000:]
    return sorted(lines)


def test_a_job_that_cannot_start_from_it_leaves_none(spark: Any, savepoint: Path, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB.replace('get_state("count", int)', 'get_state("count", str)'))
    writer = SavepointWriter.from_existing_savepoint(spark, str(savepoint))
    writer.remove_operator("rules").remove_operator("numbers")
    with pytest.raises(SavepointWriteError, match=r"cannot start from it: .*'count'"):
        writer.write(str(tmp_path / "s"), job=str(tmp_path / "job.py"), job_arguments=(str(tmp_path / "s"),))
    assert not (tmp_path / "s").exists()


def test_a_savepoint_in_an_object_store(spark: Any, history: Any, s3_root: str) -> None:
    target, copy = s3_root.format(path="first"), s3_root.format(path="copy")
    writer = SavepointWriter.new_savepoint(spark, 16).with_keyed_state("op", "n", history, key="user", value="n")
    writer.write(target)
    metadata = SavepointWriter.from_existing_savepoint(spark, target, max_parallelism=8).write(copy)
    storage, location = storage_at(copy)
    assert verify_snapshot(storage, location) == metadata
    with pytest.raises(SavepointWriteError, match="only files of a local file system have links"):
        SavepointWriter.from_existing_savepoint(spark, target).write(s3_root.format(path="link"), untouched="link")
