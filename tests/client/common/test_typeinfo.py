from __future__ import annotations

from dataclasses import dataclass

import pytest

from millstream.common import InvalidProgramError, Types
from millstream.core.records import types
from millstream.core.records.types import DataclassType, ListType, MapType, RowType, TupleType


@dataclass
class Point:
    x: int
    y: float


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (Types.STRING(), types.STRING),
        (Types.BYTE(), types.BYTE),
        (Types.BOOLEAN(), types.BOOLEAN),
        (Types.SHORT(), types.SHORT),
        (Types.INT(), types.INT),
        (Types.LONG(), types.LONG),
        (Types.FLOAT(), types.FLOAT),
        (Types.DOUBLE(), types.DOUBLE),
        (Types.BIG_INT(), types.BIG_INT),
        (Types.BIG_DEC(), types.BIG_DEC),
        (Types.INSTANT(), types.INSTANT),
        (Types.SQL_DATE(), types.DATE),
        (Types.SQL_TIME(), types.TIME),
        (Types.SQL_TIMESTAMP(), types.TIMESTAMP),
        (Types.PICKLED_BYTE_ARRAY(), types.PICKLED),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), types.BYTES),
        (Types.PRIMITIVE_ARRAY(Types.INT()), ListType(types.INT)),
        (Types.BASIC_ARRAY(Types.STRING()), ListType(types.STRING)),
        (Types.OBJECT_ARRAY(Point), ListType(DataclassType(Point))),
        (Types.LIST(int), ListType(types.LONG)),
        (Types.MAP(str, Types.LIST(float)), MapType(types.STRING, ListType(types.DOUBLE))),
        (Types.TUPLE([str, Types.INT()]), TupleType((types.STRING, types.INT))),
        (Types.ROW([Types.INT(), Point]), RowType((types.INT, DataclassType(Point)))),
        (Types.ROW_NAMED(["a", "b"], [int, str]), RowType((types.LONG, types.STRING), ("a", "b"))),
    ],
)
def test_factories(made: types.TypeInformation, expected: types.TypeInformation) -> None:
    assert made == expected


def test_a_character_is_text_with_a_name_of_its_own() -> None:
    assert str(Types.CHAR()) == "Character"
    assert Types.CHAR().wire_type() == str | None


def test_named_rows_need_as_many_names_as_types_and_no_name_twice() -> None:
    with pytest.raises(InvalidProgramError, match="1 names for 2 types"):
        Types.ROW_NAMED(["a"], [int, str])
    with pytest.raises(InvalidProgramError, match="occurs twice"):
        Types.ROW_NAMED(["a", "a"], [int, str])


def test_a_list_of_types_is_needed() -> None:
    with pytest.raises(InvalidProgramError, match=r"Types\.TUPLE: expected a list of types"):
        Types.TUPLE(int)  # type: ignore[arg-type]
