"""Logical types as columns of Arrow and back."""

from __future__ import annotations

import datetime
import decimal
from typing import Any, get_args

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from random_logical_types import SCHEMAS

from millstream.core.records import schema as s

UTC = datetime.UTC


@given(SCHEMAS)
def test_a_schema_is_the_same_after_arrow(schema: s.Schema) -> None:
    arrow = s.to_arrow_schema(schema)
    assert s.from_arrow_schema(arrow) == schema
    assert s.from_arrow_schema(pa.ipc.read_schema(arrow.serialize())) == schema


@pytest.mark.parametrize(
    ("words", "arrow", "has_words"),
    [
        ("BOOLEAN", pa.bool_(), False),
        ("TINYINT", pa.int8(), False),
        ("BIGINT", pa.int64(), False),
        ("FLOAT", pa.float32(), False),
        ("DECIMAL(38, 38)", pa.decimal128(38, 38), False),
        ("STRING", pa.string(), False),
        ("CHAR(3)", pa.string(), True),
        ("VARCHAR(3)", pa.string(), True),
        ("BYTES", pa.binary(), False),
        ("BINARY(3)", pa.binary(), True),
        ("DATE", pa.date32(), False),
        ("TIME(0)", pa.time32("s"), False),
        ("TIME(1)", pa.time32("ms"), True),
        ("TIME(3)", pa.time32("ms"), False),
        ("TIME(4)", pa.time64("us"), True),
        ("TIME(6)", pa.time64("us"), False),
        ("TIME(7)", pa.time64("ns"), True),
        ("TIMESTAMP(0)", pa.timestamp("s"), False),
        ("TIMESTAMP(2)", pa.timestamp("ms"), True),
        ("TIMESTAMP(3)", pa.timestamp("ms"), False),
        ("TIMESTAMP(6)", pa.timestamp("us"), False),
        ("TIMESTAMP(9)", pa.timestamp("ns"), False),
        ("TIMESTAMP_LTZ(3)", pa.timestamp("ms", "UTC"), False),
        ("TIMESTAMP_LTZ(8)", pa.timestamp("ns", "UTC"), True),
        ("TIMESTAMP(3) WITH TIME ZONE", pa.struct([
            pa.field("timestamp", pa.timestamp("ms", "UTC"), nullable=False),
            pa.field("offset_minutes", pa.int16(), nullable=False),
        ]), True),
        ("INTERVAL YEAR TO MONTH", pa.int32(), True),
        ("INTERVAL DAY(6) TO SECOND(3)", pa.duration("ms"), False),
        ("INTERVAL DAY", pa.duration("us"), True),
        ("INTERVAL SECOND(9)", pa.duration("ns"), True),
        ("ARRAY<INT>", pa.list_(pa.int32()), False),
        ("ARRAY<INT NOT NULL>", pa.list_(pa.field("item", pa.int32(), nullable=False)), False),
        ("ARRAY<CHAR(3)>", pa.list_(pa.string()), True),
        ("MAP<STRING NOT NULL, BIGINT>", pa.map_(pa.string(), pa.int64()), False),
        ("MAP<STRING, BIGINT>", pa.map_(pa.string(), pa.int64()), True),
        ("MULTISET<STRING>", pa.map_(pa.string(), pa.field("value", pa.int32(), nullable=False)), True),
        ("ROW<a INT NOT NULL, b STRING>", pa.struct([
            pa.field("a", pa.int32(), nullable=False), pa.field("b", pa.string())
        ]), False),
        ("ROW<>", pa.struct([]), False),
        ("NULL", pa.null(), False),
        ("RAW('object', 'pickle')", pa.binary(), True),
    ],
)  # fmt: skip
def test_columns_of_types(words: str, arrow: pa.DataType, has_words: bool) -> None:
    type = s.parse_type(words)
    field = s.to_arrow_field(s.Field("a", type, description="what it is"))
    assert field.type == arrow
    assert field.nullable
    assert s.from_arrow_field(field) == s.Field("a", type, description="what it is")
    assert (b"millstream.type" in field.metadata) == has_words
    assert (s.from_arrow_type(arrow) == type) != has_words


def test_every_kind_of_type_has_a_column() -> None:
    parameters: dict[Any, Any] = {
        s.YearMonthIntervalType: (s.YearMonthResolution.YEAR,), s.DayTimeIntervalType: (s.DayTimeResolution.DAY,),
        s.RawType: ("a", "b"), s.ArrayOf: (s.STRING,), s.MultisetOf: (s.STRING,), s.MapOf: (s.STRING, s.STRING),
        s.RowOf: ((),),
    }  # fmt: skip
    for kind in get_args(s.LogicalType):
        assert s.to_arrow_type(kind(*parameters.get(kind, ()))) is not None


@pytest.mark.parametrize(
    ("arrow", "words"),
    [
        (pa.uint8(), "SMALLINT"),
        (pa.uint16(), "INT"),
        (pa.uint32(), "BIGINT"),
        (pa.uint64(), "DECIMAL(20, 0)"),
        (pa.float16(), "FLOAT"),
        (pa.large_string(), "STRING"),
        (pa.string_view(), "STRING"),
        (pa.dictionary(pa.int8(), pa.string()), "STRING"),
        (pa.run_end_encoded(pa.int32(), pa.int64()), "BIGINT"),
        (pa.large_binary(), "BYTES"),
        (pa.binary_view(), "BYTES"),
        (pa.binary(4), "BINARY(4)"),
        (pa.date64(), "DATE"),
        (pa.decimal256(20, 3), "DECIMAL(20, 3)"),
        (pa.decimal64(7, 3), "DECIMAL(7, 3)"),
        (pa.timestamp("ms", "Europe/Zurich"), "TIMESTAMP_LTZ(3)"),
        (pa.large_list(pa.int8()), "ARRAY<TINYINT>"),
        (pa.list_(pa.int8(), 3), "ARRAY<TINYINT>"),
        (pa.list_view(pa.field("item", pa.int8(), nullable=False)), "ARRAY<TINYINT NOT NULL>"),
        (pa.uuid(), "BINARY(16)"),
    ],
)
def test_types_of_columns_that_others_made(arrow: pa.DataType, words: str) -> None:
    assert s.from_arrow_type(arrow) == s.parse_type(words)
    assert s.from_arrow_type(arrow, nullable=False) == s.parse_type(f"{words} NOT NULL")


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        (pa.field("x", pa.month_day_nano_interval()), "No type stands for Arrow's month_day_nano_interval"),
        (pa.field("x", pa.list_(pa.dense_union([pa.field("a", pa.int8())]))), "No type stands for"),
        (pa.field("x", pa.decimal256(50, 3)), "Decimal precision must be between 1 and 38"),
        (pa.field("x", pa.decimal128(5, -2)), "Decimal scale"),
        (pa.field("x", pa.struct([("a", pa.int8()), ("a", pa.int8())])), "duplicates: a"),
        (pa.field("x", pa.string(), metadata={b"millstream.type": b"VARCHAR("}), "position 8: Unexpected end"),
        (pa.field("x", pa.int64(), metadata={b"millstream.type": b"VARCHAR(3)"}),
         "says VARCHAR(3), which is a column of string, and it is one of int64: remove the metadata"),
        (pa.field("x", pa.string(), metadata={b"millstream.type": b"\xff"}), "utf-8"),
    ],
)  # fmt: skip
def test_columns_without_a_type_are_refused_by_name(field: pa.Field, reason: str) -> None:
    with pytest.raises(s.InvalidTypeError) as raised:
        s.from_arrow_schema(pa.schema([field]))
    assert str(raised.value).startswith("The field 'x' of Arrow: ")
    assert reason in str(raised.value)


@pytest.mark.parametrize("words", ["MAP<NULL, INT>", "NULL MULTISET"])
def test_keys_that_are_always_null_have_no_column(words: str) -> None:
    with pytest.raises(s.InvalidTypeError, match="keys of the type NULL"):
        s.to_arrow_type(s.parse_type(words))


def test_words_count_for_columns_that_are_stored_in_another_way() -> None:
    words = {b"millstream.type": b"ARRAY<VARCHAR(3) NOT NULL>"}
    field = pa.field("x", pa.large_list(pa.string_view()), nullable=False, metadata=words)
    assert s.from_arrow_field(field) == s.Field("x", s.parse_type("ARRAY<VARCHAR(3) NOT NULL> NOT NULL"))


def test_parquet_keeps_a_schema(tmp_path: Any) -> None:
    words = (
        "ROW<a CHAR(3) NOT NULL 'three', b MAP<VARCHAR(2), TIMESTAMP(3) NOT NULL>, c INTERVAL YEAR(4), d INTERVAL DAY, "
        "e ARRAY<ROW<x DECIMAL(5, 2) NOT NULL>>, f TIMESTAMP_LTZ(2), g TIMESTAMP(9), h TIME(5), i MULTISET<BINARY(2)>>"
    )
    row = s.parse_type(words)
    assert isinstance(row, s.RowOf)
    schema = s.Schema.of_row(row)
    pq.write_table(s.to_arrow_schema(schema).empty_table(), tmp_path / "f.parquet")
    assert s.from_arrow_schema(pq.read_schema(tmp_path / "f.parquet")) == schema


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("DECIMAL(38, 10)", decimal.Decimal("1234567890123456789012345678.0123456789")),
        ("TIME(6)", datetime.time(23, 59, 59, 999_999)),
        ("TIMESTAMP(6)", datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999)),
        ("TIMESTAMP_LTZ(3)", datetime.datetime(1, 1, 1, tzinfo=UTC)),
        ("TIMESTAMP(0) WITH TIME ZONE",
         {"timestamp": datetime.datetime(2020, 1, 1, tzinfo=UTC), "offset_minutes": -90}),
        ("INTERVAL YEAR(4) TO MONTH", 9999 * 12 + 11),
        ("INTERVAL DAY(6) TO SECOND(6)", datetime.timedelta(999_999, 86_399, 999_999)),
        ("MULTISET<STRING>", [("a", 2), ("b", 1)]),
        ("RAW('object', 'pickle')", b"x"),
        ("NULL", None),
    ],
)  # fmt: skip
def test_columns_hold_the_values(words: str, value: Any) -> None:
    assert pa.array([value, None], s.to_arrow_type(s.parse_type(words))).to_pylist() == [value, None]


def test_an_interval_of_days_is_added_by_a_kernel() -> None:
    moments = pa.array([datetime.datetime(2020, 1, 1)], s.to_arrow_type(s.parse_type("TIMESTAMP(3)")))
    lengths = pa.array([datetime.timedelta(days=1, microseconds=1)], s.to_arrow_type(s.parse_type("INTERVAL DAY")))
    assert pc.add(moments, lengths).to_pylist() == [datetime.datetime(2020, 1, 2, 0, 0, 0, 1)]
