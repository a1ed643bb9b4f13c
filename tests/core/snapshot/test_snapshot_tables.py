"""State to columns and back, without loss, for every type and kind of state."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import pickle
import zoneinfo
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import cases

from millstream.core.keys.key_groups import key_group_of
from millstream.core.records import types as t
from millstream.core.records.conversion import ConversionError
from millstream.core.row import Row
from millstream.core.snapshot import (
    Pickled,
    SnapshotError,
    StateKind,
    StateTypes,
    TtlSettings,
    broadcast_table,
    element_table,
    list_table,
    map_table,
    read_rows,
    timer_table,
    value_table,
)
from millstream.core.snapshot.tables.columns import from_array, to_array
from millstream.core.snapshot.tables.instances import Held
from millstream.core.snapshot.tables.restore import check_keys, check_table, select_key_groups

ints = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


@dataclass
class Point:
    x: int
    name: str | None = None
    parts: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Item:
    name: str
    price: float


@dataclass(frozen=True)
class Dear(Item):
    tax: int = 0


class Pair(NamedTuple):
    a: int
    b: int


LEAVES: list[tuple[t.TypeInformation, st.SearchStrategy[Any]]] = [
    (t.LONG, ints),
    (t.INT, st.integers(-(2**31), 2**31 - 1)),
    (t.STRING, texts),
    (t.BOOLEAN, st.booleans()),
    (t.DOUBLE, st.floats(allow_nan=False)),
    (t.FLOAT, st.floats(allow_nan=False)),
    (t.BYTES, st.binary(max_size=5)),
    (t.BIG_INT, st.integers()),
    (t.BIG_DEC, st.decimals(allow_nan=False)),
    (t.DATE, st.dates()),
    (t.TIME, st.times().map(lambda at: at.replace(fold=0))),
    (t.TIMESTAMP, st.datetimes()),
    (t.INSTANT, st.datetimes(timezones=st.just(datetime.UTC))),
    (t.PICKLED, st.sets(st.integers(), max_size=1) | st.none()),
]


@st.composite
def typed(draw: st.DrawFn, depth: int = 2) -> tuple[t.TypeInformation, st.SearchStrategy[Any]]:
    """A type, and values of it."""
    kind = draw(st.sampled_from(["leaf"] * 2 + ["tuple", "row", "names", "list", "map", "point"] * bool(depth)))
    if kind == "leaf":
        type, values = draw(st.sampled_from(LEAVES))
        return type, values if type == t.PICKLED else st.none() | values
    if kind == "point":
        points = st.builds(Point, ints, st.none() | texts, st.lists(st.floats(allow_nan=False), max_size=2))
        return t.DataclassType(Point), st.none() | points
    inner = [draw(typed(depth - 1)) for _ in range(draw(st.integers(1, 3)))]
    fields, values = tuple(i[0] for i in inner), [i[1] for i in inner]
    if kind == "list":
        return t.ListType(fields[0]), st.none() | st.lists(values[0], max_size=3)
    if kind == "map":
        return t.MapType(t.STRING, fields[0]), st.none() | st.dictionaries(texts, values[0], max_size=3)
    rows = st.tuples(*values)
    if kind == "tuple":
        return t.TupleType(fields), st.none() | rows
    names = tuple(f"n{i}" for i in range(len(fields))) if kind == "names" else None
    kind = t.RowType(fields, names)
    return kind, st.none() | rows.map(lambda v: Row.of_names(kind.row_names, v))


def same(one: Any, other: Any) -> bool:
    return repr(one) == repr(other) or one == other  # sets have no order


@settings(max_examples=cases(300))
@given(st.data())
def test_values_of_any_type_are_restored(data: st.DataObject) -> None:
    type, values = data.draw(typed())
    given_values = data.draw(st.lists(values, max_size=5))
    array = to_array(given_values, type, "c")
    assert len(array) == len(given_values)
    back = from_array(array, type, "c", unpickle=True)
    assert same(back, given_values)
    if given_values:
        assert same(from_array(array.slice(1), type, "c", unpickle=True), given_values[1:])


ZONES = [
    None, datetime.UTC, datetime.timezone(datetime.timedelta(hours=2)), zoneinfo.ZoneInfo("Europe/Berlin"),
    datetime.timezone(datetime.timedelta(hours=-5, minutes=-30, seconds=-1, microseconds=-2)),
    zoneinfo.ZoneInfo("UTC"),
]  # fmt: skip
zoned = st.builds(
    lambda at, zone, fold: at.replace(tzinfo=zone, fold=fold), st.datetimes(), st.sampled_from(ZONES), st.integers(0, 1)
)


@given(st.lists(st.none() | zoned, max_size=5), st.sampled_from([t.TIMESTAMP, t.INSTANT]))
def test_each_time_keeps_its_zone(values: list[Any], type: t.TypeInformation) -> None:
    for held in Held:
        array = to_array(values, type, "c", held=held)
        assert repr(from_array(array, type, "c")) == repr(values)
        assert repr(from_array(array.slice(1), type, "c")) == repr(values[1:])
    nested = t.ListType(t.TupleType((type,)))
    lists = [[(at,)] for at in values]
    assert repr(from_array(to_array(lists, nested, "c"), nested, "c")) == repr(lists)


class Offset(datetime.tzinfo):
    def utcoffset(self, at: datetime.datetime | None) -> datetime.timedelta:
        return datetime.timedelta(hours=1)


@pytest.mark.parametrize(
    "zone", [Offset(), datetime.timezone(datetime.timedelta(hours=1), "home")], ids=["own", "named"]
)
def test_a_zone_without_a_name_is_refused(zone: datetime.tzinfo) -> None:
    with pytest.raises(ConversionError, match=r"row 1: .*its time zone, .*, has no name to be stored by"):
        to_array([None, datetime.datetime(2024, 1, 1, tzinfo=zone)], t.TIMESTAMP, "c")


def test_times_written_by_other_tools_are_read() -> None:
    moment = datetime.datetime(2024, 7, 1, 12)
    array = pa.array([moment.replace(tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))], pa.timestamp("ms", "Europe/Berlin"))
    assert from_array(array, t.TIMESTAMP, "c")[0].hour == 12
    assert from_array(pa.array([moment], pa.timestamp("s")), t.TIMESTAMP, "c") == [moment]


def test_all_digits_are_kept() -> None:
    third = decimal.Decimal(1) / decimal.Decimal(3)
    values = [third, decimal.Decimal("1.10"), decimal.Decimal("NaN"), decimal.Decimal("1E+50")]
    assert list(map(str, from_array(to_array(values, t.BIG_DEC, "c"), t.BIG_DEC, "c"))) == list(map(str, values))
    assert from_array(to_array([2**100], t.BIG_INT, "c"), t.BIG_INT, "c") == [2**100]


def test_keys_of_other_classes_that_are_equal_are_kept() -> None:
    for values, type in (
        ([np.int64(5), 6.0, True, Level.LOW, None], t.LONG), ([np.float64("1.5"), 2], t.DOUBLE), ([1], t.BOOLEAN),
        ([5.0], t.BIG_INT), ([7, 1.5], t.BIG_DEC), ([Text("a"), Name.A], t.STRING),
        ([Named(1, "x")], t.TupleType((t.LONG, t.STRING))),
    ):  # fmt: skip
        assert from_array(to_array(values, type, "c", held=Held.AS_KEYS), type, "c") == values
    nan = to_array([np.float64("nan")], t.DOUBLE, "c", held=Held.AS_KEYS)
    assert str(from_array(nan, t.DOUBLE, "c")) == "[nan]"
    for value, type in ((1.5, t.LONG), (b"x", t.STRING), ("x", t.BYTES), (2, t.BOOLEAN)):
        with pytest.raises(ConversionError, match="row 0"):
            to_array([value], type, "c", held=Held.AS_KEYS)


class Named(NamedTuple):
    a: int
    b: str


class Level(enum.IntEnum):
    LOW = 1


class Name(enum.StrEnum):
    A = "a"


class Text(str):
    def __repr__(self) -> str:
        return f"Text({str(self)!r})"


anything = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), texts, st.binary(max_size=3), zoned, st.dates(),
    st.times(timezones=st.none() | st.just(datetime.UTC)), st.decimals(),
    st.lists(ints, max_size=2), st.tuples(ints, texts), st.dictionaries(texts, ints, max_size=2),
    st.sampled_from([
        Level.LOW, Name.A, Text("x"), Named(1, "x"), np.int64(3), np.float64(0.5), np.str_("x"), np.bool_(True), -0.0,
        OrderedDict(a=1), defaultdict(int, a=1), Item("x", 1.0), Dear("x", 1.0), Row(1), Row(n0=1), bytearray(b"x"),
        [(1, 2)], ((1,),), {1}, 1 << 70, 1 << 60, (1 << 60) + 1, 2.0,
    ]),
)  # fmt: skip


def described(value: Any) -> str:
    """A value with its classes, with one exception: an integer in a column of floats becomes a float."""
    if isinstance(value, dict):
        return f"{type(value)}{[(described(k), described(v)) for k, v in value.items()]}"
    if isinstance(value, list | tuple | Row):
        names = value.get_fields_names() if isinstance(value, Row) else None
        return f"{type(value)}{names}{[described(item) for item in value]}"
    if isinstance(value, set | frozenset):
        return f"{type(value)}{sorted(map(described, value))}"
    if dataclasses.is_dataclass(value):
        return f"{type(value)}{[described(getattr(value, f.name)) for f in dataclasses.fields(value)]}"
    return f"{type(value)}{value!r}"


def as_declared(value: Any, kind: t.TypeInformation) -> Any:
    """The restored value of one that is stored exactly."""
    if value is None or isinstance(kind, t.PickledType):
        return value
    if isinstance(kind, t.BasicType):
        return float(value) if kind.python_type is float and type(value) is int else value
    if isinstance(kind, t.ListType):
        return [as_declared(item, kind.element) for item in value]
    if isinstance(kind, t.MapType):
        return {as_declared(k, kind.key): as_declared(v, kind.value) for k, v in value.items()}
    if isinstance(kind, t.DataclassType):
        inner = zip(dataclasses.fields(kind.cls), kind.field_types(), strict=True)
        return kind.cls(**{f.name: as_declared(getattr(value, f.name), k) for f, k in inner})
    assert isinstance(kind, t.TupleType | t.RowType)
    items = [as_declared(item, inner) for item, inner in zip(value, kind.fields, strict=True)]
    return tuple(items) if isinstance(kind, t.TupleType) else Row.of_names(kind.row_names, items)


@settings(max_examples=cases(500))
@given(st.data())
def test_any_value_is_stored_exactly_or_refused(data: st.DataObject) -> None:
    kind, values = data.draw(typed())
    for around, put in (
        (kind, lambda v: v),
        (t.TupleType((t.LONG, kind)), lambda v: (1, v)),
        (t.ListType(kind), lambda v: [v]),
        (t.MapType(t.STRING, kind), lambda v: {"a": v}),
    ):
        given_values = [put(v) for v in data.draw(st.lists(values | anything, min_size=1, max_size=3))]
        try:
            array = to_array(given_values, around, "c")
        except ConversionError as error:
            alone = [given_values[n] for n in (error.number,) if n is not None]
            with pytest.raises(ConversionError):  # whatever else is in the column
                to_array(alone, around, "c")
            continue
        back = from_array(array, around, "c", unpickle=True)
        assert list(map(described, back)) == [described(as_declared(v, around)) for v in given_values]


@pytest.mark.parametrize(
    ("values", "type", "message"),
    [
        ([1, "x"], t.LONG, "column 'c', row 1: 'x' is not a Long"),
        ([1, 2**70], t.LONG, "row 1"),
        ([1.5], t.LONG, "row 0"),
        ([(1, 2), (1,)], t.TupleType((t.LONG, t.LONG)), "row 1"),
        ([[1], 5], t.ListType(t.LONG), "row 1: 5 is not a List<Long>"),
        ([["a"], "ab"], t.ListType(t.STRING), "row 1: 'ab' is not a List<String>"),
        ([[1], {1: 2}], t.ListType(t.LONG), "row 1: {1: 2} is not a List<Long>"),
        ([{"a": 1}, {"a": "x"}], t.MapType(t.STRING, t.LONG), "row 1"),
        (["\udc80"], t.STRING, "row 0"),
        (["1.2.3"], t.BIG_DEC, "row 0"),
        ([1, 1.5], t.BIG_INT, "row 1: 1.5 is not a BigInteger .it is a float"),
        ([b"x"], t.STRING, "row 0"),
        (["x"], t.BYTES, "row 0: 'x' is not a Bytes"),
        ([decimal.Decimal("0.1")], t.DOUBLE, "row 0"),
        ([2**53 + 1], t.DOUBLE, "row 0"),
        ([datetime.datetime(2024, 1, 1, 12)], t.DATE, "row 0"),
        ([datetime.time(1, tzinfo=datetime.UTC)], t.TIME, "row 0"),
        ([1, 2], t.BOOLEAN, "row"),
    ],
)
def test_a_value_that_is_not_of_its_type_is_named(values: list[Any], type: t.TypeInformation, message: str) -> None:
    with pytest.raises(ConversionError, match=message):
        to_array(values, type, "c")


@dataclass
class Session:
    user: str
    token: str = field(init=False)
    hits: int = 0

    def __post_init__(self) -> None:
        self.token = f"fresh-{self.user}"
        self.cached = len(self.user)
        self.hits += 1


@dataclass(frozen=True, kw_only=True)
class Frozen:
    a: int
    b: dataclasses.InitVar[int]


def test_fields_are_restored_as_they_were_stored() -> None:
    session = Session("ann")
    session.token, session.hits = "stored", 5
    type = t.DataclassType(Session)
    (back,) = from_array(to_array([session], type, "c"), type, "c")
    assert (back.user, back.token, back.hits, back.cached) == ("ann", "stored", 5, 3)
    frozen = t.DataclassType(Frozen)
    assert from_array(to_array([Frozen(a=1, b=2)], frozen, "c"), frozen, "c")[0].a == 1


# Tables

WINDOW = t.RowType((t.LONG, t.LONG), ("start", "end"))
KEYS: list[tuple[t.TypeInformation, st.SearchStrategy[Any]]] = [
    (t.LONG, ints), (t.STRING, texts), (t.TupleType((t.LONG, t.INT)), st.tuples(ints, st.integers(0, 9))),
    (t.PICKLED, st.integers() | st.text(max_size=3)), (t.TupleType((t.STRING, t.LONG)), st.tuples(texts, ints)),
    (t.BIG_DEC, st.decimals(allow_nan=False, allow_infinity=False)), (t.BOOLEAN, st.booleans()),
    (t.TIMESTAMP, st.datetimes()), (t.BYTES, st.binary(max_size=4)), (t.LONG, st.none() | ints),
]  # fmt: skip


@given(st.data(), st.sampled_from(KEYS), st.sampled_from([1, 7, 128, 32768]))
def test_value_state_is_restored_by_key_group(
    data: st.DataObject, keyed: tuple[t.TypeInformation, st.SearchStrategy[Any]], max_parallelism: int
) -> None:
    entries = data.draw(st.dictionaries(keyed[1], st.tuples(ints, texts), max_size=20))
    types = StateTypes(keyed[0], t.TupleType((t.LONG, t.STRING)))
    state = types.snapshot("s", StateKind.VALUE)
    table = value_table(entries.keys(), entries.values(), types, max_parallelism)
    groups = table["key_group"].to_pylist()
    assert groups == sorted(groups)
    table = check_table(table, state, "f")
    check_keys(table, state, max_parallelism, "f")
    rows = read_rows(table, state, types, unpickle=True)
    assert dict(zip(rows.keys, rows.content, strict=True)) == entries
    assert groups == [key_group_of(key, max_parallelism) for key in rows.keys]
    half = max_parallelism // 2
    parts = [read_rows(select_key_groups(table, [r], "f"), state, types, unpickle=True)
             for r in (range(half), range(half, max_parallelism))]  # fmt: skip
    assert parts[0].keys + parts[1].keys == rows.keys
    assert all(g < half for g in parts[0].key_groups)


@given(st.dictionaries(st.tuples(ints, st.tuples(ints, ints)), st.lists(texts, min_size=1, max_size=4), max_size=8))
def test_list_state_with_namespaces_is_restored(entries: dict[Any, list[str]]) -> None:
    types = StateTypes(t.LONG, t.STRING, namespace=WINDOW)
    state = types.snapshot("s", StateKind.LIST)
    windows = [Row(start=w[0], end=w[1]) for _, w in entries]
    table = list_table([k for k, _ in entries], entries.values(), types, 128, namespaces=windows)
    assert table.column_names == ["key_group", "key", "namespace", "element", "position"]
    for arranged in (table, table.take(pa.array(range(len(table))[::-1], pa.int64()))):
        back = read_rows(check_table(arranged, state, "f"), state, types).lists()
        assert {(key, tuple(window)): items for (key, window), items in back.items()} == entries


@given(st.dictionaries(ints, st.dictionaries(texts, st.none() | ints, min_size=1, max_size=4), max_size=8))
def test_map_state_with_a_time_to_live_is_restored(entries: dict[int, dict[str, int | None]]) -> None:
    types = StateTypes(t.LONG, t.LONG, map_key=t.STRING)
    state = msgspec.structs.replace(types.snapshot("s", StateKind.MAP), ttl=TtlSettings(1000))
    expiries = [[5 if v is None else None for v in m.values()] for m in entries.values()]
    table = map_table(entries.keys(), entries.values(), types, 128, expires_at=expiries)
    assert table.column_names == ["key_group", "key", "map_key", "map_value", "expires_at"]
    rows = read_rows(check_table(table, state, "f"), state, types)
    back: dict[int, dict[str, int | None]] = {}
    for key, map_key, value in zip(rows.keys, rows.detail, rows.content, strict=True):
        back.setdefault(key, {})[map_key] = value
    assert back == entries
    assert rows.expires_at == [5 if value is None else None for value in rows.content]


def test_list_state_with_a_time_to_live_is_restored() -> None:
    types = StateTypes(t.LONG, t.STRING)
    state = msgspec.structs.replace(types.snapshot("s", StateKind.LIST), ttl=TtlSettings(1000))
    table = list_table([1, 2], [["a", "b"], ["c"]], types, 128, expires_at=[[1, None], [3]])
    for arranged in (table, table.take([2, 1, 0])):
        rows = read_rows(check_table(arranged, state, "f"), state, types)
        assert rows.lists() == {(1, None): ["a", "b"], (2, None): ["c"]}
        assert dict(zip(rows.content, rows.expires_at or [], strict=True)) == {"a": 1, "b": None, "c": 3}
    without = types.snapshot("s", StateKind.LIST)
    with pytest.raises(SnapshotError, match="has the columns"):
        check_table(table, without, "f")


def test_timers_operator_and_broadcast_state() -> None:
    types = StateTypes(t.STRING)
    state = types.snapshot("timers", StateKind.TIMERS)
    table = timer_table(["a", "b"], [-1, 2**62], ["event", "processing"], types, 128)
    rows = read_rows(check_table(table, state, "f"), state)
    timers = sorted(zip(rows.keys, rows.content, rows.detail, strict=True))
    assert timers == [("a", -1, "event"), ("b", 2**62, "processing")]

    types = StateTypes(value=t.PICKLED)
    state = types.snapshot("splits", StateKind.SPLITS)
    rows = read_rows(check_table(element_table([{1}, None, "x"], types), state, "f"), state, unpickle=True)
    assert rows.content == [{1}, None, "x"]
    assert rows.detail == [0, 1, 2]

    types = StateTypes(value=t.LONG, map_key=t.STRING)
    state = types.snapshot("rules", StateKind.BROADCAST)
    rows = read_rows(check_table(broadcast_table({"a": 1, "b": None}, types), state, "f"), state)
    assert rows.detail == ["a", "b"]
    assert rows.content == [1, None]


def test_arrow_columns_are_accepted_unchanged() -> None:
    types = StateTypes(t.LONG, t.DOUBLE)
    table = value_table(pa.array([3, 1, 2]), pa.chunked_array([[1.0], [2.0, 3.0]]), types, 128)
    rows = read_rows(table, types.snapshot("s", StateKind.VALUE))
    assert dict(zip(rows.keys, rows.content, strict=True)) == {3: 1.0, 1: 2.0, 2: 3.0}
    with pytest.raises(SnapshotError, match=r"^key: holds string, and must hold int64"):
        value_table(pa.array(["a"]), pa.array([1.0]), types, 128)


@pytest.mark.parametrize(
    ("kind", "key", "message"),
    [
        (t.RowType((t.LONG, t.LONG)), (1, 2), "is a tuple, so as a key it would not be found"),
        (t.TupleType((t.LONG, t.LONG)), Row(1, 2), "is a Row, so as a key it would not be found"),
        (t.RowType((t.LONG,), ("a",)), Row(1), "its fields have other names, so as a key it would not be found"),
        (t.TupleType((t.LONG, t.RowType((t.LONG,)))), (1, (2,)), "is a tuple, so as a key"),
        (t.DataclassType(Item), Dear("x", 1.0), "is a Dear, so as a key"),
    ],
)
def test_keys_that_would_not_be_found_again_are_refused(kind: t.TypeInformation, key: Any, message: str) -> None:
    with pytest.raises(ConversionError, match=f"column 'key.*', row 0: .*{message}"):
        value_table([key], [1], StateTypes(kind, t.LONG), 16)
    with pytest.raises(ConversionError, match=f"column 'map_key.*', row 1: .*{message}.*, of the key 1"):
        map_table([1], [{None: 0, key: 1}], StateTypes(t.LONG, t.LONG, map_key=kind), 16)
    with pytest.raises(ConversionError, match=f"column 'value{{key}}.*', row 0: .*{message}.*, of the key 1"):
        value_table([1], [{key: 1}], StateTypes(t.LONG, t.MapType(kind, t.LONG)), 16)


def test_named_tuples_are_found_as_equal_tuples() -> None:
    types = StateTypes(t.TupleType((t.LONG, t.LONG)), t.LONG)
    rows = read_rows(value_table([Pair(1, 2)], [1], types, 16), types.snapshot("s", StateKind.VALUE), types)
    assert rows.keys == [Pair(1, 2)]


def test_a_subclass_that_would_lose_its_fields_is_refused() -> None:
    with pytest.raises(ConversionError, match=r"column 'value', row 1: .* is a Dear, so it would lose its .*key 2"):
        value_table([1, 2], [Item("x", 1.0), Dear("y", 2.0, 3)], StateTypes(t.LONG, t.DataclassType(Item)), 16)
    with pytest.raises(ConversionError, match="it would lose its class"):
        value_table([1], [[Dear("y", 2.0, 3)]], StateTypes(t.LONG, t.ListType(t.DataclassType(Item))), 16)


def test_key_groups_can_be_passed() -> None:
    types = StateTypes(t.LONG, t.LONG)
    table = value_table([1, 2, 3], [10, 20, 30], types, 128, key_groups=[9, 4, 9])
    assert table.to_pydict() == {"key_group": [4, 9, 9], "key": [2, 1, 3], "value": [20, 10, 30]}


class Bomb:
    def __reduce__(self) -> Any:
        return (pytest.fail, ("code of a snapshot was run",))


def test_reading_loads_no_pickle_unless_requested() -> None:
    types = StateTypes(t.LONG, t.TupleType((t.LONG, t.PICKLED)))
    state = types.snapshot("s", StateKind.VALUE)
    assert state.encoding is not None
    bomb = pickle.dumps(Bomb(), 5)
    table = check_table(value_table([1], [(7, Bomb())], types, 128), state, "f")
    assert read_rows(table, state).content == [(7, Pickled(bomb))]
    with pytest.raises(pytest.fail.Exception):
        read_rows(table, state, unpickle=True)


def test_a_damaged_pickle_is_named() -> None:
    types = StateTypes(t.LONG, t.PICKLED)
    table = pa.table({"key_group": pa.array([0], pa.int32()), "key": [1], "value": pa.array([b"junk"])})
    with pytest.raises(SnapshotError, match=r"^f: column value: holds a value"):
        read_rows(table, types.snapshot("s", StateKind.VALUE), where="f", unpickle=True)


@dataclass
class Old:
    id: int
    name: str
    gone: float


@dataclass
class New:
    id: int
    name: str
    level: int = 3
    tags: list[str] = field(default_factory=list)


def test_types_evolve_on_read() -> None:
    stored = StateTypes(t.LONG, t.ListType(t.TupleType((t.LONG, t.DataclassType(Old)))))
    state = stored.snapshot("s", StateKind.VALUE)
    table = check_table(value_table([1, 2], [[(5, Old(1, "a", 0.5)), (6, None)], None], stored, 128), state, "f")
    declared = StateTypes(t.LONG, t.ListType(t.TupleType((t.LONG, t.DataclassType(New)))))
    rows = read_rows(table, state, declared)
    assert dict(zip(rows.keys, rows.content, strict=True)) == {1: [(5, New(1, "a", 3, [])), (6, None)], 2: None}
    one, other = (read_rows(value_table([1, 2], [Old(1, "a", 0)] * 2, StateTypes(t.LONG, t.DataclassType(Old)), 1),
                            StateTypes(t.LONG, t.DataclassType(Old)).snapshot("s", StateKind.VALUE),
                            StateTypes(t.LONG, t.DataclassType(New))).content)  # fmt: skip
    assert one.tags is not other.tags
    plain = read_rows(table, state)
    assert plain.content[plain.keys.index(1)][0][1] == Row(id=1, name="a", gone=0.5)


def keyed_table(**columns: Any) -> pa.Table:
    base: dict[str, Any] = {"key_group": pa.array([0, 1], pa.int32()), "key": pa.array([1, 2]), "value": ["a", "b"]}
    return pa.table({name: c for name, c in {**base, **columns}.items() if c is not None})


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"value": None}, "has the columns key_group, key, and must have key_group, key, value"),
        ({"extra": [1, 2]}, "has the columns"),
        ({"key": ["x", "y"]}, "column key: holds string, and must hold int64 for Long"),
        ({"key": [1.5, 2.0]}, "column key: holds double"),
        ({"value": [1, 2]}, "column value: holds int64, and must hold string"),
        ({"key_group": pa.array([None, 1], pa.int32())}, "column key_group holds nulls"),
        ({"key_group": pa.array([2**40, 1])}, "column key_group"),
    ],
)
def test_tables_of_other_tools_are_validated(columns: dict[str, Any], message: str) -> None:
    state = StateTypes(t.LONG, t.STRING).snapshot("s", StateKind.VALUE)
    with pytest.raises(SnapshotError, match=f"^f: {message}"):
        check_table(keyed_table(**columns), state, "f")


def test_column_widths_of_other_tools_are_accepted() -> None:
    state = StateTypes(t.LONG, t.STRING).snapshot("s", StateKind.VALUE)
    table = keyed_table(
        key_group=[0, 1], key=pa.array([1.0, 2.0]), value=pa.array(["a", "b"], pa.large_string()).dictionary_encode()
    )
    assert check_table(table, state, "f").schema == keyed_table().schema


def test_a_key_outside_of_its_key_group_is_refused() -> None:
    types = StateTypes(t.STRING, t.LONG)
    state = types.snapshot("s", StateKind.VALUE)
    table = value_table(["a", "b"], [1, 2], types, 128, key_groups=[0, 1])
    with pytest.raises(SnapshotError, match=r"row 0 has key group 0, and its key 'a' belongs to \d+ of 128"):
        check_keys(table, state, 128, "f")
    for kind in (StateKind.VALUE, StateKind.AGGREGATING):
        twice = value_table(["a", "a"], [1, 2], types, 128)
        with pytest.raises(SnapshotError, match="has more than one row for 'a'"):
            check_keys(twice, types.snapshot("s", kind), 128, "f")
    with pytest.raises(SnapshotError, match="not sorted"):
        select_key_groups(table.take([1, 0]), [range(2)], "f")
