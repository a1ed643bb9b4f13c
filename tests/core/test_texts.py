"""Records as text: those of a declared type in the format of Flink's Java objects."""

from __future__ import annotations

import datetime
import decimal
import math
import struct
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.common import Instant, Types
from millstream.core.records.texts import as_printed, printed, text_of
from millstream.core.records.types import TypeInformation, from_hint
from millstream.core.row import Row, RowKind

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
MORNING = datetime.datetime(2024, 2, 29, 1, 2, 3)


@dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (PAIR, ("ann", 3), "(ann,3)"),
        (PAIR, (None, None), "(null,null)"),
        (Types.TUPLE([Types.BOOLEAN(), PAIR]), (True, ("a", 1)), "(true,(a,1))"),
        (Types.ROW([Types.INT(), Types.STRING()]), Row(1, "a"), "+I[1, a]"),
        (Types.ROW_NAMED(["a", "b"], [Types.DOUBLE(), PAIR]), Row(a=None, b=("x", 1)), "+I[null, (x,1)]"),
        (Types.ROW([Types.INT()]), Row.of_kind(RowKind.DELETE, 1), "-D[1]"),
        (Types.LIST(Types.BOOLEAN()), [True, None], "[true, null]"),
        (Types.BASIC_ARRAY(Types.STRING()), ["a", "b"], "[a, b]"),
        (Types.MAP(Types.STRING(), Types.DOUBLE()), {"a": 1.0, "b": None}, "{a=1.0, b=null}"),
        (Types.BOOLEAN(), False, "false"),
        (Types.LONG(), 1 << 40, "1099511627776"),
        (Types.BIG_DEC(), decimal.Decimal("1.50"), "1.50"),
        (Types.STRING(), "a b", "a b"),
        (Types.SQL_DATE(), datetime.date(2024, 2, 29), "2024-02-29"),
        (Types.SQL_TIME(), datetime.time(1, 2, 3), "01:02:03"),
        (Types.SQL_TIMESTAMP(), MORNING, "2024-02-29 01:02:03.0"),
        (Types.SQL_TIMESTAMP(), MORNING.replace(microsecond=120_000), "2024-02-29 01:02:03.12"),
        (Types.INSTANT(), MORNING.replace(tzinfo=datetime.UTC), "2024-02-29T01:02:03Z"),
        (Types.INSTANT(), MORNING.replace(tzinfo=datetime.UTC, microsecond=1), "2024-02-29T01:02:03.000001Z"),
        (Types.INSTANT(), Instant.of_epoch_milli(1), "1970-01-01T00:00:00.001Z"),
        (Types.TUPLE([Types.PRIMITIVE_ARRAY(Types.BYTE())]), (b"a\xff",), "([97, -1])"),
        (from_hint(tuple[str, float]), ("a", 0.5), "(a,0.5)"),
    ],
)
def test_a_record_of_a_declared_type_is_written_as_flink_writes_it(
    kind: TypeInformation, value: Any, text: str
) -> None:
    assert text_of(kind)(value) == text


@pytest.mark.parametrize("value", [("a", 1), Row(a=1), [True, None], {"a": 1.0}, None, "text", 1.0e10, Point(1)])
def test_a_record_without_a_declared_type_is_formatted_by_str(value: Any) -> None:
    assert text_of(Types.PICKLED_BYTE_ARRAY())(value) == printed(Types.PICKLED_BYTE_ARRAY())(value) == str(value)
    assert text_of(from_hint(Point))(Point(1)) == str(Point(1))


@pytest.mark.parametrize(
    "kind", [PAIR, Types.ROW([Types.INT()]), Types.LIST(Types.INT()), Types.DOUBLE(), Types.FLOAT()]
)
@pytest.mark.parametrize("value", ["text", ("a", 1, 2), {"a": 1}, Row(1, 2, 3)])
def test_a_record_that_does_not_match_its_declared_type_is_formatted_by_str(kind: TypeInformation, value: Any) -> None:
    matches = kind == Types.LIST(Types.INT()) and isinstance(value, tuple)
    assert text_of(kind)(value) == ("[a, 1, 2]" if matches else str(value))


def test_print_writes_the_fields_of_a_row_by_str_as_pyflink_does() -> None:
    kind = Types.ROW([Types.BOOLEAN(), Types.STRING(), Types.LIST(Types.STRING())])
    assert printed(kind)(Row(True, None, ["a"])) == "+I[True,None,['a']]"
    assert printed(kind)("no row") == "no row"
    assert printed(PAIR)(("ann", 3)) == "(ann,3)"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"), (-0.0, "-0.0"), (1.0, "1.0"), (100.0, "100.0"), (0.1, "0.1"), (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (9999999.0, "9999999.0"), (1e7, "1.0E7"), (12345678.9, "1.23456789E7"), (1e-5, "1.0E-5"), (-2.5e20, "-2.5E20"),
        (math.inf, "Infinity"), (-math.inf, "-Infinity"), (math.nan, "NaN"), (3, "3.0"), (1234567.125, "1234567.125"),
    ],
)  # fmt: skip
def test_numbers_are_formatted_as_in_java(value: float, text: str) -> None:
    assert text_of(Types.DOUBLE())(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1, "0.1"), (110.1, "110.1"), (16777216.0, "1.6777216E7"), (1e-7, "1.0E-7"), (1 / 3, "0.33333334")],
)
def test_single_precision_has_as_few_digits_as_identify_it(value: float, text: str) -> None:
    [single] = struct.unpack("f", struct.pack("f", value))
    assert text_of(Types.FLOAT())(single) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_can_be_read_back(value: float) -> None:
    assert float(text_of(Types.DOUBLE())(value)) == value


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_number_of_single_precision_can_be_read_back(value: float) -> None:
    assert struct.pack("f", float(text_of(Types.FLOAT())(value))) == struct.pack("f", value)


def test_sinks_print_declared_rows_as_flink() -> None:
    records = [Row(a=None, b=True, c=Row(x=1.5)), Row(1), "text"]
    assert as_printed(records) == ["+I[null, true, +I[1.5]]", Row(1), "text"]
    assert as_printed([Row.of_kind(RowKind.UPDATE_BEFORE, a=1)]) == ["-U[1]"]
