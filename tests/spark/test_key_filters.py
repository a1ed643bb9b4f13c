"""Which key groups satisfy the conditions of a query."""

from __future__ import annotations

import datetime
import decimal
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from millstream.core.keys.key_groups import key_group_of
from millstream.core.records import types as t
from millstream.core.snapshot import type_to_json
from millstream.spark.reading.key_filters import groups_as_text, groups_from_text, key_groups_for

GROUPS = 128
PAIR = t.TupleType((t.LONG, t.STRING))


@dataclass
class Visitor:
    name: str
    seen: int = field(default=0, compare=False)


def chosen(kind: t.TypeInformation, *filters: Filter) -> set[int] | None:
    found = key_groups_for(filters, type_to_json(kind), GROUPS)
    return None if found is None else {group for part in found for group in part}


def groups(*keys: Any) -> set[int]:
    return {key_group_of(key, GROUPS) for key in keys}


@pytest.mark.parametrize(
    ("kind", "literal", "key"),
    [
        (t.STRING, "a", "a"), (t.LONG, 5, 5), (t.BOOLEAN, True, True), (t.DOUBLE, -0.0, 0.0),
        (t.DOUBLE, float("nan"), float("nan")), (t.BIG_INT, "123456789012345678901", 123456789012345678901),
        (t.BIG_DEC, "1.50", decimal.Decimal("1.5")), (t.BYTES, bytearray(b"x"), b"x"),
        (t.DATE, datetime.date(2026, 1, 2), datetime.date(2026, 1, 2)),
        (t.TIME, "12:30:00.000000", datetime.time(12, 30)),
        (t.INSTANT, datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
         datetime.datetime(2026, 1, 2, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))),
    ],
)  # fmt: skip
def test_a_key_is_looked_up_in_its_key_group(kind: t.TypeInformation, literal: Any, key: Any) -> None:
    assert chosen(kind, EqualTo(("key",), literal)) == groups(key)


def test_all_parts_of_a_key_have_to_be_given() -> None:
    first, second = EqualTo(("key", "f0"), 1), In(("key", "f1"), ("a", "b"))
    assert chosen(PAIR, first, second) == groups((1, "a"), (1, "b"))
    assert chosen(PAIR, first) is None
    assert chosen(PAIR, first, Not(EqualTo(("key", "f1"), "a"))) is None


def test_a_field_that_is_not_compared_is_ignored() -> None:
    kind = t.DataclassType(Visitor)
    found = chosen(kind, EqualTo(("key", "name"), "a"), EqualTo(("key", "seen"), 7))
    assert found == groups(Visitor("a", 1))


def test_the_null_key_has_a_key_group_too() -> None:
    assert chosen(t.LONG, IsNull(("key",))) == groups(None)
    assert chosen(PAIR, EqualNullSafe(("key",), None)) == groups(None)


def test_conditions_on_key_groups_are_evaluated_exactly() -> None:
    path = ("key_group",)
    assert chosen(t.LONG, GreaterThan(path, 2), LessThanOrEqual(path, 5)) == {3, 4, 5}
    assert chosen(t.LONG, GreaterThanOrEqual(path, 126)) == {126, 127}
    assert chosen(t.LONG, LessThan(path, 1)) == {0}
    assert chosen(t.LONG, In(path, (1, 500, None))) == {1}
    assert chosen(t.LONG, EqualTo(path, 3), EqualTo(path, 4)) == set()


@pytest.mark.parametrize(
    "condition",
    [IsNotNull(("key",)), GreaterThan(("key",), 1), Not(EqualTo(("key",), 1)), EqualTo(("value",), 1)],
)
def test_other_conditions_select_all(condition: Filter) -> None:
    assert chosen(t.LONG, condition) is None


def test_a_value_of_another_type_selects_all() -> None:
    assert chosen(t.BIG_INT, EqualTo(("key",), "many")) is None
    assert chosen(t.PICKLED, EqualTo(("key",), b"x")) is None
    assert chosen(t.LONG, EqualTo(("key",), "7")) is None
    assert chosen(t.STRING, In(("key",), ("a", 7))) is None
    assert chosen(PAIR, In(("key", "f0"), tuple(range(2000))), EqualTo(("key", "f1"), "a")) is None


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5), st.integers(1, 32768))
def test_no_key_of_several_is_left_out(keys: list[int], max_parallelism: int) -> None:
    found = key_groups_for([In(("key",), tuple(keys))], type_to_json(t.LONG), max_parallelism)
    assert found is not None
    assert {g for part in found for g in part} == {key_group_of(key, max_parallelism) for key in keys}


@given(st.sets(st.integers(0, GROUPS - 1)))
def test_key_groups_are_the_same_as_text(groups: set[int]) -> None:
    found = groups_from_text(groups_as_text(groups), GROUPS)
    assert {group for part in found for group in part} == groups
