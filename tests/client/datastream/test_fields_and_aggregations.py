from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.common import InvalidProgramError, Row, Types
from millstream.core.records.types import LONG, PICKLED, STRING, DataclassType
from millstream.datastream.adapters.aggregations import Max, MaxBy, Min, MinBy, Sum, aggregated_field, summed_field
from millstream.datastream.adapters.fields import checked_field, field_type, get_field, with_field
from millstream.datastream.adapters.projection import Projection, projected_type

Pair = namedtuple("Pair", ["key", "value"])


@dataclass(frozen=True, slots=True)
class Sale:
    item: str
    amount: int


class Loose:
    def __init__(self, amount: int) -> None:
        self.amount = amount


RECORDS: list[tuple[Any, int | str, Any]] = [
    (("a", 1), 1, ("a", 9)),
    (("a", 1), "f1", ("a", 9)),
    (Pair("a", 1), "value", Pair("a", 9)),
    (Pair("a", 1), 1, Pair("a", 9)),
    (["a", 1], 1, ["a", 9]),
    (Row("a", 1), 1, Row("a", 9)),
    (Row("a", 1), "f1", Row("a", 9)),
    (Row(item="a", amount=1), "amount", Row(item="a", amount=9)),
    (Sale("a", 1), "amount", Sale("a", 9)),
    (Sale("a", 1), 1, Sale("a", 9)),
    ({"item": "a", "amount": 1}, "amount", {"item": "a", "amount": 9}),
    ({"item": "a", "amount": 1}, 1, {"item": "a", "amount": 9}),
    (1, 0, 9),
]


@pytest.mark.parametrize(("record", "field", "changed"), RECORDS)
def test_a_field_is_read_and_replaced_in_a_copy(record: Any, field: int | str, changed: Any) -> None:
    before = repr(record)
    assert get_field(record, field) == 1
    assert with_field(record, field, 9) == changed
    assert type(with_field(record, field, 9)) is type(changed)
    assert repr(record) == before


def test_attributes_of_any_object_are_fields() -> None:
    record = Loose(1)
    assert get_field(record, "amount") == 1
    assert with_field(record, "amount", 2).amount == 2
    assert record.amount == 1


@pytest.mark.parametrize(
    ("record", "field"),
    [(("a",), 1), (("a",), "b"), (Row("a"), 3), (Row(a=1), "b"), (Sale("a", 1), "b"), (Sale("a", 1), 2), ({}, "a"),
     ({}, 0), (5, 1), (5, "a")],
)  # fmt: skip
def test_a_missing_field_names_the_record(record: Any, field: int | str) -> None:
    with pytest.raises(InvalidProgramError, match="has no field"):
        get_field(record, field)
    with pytest.raises(InvalidProgramError, match="has no field"):
        with_field(record, field, 1)


@pytest.mark.parametrize(("record", "field", "_changed"), RECORDS)
def test_sums_minima_and_maxima_keep_the_other_fields(record: Any, field: int | str, _changed: Any) -> None:
    stream = [with_field(record, field, number) for number in (4, 2, 7)]
    assert reduce(Sum(field).reduce, stream) == with_field(record, field, 13)
    assert reduce(Min(field).reduce, stream) == with_field(record, field, 2)
    assert reduce(Max(field).reduce, stream) == with_field(record, field, 7)


@given(st.lists(st.tuples(st.integers(), st.integers(0, 5)), min_size=1))
def test_min_by_and_max_by_keep_the_first_record_of_the_best(stream: list[tuple[int, int]]) -> None:
    assert reduce(MinBy(1).reduce, stream) == min(stream, key=lambda record: record[1])
    assert reduce(MaxBy(1).reduce, stream) == max(stream, key=lambda record: record[1])


def test_tuples_that_are_too_short_are_reported() -> None:
    with pytest.raises(InvalidProgramError, match="has no field 3"):
        Sum(3).reduce(("a", 1), ("a", 2))


def test_fields_are_checked_against_known_types() -> None:
    pair = Types.TUPLE([str, int])
    assert checked_field("key_by", "f1", pair) == 1
    assert checked_field("key_by", 1, pair) == 1
    assert checked_field("key_by", "amount", DataclassType(Sale)) == "amount"
    assert checked_field("key_by", "anything", PICKLED) == "anything"
    assert checked_field("key_by", "key", Types.MAP(str, int)) == "key"
    assert checked_field("key_by", 0, Types.LIST(int)) == 0
    with pytest.raises(InvalidProgramError, match=r"key_by: .*no field 'x'; they have item, amount"):
        checked_field("key_by", "x", DataclassType(Sale))
    with pytest.raises(InvalidProgramError, match="no field 2; they have f0, f1"):
        checked_field("key_by", 2, pair)
    with pytest.raises(InvalidProgramError, match="records of type String have no field 0"):
        checked_field("key_by", 0, STRING)
    with pytest.raises(InvalidProgramError, match="counts from 0"):
        checked_field("key_by", -1, PICKLED)
    with pytest.raises(InvalidProgramError, match="a name or a position"):
        checked_field("key_by", True, PICKLED)


def test_only_numbers_are_added_up() -> None:
    assert summed_field("sum", 0, LONG) == 0
    assert summed_field("sum", "amount", DataclassType(Sale)) == "amount"
    assert aggregated_field("max", 0, STRING) == 0
    with pytest.raises(InvalidProgramError, match="sum: field 'item' is of type String"):
        summed_field("sum", "item", DataclassType(Sale))
    with pytest.raises(InvalidProgramError, match="no field 1"):
        summed_field("sum", 1, LONG)


def test_field_types() -> None:
    assert field_type("amount", DataclassType(Sale)) == LONG
    assert field_type(0, Types.ROW_NAMED(["a"], [str])) == STRING
    assert field_type(0, PICKLED) is None


def test_projections_keep_rows_rows_and_make_tuples_of_the_rest() -> None:
    assert Projection((1, 0)).map(("a", 1)) == (1, "a")
    assert Projection(("amount",)).map(Sale("a", 1)) == (1,)
    assert Projection((1, "item")).map(Row(item="a", amount=1)) == Row(amount=1, item="a")
    assert Projection((1,)).map(Row("a", 1)) == Row(1)
    assert projected_type((1,), Types.TUPLE([str, int])) == Types.TUPLE([int])
    assert projected_type((1, "a"), Types.ROW_NAMED(["a", "b"], [str, int])) == Types.ROW_NAMED(["b", "a"], [int, str])
    assert projected_type((1,), Types.ROW([str, int])) == Types.ROW([int])
    assert projected_type((1,), PICKLED) == PICKLED
