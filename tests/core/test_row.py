"""Rows: by position, by name, and through pickle."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.core.records.copying import private_copy
from millstream.core.row import Row, RowKind

_names = st.lists(
    st.from_regex(r"[a-z][a-z0-9_]{0,5}", fullmatch=True).filter(lambda n: n not in dir(Row)), unique=True, max_size=5
)


@given(st.data(), _names)
def test_a_named_row_is_read_by_position_attribute_and_key(data: st.DataObject, names: list[str]) -> None:
    values = data.draw(st.lists(st.integers(), min_size=len(names), max_size=len(names)))
    row = Row.of_names(names, values)
    assert list(row) == values
    assert len(row) == len(values)
    for position, (name, value) in enumerate(zip(names, values, strict=True)):
        assert row[position] == row[name] == getattr(row, name) == value
    assert row.as_dict() == dict(zip(names, values, strict=True))
    for copied in (pickle.loads(pickle.dumps(row)), copy.copy(row), copy.deepcopy(row)):
        assert copied == row
        assert copied.get_fields_names() == row.get_fields_names()


def test_a_row_without_names_has_positions_only() -> None:
    row = Row(1, "a", None)
    assert list(row) == [1, "a", None]
    assert row[1:] == ("a", None)
    assert row.get_fields_names() is None
    assert row[-1] is None
    assert "a" in row
    assert "b" not in row
    with pytest.raises(KeyError):
        row["a"]
    with pytest.raises(AttributeError, match="Row has no field 'a'"):
        _ = row.a
    with pytest.raises(TypeError, match="no field names"):
        row.as_dict()
    with pytest.raises(IndexError):
        row[3]


def test_fields_can_be_set() -> None:
    row = Row(a=1, b=2)
    row[0] = 10
    row["b"] = 20
    assert row == Row(a=10, b=20)
    row.a = 11
    assert row.a == 11
    with pytest.raises(AttributeError, match="Row has no field 'c'"):
        row.c = 1
    with pytest.raises(AttributeError, match="Row has no field 'a'"):
        Row(1).a = 2
    with pytest.raises(KeyError):
        row["c"] = 1


def test_names_can_be_given_later() -> None:
    row = Row(1, 2)
    row.set_field_names(["x", "y"])
    assert row.x == 1
    assert row.get_fields_names() == ["x", "y"]
    with pytest.raises(ValueError, match="1 names for 2 fields"):
        row.set_field_names(["x"])


def test_a_row_takes_positions_or_names() -> None:
    with pytest.raises(ValueError, match="not both"):
        Row(1, b=2)


def test_equality_includes_names_and_hashing_agrees() -> None:
    assert Row(1, 2) == Row(1, 2)
    assert Row(a=1) != Row(b=1)
    assert Row(a=1) != Row(1)
    assert Row(1) != (1,)
    assert hash(Row(a=1, b=2)) == hash(Row(a=1, b=2))
    assert len({Row(1), Row(1), Row(2)}) == 2


def test_rows_nest() -> None:
    row = Row(id=1, inner=Row(x=2))
    assert row.as_dict() == {"id": 1, "inner": Row(x=2)}
    assert row.as_dict(recursive=True) == {"id": 1, "inner": {"x": 2}}
    held = Row(rows=[Row(x=1)], by_name={"a": Row(y=2)})
    assert held.as_dict(recursive=True) == {"rows": [{"x": 1}], "by_name": {"a": {"y": 2}}}


def test_rows_are_written_as_pyflinks() -> None:
    for write in (str, repr):
        assert write(Row("a", 2)) == "<Row('a', 2)>"
        assert write(Row(f0="a", f1=0)) == "Row(f0='a', f1=0)"


def test_any_name_but_that_of_a_method_is_a_fields_own() -> None:
    row = Row(values=[1], names="n", kind="k")
    assert (row.values, row.names, row.kind) == ([1], "n", "k")


def test_a_row_is_an_insertion_by_default() -> None:
    assert Row(1).get_row_kind() is RowKind.INSERT
    removed = Row.of_kind(RowKind.DELETE, id=1)
    assert removed != Row(id=1)
    for copied in (pickle.loads(pickle.dumps(removed)), copy.deepcopy(removed), private_copy(removed)):
        assert copied == removed
        assert copied.get_row_kind() is RowKind.DELETE
    removed.set_row_kind(RowKind.INSERT)
    assert removed == Row(id=1)
    assert list(map(str, RowKind)) == ["+I", "-U", "+U", "-D"]


def test_fields_are_taken_by_name_in_any_order() -> None:
    assert Row(a=1, b=2).get_fields_by_names(["b", "a"]) == [2, 1]
    assert Row(1, 2).get_fields_by_names(["b", "a"]) == [1, 2]
    with pytest.raises(KeyError, match="no fields c in a"):
        Row(a=1).get_fields_by_names(["c"])


def test_a_row_of_names_creates_rows_with_these_names() -> None:
    person = Row("name", "age")
    assert person("Ada", 36) == Row(name="Ada", age=36)
    with pytest.raises(ValueError, match="names 2 fields, and there are 1 values"):
        person("Ada")
