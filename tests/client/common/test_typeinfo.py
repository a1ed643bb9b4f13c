from __future__ import annotations

from dataclasses import dataclass

import pytest

from millstream.common import InvalidProgramError, Types
from millstream.common.typeinfo import RowTypeInfo, TupleTypeInfo
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
    assert Types.CHAR().describe() == "Character"
    assert Types.CHAR().wire_type() == str | None


def test_named_rows_need_as_many_names_as_types_and_no_name_twice() -> None:
    with pytest.raises(InvalidProgramError, match="1 names for 2 types"):
        Types.ROW_NAMED(["a"], [int, str])
    with pytest.raises(InvalidProgramError, match="occurs twice"):
        Types.ROW_NAMED(["a", "a"], [int, str])


def test_a_list_of_types_is_needed() -> None:
    with pytest.raises(InvalidProgramError, match=r"Types\.TUPLE: expected a list of types"):
        Types.TUPLE(int)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("made", "written"),
    [
        (Types.STRING(), "String"),
        (Types.CHAR(), "Char"),
        (Types.INSTANT(), "Instant"),
        (Types.SQL_DATE(), "DateTypeInfo"),
        (Types.SQL_TIME(), "TimeTypeInfo"),
        (Types.SQL_TIMESTAMP(), "TimestampTypeInfo"),
        (Types.PICKLED_BYTE_ARRAY(), "PickledByteArrayTypeInfo"),
        (Types.ROW([Types.STRING(), Types.INT()]), "RowTypeInfo(String, Integer)"),
        (Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.INT()]), "RowTypeInfo(a: String, b: Integer)"),
        (Types.TUPLE([Types.STRING(), Types.INT()]), "TupleTypeInfo(String, Integer)"),
        (Types.LIST(Types.INT()), "ListTypeInfo<Integer>"),
        (Types.MAP(Types.STRING(), Types.LIST(Types.LONG())), "MapTypeInfo<String, ListTypeInfo<Long>>"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), "PrimitiveArrayTypeInfo<Byte>"),
        (Types.PRIMITIVE_ARRAY(Types.INT()), "PrimitiveArrayTypeInfo<Integer>"),
        (Types.BASIC_ARRAY(Types.STRING()), "BasicArrayTypeInfo<String>"),
        (Types.OBJECT_ARRAY(Types.SQL_DATE()), "ObjectArrayTypeInfo<DateTypeInfo>"),
    ],
    ids=str,
)
def test_types_are_written_as_pyflinks(made: types.TypeInformation, written: str) -> None:
    assert (str(made), repr(made)) == (written, written)


def test_types_are_made_and_checked_by_pyflinks_names() -> None:
    row = RowTypeInfo([Types.STRING(), Types.INT()], ["a", "b"])
    assert row == Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.INT()])
    assert (row.get_field_names(), row.get_field_types()) == (["a", "b"], [Types.STRING(), Types.INT()])
    assert [row.get_field_index(name) for name in ("a", "b", "c")] == [0, 1, -1]
    assert RowTypeInfo([Types.STRING()]).get_field_names() == ["f0"]
    assert TupleTypeInfo([Types.STRING()]) == Types.TUPLE([Types.STRING()])
    assert Types.TUPLE([Types.STRING()]).get_field_types() == [Types.STRING()]
    assert Types.MAP(key_type_info=Types.STRING(), value_type_info=Types.INT()) == Types.MAP(str, Types.INT())
    assert Types.LIST(element_type_info=Types.INT()) == Types.LIST(Types.INT())
    assert hash(row) == hash(Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.INT()]))


def test_values_are_the_same_inside_of_the_engine() -> None:
    assert not Types.SQL_DATE().need_conversion()
    value = object()
    assert Types.INSTANT().to_internal_type(value) is Types.INSTANT().from_internal_type(value) is value
