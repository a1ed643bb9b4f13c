"""Declared types as Spark types, and columns converted between both, without a running Spark."""

from __future__ import annotations

import datetime
import decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as s
from typed_values import typed_values

from millstream.core.errors import InvalidProgramError
from millstream.core.records import types as t
from millstream.core.snapshot import SnapshotError
from millstream.core.snapshot.tables.columns import from_array, to_array
from millstream.spark.types import arrow_type_of, common_type, spark_type, to_spark, to_stored, type_information


@given(st.data())
def test_a_column_is_returned_by_spark_as_it_was_stored(data: st.DataObject) -> None:
    kind, values = data.draw(typed_values())
    wanted = data.draw(st.lists(st.none() | values, max_size=6))
    stored = to_array(wanted, kind, "value")
    of_spark = spark_type(kind, stored.type)
    handed = to_spark(stored, kind, arrow_type_of(of_spark))
    assert handed.type == arrow_type_of(of_spark)
    again = to_stored(handed, kind, "value")
    assert repr(from_array(again, kind, "value")) == repr(from_array(stored, kind, "value")) == repr(wanted)


@given(st.data())
def test_a_slice_of_a_column_is_converted_correctly(data: st.DataObject) -> None:
    kind, values = data.draw(typed_values())
    stored = to_array(data.draw(st.lists(st.none() | values, min_size=2, max_size=6)), kind, "value")
    target = arrow_type_of(spark_type(kind, stored.type))
    of_slice, slice_of = to_spark(stored.slice(1), kind, target), to_spark(stored, kind, target).slice(1)
    assert of_slice.type == slice_of.type
    assert repr(of_slice.to_pylist()) == repr(slice_of.to_pylist())  # `equals` takes a NaN for another one


@given(typed_values().map(lambda of: of[0]))
def test_a_declared_type_is_derived_from_sparks(kind: t.TypeInformation) -> None:
    again = type_information(spark_type(kind))
    assert spark_type(again) == spark_type(kind)


def test_times_of_files_that_differ_are_reported_with_their_zones() -> None:
    kind = t.ListType(t.TIMESTAMP)
    local, moments = [[datetime.datetime(2026, 1, 2, 3)]], [[datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC)]]
    files = [to_array(values, kind, "value") for values in (local, moments)]
    stored = common_type(files[0].type, files[1].type, kind)
    wanted = spark_type(kind, stored)
    assert wanted.simpleString() == "array<struct<time:timestamp_ntz,zone:string,fold:boolean>>"
    for values, column in zip((local, moments), files, strict=True):
        handed = to_spark(column, kind, arrow_type_of(wanted))
        assert from_array(to_stored(handed, kind, "value"), kind, "value") == values


def test_moments_of_other_zones_are_one_type() -> None:
    utc, tokyo = pa.timestamp("us", "UTC"), pa.timestamp("us", "Asia/Tokyo")
    assert common_type(utc, tokyo, t.INSTANT) == utc


@pytest.mark.parametrize(
    ("column", "kind", "message"),
    [
        (pa.array(["1", "x"]), t.BIG_INT, "'x', which is no BigInteger"),
        (pa.array(["1.5"]), t.BIG_INT, "'1.5', which is no BigInteger"),
        (pa.array(["one"]), t.BIG_DEC, "'one', which is no BigDecimal"),
        (pa.array([1.5]), t.BIG_DEC, "holds double"),
        (pa.array(["25:00"]), t.TIME, "no Time"),
        (pa.array([300]), t.BYTE, "does not fit"),
        (pa.array([1]), t.ListType(t.LONG), "does not fit List<Long>"),
        (pa.array([{"a": 1}]), t.RowType((t.LONG,), ("b",)), "must have b"),
    ],
)
def test_a_column_that_does_not_fit_is_refused(column: pa.Array, kind: t.TypeInformation, message: str) -> None:
    with pytest.raises(SnapshotError, match=message):
        to_stored(column, kind, "column value")


def test_numbers_of_spark_become_digits() -> None:
    decimals = pa.array([decimal.Decimal("1.50"), None], pa.decimal128(10, 2))
    assert from_array(to_stored(decimals, t.BIG_DEC, "v"), t.BIG_DEC, "v") == [decimal.Decimal("1.50"), None]
    assert from_array(to_stored(pa.array([7]), t.BIG_INT, "v"), t.BIG_INT, "v") == [7]
    assert to_stored(pa.array([1.5], pa.float32()), t.FLOAT, "v").type == pa.float64()


def test_a_type_that_state_does_not_support_is_refused() -> None:
    with pytest.raises(InvalidProgramError, match=r"value\.a is interval"):
        type_information(s.StructType([s.StructField("a", s.DayTimeIntervalType())]), "value")
