"""What goes over the wire comes back equal and of the same classes, by whatever codec."""

from __future__ import annotations

import datetime
import decimal
import enum
import io
import pickle
import sys
import types
from collections import namedtuple
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import cloudpickle
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.core import types as t
from millstream.core.batches import END_OF_INPUT, Batch, ColumnBatch, RowBatch
from millstream.core.pickling import to_bytes
from millstream.core.row import Row
from millstream.taskmanager.network.codecs import Codec, ElementCodec, RecordTypeError, compress, decompress


class Colour(enum.Enum):
    RED = "red"


@dataclass(frozen=True)
class Point:
    x: int
    y: float


@dataclass
class Pixel:
    at: tuple[int, int]
    colour: Colour | None = None
    tags: list[str] = field(default_factory=list)


@dataclass
class Base:
    a: int


@dataclass
class Derived(Base):
    b: int = 2


@dataclass
class Holder:
    inner: Base
    maybe: Base | None = None


@dataclass
class Loose:
    payload: Any


@dataclass
class Shouting:
    text: str

    def __post_init__(self) -> None:
        self.text += "!"


@dataclass
class Tree:
    value: int
    children: list[Tree]


@dataclass
class Twig:
    value: int
    twigs: list[Twig]


@dataclass
class Leafy(Twig):
    leaf: str = ""


@dataclass(slots=True, kw_only=True)
class Keyword:
    name: str
    count: int = 0


Named = namedtuple("Named", ["a", "b"])


def through(record_type: t.TypeInformation, batch: Batch | Any) -> tuple[Codec, Any]:
    """Over the wire: one codec instance writes, another one reads."""
    codec, payload = ElementCodec(record_type).encode(batch)
    return codec, ElementCodec(record_type).decode(codec, payload)


def classes(value: Any) -> Any:
    """The value's class, and those inside of it."""
    if isinstance(value, dict):
        return dict, [(classes(k), classes(v)) for k, v in value.items()]
    if isinstance(value, list | tuple | Row):
        return type(value), [classes(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return type(value), [classes(getattr(value, f.name)) for f in fields(value)]
    return type(value)


def check_round_trip(record_type: t.TypeInformation, rows: list[Any], timestamps: list[int] | None) -> Codec:
    codec, back = through(record_type, RowBatch(rows, timestamps))
    assert isinstance(back, RowBatch)
    assert back.rows == rows
    assert classes(back.rows) == classes(rows)
    assert back.timestamps == timestamps
    return codec


longs = st.integers(-(2**63), 2**63 - 1)
BASIC: list[tuple[t.TypeInformation, st.SearchStrategy[Any]]] = [
    (t.STRING, st.text()),
    (t.BOOLEAN, st.booleans()),
    (t.BYTE, st.integers(-128, 127)),
    (t.SHORT, st.integers(-(2**15), 2**15 - 1)),
    (t.INT, st.integers(-(2**31), 2**31 - 1)),
    (t.LONG, longs),
    (t.FLOAT, st.floats(width=32, allow_nan=False)),
    (t.DOUBLE, st.floats(allow_nan=False)),
    (t.BIG_INT, st.integers()),
    (t.BIG_DEC, st.decimals(allow_nan=False)),
    (t.BYTES, st.binary()),
    (t.INSTANT, st.datetimes()),
    (t.DATE, st.dates()),
    (t.TIME, st.times()),
    (t.TIMESTAMP, st.datetimes(timezones=st.none() | st.just(datetime.UTC))),
]


def nullable(pair: tuple[t.TypeInformation, st.SearchStrategy[Any]]) -> tuple[t.TypeInformation, Any]:
    return pair[0], st.none() | pair[1]


def typed(depth: int) -> st.SearchStrategy[tuple[t.TypeInformation, st.SearchStrategy[Any]]]:
    """Pairs of a type and the strategy of its records."""
    basic = st.sampled_from([nullable(pair) for pair in BASIC])
    if depth == 0:
        return basic
    inner = typed(depth - 1)
    names = st.lists(st.sampled_from("abcdef"), unique=True, min_size=1, max_size=3)

    def tuples(fields: list[Any]) -> Any:
        return t.TupleType(tuple(f for f, _ in fields)), st.tuples(*[s for _, s in fields])

    def rows(drawn: tuple[list[str] | None, list[Any]]) -> Any:
        labels, fields = drawn
        fields = fields[: len(labels)] if labels else fields
        own = tuple(labels[: len(fields)]) if labels else None
        values = st.tuples(*[s for _, s in fields])
        return t.RowType(tuple(f for f, _ in fields), own), values.map(lambda v: Row.of_names(own, v))

    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        basic,
        several.map(tuples),
        st.tuples(st.none() | names, several).map(rows),
        inner.map(lambda p: (t.ListType(p[0]), st.lists(p[1], max_size=3))),
        inner.map(lambda p: (t.MapType(t.STRING, p[0]), st.dictionaries(st.text(), p[1], max_size=3))),
        st.just((t.DataclassType(Point), st.builds(Point, longs, st.floats(allow_nan=False)))),
    )


@settings(max_examples=150, deadline=None)
@given(typed(2), st.data())
def test_records_of_every_declared_type_come_back(
    pair: tuple[t.TypeInformation, st.SearchStrategy[Any]], data: st.DataObject
) -> None:
    rows = data.draw(st.lists(pair[1], max_size=5))
    timed = data.draw(st.booleans())
    timestamps = data.draw(st.lists(longs, min_size=len(rows), max_size=len(rows))) if timed else None
    check_round_trip(pair[0], rows, timestamps)


@pytest.mark.parametrize(("record_type", "values"), BASIC, ids=[kind.describe() for kind, _ in BASIC])
def test_basic_types_travel_as_message_pack(record_type: t.TypeInformation, values: st.SearchStrategy[Any]) -> None:
    @settings(max_examples=20)
    @given(st.lists(st.none() | values))
    def check(rows: list[Any]) -> None:
        codec = check_round_trip(record_type, rows, None)
        assert codec is Codec.MESSAGE_PACK or record_type in (t.BIG_INT, t.STRING)

    check()


def test_empty_batches_come_back_empty() -> None:
    for record_type in (t.LONG, t.PICKLED, t.DataclassType(Point)):
        assert check_round_trip(record_type, [], None) in (Codec.MESSAGE_PACK, Codec.PICKLE)
        check_round_trip(record_type, [], [])


undeclared = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary() | st.dates()
    | st.builds(Row, st.integers(), st.text()) | st.builds(Loose, st.integers())
    | st.builds(Named, st.text(), st.none()),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner, max_size=3)
    | st.frozensets(st.integers(), max_size=3),
    max_leaves=6,
)  # fmt: skip


@settings(max_examples=60)
@given(st.lists(undeclared, max_size=5))
def test_undeclared_records_are_pickled(rows: list[Any]) -> None:
    assert check_round_trip(t.PICKLED, rows, None) is Codec.PICKLE


@pytest.mark.parametrize(
    ("record_type", "row"),
    [
        (t.LONG, 1 << 64),
        (t.LONG, -(1 << 63) - 1),
        (t.TupleType((t.STRING, t.BIG_INT)), ("a", 1 << 200)),
        (t.DataclassType(Point), Point(1 << 90, 0.5)),
        (t.LONG, np.int64(5)),
        (t.DOUBLE, np.float64(2.5)),
        (t.TupleType((t.LONG, t.DOUBLE)), (np.int32(1), np.float32(0.5))),
        (t.STRING, np.str_("numpy")),
        (t.STRING, "\ud800"),
    ],
    ids=repr,
)
def test_what_message_pack_has_no_form_for_is_pickled(record_type: t.TypeInformation, row: Any) -> None:
    assert check_round_trip(record_type, [row], [7]) is Codec.PICKLE


def test_the_largest_integers_of_message_pack_survive() -> None:
    assert check_round_trip(t.LONG, [2**64 - 1, -(2**63)], None) is Codec.MESSAGE_PACK


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([Keyword(name="a"), Keyword(name="b", count=3)], Codec.MESSAGE_PACK),
        ([Pixel((1, 2), Colour.RED, ["x"]), Pixel((3, 4))], Codec.MESSAGE_PACK),
        ([Tree(1, [Tree(2, []), Tree(3, [])])], Codec.MESSAGE_PACK),
        ([Base(1), Derived(1, 3)], Codec.PICKLE),
        ([Holder(Derived(1, 3)), Holder(Base(1), Derived(4, 5))], Codec.PICKLE),
        ([Loose(Point(1, 2.0)), Loose((1, 2)), Loose({1, 2}), Loose(datetime.date(2024, 1, 1))], Codec.PICKLE),
        ([Shouting("hey")], Codec.PICKLE),
    ],
    ids=["keyword-only", "nested", "recursive", "subclass", "nested subclass", "any", "post-init"],
)
def test_dataclasses_come_back_as_they_were(rows: list[Any], expected: Codec) -> None:
    assert check_round_trip(t.DataclassType(type(rows[0])), rows, None) is expected


def test_a_subclass_inside_of_its_own_base_keeps_its_class() -> None:
    check_round_trip(t.DataclassType(Twig), [Twig(1, [Leafy(2, [], "x"), Twig(3, [])])], None)


def test_a_subclass_inside_of_a_tuple_keeps_its_class() -> None:
    record_type = t.TupleType((t.STRING, t.DataclassType(Base)))
    check_round_trip(record_type, [("a", Derived(1, 2)), ("b", Base(3))], None)
    check_round_trip(t.ListType(t.DataclassType(Base)), [[Derived(1, 2)], [Base(3)]], None)


def test_a_dataclass_whose_annotations_cannot_be_resolved_is_pickled() -> None:
    @dataclass
    class Local:
        links: "list[Local]"  # noqa: UP037  # the point: a name that only this function knows

    codec, back = through(t.DataclassType(Local), RowBatch([Local([Local([])])]))
    assert codec is Codec.PICKLE
    assert back.rows == [Local([Local([])])]


def test_a_none_among_dataclasses_survives() -> None:
    check_round_trip(t.DataclassType(Point), [None, Point(1, 1.0)], None)


def test_rows_keep_names_that_were_not_declared() -> None:
    unnamed, named = t.RowType((t.LONG,)), t.RowType((t.LONG,), ("id",))
    assert check_round_trip(named, [Row(id=1)], None) is Codec.MESSAGE_PACK
    assert check_round_trip(unnamed, [Row(1)], None) is Codec.MESSAGE_PACK
    assert check_round_trip(named, [Row(other=1)], None) is Codec.PICKLE
    assert check_round_trip(unnamed, [Row(other=1)], None) is Codec.PICKLE


def test_rows_without_names_take_the_declared_ones() -> None:
    _, back = through(t.RowType((t.LONG, t.STRING), ("id", "name")), RowBatch([Row(1, "a")]))
    assert back.rows == [Row(id=1, name="a")]


def test_an_instant_keeps_its_moment_whatever_its_zone() -> None:
    moment = datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.timezone(datetime.timedelta(hours=5)))
    _, back = through(t.INSTANT, RowBatch([moment]))
    assert back.rows == [moment]


@pytest.mark.parametrize(
    ("record_type", "row", "declared", "found"),
    [
        (t.LONG, "text", "Long", "str"),
        (t.STRING, 5, "String", "int"),
        (t.TupleType((t.STRING, t.LONG)), ("a", "b"), "Tuple2<String, Long>", "str"),
        (t.TupleType((t.STRING, t.LONG)), ("a", 1, 2), "Tuple2<String, Long>", "got 3"),
        (t.RowType((t.LONG,), ("id",)), Row(id=1.5), "Row(id: Long)", "float"),
        (t.ListType(t.LONG), [1, None, "x"], "List<Long>", "str"),
        (t.MapType(t.STRING, t.LONG), {"a": "b"}, "Map<String, Long>", "str"),
        (t.DataclassType(Point), Point("x", 1.0), "Point(x: Long, y: Double)", "str"),  # type: ignore[arg-type]  # the point
    ],
    ids=lambda value: str(value) if isinstance(value, t.TypeInformation) else None,
)
def test_a_wrong_type_is_told_with_both_types(record_type: Any, row: Any, declared: str, found: str) -> None:
    with pytest.raises(RecordTypeError) as caught:
        through(record_type, RowBatch([row]))
    assert declared in str(caught.value)
    assert found in str(caught.value)
    assert "\n" not in str(caught.value)


SCRIPT = """
from dataclasses import dataclass

class Plain:
    def __init__(self, value):
        self.value = value

@dataclass
class Record:
    value: int

@dataclass
class Special(Record):
    extra: str = ""
"""


@pytest.fixture
def by_value(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A user's script as a worker has it: its classes say `__main__`, and no module holds them."""
    script = types.ModuleType("__main__")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "__main__", script)
        exec(SCRIPT, script.__dict__)
        pickled = to_bytes([script.Plain, script.Record, script.Special])
    empty = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", empty)
    worker = types.ModuleType("loaded")
    worker.Plain, worker.Record, worker.Special = pickle.loads(pickled)  # type: ignore[attr-defined]  # its content
    return worker


def test_classes_of_the_users_script_travel_by_value(by_value: types.ModuleType) -> None:
    _, back = through(t.PICKLED, RowBatch([by_value.Plain(3)]))
    assert type(back.rows[0]) is by_value.Plain
    assert back.rows[0].value == 3


def test_declared_dataclasses_of_the_users_script(by_value: types.ModuleType) -> None:
    record_type = t.DataclassType(by_value.Record)
    assert check_round_trip(record_type, [by_value.Record(1)], [5]) is Codec.MESSAGE_PACK
    assert check_round_trip(record_type, [by_value.Record(1), by_value.Special(2, "x")], None) is Codec.PICKLE
    assert check_round_trip(record_type, [by_value.Record(1 << 80)], None) is Codec.PICKLE


def test_functions_in_records_travel_by_value() -> None:
    _, back = through(t.PICKLED, RowBatch([lambda: 42]))
    assert back.rows[0]() == 42


def test_what_cannot_be_pickled_says_so() -> None:
    with pytest.raises(TypeError, match="pickle"):
        ElementCodec(t.PICKLED).encode(RowBatch([io.StringIO(), sys.stdout]))


def column_batch(rows: int) -> pa.RecordBatch:
    names = pa.array([None if n % 3 == 0 else f"name {n}" for n in range(rows)], pa.string())
    lists = pa.array([[n, None] for n in range(rows)], pa.list_(pa.int64()))
    return pa.RecordBatch.from_arrays([pa.array(range(rows), pa.int64()), names, lists], names=["id", "name", "list"])


@pytest.mark.parametrize("rows", [0, 1, 1000])
@pytest.mark.parametrize("timed", [False, True])
def test_columns_come_back(rows: int, timed: bool) -> None:
    timestamps = pa.array([n * 10 for n in range(rows)], pa.int64()) if timed else None
    codec, back = through(t.PICKLED, ColumnBatch(column_batch(rows), timestamps))
    assert codec is Codec.ARROW
    assert back.data.equals(column_batch(rows))
    assert back.timestamps is None if timestamps is None else back.timestamps.equals(timestamps)


def test_a_slice_of_columns_carries_only_its_own_rows() -> None:
    whole = ColumnBatch(column_batch(10_000))
    part = ColumnBatch(column_batch(10_000).slice(5000, 10), pa.array(range(10_000)).slice(5000, 10))
    codec, payload = ElementCodec(t.PICKLED).encode(part)
    assert len(payload) < len(ElementCodec(t.PICKLED).encode(whole)[1]) / 50
    back = ElementCodec(t.PICKLED).decode(codec, payload)
    assert isinstance(back, ColumnBatch)
    assert back.data.column("id").to_pylist() == list(range(5000, 5010))
    assert back.timestamps.to_pylist() == list(range(5000, 5010))


def test_dictionary_columns_and_metadata_survive() -> None:
    data = pa.RecordBatch.from_arrays([pa.array(["a", "b", "a"]).dictionary_encode()], names=["word"])
    data = data.replace_schema_metadata({"origin": "test"})
    _, back = through(t.PICKLED, ColumnBatch(data))
    assert back.data.equals(data, check_metadata=True)


def test_columns_without_any_column() -> None:
    data = pa.RecordBatch.from_struct_array(pa.array([{}] * 3, pa.struct([])))
    _, back = through(t.PICKLED, ColumnBatch(data))
    assert len(back) == 3


def test_the_end_of_input_comes_back() -> None:
    assert through(t.LONG, END_OF_INPUT) == (Codec.SIGNAL, END_OF_INPUT)


def test_a_channel_may_mix_codecs() -> None:
    writer, reader = ElementCodec(t.LONG), ElementCodec(t.LONG)
    elements: list[Any] = [
        RowBatch([1]),
        RowBatch([1 << 70]),
        ColumnBatch(column_batch(2)),
        RowBatch([2]),
        END_OF_INPUT,
    ]
    seen = [writer.encode(element)[0] for element in elements]
    assert seen == [Codec.MESSAGE_PACK, Codec.PICKLE, Codec.ARROW, Codec.MESSAGE_PACK, Codec.SIGNAL]
    assert [type(reader.decode(*writer.encode(e))) for e in elements] == [type(e) for e in elements]


def test_an_unknown_codec_is_an_error() -> None:
    with pytest.raises(ValueError, match="unknown codec 99"):
        ElementCodec(t.LONG).decode(99, b"")


@given(st.binary(max_size=2000))
def test_compression_comes_back(payload: bytes) -> None:
    assert decompress(compress(payload)) == payload


def test_cloudpickle_of_decoded_dataclasses_works() -> None:
    """What the client collects was decoded by MessagePack before."""
    _, back = through(t.DataclassType(Point), RowBatch([Point(1, 2.0)]))
    assert cloudpickle.loads(to_bytes(back.rows)) == [Point(1, 2.0)]


def test_decimals_keep_their_digits() -> None:
    _, back = through(t.BIG_DEC, RowBatch([decimal.Decimal("1.10"), decimal.Decimal("NaN")]))
    assert [str(d) for d in back.rows] == ["1.10", "NaN"]
