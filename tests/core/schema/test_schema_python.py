"""Logical types of Python's hints, of dataclasses and of type information."""

from __future__ import annotations

import datetime
import decimal
from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, NewType, Optional, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_logical_types import LOGICAL_TYPES

from millstream.common import Types
from millstream.core.records import schema as s
from millstream.core.records import types as t

Amount = Annotated[decimal.Decimal, s.DecimalType(10, 2)]
UserId = NewType("UserId", int)
ShortId = Annotated[UserId, s.IntType()]
T = TypeVar("T")

HALF = "RAW('object', 'pickle')"
INTERVAL = "INTERVAL DAY(6) TO SECOND(6)"


class Named(NamedTuple):
    a: int


@dataclass
class Point:
    x: Annotated[float, "a documentation of someone's", s.FloatType()]
    y: float | None


@dataclass
class Order:
    id: ShortId
    amount: Amount
    discount: Amount | None
    at: Annotated[datetime.datetime, s.LocalZonedTimestampType(3)]
    point: Point
    others: list[Point | None]


@dataclass
class Linked:
    value: int
    rest: Linked | None


@dataclass
class Unresolved:
    a: Missing  # type: ignore[name-defined]  # noqa: F821  # what the test is about


@dataclass
class Wrong:
    a: Annotated[str, s.IntType()]


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (str, "STRING NOT NULL"),
        (bool, "BOOLEAN NOT NULL"),
        (int, "BIGINT NOT NULL"),
        (float, "DOUBLE NOT NULL"),
        (bytes, "BYTES NOT NULL"),
        (decimal.Decimal, "DECIMAL(38, 18) NOT NULL"),
        (datetime.datetime, "TIMESTAMP(6) NOT NULL"),
        (datetime.date, "DATE NOT NULL"),
        (datetime.time, "TIME(6) NOT NULL"),
        (datetime.timedelta, f"{INTERVAL} NOT NULL"),
        (None, "NULL"),
        (int | None, "BIGINT"),
        (Optional[str], "STRING"),  # noqa: UP045  # both spellings
        (UserId, "BIGINT NOT NULL"),
        (ShortId, "INT NOT NULL"),
        (Amount, "DECIMAL(10, 2) NOT NULL"),
        (Amount | None, "DECIMAL(10, 2)"),
        (Annotated[decimal.Decimal | None, s.DecimalType(10, 2, nullable=False)], "DECIMAL(10, 2)"),
        (Annotated[int, "meters"], "BIGINT NOT NULL"),
        (Annotated[int, s.YearMonthIntervalType(s.YearMonthResolution.MONTH)], "INTERVAL MONTH NOT NULL"),
        (Annotated[list[int], s.ArrayOf(s.TinyIntType())], "ARRAY<TINYINT> NOT NULL"),
        (Annotated[Point, s.RowOf((s.Field("x", s.FloatType()),))], "ROW<x FLOAT> NOT NULL"),
        (Annotated[object, s.RawType("a.B", "c")], "RAW('a.B', 'c')"),
        (list[int], "ARRAY<BIGINT NOT NULL> NOT NULL"),
        (list[int | None] | None, "ARRAY<BIGINT>"),
        (dict[str, list[float]], "MAP<STRING NOT NULL, ARRAY<DOUBLE NOT NULL> NOT NULL> NOT NULL"),
        (Counter[str], "MULTISET<STRING NOT NULL> NOT NULL"),
        (tuple[int, str | None], "ROW<f0 BIGINT NOT NULL, f1 STRING> NOT NULL"),
        (Point, "ROW<x FLOAT NOT NULL, y DOUBLE> NOT NULL"),
        (Linked, f"ROW<`value` BIGINT NOT NULL, rest {HALF}> NOT NULL"),
        (t.INT, "INT"),
        (tuple[int, ...], f"{HALF} NOT NULL"),
        (list, f"{HALF} NOT NULL"),
        (int | str, f"{HALF} NOT NULL"),
        (int | str | None, HALF),
        (set[int], f"{HALF} NOT NULL"),
        (Named, f"{HALF} NOT NULL"),
        (Any, HALF),
        (object, HALF),
        (T, HALF),
    ],
)
def test_types_of_hints(hint: Any, words: str) -> None:
    assert s.logical_type_of(hint) == s.parse_type(words)


def test_the_schema_of_a_dataclass() -> None:
    row = s.parse_type(
        "ROW<id INT NOT NULL, amount DECIMAL(10, 2) NOT NULL, discount DECIMAL(10, 2), at TIMESTAMP_LTZ(3) NOT NULL, "
        "point ROW<x FLOAT NOT NULL, y DOUBLE> NOT NULL, others ARRAY<ROW<x FLOAT NOT NULL, y DOUBLE>> NOT NULL>"
    )
    assert s.schema_of(Order).row() == row.not_null()


@pytest.mark.parametrize(
    ("hint", "reason"),
    [
        (Annotated[int, s.STRING], "values of <class 'int'> are not of the type VarCharType"),
        (Annotated[Amount, s.IntType()], "not of the type"),
        (Annotated[int, s.IntType(), s.TinyIntType()], "IntType.* and TinyIntType"),
        (Annotated[Point, s.STRING], "not of the type"),
        (Annotated[set[int], s.ArrayOf(s.IntType())], "not of the type"),
        (Wrong, "The field 'a' of Wrong: The values of <class 'str'> are not of the type IntType"),
        (list[Unresolved], "annotations of Unresolved cannot be resolved: name 'Missing'"),
    ],
)
def test_hints_that_contradict_themselves_are_refused(hint: Any, reason: str) -> None:
    with pytest.raises(s.InvalidTypeError, match=reason):
        s.logical_type_of(hint)


def test_only_dataclasses_have_a_schema() -> None:
    with pytest.raises(s.InvalidTypeError, match="'int'> is not a dataclass"):
        s.schema_of(int)


COLUMNS = [
    t.STRING, t.BOOLEAN, t.BYTE, t.SHORT, t.INT, t.LONG, t.FLOAT, t.DOUBLE, t.BIG_DEC, t.BYTES, t.INSTANT, t.DATE,
    t.TIME, t.TIMESTAMP,
]  # fmt: skip


def _rows(inner: st.SearchStrategy[t.TypeInformation]) -> st.SearchStrategy[t.TypeInformation]:
    return st.lists(inner, max_size=3).map(lambda f: t.RowType(tuple(f), tuple(f"n{i}" for i in range(len(f)))))


INFORMATION = st.recursive(
    st.sampled_from(COLUMNS),
    lambda inner: st.one_of(st.builds(t.ListType, inner), st.builds(t.MapType, inner, inner), _rows(inner)),
    max_leaves=5,
)


@given(INFORMATION)
def test_type_information_has_the_columns_of_its_logical_type(information: t.TypeInformation) -> None:
    type = s.from_type_information(information)
    assert s.to_arrow_type(type) == information.arrow_type()
    assert s.to_type_information(type) == information
    assert s.from_arrow_type(information.arrow_type()) == type


@given(LOGICAL_TYPES)
def test_all_but_classes_of_the_jvm_have_type_information(type: s.LogicalType) -> None:
    words = s.serializable_string(type)
    if "RAW(" in words.replace(HALF, ""):
        return
    assert s.to_type_information(type) == s.to_type_information(s.from_type_information(s.to_type_information(type)))


@pytest.mark.parametrize(
    ("information", "words"),
    [
        (t.PICKLED, HALF),
        (t.BIG_INT, "DECIMAL(38, 0)"),
        (Types.CHAR(), "CHAR(1)"),
        (t.TupleType((t.INT, t.PICKLED)), f"ROW<f0 INT, f1 {HALF}>"),
        (t.TupleType((t.INT,), ("a",)), "ROW<a INT>"),
        (t.RowType((t.INT, t.STRING)), "ROW<f0 INT, f1 STRING>"),
        (t.MapType(t.STRING, t.LONG), "MAP<STRING NOT NULL, BIGINT>"),
        (t.DataclassType(Point), "ROW<x FLOAT NOT NULL, y DOUBLE>"),
        (t.ListType(t.DataclassType(Linked)), f"ARRAY<ROW<`value` BIGINT NOT NULL, rest {HALF}>>"),
    ],
)
def test_types_of_type_information(information: t.TypeInformation, words: str) -> None:
    assert s.from_type_information(information) == s.parse_type(words)


@pytest.mark.parametrize(
    ("words", "information"),
    [
        ("CHAR(3) NOT NULL", t.STRING),
        ("VARBINARY(3)", t.BYTES),
        ("DECIMAL(10, 2)", t.BIG_DEC),
        ("TIME(9)", t.TIME),
        ("TIMESTAMP(0)", t.TIMESTAMP),
        ("TIMESTAMP_LTZ(9)", t.INSTANT),
        ("TIMESTAMP WITH TIME ZONE", t.PICKLED),
        ("INTERVAL YEAR", t.INT),
        ("INTERVAL DAY", t.PICKLED),
        ("NULL", t.PICKLED),
        (f"{HALF} NOT NULL", t.PICKLED),
        ("MULTISET<CHAR>", t.MapType(t.STRING, t.INT)),
        ("ROW<a INT NOT NULL 'what', b ARRAY<DATE>>", t.RowType((t.INT, t.ListType(t.DATE)), ("a", "b"))),
    ],
)
def test_type_information_of_types(words: str, information: t.TypeInformation) -> None:
    assert s.to_type_information(s.parse_type(words)) == information


def test_every_type_of_programs_has_a_logical_type() -> None:
    simple = (
        "STRING", "BYTE", "BOOLEAN", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "CHAR", "BIG_INT", "BIG_DEC", "INSTANT",
        "SQL_DATE", "SQL_TIME", "SQL_TIMESTAMP", "PICKLED_BYTE_ARRAY",
    )  # fmt: skip
    types = [getattr(Types, name)() for name in simple]
    types += [Types.PRIMITIVE_ARRAY(Types.INT()), Types.BASIC_ARRAY(Types.STRING()), Types.OBJECT_ARRAY(Types.LONG())]
    types += [Types.LIST(Types.INT()), Types.MAP(Types.STRING(), Types.INT()), Types.ROW([Types.INT()])]
    types += [Types.ROW_NAMED(["a"], [Types.INT()]), Types.TUPLE([Types.INT(), Types.STRING()])]
    without_columns = [type for type in types if type.arrow_type() is None]
    assert without_columns == [t.BIG_INT, t.PICKLED]
    for type in types:
        column = s.to_arrow_type(s.from_type_information(type))
        assert column == type.arrow_type() or type in without_columns


def test_values_of_classes_of_the_jvm_are_refused() -> None:
    with pytest.raises(s.InvalidTypeError, match=r"The values of RAW\('a.B', '...'\) are of a class of the JVM"):
        s.to_type_information(s.parse_type("ARRAY<RAW('a.B', 'AA==')>"))


def test_type_information_of_programs_is_refused_by_name() -> None:
    class Own(t.TypeInformation[Any]):
        def describe(self) -> str:
            return "Own<T>"

    with pytest.raises(s.InvalidTypeError, match="No logical type stands for Own<T>"):
        s.from_type_information(t.ListType(Own()))
