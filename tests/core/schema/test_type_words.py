"""Types read from words and written as Flink writes them."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from itertools import product
from typing import get_args

import pytest
from hypothesis import given
from random_logical_types import LOGICAL_TYPES

from millstream.core.records import schema as s
from millstream.core.records.schema import DayTimeResolution as Dt
from millstream.core.records.schema import YearMonthResolution as Ym


def row(*fields: s.Field, nullable: bool = True) -> s.RowOf:
    return s.RowOf(fields, nullable=nullable)


@pytest.mark.parametrize(
    ("words", "type"),
    [
        ("CHAR", s.CharType(1)),
        ("char(7) Not Null", s.CharType(7, nullable=False)),
        ("CHAR\tNOT \n NULL", s.CharType(nullable=False)),
        ("CHAR NULL", s.CharType()),
        ("VARCHAR", s.VarCharType(1)),
        ("VARCHAR( 12 )", s.VarCharType(12)),
        ("STRING", s.STRING),
        ("VARCHAR(2147483647)", s.STRING),
        ("BINARY", s.BinaryType(1)),
        ("BINARY(5)", s.BinaryType(5)),
        ("VARBINARY", s.VarBinaryType(1)),
        ("VARBINARY(5)", s.VarBinaryType(5)),
        ("BYTES", s.BYTES),
        ("BOOLEAN", s.BooleanType()),
        ("DECIMAL", s.DecimalType(10, 0)),
        ("DEC", s.DecimalType(10, 0)),
        ("NUMERIC", s.DecimalType(10, 0)),
        ("DEC(12)", s.DecimalType(12, 0)),
        ("NUMERIC(12,4)", s.DecimalType(12, 4)),
        ("DECIMAL(38, 38)", s.DecimalType(38, 38)),
        ("DECIMAL(007, 00)", s.DecimalType(7, 0)),
        ("TINYINT", s.TinyIntType()),
        ("SMALLINT", s.SmallIntType()),
        ("INT", s.IntType()),
        ("integer NOT NULL", s.IntType(nullable=False)),
        ("BIGINT", s.BigIntType()),
        ("FLOAT", s.FloatType()),
        ("DOUBLE", s.DoubleType()),
        ("DOUBLE PRECISION NOT NULL", s.DoubleType(nullable=False)),
        ("DATE", s.DateType()),
        ("TIME", s.TimeType(0)),
        ("TIME(9) WITHOUT TIME ZONE", s.TimeType(9)),
        ("TIMESTAMP", s.TimestampType(6)),
        ("TIMESTAMP WITHOUT TIME ZONE", s.TimestampType(6)),
        ("TIMESTAMP(0) WITHOUT TIME ZONE NOT NULL", s.TimestampType(0, nullable=False)),
        ("TIMESTAMP WITH TIME ZONE", s.ZonedTimestampType(6)),
        ("TIMESTAMP(2) WITH TIME ZONE", s.ZonedTimestampType(2)),
        ("TIMESTAMP WITH LOCAL TIME ZONE", s.LocalZonedTimestampType(6)),
        ("TIMESTAMP(2) WITH LOCAL TIME ZONE", s.LocalZonedTimestampType(2)),
        ("TIMESTAMP_LTZ", s.LocalZonedTimestampType(6)),
        ("TIMESTAMP_LTZ(9)", s.LocalZonedTimestampType(9)),
        ("INTERVAL YEAR", s.YearMonthIntervalType(Ym.YEAR, 2)),
        ("INTERVAL YEAR(3)", s.YearMonthIntervalType(Ym.YEAR, 3)),
        ("INTERVAL YEAR(3) TO MONTH", s.YearMonthIntervalType(Ym.YEAR_TO_MONTH, 3)),
        ("INTERVAL MONTH", s.YearMonthIntervalType(Ym.MONTH)),
        ("INTERVAL DAY", s.DayTimeIntervalType(Dt.DAY)),
        ("INTERVAL DAY(6) TO HOUR", s.DayTimeIntervalType(Dt.DAY_TO_HOUR, 6)),
        ("INTERVAL DAY TO MINUTE", s.DayTimeIntervalType(Dt.DAY_TO_MINUTE)),
        ("INTERVAL DAY(3) TO SECOND(0)", s.DayTimeIntervalType(Dt.DAY_TO_SECOND, 3, 0)),
        ("INTERVAL HOUR", s.DayTimeIntervalType(Dt.HOUR)),
        ("INTERVAL HOUR TO MINUTE", s.DayTimeIntervalType(Dt.HOUR_TO_MINUTE)),
        ("INTERVAL HOUR TO SECOND(9)", s.DayTimeIntervalType(Dt.HOUR_TO_SECOND, fraction=9)),
        ("INTERVAL MINUTE", s.DayTimeIntervalType(Dt.MINUTE)),
        ("INTERVAL MINUTE TO SECOND", s.DayTimeIntervalType(Dt.MINUTE_TO_SECOND)),
        ("INTERVAL SECOND(3) NOT NULL", s.DayTimeIntervalType(Dt.SECOND, fraction=3, nullable=False)),
        ("ARRAY<INT NOT NULL> NOT NULL", s.ArrayOf(s.IntType(nullable=False), nullable=False)),
        ("INT ARRAY", s.ArrayOf(s.IntType())),
        ("INT NOT NULL ARRAY NULL", s.ArrayOf(s.IntType(nullable=False))),
        ("INT MULTISET NOT NULL", s.MultisetOf(s.IntType(), nullable=False)),
        ("MULTISET<ROW<> NOT NULL>", s.MultisetOf(row(nullable=False))),
        ("MAP<BIGINT, ARRAY<DATE>>", s.MapOf(s.BigIntType(), s.ArrayOf(s.DateType()))),
        ("MAP<INT ARRAY,INT MULTISET>", s.MapOf(s.ArrayOf(s.IntType()), s.MultisetOf(s.IntType()))),
        ("ROW<>", row()),
        ("ROW() NOT NULL", row(nullable=False)),
        ("ROW(a INT, b ROW<c INT NOT NULL>)", row(
            s.Field("a", s.IntType()), s.Field("b", row(s.Field("c", s.IntType(), nullable=False)))
        )),
        ("ROW<`date` DATE 'it''s `so`', x' INT>", row(
            s.Field("date", s.DateType(), description="it's `so`"), s.Field("x'", s.IntType())
        )),
        ("ROW<`a``b` INT '', Großes INT>", row(
            s.Field("a`b", s.IntType(), description=""), s.Field("Großes", s.IntType())
        )),
        ("ROW<a\xa0b INT>", row(s.Field("a\xa0b", s.IntType()))),
        ("NULL", s.NullType()),
        ("NULL NULL", s.NullType()),
        ("NULL ARRAY", s.ArrayOf(s.NullType())),
        ("RAW('java.util.Map$Entry', 'AAE=')", s.RawType("java.util.Map$Entry", "AAE=")),
        ("RAW('object', 'pickle') NOT NULL", s.pickled(nullable=False)),
    ],
)  # fmt: skip
def test_types_in_flinks_words(words: str, type: s.LogicalType) -> None:
    assert s.parse_type(words) == type


@pytest.mark.parametrize(
    ("type", "exact", "summary"),
    [
        (s.CharType(9), "CHAR(9)", "CHAR(9)"),
        (s.STRING, "VARCHAR(2147483647)", "STRING"),
        (s.BYTES.not_null(), "VARBINARY(2147483647) NOT NULL", "BYTES NOT NULL"),
        (s.VarCharType(8), "VARCHAR(8)", "VARCHAR(8)"),
        (s.DecimalType(10, 2), "DECIMAL(10, 2)", "DECIMAL(10, 2)"),
        (s.TimestampType(3), "TIMESTAMP(3)", "TIMESTAMP(3)"),
        (s.ZonedTimestampType(3), "TIMESTAMP(3) WITH TIME ZONE", "TIMESTAMP(3) WITH TIME ZONE"),
        (s.LocalZonedTimestampType(3), "TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP_LTZ(3)"),
        (s.YearMonthIntervalType(Ym.YEAR_TO_MONTH), "INTERVAL YEAR(2) TO MONTH", "INTERVAL YEAR(2) TO MONTH"),
        (s.YearMonthIntervalType(Ym.MONTH), "INTERVAL MONTH", "INTERVAL MONTH"),
        (s.DayTimeIntervalType(Dt.DAY_TO_SECOND), "INTERVAL DAY(2) TO SECOND(6)", "INTERVAL DAY(2) TO SECOND(6)"),
        (s.DayTimeIntervalType(Dt.HOUR_TO_MINUTE), "INTERVAL HOUR TO MINUTE", "INTERVAL HOUR TO MINUTE"),
        (s.ArrayOf(s.STRING.not_null()), "ARRAY<VARCHAR(2147483647) NOT NULL>", "ARRAY<STRING NOT NULL>"),
        (s.MultisetOf(s.DateType()), "MULTISET<DATE>", "MULTISET<DATE>"),
        (s.MapOf(s.STRING, s.LocalZonedTimestampType(0)),
         "MAP<VARCHAR(2147483647), TIMESTAMP(0) WITH LOCAL TIME ZONE>", "MAP<STRING, TIMESTAMP_LTZ(0)>"),
        (row(s.Field("a", s.VarCharType(1), description="it's"), s.Field("b`", s.TimestampType())),
         "ROW<`a` VARCHAR(1) 'it''s', `b``` TIMESTAMP(6)>", "ROW<`a` VARCHAR(1) '...', `b``` TIMESTAMP(6)>"),
        (row(nullable=False), "ROW<> NOT NULL", "ROW<> NOT NULL"),
        (s.RawType("a.B", "Zm9v"), "RAW('a.B', 'Zm9v')", "RAW('a.B', '...')"),
        (s.NullType(), "NULL", "NULL"),
    ],
)  # fmt: skip
def test_types_are_written_as_by_flink(type: s.LogicalType, exact: str, summary: str) -> None:
    assert s.serializable_string(type) == exact
    assert s.summary_string(type) == summary


@given(LOGICAL_TYPES)
def test_a_written_type_is_read_as_the_same(type: s.LogicalType) -> None:
    assert s.parse_type(s.serializable_string(type)) == type


@given(LOGICAL_TYPES)
def test_types_are_values(type: s.LogicalType) -> None:
    for again in (pickle.loads(pickle.dumps(type)), copy.deepcopy(type)):
        assert again == type
        assert hash(again) == hash(type)
    assert not hasattr(type, "__dict__")
    if not isinstance(type, s.NullType):
        assert type.with_nullable(not type.nullable) != type
        assert type.not_null().with_nullable(type.nullable) == type


def test_all_kinds_have_words() -> None:
    plain = {
        s.YearMonthIntervalType: (Ym.YEAR,), s.DayTimeIntervalType: (Dt.DAY,), s.RawType: ("a", "b"),
        s.ArrayOf: (s.IntType(),), s.MultisetOf: (s.IntType(),), s.MapOf: (s.IntType(),) * 2, s.RowOf: ((),),
    }  # fmt: skip
    for kind in get_args(s.LogicalType):
        type = kind(*plain.get(kind, ()))
        assert s.parse_type(s.serializable_string(type)) == type
        assert s.parse_type(s.summary_string(type).replace("'...'", "'b'")) == type


@pytest.mark.parametrize("resolution", [*Ym, *Dt])
def test_all_resolutions_of_intervals(resolution: Ym | Dt) -> None:
    kind = s.YearMonthIntervalType if isinstance(resolution, Ym) else s.DayTimeIntervalType
    words = "INTERVAL " + resolution.name.replace("_", " ")
    assert s.parse_type(words) == kind(resolution)  # type: ignore[arg-type]  # each kind has its own resolutions


def test_no_other_resolutions_of_intervals() -> None:
    parts = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
    known = {r.name for r in (*Ym, *Dt)}
    for first, last in product(parts, parts):
        if f"{first}_TO_{last}" not in known:
            with pytest.raises(s.TypeSyntaxError, match="position"):
                s.parse_type(f"INTERVAL {first} TO {last}")


@pytest.mark.parametrize(
    ("words", "position", "reason"),
    [
        ("", 0, "Unexpected end. Expected a type"),
        ("ROW<`f0", 4, "Unexpected end. The quote ` is not closed"),
        ("ROW<`f0`", 8, "Unexpected end. Expected a type"),
        ("ROW<a INT 'x", 10, "The quote ' is not closed"),
        ("ROW<a INT", 9, "Unexpected end. Expected ','"),
        ("VARCHAR(test)", 8, "Expected an integer, but found 'test'"),
        ("VARCHAR(33333333333)", 8, "Invalid integer value '33333333333'"),
        ("VARCHAR(2147483648)", 8, "Invalid integer value"),
        ("VARCHAR(0)", 0, "Variable character string length must be between 1 and 2147483647"),
        ("VARCHAR(-1)", 8, "Expected an integer, but found '-1'"),
        ("VARCHAR()", 8, "Expected an integer, but found ')'"),
        ("CHAR(0)", 0, "Character string length must be between 1 and 2147483647 (both inclusive), not 0."),
        ("BINARY(0)", 0, "Binary string length"),
        ("VARBINARY(0)", 0, "Variable binary string length"),
        ("ROW<a INT, b DECIMAL(39)>", 13, "Decimal precision must be between 1 and 38 (both inclusive), not 39."),
        ("DECIMAL(0)", 0, "Decimal precision"),
        ("DECIMAL(5, 6)", 0, "Decimal scale must be between 0 and the precision 5 (both inclusive), not 6."),
        ("DECIMAL(5, 2, 1)", 12, "Expected ')', but found ','"),
        ("TIME(10)", 0, "Time precision must be between 0 and 9"),
        ("TIMESTAMP(10)", 0, "Timestamp precision must be between 0 and 9"),
        ("TIMESTAMP(10) WITH TIME ZONE", 0, "Timestamp with time zone precision"),
        ("TIMESTAMP_LTZ(10)", 0, "Timestamp with local time zone precision"),
        ("TIMESTAMP WITH ZONE", 15, "Expected the keyword 'TIME', but found 'ZONE'"),
        ("TIME WITH TIME ZONE", 5, "Unexpected token: 'WITH'"),
        ("INTERVAL", 8, "Unexpected end"),
        ("INTERVAL YEAR(5)", 9, "Year precision of year-month intervals must be between 1 and 4"),
        ("INTERVAL DAY(7)", 9, "Day precision of day-time intervals must be between 1 and 6"),
        ("INTERVAL SECOND(10)", 9, "Fractional precision of day-time intervals must be between 0 and 9"),
        ("INTERVAL INT", 9, "Invalid interval resolution: expected YEAR or MONTH"),
        ("INTERVAL HOUR TO DAY", 17, "Invalid interval resolution: expected MINUTE or SECOND, but found 'DAY'"),
        ("INTERVAL MONTH(2)", 14, "Unexpected token: '('"),
        ("ROW<field INT, field2>", 21, "Expected a type, but found '>'"),
        ("ROW<date INT>", 4, "Expected a name, but found 'DATE' (a keyword: in backticks it is a name)"),
        ("ROW<a INT b INT>", 10, "Expected ',', but found 'b'"),
        ("ROW<a INT,>", 10, "Expected a name, but found '>'"),
        ("ROW<a INT, a BIGINT>", 0, "Field names must be unique. Found duplicates: a"),
        ("ROW<`` INT>", 4, "Field names must contain at least one non-whitespace character."),
        ("ROW<a INT)", 9, "Expected ',', but found ')'"),
        ("ARRAY", 5, "Unexpected end. Expected '<'"),
        ("ARRAY<INT", 9, "Unexpected end. Expected '>'"),
        ("MAP<INT>", 7, "Expected ',', but found '>'"),
        ("INT ARRAY ARRAY", 10, "Unexpected token: 'ARRAY'"),
        ("INT NOT", 4, "Unexpected token: 'NOT'"),
        ("INT BIGINT", 4, "Unexpected token: 'BIGINT'"),
        ("NULL NOT NULL", 0, "The type NULL cannot be NOT NULL"),
        ("MyType", 0, "The type 'MyType' is not known"),
        ("ARRAY<`c`.`d`.`t`>", 6, "The type 'c' is not known"),
        ("3INT", 0, "Expected a type, but found '3'"),
        ("VARIANT", 0, "'VARIANT' is a type of Flink's that is not supported"),
        ("STRUCTURED<'a.B', c INT>", 0, "'STRUCTURED' is a type of Flink's that is not supported"),
        ("LEGACY('DECIMAL', 'DECIMAL')", 0, "'LEGACY' is a type of Flink's"),
        ("ZONE", 0, "'ZONE' is not a type"),
        ("RAW('a.B')", 9, "Expected ',', but found ')'"),
        ("RAW('', 'x')", 0, "The class of a RAW type must have a name"),
    ],
)  # fmt: skip
def test_errors_name_what_is_wrong_and_where(words: str, position: int, reason: str) -> None:
    with pytest.raises(s.TypeSyntaxError) as raised:
        s.parse_type(words)
    assert f"Could not parse type at position {position}: " in str(raised.value)
    assert reason in str(raised.value)
    assert raised.value.position == position
    assert "\n" not in str(raised.value)
    again = pickle.loads(pickle.dumps(raised.value))  # it may come from another process
    assert (str(again), again.position) == (str(raised.value), position)


def test_types_nested_too_deeply_are_refused() -> None:
    assert s.parse_type("ARRAY<" * 49 + "INT" + ">" * 49)
    for depth in (50, 5_000):
        with pytest.raises(s.TypeSyntaxError, match="nested more than 50 levels deep"):
            s.parse_type("ARRAY<" * depth + "INT" + ">" * depth)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: s.DecimalType(3, 4), "Decimal scale"),
        (lambda: s.DecimalType(True), "must be an integer"),
        (lambda: s.VarCharType(2**31), "between 1 and 2147483647"),
        (lambda: s.YearMonthIntervalType(Ym.MONTH, 3), "Year precision of sub-year intervals"),
        (lambda: s.DayTimeIntervalType(Dt.HOUR, 3), "Day precision of sub-day intervals"),
        (lambda: s.DayTimeIntervalType(Dt.DAY, 2, 3), "Fractional precision of super-second intervals"),
        (lambda: s.NullType(nullable=False), "NULL"),
        (lambda: s.NullType().not_null(), "NULL"),
        (lambda: s.Field(" \t", s.IntType()), "non-whitespace"),
        (lambda: s.Field("\ud800", s.IntType()), "surrogate"),
        (lambda: s.Field("a", s.IntType(), description="\ud800"), "'a' is no text"),
        (lambda: s.Schema((s.Field("a", s.IntType()), s.Field("a", s.IntType()))), "duplicates: a"),
    ],
)
def test_types_that_do_not_exist_are_refused(make: object, reason: str) -> None:
    with pytest.raises(s.InvalidTypeError, match=reason):
        make()  # type: ignore[operator]  # a lambda


def test_errors_show_the_part_of_a_long_text() -> None:
    with pytest.raises(s.TypeSyntaxError) as raised:
        s.parse_type("ROW<" + "a" * 500 + " INT,\n b DECIMAL(39), " + "c" * 500 + " INT>")
    assert "aaa INT, b →DECIMAL(39), ccc" in str(raised.value)
    assert len(str(raised.value)) < 250


def test_fields_in_a_list_are_the_same() -> None:
    field = s.Field("a", s.IntType())
    assert hash(s.RowOf([field])) == hash(s.RowOf((field,)))  # type: ignore[arg-type]  # a list is accepted
    assert dataclasses.replace(field, name="b") == s.Field("b", s.IntType())


def test_a_schema_is_looked_up_by_name() -> None:
    schema = s.Schema((s.Field("a", s.IntType(), nullable=False), s.Field("B", s.STRING)))
    assert schema.names == ("a", "B")
    assert [f.nullable for f in schema] == [False, True]
    assert schema.field("a").type == s.IntType(nullable=False)
    assert s.Schema.of_row(schema.row()) == schema
    assert len(schema) == 2
    with pytest.raises(s.InvalidTypeError, match="no column 'b': the columns are a, B"):
        schema.field("b")
