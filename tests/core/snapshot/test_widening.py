"""Stored numbers read as wider types: exactly, or not at all, in a dry run as in a restore."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from snapshot_maker import Maker

from millstream.core.jobs.ids import OperatorId
from millstream.core.records import types as t
from millstream.core.snapshot import IncompatibleStateError, OperatorSnapshot, StateKind, StateTypes
from millstream.core.snapshot.fitting.fit import ProgramOperator, fit
from millstream.core.snapshot.tables.exactness import inexact_values
from millstream.core.snapshot.tables.restore import read_rows
from millstream.core.snapshot.tables.table import value_table


@dataclasses.dataclass
class Old:
    n: int
    many: list[int]
    by: dict[str, int]


@dataclasses.dataclass
class New:
    by: dict[str, float]
    n: float
    many: list[float]
    label: str = "none"


New.__qualname__ = "Old"  # as another version of the program has it


def restored(values: list[Any], stored: t.TypeInformation, declared: t.TypeInformation) -> list[Any]:
    types = StateTypes(t.LONG, stored)
    table = value_table(list(range(len(values))), values, types, 128)
    state = types.snapshot("s", StateKind.VALUE)
    rows = read_rows(table.slice(0), state, StateTypes(t.LONG, declared), unpickle=True)
    return [value for _, value in sorted(zip(rows.keys, rows.content, strict=True))]


@pytest.mark.parametrize(
    ("stored", "declared", "values"),
    [
        (t.LONG, t.DOUBLE, [0, -1, 2**53, -(2**53), 2**62, -(2**63), None]),
        (t.INT, t.DOUBLE, [2**31 - 1, -(2**31)]),
        (t.INT, t.FLOAT, [2**24, -3]),
        (t.BYTE, t.SHORT, [127, -128]),
        (t.INT, t.LONG, [2**31 - 1, None]),
        (t.LONG, t.BIG_INT, [2**63 - 1, -5]),
        (t.BIG_INT, t.DOUBLE, [2**100, -7]),
        (t.FLOAT, t.DOUBLE, [0.5, None]),
    ],
)
def test_numbers_keep_their_value(stored: t.TypeInformation, declared: t.BasicType, values: list[Any]) -> None:
    found = restored(values, stored, declared)
    assert found == values
    assert all(value is None or type(value) is declared.python_type for value in found)


def test_at_any_depth_and_beside_other_changes() -> None:
    old = [Old(1, [2, 2**60], {"a": 3}), Old(2**53, [], {})]
    new = [New({"a": 3.0}, 1.0, [2.0, 2.0**60]), New({}, 2.0**53, [])]
    found = restored(old, t.DataclassType(Old), t.DataclassType(New))
    assert repr(found) == repr(new)


@pytest.mark.parametrize(
    ("stored", "declared", "values", "where"),
    [
        (t.LONG, t.DOUBLE, [1, 2**53 + 1], "column value holds 9007199254740993"),
        (t.LONG, t.DOUBLE, [2**63 - 1], "holds 9223372036854775807"),
        (t.INT, t.FLOAT, [2**24 + 1], "holds 16777217"),
        (t.BIG_INT, t.DOUBLE, [10**400], "holds 1000"),
        (t.from_hint(Old), t.from_hint(New), [Old(1, [2**53 + 1], {})], "column value.many[] holds"),
        (t.from_hint(Old), t.from_hint(New), [Old(1, [], {"a": -(2**53) - 1})], "column value.by{} holds"),
    ],
)
def test_a_lossy_conversion_is_refused(
    tmp_path: Path, stored: t.TypeInformation, declared: t.TypeInformation, values: list[Any], where: str
) -> None:
    with pytest.raises(IncompatibleStateError) as raised:
        restored(values, stored, declared)
    assert where.replace("holds", "").split()[0] in str(raised.value)
    assert "cannot hold exactly" in str(raised.value)
    maker = Maker(tmp_path)
    maker.operator("a", maker.values("s", dict(enumerate(values)), StateTypes(t.LONG, stored)))
    snapshot = maker.finish()
    state = StateTypes(t.LONG, declared).snapshot("s", StateKind.VALUE)
    program = ProgramOperator(
        OperatorSnapshot(OperatorId("id-a"), "a", "a", 1, 128, (state,)), frozenset({StateKind.VALUE})
    )
    found = fit(snapshot.metadata, [program])
    assert found.restorable
    (problem,) = inexact_values(snapshot, found)
    assert problem.startswith("operator 'a', state 's': ")
    assert "cannot hold exactly" in problem


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5))
def test_exactly_or_not_at_all(values: list[int]) -> None:
    exact = all(int(float(value)) == value for value in values)
    try:
        found = restored(values, t.LONG, t.DOUBLE)
    except IncompatibleStateError:
        assert not exact
    else:
        assert exact
        assert [int(value) for value in found] == values
