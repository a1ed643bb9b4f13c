"""Records to Arrow and back, by declared type and without one."""

from __future__ import annotations

import datetime
import decimal
import enum
import zoneinfo
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.core.records import types as t
from millstream.core.records.conversion import (
    ConversionError,
    arrow_schema,
    record_batch_to_rows,
    rows_to_record_batch,
    to_record_batch,
)
from millstream.core.records.instant import Instant
from millstream.core.row import Row, RowKind


@dataclass(frozen=True)
class Point:
    x: int
    y: float


@dataclass
class Shape:
    name: str
    corners: list[Point]
    centre: Point
    tags: dict[str, int]
    at: tuple[int, str]


@dataclass(kw_only=True)
class Labelled:
    label: str
    length: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.length = len(self.label)


def first_of_two(at: Any) -> Any:
    """Hypothesis makes times that are the second of two equal ones, which columns refuse."""
    return at.replace(fold=0)


_int64 = st.integers(-(2**63), 2**63 - 1)
_text = st.text(st.characters(exclude_categories=["Cs"]))
_floats = st.floats(allow_nan=False)
_points = st.builds(Point, _int64, _floats)
_CASES: list[tuple[t.TypeInformation, st.SearchStrategy[Any]]] = [
    (t.LONG, st.none() | _int64),
    (t.STRING, st.none() | _text),
    (t.BIG_DEC, st.decimals(-(10**9), 10**9, places=3)),
    (t.TIMESTAMP, st.datetimes().map(first_of_two)),
    (t.INSTANT, st.none() | st.datetimes(timezones=st.just(datetime.UTC)).map(first_of_two)),
    (t.TIME, st.times().map(first_of_two)),
    (t.FLOAT, st.floats(width=32, allow_nan=False)),
    (t.ListType(t.INSTANT), st.lists(st.datetimes(timezones=st.just(datetime.UTC)).map(first_of_two), max_size=2)),
    (t.DATE, st.dates()),
    (t.TupleType((t.LONG, t.STRING)), st.tuples(_int64, _text)),
    (t.RowType((t.LONG, t.BOOLEAN)), st.builds(lambda a, b: Row(f0=a, f1=b), _int64, st.booleans())),
    (t.RowType((t.LONG, t.BYTES), ("a", "b")), st.builds(lambda a, b: Row(a=a, b=b), _int64, st.binary())),
    (t.DataclassType(Point), _points),
    (t.DataclassType(Labelled), st.builds(lambda s: Labelled(label=s), _text)),
    (t.ListType(t.DataclassType(Point)), st.none() | st.lists(_points, max_size=3)),
    (t.MapType(t.STRING, t.TupleType((t.LONG,))), st.dictionaries(_text, st.tuples(_int64), max_size=3)),
    (
        t.DataclassType(Shape),
        st.builds(
            Shape,
            _text,
            st.lists(_points, max_size=3),
            _points,
            st.dictionaries(_text, _int64, max_size=3),
            st.tuples(_int64, _text),
        ),
    ),
]


@pytest.mark.parametrize(("type_info", "records"), _CASES, ids=[c[0].describe() for c in _CASES])
@given(data=st.data())
def test_a_declared_type_is_converted_in_both_directions(
    type_info: t.TypeInformation, records: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    rows = data.draw(st.lists(records, max_size=5))
    batch = rows_to_record_batch(rows, type_info)
    assert batch.num_rows == len(rows)
    assert batch.schema == arrow_schema(type_info)
    back = record_batch_to_rows(batch, type_info)
    assert back == rows
    assert type_info == t.BIG_DEC or repr(back) == repr(rows)


class Level(enum.IntEnum):
    LOW = 1


class Text(str):
    pass


@dataclass(frozen=True)
class Point3(Point):
    z: int = 0


BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
NOON = datetime.datetime(2024, 5, 1, 12)
_OTHERS: list[tuple[t.TypeInformation, Any, str]] = [
    (t.LONG, 1.9, "it is a float, not int"),
    (t.LONG, 2.0, "it is a float"),
    (t.LONG, True, "it is a bool"),
    (t.LONG, Level.LOW, "Level, not int"),
    (t.LONG, "1", "it is a str"),
    (t.LONG, decimal.Decimal(1), "Decimal"),
    (t.LONG, 1 << 63, ""),
    (t.INT, 1 << 31, ""),
    (t.SHORT, -(1 << 15) - 1, ""),
    (t.BIG_INT, True, "it is a bool"),
    (t.DOUBLE, (1 << 53) + 1, "more digits than a float"),
    (t.DOUBLE, 1 << 2000, "more digits than a float"),
    (t.DOUBLE, True, "it is a bool"),
    (t.DOUBLE, "1.5", "it is a str"),
    (t.DOUBLE, decimal.Decimal("1.5"), "Decimal"),
    (t.FLOAT, 1e39, "too large for single precision"),
    (t.STRING, b"abc", "it is a bytes"),
    (t.STRING, Text("abc"), "Text, not str"),
    (t.STRING, 5, "it is a int"),
    (t.STRING, "\ud800", ""),
    (t.BYTES, "abc", "it is a str"),
    (t.BYTES, bytearray(b"abc"), "it is a bytearray"),
    (t.BYTES, memoryview(b"abc"), "memoryview"),
    (t.BOOLEAN, 1, "it is a int"),
    (t.BIG_DEC, 1.5, "it is a float"),
    (t.BIG_DEC, 1, "it is a int"),
    (t.BIG_DEC, decimal.Decimal("1E-19"), ""),
    (t.BIG_DEC, decimal.Decimal("NaN"), ""),
    (t.DATE, NOON, "datetime"),
    (t.TIMESTAMP, NOON.date(), "date"),
    (t.TIMESTAMP, NOON.replace(tzinfo=datetime.UTC), "it has a time zone.*Types.INSTANT"),
    (t.TIMESTAMP, NOON.replace(tzinfo=BERLIN), "it has a time zone"),
    (t.TIMESTAMP, NOON.replace(fold=1), "fold=1"),
    (t.INSTANT, Instant(0, 1), "a column holds microseconds"),
    (t.INSTANT, Instant(1 << 40, 0), "a column holds microseconds"),
    (t.TIMESTAMP, Instant(0, 0), "Instant, not datetime"),
    (t.INSTANT, NOON, r"its time zone is not datetime.UTC"),
    (t.INSTANT, NOON.replace(tzinfo=BERLIN), r"astimezone"),
    (t.INSTANT, NOON.replace(tzinfo=datetime.timezone(datetime.timedelta(0), "Zulu")), r"astimezone"),
    (t.TIME, datetime.time(1, tzinfo=datetime.UTC), "it has a time zone"),
    (t.ListType(t.LONG), {1}, "it is not a list"),
    (t.ListType(t.STRING), "abc", "it is not a list"),
    (t.DataclassType(Point), Point3(1, 2.0, 3), "further fields, z"),
    (t.TupleType((t.LONG,)), {"f0": 1, "f1": 2}, "further fields, f1"),
    (t.RowType((t.LONG,), ("a",)), Row(a=1, b=2), "further fields, b"),
]


def _around(type_info: t.TypeInformation, value: Any) -> list[tuple[t.TypeInformation, Any, str]]:
    """The value as a record, and nested in others: with the field that the error names."""
    return [
        (type_info, value, "value"),
        (t.TupleType((t.STRING, type_info)), ("a", value), "f1"),
        (t.TupleType((t.TupleType((type_info,)),)), ((value,),), "f0.f0"),
        (t.RowType((t.ListType(type_info),), ("many",)), Row(many=[None, value]), "many[]"),
        (t.MapType(t.STRING, type_info), {"a": value}, "value{}"),
    ]


def test_an_instant_is_the_same_moment_at_any_position_of_its_column() -> None:
    at = datetime.datetime(1969, 12, 31, 23, 59, 58, 999_999, tzinfo=datetime.UTC)
    for around, record, _ in _around(t.INSTANT, Instant(-2, 999_999_000)):
        [read] = record_batch_to_rows(rows_to_record_batch([record], around), around)
        assert str(read).count(repr(at)) == 1 or read == at


@pytest.mark.parametrize(
    ("type_info", "value", "reason"), _OTHERS, ids=[f"{kind!r}-{type(value).__name__}" for kind, value, _ in _OTHERS]
)
def test_a_value_that_a_column_would_change_is_refused_with_its_record_and_field(
    type_info: t.TypeInformation, value: Any, reason: str
) -> None:
    for around, record, field_name in _around(type_info, value):
        if around is type_info and type_info.field_names() is not None:
            continue  # its fields are the columns
        with pytest.raises(ConversionError, match=reason or None) as caught:
            rows_to_record_batch([record, record], around)
        assert caught.value.number == 0
        assert caught.value.record is record
        assert f"'{field_name.partition('.')[0].partition('[')[0].partition('{')[0]}" in str(caught.value)
        if "it is a " in reason:
            assert f"column '{field_name}', row 0: {value!r}" in str(caught.value)
    if type_info.field_names() is not None:
        with pytest.raises(ConversionError, match=reason or None):
            rows_to_record_batch([value], type_info)


@pytest.mark.parametrize(
    ("type_info", "value", "held"),
    [
        (t.DOUBLE, 3, 3.0),
        (t.DOUBLE, -(1 << 60), -float(1 << 60)),
        (t.FLOAT, 0.1, 0.10000000149011612),
        (t.DOUBLE, np.float32(0.1), 0.10000000149011612),
        (t.DOUBLE, np.int64(4), 4.0),
        (t.LONG, np.int16(4), 4),
        (t.STRING, np.str_("a"), "a"),
        (t.BOOLEAN, np.bool_(True), True),
        (t.ListType(t.DOUBLE), np.array([0.5, 1.5]), [0.5, 1.5]),
        (t.ListType(t.DOUBLE), (0.5, 1), [0.5, 1.0]),
    ],
    ids=repr,
)
def test_an_equal_number_of_another_class_is_accepted(type_info: t.TypeInformation, value: Any, held: Any) -> None:
    for around, record in ((type_info, value), (t.TupleType((t.ListType(type_info),)), ([value],))):
        (back,) = record_batch_to_rows(rows_to_record_batch([record], around), around)
        expected = held if around is type_info else ([held],)
        assert repr(back) == repr(expected)


def test_columns_of_single_precision_become_single_precision_numbers() -> None:
    batch = pa.RecordBatch.from_pydict({"value": [0.1, None]})
    assert record_batch_to_rows(batch, t.FLOAT) == [0.10000000149011612, None]
    with pytest.raises(ConversionError, match="too large for single precision"):
        record_batch_to_rows(pa.RecordBatch.from_pydict({"value": [1e39]}), t.FLOAT)


@pytest.mark.parametrize(
    "rows",
    [
        [(1, "a"), (2, "b")],
        [Row(1, "a"), Row(2, "b")],
        [Row(f1="a", f0=1), Row(f1="b", f0=2)],
        [{"f0": 1, "f1": "a"}, {"f1": "b", "f0": 2}],
        [(1, "a"), Row(2, "b")],
    ],
)
def test_any_kind_of_record_fills_the_declared_columns(rows: list[Any]) -> None:
    batch = rows_to_record_batch(rows, t.TupleType((t.LONG, t.STRING)))
    assert batch.to_pydict() == {"f0": [1, 2], "f1": ["a", "b"]}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([{"a": 1}, {"b": "x"}], {"a": [1, None], "b": [None, "x"]}),
        ([Point(1, 2.0)], {"x": [1], "y": [2.0]}),
        ([Row(a=1, b=Row(c=2))], {"a": [1], "b": [{"c": 2}]}),
        ([(1, (2, "z"))], {"f0": [1], "f1": [{"f0": 2, "f1": "z"}]}),
        ([1, 2], {"value": [1, 2]}),
        ([[Point(1, 2.0)]], {"value": [[{"x": 1, "y": 2.0}]]}),
        ([], {"value": []}),
    ],
)
def test_columns_of_an_unknown_type_come_from_the_records(rows: list[Any], expected: dict[str, Any]) -> None:
    assert rows_to_record_batch(rows, t.PICKLED).to_pydict() == expected


def test_records_of_an_unknown_type_are_named_rows() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"a": [1, None], "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64()))}
    )
    assert record_batch_to_rows(batch, t.PICKLED) == [Row(a=1, m={"k": 1}), Row(a=None, m=None)]


def test_columns_are_found_by_name_and_for_tuples_by_position() -> None:
    batch = pa.RecordBatch.from_pydict({"b": ["x"], "a": [1], "extra": [0]})
    assert record_batch_to_rows(batch, t.RowType((t.LONG, t.STRING), ("a", "b"))) == [Row(a=1, b="x")]
    two = pa.RecordBatch.from_pydict({"word": ["x"], "n": [1]})
    assert record_batch_to_rows(two, t.TupleType((t.STRING, t.LONG))) == [("x", 1)]


def test_columns_are_cast_to_the_declared_type() -> None:
    batch = pa.RecordBatch.from_pydict({"value": [1, 2]})
    values = record_batch_to_rows(batch, t.DOUBLE)
    assert values == [1.0, 2.0]
    assert type(values[0]) is float
    pandas_like = pa.RecordBatch.from_pydict({"value": [1.0, None]})  # integers, of which one is missing
    assert repr(record_batch_to_rows(pandas_like, t.LONG)) == "[1, None]"


def test_nanoseconds_become_python_datetimes() -> None:
    nanos = pa.array([1_000_000_001], pa.timestamp("ns"))
    (value,) = record_batch_to_rows(pa.RecordBatch.from_arrays([nanos], names=["value"]), t.TIMESTAMP)
    assert type(value) is datetime.datetime


@pytest.mark.parametrize(
    ("rows", "type_info", "message"),
    [
        ([1, "x"], t.LONG, r"column 'value', row 1: 'x' is not a Long"),
        ([(1, 2), (1,)], t.TupleType((t.LONG, t.LONG)), r"row 1 has 1 fields, expected 2"),
        ([Row(z=1)], t.RowType((t.LONG,), ("a",)), r"row 0 does not have the fields a"),
        ([300], t.BYTE, r"column 'value', row 0: 300 is not a Byte"),
        ([1, "x"], t.PICKLED, r"column 'value': its values do not share a type"),
    ],
)
def test_records_that_do_not_fit_are_named(rows: list[Any], type_info: t.TypeInformation, message: str) -> None:
    with pytest.raises(ConversionError, match=message):
        rows_to_record_batch(rows, type_info)


@pytest.mark.parametrize(
    ("columns", "type_info", "message"),
    [
        ({"a": [1], "b": [2]}, t.LONG, r"columns a, b cannot become records of the single value Long"),
        ({"a": [1]}, t.DataclassType(Point), r"columns a cannot become Point\(.*one column for each of x, y"),
        ({"value": ["x"]}, t.LONG, r"column 'value' of string does not fit Long"),
        ({"value": ["1"]}, t.LONG, r"column 'value' of string does not fit Long"),
        ({"value": [1.5]}, t.LONG, r"column 'value' of double does not fit Long"),
        ({"value": [b"x"]}, t.STRING, r"column 'value' of binary does not fit String"),
        ({"value": [2]}, t.BOOLEAN, r"column 'value' of int64 does not fit Boolean"),
        ({"value": [datetime.datetime(2024, 1, 1, 5)]}, t.DATE, r"column 'value' of timestamp.* does not fit Date"),
    ],
)
def test_columns_that_do_not_fit_are_named(columns: dict[str, Any], type_info: t.TypeInformation, message: str) -> None:
    with pytest.raises(ConversionError, match=message):
        record_batch_to_rows(pa.RecordBatch.from_pydict(columns), type_info)


def test_every_columnar_result_becomes_one_batch() -> None:
    pandas = pytest.importorskip("pandas")
    expected = {"a": [1, 2]}
    chunked = pa.table({"a": pa.chunked_array([[1], [2]])})
    for result in (
        pa.RecordBatch.from_pydict(expected),
        chunked,
        pandas.DataFrame(expected, index=[7, 8]),
        expected,
        {"a": chunked["a"]},
        {"a": pa.array([1, 2])},
    ):
        assert to_record_batch(result).to_pydict() == expected
    assert to_record_batch(chunked.slice(0, 0)).schema.names == ["a"]


@pytest.mark.parametrize("result", [None, [1, 2], "text", 3, {"a": [1], "b": [1, 2]}, {"a": 1}])
def test_any_other_result_is_refused(result: Any) -> None:
    with pytest.raises(ConversionError):
        to_record_batch(result)


def test_rows_of_a_declared_type_become_columns_by_their_names_or_positions() -> None:
    kind = t.RowType((t.LONG, t.STRING), ("id", "name"))
    rows = [Row(id=1, name="a"), Row(2, "b"), Row(name="c", id=3)]
    for order in (rows[:2], rows):
        found = rows_to_record_batch(order, kind)
        assert found.column("name").to_pylist() == ["a", "b", "c"][: len(order)]
        assert rows_to_record_batch(order, kind, ["name"]).schema.names == ["name"]
    with pytest.raises(ConversionError, match="row 1 is of the kind -D, which columns do not hold"):
        rows_to_record_batch([rows[0], Row.of_kind(RowKind.DELETE, id=4, name="d")], kind)
