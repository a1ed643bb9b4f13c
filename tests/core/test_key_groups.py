"""Key hashes: fixed for all time, alike for equal keys, alike for rows and columns; key groups cover all subtasks."""

from __future__ import annotations

import datetime
import decimal
import enum
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millstream.core import types as t
from millstream.core.conversion import record_batch_to_rows
from millstream.core.key_groups import (
    UnhashableKeyError,
    combine_hashes,
    default_max_parallelism,
    key_group_of,
    key_group_range,
    stable_hash,
    stable_hash_column,
    subtask_of,
)
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
        (1, 1.0, True, decimal.Decimal(1), decimal.Decimal("1.00"), Number.ONE, np.int8(1), np.float64(1), np.True_),
        (0, -0.0, 0.0, False, decimal.Decimal("-0")),
        (0.5, decimal.Decimal("0.5"), decimal.Decimal("0.50"), np.float32(0.5)),
        (float("inf"), decimal.Decimal("Infinity")),
        (float("nan"), -float("nan"), decimal.Decimal("NaN"), np.float64("nan")),
        (2.0**70, 2**70, decimal.Decimal(2**70)),
        (decimal.Decimal("1.1"), decimal.Decimal("1.10")),
        ("red", Colour.RED, np.str_("red")),
        (b"ab", bytearray(b"ab"), memoryview(b"ab")),
        ((1, "a"), Pair(1, "a"), Row(1, "a"), Row(x=1, y="a"), Point(1, "a"), (1.0, "a"), [True, "a"]),
        (
            datetime.datetime(2024, 1, 1, 12, tzinfo=datetime.UTC),
            datetime.datetime(2024, 1, 1, 14, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
        ),
        (
            datetime.time(12, 30, tzinfo=datetime.UTC),
            datetime.time(14, 30, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
        ),
        (datetime.timedelta(days=1), datetime.timedelta(hours=24), np.timedelta64(1, "D")),
    ],
    ids=lambda keys: repr(keys[0]),
)
def test_equal_keys_hash_alike(keys: tuple[Any, ...]) -> None:
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


def test_different_shapes_of_keys_are_told_apart() -> None:
    keys = ["1", 1, b"1", None, (), (1,), ((1,),), (1, None), (None, 1), "", b"", 1.5, uuid.UUID(int=1)]
    assert len({stable_hash(key) for key in keys}) == len(keys)


@pytest.mark.parametrize("key", [object(), {1: 2}, {1}, lambda: 0, 1j], ids=repr)
def test_what_has_no_stable_hash_is_refused_by_its_type(key: Any) -> None:
    with pytest.raises(UnhashableKeyError, match=type(key).__qualname__):
        stable_hash(key)
    with pytest.raises(UnhashableKeyError):
        stable_hash(("nested", key))


def test_values_spread_over_the_key_groups() -> None:
    for keys in (range(10_000), [f"user-{n}" for n in range(10_000)]):
        counts = np.bincount([key_group_of(key, 128) for key in keys], minlength=128)
        assert counts.min() > 30
        assert counts.max() < 150


def same_as_rows(column: pa.Array) -> None:
    assert stable_hash_column(column).tolist() == [stable_hash(value) for value in column.to_pylist()]


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.duration("ns"), pa.time64("ns")])
def test_nanoseconds_hash_as_the_rows_that_they_become(kind: pa.DataType) -> None:
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
def test_a_column_hashes_as_its_values(kind: Callable[[], pa.DataType], values: st.SearchStrategy[list[Any]]) -> None:
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


@given(st.integers() | st.text(), st.integers(1, 32768))
def test_a_key_group_is_below_the_max_parallelism(key: Any, max_parallelism: int) -> None:
    assert 0 <= key_group_of(key, max_parallelism) < max_parallelism


@pytest.mark.parametrize(
    ("parallelism", "expected"),
    [(1, 128), (85, 128), (86, 256), (100, 256), (171, 256), (172, 512), (341, 512), (21845, 32768), (30000, 32768)],
)
def test_the_default_max_parallelism_is_flinks(parallelism: int, expected: int) -> None:
    assert default_max_parallelism(parallelism) == expected
