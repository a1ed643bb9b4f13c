"""What `SavepointReader` refuses before Spark starts a query, and how pickled values are loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import types as s
from shop import shop_snapshot

from millstream.core.errors import MillstreamError
from millstream.core.records import types as t
from millstream.core.records.conversion import ConversionError
from millstream.core.snapshot import SnapshotError
from millstream.core.snapshot.inspection.opened import open_snapshot
from millstream.core.snapshot.tables.columns import to_array
from millstream.spark import SavepointReader, SavepointWriter
from millstream.spark.reading.decoding import declared_type, loader


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> SavepointReader:
    path = shop_snapshot(tmp_path_factory.mktemp("shop"))
    return SavepointReader(None, path, open_snapshot(path))  # type: ignore[arg-type]  # it is refused before it is used


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda r: r.read_keyed_state("conter", "counts"), "no operator 'conter': .* did you mean 'counter'"),
        (lambda r: r.read_keyed_state("counter", "count"), "no state 'count': .* did you mean 'counts'"),
        (lambda r: r.read_map_state("counter", "counts"), "is value state, and read_map_state reads map state: use"),
        (lambda r: r.read_keyed_state("counter", "prices"), "is map state, .*: use read_map_state"),
        (lambda r: r.read_keyed_state("counter", "open"), "is value state of windows, .*: use read_window_state"),
        (lambda r: r.read_window_state("counter", "counts"), "is value state, .*: use read_keyed_state"),
        (lambda r: r.read_keyed_state("counter", "seen"), "pickled values in its column value, .*: give value_type"),
        (lambda r: r.read_source_positions("source"), "pickled values in its column element"),
        (lambda r: r.read_keyed_state("counter", "counts", value_type=int), "declared as Long, and value_type is for"),
        (lambda r: r.read_keyed_state("counter", "seen", function=lambda v: v), "whose type is not known: annotate"),
        (lambda r: r.read_timers("source"), "has no state of the kind timers: it has splits"),
        (lambda r: r.read_keyed_state("counter", "counts", columns=["valu"]), "no column 'valu': .* mean 'value'"),
    ],
)  # fmt: skip
def test_unreadable_state_is_refused_at_the_call(
    reader: SavepointReader, read: Callable[[SavepointReader], Any], message: str
) -> None:
    with pytest.raises(SnapshotError, match=message):
        read(reader)


def test_a_folder_without_a_snapshot_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match=r"is no snapshot: there is no _metadata\.json"):
        SavepointReader.read(None, str(tmp_path))  # type: ignore[arg-type]  # it is refused before it is used


def test_a_session_of_spark_connect_is_refused(tmp_path: Path) -> None:
    elsewhere: Any = SimpleNamespace()  # like a session of Spark Connect, it is not a SparkSession of the driver
    for refused in (
        lambda: SavepointReader.read(elsewhere, shop_snapshot(tmp_path)),
        lambda: SavepointWriter.new_savepoint(elsewhere, 128),
    ):
        with pytest.raises(MillstreamError, match="this one is of Spark Connect: make it with"):
            refused()


STRUCT = s.StructType([s.StructField("n", s.LongType()), s.StructField("tags", s.ArrayType(s.StringType()))])


def loaded(values: list[Any], wanted: Any, function: Any = None) -> list[Any]:
    pickled = to_array(values, t.PICKLED, "value")
    load = loader("value", t.PICKLED, declared_type(wanted), function)
    found: list[Any] = load(pickled).to_pylist()
    return found


@pytest.mark.parametrize(
    "value", [{"n": 1, "tags": ["x"]}, (1, ["x"]), [1, ("x",)], SimpleNamespace(n=1, tags=["x"])], ids=repr
)
def test_a_struct_is_made_of_any_object_with_its_fields(value: Any) -> None:
    assert loaded([value, None], STRUCT) == [{"n": 1, "tags": ["x"]}, None]


def test_a_function_gets_each_value_except_none() -> None:
    assert loaded([{"n": 1}, None], int, lambda value: value["n"] + 1) == [2, None]
    assert loaded([{2: "b"}], dict[int, str]) == [[(2, "b")]]
    assert loaded([("a", 1)], tuple[str, int]) == [{"f0": "a", "f1": 1}]


def test_a_value_of_another_type_is_refused() -> None:
    with pytest.raises(ConversionError, match="column 'value', row 1: 'x' is not a Long"):
        loaded([1, "x"], int)
    with pytest.raises(ConversionError, match="row 0"):
        loaded([(1, 2, 3)], STRUCT)
