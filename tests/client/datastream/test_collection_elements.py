from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

import pytest

from millstream.common import Instant, InvalidProgramError, Row, Types
from millstream.core.records.types import PICKLED, from_hint
from millstream.datastream.graph.collection_elements import conformed


@dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    ("declared", "element", "expected"),
    [
        (Types.ROW_NAMED(["a", "b"], [int, str]), (1, "x"), Row(a=1, b="x")),
        (Types.ROW_NAMED(["a", "b"], [int, str]), {"b": "x", "a": 1}, Row(a=1, b="x")),
        (Types.ROW_NAMED(["a"], [int]), Row(1), Row(a=1)),
        (Types.ROW([int, Types.ROW([str])]), (1, ("x",)), Row(f0=1, f1=Row(f0="x"))),
        (Types.ROW_NAMED(["a", "b"], [int, str]), Row(b="x", a=1), Row(a=1, b="x")),
        (Types.TUPLE([float, str]), [1, "x"], (1.0, "x")),
        (Types.LIST(float), (1, 2), [1.0, 2.0]),
        (Types.MAP(str, float), {"a": 1}, {"a": 1.0}),
        (Types.SQL_DATE(), datetime.date(2020, 1, 1), datetime.date(2020, 1, 1)),
        (Types.INSTANT(), Instant(1, 0), Instant(1, 0)),
        (Types.STRING(), None, None),
        (from_hint(Point), Point(1), Point(1)),
        (PICKLED, object, object),
    ],
)
def test_elements_take_the_declared_shape(declared: Any, element: Any, expected: Any) -> None:
    [result] = conformed([element], declared)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("declared", "element", "reason"),
    [
        (Types.INT(), "x", "'x' is of type str, not Integer"),
        (Types.TUPLE([int, int]), (1,), "it has 1 fields, not 2"),
        (Types.TUPLE([int]), 1, "not Tuple1<Long>"),
        (Types.ROW([int]), {"a": 1}, "of type dict"),
        (Types.ROW([int]), 1, "of type int"),
        (Types.LIST(int), "x", "of type str"),
        (Types.MAP(str, int), [1], "of type list"),
        (from_hint(Point), (1,), "of type tuple"),
    ],
)
def test_misfits_are_named(declared: Any, element: Any, reason: str) -> None:
    with pytest.raises(InvalidProgramError) as caught:
        conformed([None, element], declared)
    assert str(caught.value).startswith("from_collection: element 1, ")
    assert reason in str(caught.value)
