"""Conversions by declared types: single precision, and rows with their names."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.core.records import types as t
from millstream.core.records.adoption import adopter
from millstream.core.records.exact_values import InexactError
from millstream.core.row import Row, RowKind

SINGLE = float(np.float32(0.1))


@dataclass
class Plain:
    a: int
    b: float


@dataclass(frozen=True)
class Typed:
    a: t.FLOAT  # type: ignore[valid-type]  # a type of ours
    b: float


@dataclass
class Tree:
    value: float
    children: list[Tree]


@pytest.mark.parametrize(
    "kind",
    [
        t.LONG, t.DOUBLE, t.STRING, t.PICKLED, t.TupleType((t.LONG, t.DOUBLE)), t.ListType(t.DOUBLE),
        t.MapType(t.STRING, t.DOUBLE), t.DataclassType(Plain), t.DataclassType(Tree),
    ],
    ids=str,
)  # fmt: skip
def test_most_types_do_not_change_values(kind: t.TypeInformation) -> None:
    assert adopter(kind) is None


@given(st.floats() | st.integers(-(2**60), 2**60))
def test_single_precision(value: float) -> None:
    adopt = adopter(t.FLOAT)
    assert adopt is not None
    with np.errstate(over="ignore"):
        expected = float(np.float32(value))
    if math.isinf(expected) and not math.isinf(value):
        with pytest.raises(InexactError, match="too large for single precision"):
            adopt(value)
        return
    assert repr(adopt(value)) == repr(expected)
    assert repr(adopt(adopt(value))) == repr(expected)


@pytest.mark.parametrize(
    ("kind", "value", "adopted"),
    [
        (t.FLOAT, None, None),
        (t.FLOAT, True, True),
        (t.FLOAT, "0.1", "0.1"),
        (t.FLOAT, np.float64(0.1), SINGLE),
        (t.TupleType((t.STRING, t.FLOAT)), ("a", 0.1), ("a", SINGLE)),
        (t.TupleType((t.STRING, t.FLOAT)), ("a", 0.1, 0.1), ("a", 0.1, 0.1)),
        (t.TupleType((t.FLOAT,)), [0.1], [0.1]),
        (t.ListType(t.FLOAT), [0.1, None], [SINGLE, None]),
        (t.MapType(t.FLOAT, t.LONG), {0.1: 1}, {SINGLE: 1}),
        (t.MapType(t.STRING, t.ListType(t.FLOAT)), {"a": [0.1]}, {"a": [SINGLE]}),
        (t.RowType((t.FLOAT,)), Row(0.1), Row(f0=SINGLE)),
        (t.RowType((t.FLOAT,)), Row(own=0.1), Row(own=SINGLE)),
        (t.RowType((t.LONG, t.FLOAT), ("a", "b")), Row(1, 0.1), Row(a=1, b=SINGLE)),
        (t.RowType((t.LONG, t.LONG), ("a", "b")), Row(1, 2), Row(a=1, b=2)),
        (t.RowType((t.LONG, t.LONG), ("a", "b")), Row(b=2, a=1), Row(a=1, b=2)),
        (t.RowType((t.LONG, t.LONG), ("a", "b")), Row(a=1, z=2), Row(a=1, z=2)),
        (t.RowType((t.LONG, t.LONG), ("a", "b")), (1, 2), Row(a=1, b=2)),
        (t.RowType((t.LONG, t.LONG), ("a", "b")), (1, 2, 3), (1, 2, 3)),
        (t.RowType((t.LONG, t.LONG), ("a", "b")), None, None),
        (t.RowType((t.LONG, t.LONG), ("a", "b")), {"b": 2, "a": 1}, Row(a=1, b=2)),
        (t.RowType((t.LONG, t.LONG), ("a", "b")), {"b": 2}, Row(a=None, b=2)),
        (t.RowType((t.LONG, t.LONG), ("a", "b")), {"b": 2, "c": 1}, {"b": 2, "c": 1}),
        (t.RowType((t.STRING, t.LONG)), ["a", 0], Row(f0="a", f1=0)),
        (t.RowType((t.STRING, t.RowType((t.LONG,)))), ("a", (0,)), Row(f0="a", f1=Row(f0=0))),
        (t.TupleType((t.STRING, t.RowType((t.LONG,), ("n",)))), ("a", (0,)), ("a", Row(n=0))),
        (t.ListType(t.RowType((t.LONG,), ("n",))), [(0,)], [Row(n=0)]),
        (t.DataclassType(Typed), Typed(0.1, 0.1), Typed(SINGLE, 0.1)),
    ],
    ids=repr,
)
def test_conversions_by_type(kind: t.TypeInformation, value: Any, adopted: Any) -> None:
    before = repr(value)
    adopt = adopter(kind)
    assert adopt is not None
    assert repr(adopt(value)) == repr(adopted)
    assert repr(value) == before  # a record may have other consumers


def test_a_row_with_its_names_stays_the_same_object() -> None:
    adopt = adopter(t.RowType((t.LONG,), ("a",)))
    row = Row(a=1)
    assert adopt is not None
    assert adopt(row) is row


def test_a_row_keeps_its_kind() -> None:
    adopt = adopter(t.RowType((t.LONG,), ("a",)))
    assert adopt is not None
    assert adopt(Row.of_kind(RowKind.DELETE, 1)) == Row.of_kind(RowKind.DELETE, a=1)
