"""Values that a snapshot holds pickled, and that the program declares now."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from millstream.core.records import types as t
from millstream.core.row import Row
from millstream.core.snapshot import (
    CompatibilityKind,
    IncompatibleStateError,
    StateKind,
    StateTypes,
    compare_state,
)
from millstream.core.snapshot.tables.restore import read_rows
from millstream.core.snapshot.tables.table import value_table


@dataclasses.dataclass(frozen=True)
class Point:
    x: float
    label: str | None = None


@dataclasses.dataclass
class Order:
    number: int
    at: Point | None
    all: list[Point | None]


POINT = t.DataclassType(Point)
FORMER_ORDER = t.RowType((t.LONG, t.PICKLED, t.ListType(t.PICKLED)), ("number", "at", "all"))
"""As optional dataclasses were stored in former versions."""


def restored(
    values: dict[Any, Any], stored: t.TypeInformation, declared: t.TypeInformation,
    key: t.TypeInformation = t.LONG, declared_key: t.TypeInformation = t.LONG,
) -> dict[Any, Any]:  # fmt: skip
    types, wanted = StateTypes(key, stored), StateTypes(declared_key, declared)
    state = types.snapshot("s", StateKind.VALUE)
    verdict = compare_state(state, wanted.snapshot("s", StateKind.VALUE))
    assert verdict.kind is CompatibilityKind.COMPATIBLE, verdict.message
    assert "pickled, and declared now" in verdict.message
    table = value_table(list(values), [_as(v, stored) for v in values.values()], types, 128)
    rows = read_rows(table, state, wanted, unpickle=True)
    return dict(zip(rows.keys, rows.content, strict=True))


def _as(value: Any, stored: t.TypeInformation) -> Any:
    if not isinstance(stored, t.RowType):
        return value
    return Row.of_names(stored.names, [getattr(value, f.name) for f in dataclasses.fields(value)])


def test_pickled_values_are_read_as_the_type_that_they_are_of() -> None:
    points = {1: Point(1.5), 2: None, 3: Point(2, "two")}
    assert repr(restored(points, t.PICKLED, POINT)[3]) == "Point(x=2.0, label='two')"
    assert restored(points, t.PICKLED, POINT) == points
    pairs = {1: (1, "a"), 2: None}
    assert restored(pairs, t.PICKLED, t.from_hint(tuple[int, str] | None)) == pairs


def test_inside_of_other_values_too() -> None:
    orders = {1: Order(1, Point(1.0), [None, Point(2.0)]), 2: Order(2, None, [])}
    assert restored(orders, FORMER_ORDER, t.DataclassType(Order)) == orders


def test_keys_too() -> None:
    values = {(1, "a"): Point(1.0), None: None}
    key = t.from_hint(tuple[int, str] | None)
    assert restored(values, t.PICKLED, POINT, t.PICKLED, key) == values


def test_a_value_of_another_type_is_refused() -> None:
    with pytest.raises(IncompatibleStateError, match=r"column value: .*'three' is not a Double.*PICKLED_BYTE_ARRAY"):
        restored({1: Point("three")}, t.PICKLED, POINT)  # type: ignore[arg-type]  # that is the point
