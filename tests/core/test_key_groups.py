"""Key hashes: stable forever, equal for equal keys, for rows and columns; key groups cover all subtasks."""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import pickle
import uuid
import zoneinfo
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millstream.core.keys.key_groups import (
    UnhashableKeyError,
    combine_hashes,
    default_max_parallelism,
    key_group_of,
    key_group_range,
    stable_hash,
    stable_hash_column,
    subtask_of,
)
from millstream.core.keys.key_values import NOT_A_NUMBER, without_nan
from millstream.core.records import types as t
from millstream.core.records.conversion import record_batch_to_rows
from millstream.core.row import Row

GOLDEN: list[tuple[Any, int]] = [
    (0, 0x0000000000000000),
    (1, 0x5692161D100B05E5),
    (-1, 0xB4D055FCF2CBBD7B),
    (42, 0xA759EA27D4727622),
    (2**63 - 1, 0x5A682AFE7965DEBD),
    (-(2**63), 0x25C26EA579CEA98A),
    (2**63, 0x4D1323942A44B02D),
    (10**30, 0xA5529CECAE9F2256),
    ("", 0xE94C59AD4451B240),
    ("a", 0x47AFDBCAA749E290),
    ("Millstream", 0x97C041B0E65A9300),
    ("späß", 0xCD3508E5F9CF5131),
    (b"", 0x952F14F1E8DDC491),
    (b"a", 0xA50B3392CDD925D8),
    (0.5, 0x1DE188CEAAEED69D),
    (-1.25, 0x8EE30B3D9F41C203),
    (float("inf"), 0x4715F6AC1990429F),
    (float("nan"), 0x71DE6B535BC739E8),
    (None, 0x9E3779B97F4A7C15),
    ((), 0x0000000000000000),
    ((1, "a"), 0x07A4BC41CB4866AA),
    (("a", (2, None)), 0x3DC33EE49BD86649),
    (Row(1, "a"), 0x07A4BC41CB4866AA),
    (datetime.datetime(2024, 2, 29, 12, 30, 15, 123456), 0xF5A0155A580077B2),
    (datetime.date(1969, 7, 20), 0xFB4C5D0CBD6A7E86),
    (datetime.time(23, 59, 59, 1), 0xD4F2883A8B1583BC),
    (datetime.timedelta(days=-1, microseconds=1), 0x56D1692B9F1AF3CD),
    (decimal.Decimal("1.1"), 0xDC91E08F8B21A2C9),
    (uuid.UUID(int=7), 0x132229CA6F77100F),
]


class Colour(enum.Enum):
    RED = "red"


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Number(enum.IntEnum):
    ONE = 1


class Pair(NamedTuple):
    first: int
    second: str


@dataclass(frozen=True)
class Point:
    x: int
    y: str


@pytest.mark.parametrize(("key", "expected"), GOLDEN, ids=[repr(key) for key, _ in GOLDEN])
def test_a_hash_never_changes(key: Any, expected: int) -> None:
    assert stable_hash(key) == expected


@pytest.mark.parametrize(
    "keys",
    [
        (float("inf"), decimal.Decimal("Infinity")),
        (float("nan"), -float("nan"), decimal.Decimal("NaN"), np.float64("nan")),
        (2.0**70, 2**70, decimal.Decimal(2**70)),
        (decimal.Decimal("1.1"), decimal.Decimal("1.10")),
        ("red", Colour.RED),
        (1, Access.READ),
        (b"ab", bytearray(b"ab")),
        ((1, "a"), Row(1, "a"), Row(x=1, y="a"), Point(1, "a"), [True, "a"]),
    ],
    ids=lambda keys: repr(keys[0]),
)
def test_keys_with_equal_contents_have_equal_hashes_even_if_a_dictionary_distinguishes_them(
    keys: tuple[Any, ...],
) -> None:
    assert len({stable_hash(key) for key in keys}) == 1


numbers = st.integers() | st.floats() | st.booleans() | st.decimals(allow_nan=False) | st.integers(-3, 3)


@given(numbers, numbers)
@example(decimal.Decimal("0.1"), 0.1)
def test_numbers_that_are_equal_are_one_key(left: Any, right: Any) -> None:
    if left == right:
        assert stable_hash(left) == stable_hash(right)


@given(st.floats(allow_nan=False))
def test_a_decimal_made_from_a_float_is_the_same_key(number: float) -> None:
    assert stable_hash(decimal.Decimal(number)) == stable_hash(number)


def test_the_decimal_context_does_not_matter() -> None:
    key = decimal.Decimal("1." + "1234567890" * 4)
    expected = stable_hash(key)
    with decimal.localcontext(prec=5):
        assert stable_hash(key) == expected


def test_different_shapes_of_keys_are_distinguished() -> None:
    keys = ["1", 1, b"1", None, (), (1,), ((1,),), (1, None), (None, 1), "", b"", 1.5, uuid.UUID(int=1)]
    assert len({stable_hash(key) for key in keys}) == len(keys)


def test_values_are_distributed_over_the_key_groups() -> None:
    for keys in (range(10_000), [f"user-{n}" for n in range(10_000)]):
        counts = np.bincount([key_group_of(key, 128) for key in keys], minlength=128)
        assert counts.min() > 30
        assert counts.max() < 150


def same_as_rows(column: pa.Array) -> None:
    assert stable_hash_column(column).tolist() == [stable_hash(value) for value in column.to_pylist()]


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.duration("ns"), pa.time64("ns")])
def test_nanoseconds_hash_like_the_rows_that_they_become(kind: pa.DataType) -> None:
    counts = [1, 999, 1000, 1_704_070_923_456_789_123] if kind != pa.time64("ns") else [1, 999, 1000]
    if kind != pa.time64("ns"):
        counts += [-1, -999, -1001, -1_704_070_923_456_789_123]
    column = pa.array(counts, pa.int64()).cast(kind)
    rows = record_batch_to_rows(pa.record_batch([column], names=["f0"]), t.PICKLED)
    assert stable_hash_column(column).tolist() == [stable_hash(row[0]) for row in rows]


def lists(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.none() | values, max_size=20)


def of(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


COLUMNS: list[tuple[Callable[[], pa.DataType], st.SearchStrategy[list[Any]]]] = [
    (pa.int8, lists(of(8))),
    (pa.int16, lists(of(16))),
    (pa.int32, lists(of(32))),
    (pa.int64, lists(of(64))),
    (pa.int64, st.lists(of(64), min_size=1)),
    (pa.uint8, lists(st.integers(0, 255))),
    (pa.uint32, st.lists(st.integers(0, 2**32 - 1))),
    (pa.uint64, lists(st.integers(0, 2**64 - 1))),
    (pa.float64, lists(st.floats())),
    (pa.float32, lists(st.floats(width=32))),
    (pa.string, lists(st.text())),
    (pa.large_string, lists(st.text())),
    (pa.binary, lists(st.binary())),
    (pa.bool_, lists(st.booleans())),
    (pa.date32, lists(st.dates())),
    (lambda: pa.timestamp("us"), lists(st.datetimes())),
    (lambda: pa.timestamp("us", "UTC"), lists(st.datetimes(timezones=st.just(datetime.UTC)))),
    (lambda: pa.time64("us"), lists(st.times())),
    (lambda: pa.duration("us"), lists(st.timedeltas(datetime.timedelta(-9999), datetime.timedelta(9999)))),
    (lambda: pa.decimal128(20, 3), lists(st.decimals(-(10**6), 10**6, places=3))),
    (pa.null, lists(st.none())),
]


@pytest.mark.parametrize(("kind", "values"), COLUMNS, ids=[str(kind()) for kind, _ in COLUMNS])
def test_a_column_hashes_like_its_values(kind: Callable[[], pa.DataType], values: st.SearchStrategy[list[Any]]) -> None:
    @given(values)
    def check(drawn: list[Any]) -> None:
        same_as_rows(pa.array(drawn, kind()))

    check()


@given(lists(st.sampled_from(["a", "b", "ä"])))
def test_dictionary_columns_hash_as_their_values(values: list[str | None]) -> None:
    same_as_rows(pa.array(values, pa.string()).dictionary_encode())


@given(st.lists(st.tuples(of(64), st.none() | st.text(), st.floats() | st.none()), min_size=1, max_size=20))
def test_composite_columns_hash_as_tuples(rows: list[tuple[Any, ...]]) -> None:
    columns = [
        pa.array(c, t) for c, t in zip(zip(*rows, strict=True), (pa.int64(), pa.string(), pa.float64()), strict=True)
    ]
    expected = [stable_hash(row) for row in rows]
    assert combine_hashes([stable_hash_column(c) for c in columns]).tolist() == expected
    struct = pa.StructArray.from_arrays(columns, ["a", "b", "c"])
    assert stable_hash_column(struct).tolist() == expected


def test_a_null_struct_is_the_null_key() -> None:
    struct = pa.array([{"a": 1, "b": "x"}, None], pa.struct([("a", pa.int64()), ("b", pa.string())]))
    assert stable_hash_column(struct).tolist() == [stable_hash((1, "x")), stable_hash(None)]


def test_a_slice_of_a_column_hashes_as_its_own_values() -> None:
    for column in (pa.array(range(10)), pa.array([None, "a", "b", None, "c"] * 2), pa.array([0.5, 1.0, 2.5, None] * 3)):
        same_as_rows(column.slice(3, 5))


@given(st.integers(1, 2000), st.data())
def test_ranges_partition_all_key_groups(max_parallelism: int, data: st.DataObject) -> None:
    parallelism = data.draw(st.integers(1, max_parallelism))
    covered: list[int] = []
    for subtask in range(parallelism):
        groups = key_group_range(subtask, max_parallelism, parallelism)
        assert len(groups) in (max_parallelism // parallelism, -(-max_parallelism // parallelism))
        assert all(subtask_of(group, max_parallelism, parallelism) == subtask for group in groups)
        covered += groups
    assert covered == list(range(max_parallelism))


class Shouted(str):
    def __str__(self) -> str:
        return self.upper()

    def encode(self, *_: Any) -> bytes:
        return b"?"


class Folded(str):
    """Equal to strings that differ in case."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self.lower() == other.lower()

    def __hash__(self) -> int:
        return hash(self.lower())


class Odd(int):
    def __str__(self) -> str:
        return "odd"

    def __int__(self) -> int:
        return 7

    def __index__(self) -> int:
        return 7


class Half(float):
    def __float__(self) -> float:
        return 7.0

    def is_integer(self) -> bool:
        return True


class Backwards(tuple[Any, ...]):
    def __iter__(self) -> Any:
        return iter(self[::-1])

    def __len__(self) -> int:
        return 0


class Mixed(str, enum.Enum):  # noqa: UP042  # as it was before there was StrEnum
    RED = "red"
    BLUE = "BLUE"

    def __new__(cls, text: str) -> Mixed:
        member = str.__new__(cls, text.lower())
        member._value_ = text
        return member


class IntAccess(enum.IntFlag):
    READ = 1


@dataclass(frozen=True)
class Tagged:
    number: Any
    tag: Any = field(default=0, compare=False)


@dataclass(frozen=True)
class TaggedMore(Tagged):
    more: Any = 0


@dataclass(frozen=True, eq=False)
class TaggedAlike(Tagged):
    """Compares as its base does: by the base's fields."""

    other: Any = 0


class PlainSubclass(Tagged):
    """Compares as its base does."""


@dataclass(frozen=True, slots=True)
class Slotted:
    number: Any
    tag: Any = field(default=0, compare=False)


@dataclass(frozen=True)
class OwnEquality:
    number: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OwnEquality) and self.number % 2 == other.number % 2

    def __hash__(self) -> int:
        return self.number % 2


@dataclass(frozen=True, eq=False)
class NoEquality:
    number: int


class OwnObject:
    def __eq__(self, other: object) -> bool:
        return isinstance(other, OwnObject)

    def __hash__(self) -> int:
        return 1


class OwnEnum(enum.Enum):
    A = 1
    B = 2

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OwnEnum)

    def __hash__(self) -> int:
        return 1


class NoOffset(datetime.tzinfo):
    def utcoffset(self, moment: datetime.datetime | None) -> None:
        return None

    def dst(self, moment: datetime.datetime | None) -> None:
        return None

    def tzname(self, moment: datetime.datetime | None) -> str:
        return "none"


LATER = datetime.timezone(datetime.timedelta(hours=2))
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
TWICE = datetime.datetime(2026, 10, 25, 2, 30)  # ambiguous in Berlin
NOON = datetime.datetime(2026, 7, 1, 12)
EQUAL: list[tuple[Any, ...]] = [
    (1, 1.0, True, decimal.Decimal(1), Number.ONE, np.int8(1), np.uint64(1), np.float32(1), np.bool_(True), Odd(1),
     IntAccess.READ, Half(1)),
    (0, 0.0, -0.0, False, decimal.Decimal("-0.0"), np.float16(-0.0), Odd(0)),
    (0.5, Half(0.5), decimal.Decimal("0.50"), np.float32(0.5)),
    ("red", Shouted("red"), np.str_("red"), Mixed.RED),
    ("blue", Mixed.BLUE),
    (b"ab", np.bytes_(b"ab"), memoryview(b"ab")),
    ((1, "a"), Pair(1, "a"), Backwards((1, "a")), (True, Shouted("a")), Pair(1.0, np.str_("a"))),  # type: ignore[arg-type]
    (Tagged(1), Tagged(1.0), Tagged(True, "other"), Tagged(1, [])),
    (TaggedMore(1, 2, 3), TaggedMore(1, 5, 3)),
    (TaggedAlike(1, 2, 3), TaggedAlike(1, 3, 4)),
    (PlainSubclass(1, 2), PlainSubclass(1, 3)),
    (Slotted(1), Slotted(1, 2)),
    ((Tagged(1, 1), "a"), (Tagged(1, 2), "a")),
    (TWICE, TWICE.replace(fold=1), pd.Timestamp(TWICE), np.datetime64(TWICE), TWICE.replace(tzinfo=NoOffset())),
    (TWICE.replace(tzinfo=BERLIN), TWICE.replace(tzinfo=BERLIN, fold=1)),
    (NOON.replace(tzinfo=BERLIN), NOON.replace(hour=10, tzinfo=datetime.UTC), pd.Timestamp(NOON, tz="Europe/Berlin"),
     NOON.replace(hour=10, tzinfo=datetime.UTC, fold=1)),
    (np.datetime64("2026-01-01"), np.datetime64("2026-01-01T00")),
    (datetime.time(2, 30), datetime.time(2, 30, fold=1)),
    (datetime.time(2, 30, tzinfo=datetime.UTC), datetime.time(4, 30, tzinfo=LATER)),
    (datetime.timedelta(1), np.timedelta64(24, "h"), np.timedelta64(1, "D"), pd.Timedelta(1, "D")),
    (Access.READ | Access.WRITE, Access(3)),
    (Row(1, "a"), Row(1.0, Shouted("a"))),
]  # fmt: skip
REFUSED = [
    Folded("a"), OwnEquality(1), NoEquality(1), OwnObject(), OwnEnum.A, OwnEnum.B, 1 + 0j, frozenset({1, 2}), pd.NaT,
    np.longdouble(1), fractions.Fraction(1, 2), np.datetime64("NaT", "s"), np.timedelta64("NaT", "s"),
    np.timedelta64(1, "Y"), object(), {1: 2}, {1}, len, 1j,
]  # fmt: skip


@pytest.mark.parametrize("keys", EQUAL, ids=lambda keys: repr(keys[0]))
def test_keys_that_are_equal_in_a_dictionary_have_equal_hashes(keys: tuple[Any, ...]) -> None:
    assert len(set(keys)) == 1, "they are one key"
    assert len({stable_hash(key) for key in keys}) == 1


@pytest.mark.parametrize("key", REFUSED, ids=lambda key: type(key).__name__)
def test_types_without_a_stable_hash_or_with_their_own_equality_are_refused(key: Any) -> None:
    for refused in (key, (1, key), Tagged(key)):
        with pytest.raises(UnhashableKeyError, match=rf"a key of type {type(key).__qualname__} cannot be used.*Use "):
            stable_hash(refused)


atoms = st.sampled_from([key for keys in EQUAL for key in keys] + REFUSED) | st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.floats(width=16), st.decimals(places=1, min_value=-2, max_value=2),
    st.text("aB", max_size=2), st.text("aB", max_size=2).map(Folded), st.text("aB", max_size=2).map(Shouted),
    st.binary(max_size=1), st.datetimes(NOON, NOON + datetime.timedelta(microseconds=1), timezones=st.just(BERLIN)),
    st.integers(-1, 1).map(np.int16), st.integers(-1, 1).map(Odd), st.floats(width=16).map(np.float16),
)  # fmt: skip
keys = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.tuples(inner), st.tuples(inner, inner), st.builds(Pair, inner, inner), st.builds(Tagged, inner, inner),
        st.builds(Point, inner, inner), st.builds(TaggedMore, inner, inner, inner), st.builds(Row, inner),
        st.builds(Slotted, inner, inner), st.tuples(inner, inner).map(Backwards), st.builds(TaggedAlike, inner, inner),
    ),
    max_leaves=3,
)  # fmt: skip


def group_of(key: Any) -> int | None:
    try:
        return key_group_of(key, 128)
    except UnhashableKeyError:
        return None


@given(st.lists(keys, min_size=2, max_size=12))
def test_equal_keys_have_one_key_group_or_are_refused(drawn: list[Any]) -> None:
    groups: dict[Any, set[int | None]] = {}
    for key in drawn:
        try:
            groups.setdefault(key, set()).add(group_of(key))
        except TypeError:  # unhashable objects are not keys
            continue
    for key, found in groups.items():
        assert len(found - {None}) <= 1, key


@given(keys)
def test_the_canonical_key_of_those_with_nan_is_one(key: Any) -> None:
    if group_of(key) is None or not is_a_key(key):
        return
    again = pickle.loads(pickle.dumps(key))  # with another NaN
    one = without_nan(key)
    assert without_nan(again) in {one: 1}
    assert type(one) is type(key) or one is NOT_A_NUMBER
    assert stable_hash(one) == stable_hash(key)


def is_a_key(key: Any) -> bool:
    try:
        hash(key)
        pickle.dumps(key)
    except TypeError:  # a memoryview, or a list as a field
        return False
    return True


@given(st.integers() | st.text(), st.integers(1, 32768))
def test_a_key_group_is_below_the_max_parallelism(key: Any, max_parallelism: int) -> None:
    assert 0 <= key_group_of(key, max_parallelism) < max_parallelism


@pytest.mark.parametrize(
    ("parallelism", "expected"),
    [(1, 128), (85, 128), (86, 256), (100, 256), (171, 256), (172, 512), (341, 512), (21845, 32768), (30000, 32768)],
)
def test_the_default_max_parallelism_is_flinks(parallelism: int, expected: int) -> None:
    assert default_max_parallelism(parallelism) == expected
