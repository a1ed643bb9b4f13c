"""Types from hints, on the wire, as Arrow columns, and as text."""

from __future__ import annotations

import datetime
import decimal
import pickle
from dataclasses import dataclass
from typing import Annotated, Any, Dict, List, Literal, NamedTuple, NewType, Optional, Tuple, Union  # noqa: UP035  # both spellings

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.core.records import types as t


@dataclass(frozen=True)
class Point:
    x: int
    y: float
    label: str | None = None


@dataclass
class Tree:
    value: int
    children: list[Tree]


@dataclass
class Linked:
    value: int
    rest: Linked | None


@dataclass
class Empty:
    pass


@dataclass
class Holder:
    thing: object


class Named(NamedTuple):
    a: int


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (str, t.STRING),
        (bool, t.BOOLEAN),
        (int, t.LONG),
        (float, t.DOUBLE),
        (bytes, t.BYTES),
        (decimal.Decimal, t.BIG_DEC),
        (datetime.datetime, t.TIMESTAMP),
        (datetime.date, t.DATE),
        (datetime.time, t.TIME),
        (t.SHORT, t.SHORT),
        (tuple[int, str], t.TupleType((t.LONG, t.STRING))),
        (Tuple[int, str], t.TupleType((t.LONG, t.STRING))),  # noqa: UP006
        (list[int], t.ListType(t.LONG)),
        (List[int], t.ListType(t.LONG)),  # noqa: UP006
        (dict[str, float], t.MapType(t.STRING, t.DOUBLE)),
        (Dict[str, float], t.MapType(t.STRING, t.DOUBLE)),  # noqa: UP006
        (tuple[list[int], dict[str, int]], t.TupleType((t.ListType(t.LONG), t.MapType(t.STRING, t.LONG)))),
        (int | None, t.LONG),
        (Optional[str], t.STRING),  # noqa: UP045
        (Optional[list[int]], t.ListType(t.LONG)),  # noqa: UP045
        (Annotated[int, "seconds"], t.LONG),
        (Annotated[int, {"unit": "s"}], t.LONG),
        (Point, t.DataclassType(Point)),
        (Point | None, t.DataclassType(Point)),
        (tuple[int, Point | None] | None, t.TupleType((t.LONG, t.DataclassType(Point)))),
        (list[tuple[int, str] | None], t.ListType(t.TupleType((t.LONG, t.STRING)))),
        (tuple[NewType("Seconds", int), str], t.TupleType((t.LONG, t.STRING))),
    ],
)
def test_hints_that_declare_a_type(hint: Any, expected: t.TypeInformation) -> None:
    assert t.from_hint(hint) == expected


@pytest.mark.parametrize(
    "hint",
    [
        None, Any, object, list, dict, tuple, set[int], tuple[int, ...], tuple[()], int | str, Union[int, str, None],  # noqa: UP007
        Linked | None, tuple[Linked, int] | None, Empty | None, Literal["a"], Named, complex, "int", [int],
        Point(1, 2.0),
    ],
)  # fmt: skip
def test_a_type_that_cannot_be_derived_is_pickled(hint: Any) -> None:
    assert t.from_hint(hint) is t.PICKLED


def test_a_linked_list_has_fields_and_a_rest_that_is_pickled() -> None:
    assert t.DataclassType(Linked).field_types() == [t.LONG, t.PICKLED]


ARROW = [
    (t.STRING, pa.string()), (t.BOOLEAN, pa.bool_()), (t.BYTE, pa.int8()), (t.SHORT, pa.int16()), (t.INT, pa.int32()),
    (t.LONG, pa.int64()), (t.FLOAT, pa.float32()), (t.DOUBLE, pa.float64()), (t.BIG_INT, None),
    (t.BIG_DEC, pa.decimal128(38, 18)), (t.BYTES, pa.binary()), (t.INSTANT, pa.timestamp("us", "UTC")),
    (t.DATE, pa.date32()), (t.TIME, pa.time64("us")), (t.TIMESTAMP, pa.timestamp("us")), (t.PICKLED, None),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "expected"), ARROW, ids=[str(case[0]) for case in ARROW])
def test_arrow_types_of_basic_types(type_: t.TypeInformation, expected: Any) -> None:
    assert type_.arrow_type() == expected


def test_arrow_types_of_composite_types() -> None:
    assert t.ListType(t.LONG).arrow_type() == pa.list_(pa.int64())
    assert t.MapType(t.STRING, t.INT).arrow_type() == pa.map_(pa.string(), pa.int32())
    pair = t.TupleType((t.LONG, t.STRING))
    assert pair.arrow_type() == pa.struct([("f0", pa.int64()), ("f1", pa.string())])
    assert pair.field_names() == ["f0", "f1"]
    named = t.RowType((t.LONG, t.STRING), ("id", "name"))
    assert named.arrow_type() == pa.struct([("id", pa.int64()), ("name", pa.string())])
    assert named.get_field_names() == ["id", "name"]
    assert named.get_field_types() == [t.LONG, t.STRING]
    assert t.RowType((t.LONG,)).field_names() == ["f0"]
    expected = pa.struct([("x", pa.int64()), ("y", pa.float64()), ("label", pa.string())])
    assert t.DataclassType(Point).arrow_type() == expected
    assert t.DataclassType(Point).field_names() == ["x", "y", "label"]


@pytest.mark.parametrize(
    "type_",
    [
        t.ListType(t.PICKLED), t.MapType(t.STRING, t.PICKLED), t.TupleType((t.LONG, t.BIG_INT)),
        t.RowType((t.PICKLED,)), t.DataclassType(Holder), t.DataclassType(Tree),
    ],
)  # fmt: skip
def test_a_composite_of_something_without_a_column_has_none(type_: t.TypeInformation) -> None:
    assert type_.arrow_type() is None


def test_what_has_to_be_pickled_has_no_wire_type() -> None:
    assert t.PICKLED.wire_type() is None
    assert t.TupleType((t.LONG, t.PICKLED)).wire_type() is None
    assert t.ListType(t.PICKLED).wire_type() is None
    assert t.MapType(t.STRING, t.PICKLED).wire_type() is None
    assert t.RowType((t.LONG,)).wire_type() is None


def test_parts_of_a_value_may_be_none() -> None:
    wire_type = t.TupleType((t.DataclassType(Point), t.ListType(t.TupleType((t.LONG,))))).wire_type()
    for value in ((None, [(1,), None]), (Point(1, 2.0), None)):
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=wire_type) == value


_values: dict[t.TypeInformation, st.SearchStrategy[Any]] = {
    t.STRING: st.text(st.characters(exclude_categories=["Cs"])),
    t.BOOLEAN: st.booleans(),
    t.LONG: st.integers(-(2**63), 2**63 - 1),
    t.DOUBLE: st.floats(allow_nan=False),
    t.BYTES: st.binary(),
    t.BIG_DEC: st.decimals(allow_nan=False, allow_infinity=False),
    t.DATE: st.dates(),
    t.TIME: st.times(),
    t.TIMESTAMP: st.datetimes(),
}


@st.composite
def _typed_values(draw: st.DrawFn, depth: int = 2) -> tuple[t.TypeInformation, Any]:
    kind = draw(st.sampled_from(["basic", "tuple", "list", "map"] if depth else ["basic"]))
    if kind == "tuple":
        fields = draw(st.lists(_typed_values(depth - 1), min_size=1, max_size=3))
        return t.TupleType(tuple(f for f, _ in fields)), tuple(v for _, v in fields)
    if kind == "basic":
        type_ = draw(st.sampled_from(list(_values)))
        return type_, draw(st.none() | _values[type_])
    element = draw(st.sampled_from(list(_values)))
    if kind == "list":
        return t.ListType(element), draw(st.lists(_values[element], max_size=3))
    return t.MapType(t.STRING, element), draw(st.dictionaries(_values[t.STRING], _values[element], max_size=3))


@given(_typed_values())
def test_values_are_decoded_by_their_type(case: tuple[t.TypeInformation, Any]) -> None:
    type_, value = case
    decoded = msgspec.msgpack.Decoder(type_.wire_type()).decode(msgspec.msgpack.Encoder().encode(value))
    assert decoded == value
    assert type(decoded) is type(value)


def test_dataclasses_are_decoded() -> None:
    value = Tree(1, [Tree(2, []), Tree(3, [])])
    wire_type = t.from_hint(Tree).wire_type()
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=wire_type) == value


@given(_typed_values())
def test_types_are_values(case: tuple[t.TypeInformation, Any]) -> None:
    copy = pickle.loads(pickle.dumps(case[0]))
    assert copy == case[0]
    assert hash(copy) == hash(case[0])


@pytest.mark.parametrize(
    ("type_", "words"),
    [
        (t.LONG, "Long"),
        (t.PICKLED, "PickledByteArray"),
        (t.TupleType((t.STRING, t.LONG)), "Tuple2<String, Long>"),
        (t.ListType(t.INT), "List<Integer>"),
        (t.MapType(t.STRING, t.ListType(t.LONG)), "Map<String, List<Long>>"),
        (t.RowType((t.LONG, t.STRING), ("id", "name")), "Row(id: Long, name: String)"),
        (t.RowType((t.LONG,)), "Row(f0: Long)"),
        (t.DataclassType(Point), "Point(x: Long, y: Double, label: String)"),
        (t.DataclassType(Tree), "Tree"),
    ],
)
def test_types_as_text(type_: t.TypeInformation, words: str) -> None:
    assert type_.describe() == words
