"""Routers: nothing lost, order kept, rows and columns alike, and failures that name their record."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import cases

from millstream.core.jobs.plan import plan
from millstream.core.jobs.plan.plan import EdgeSpec, KeySelector
from millstream.core.keys.key_groups import key_group_of, subtask_of
from millstream.core.records import types as t
from millstream.core.records.batches import Batch, ColumnBatch, RowBatch
from millstream.core.row import Row
from millstream.datastream import functions
from millstream.taskmanager.worker.partitioning import KnownKeys, PartitioningError, Router, key_function, make_router

FIRST = KeySelector((0,))


@dataclass(frozen=True)
class Order:
    user: str
    amount: int


def edge(partitioner: plan.Partitioner, max_parallelism: int = 128, kind: t.TypeInformation = t.PICKLED) -> EdgeSpec:
    return EdgeSpec(partitioner, kind, max_parallelism)


def router(partitioner: plan.Partitioner, channels: int, **options: Any) -> Router:
    return make_router(edge(partitioner, **options), channels, subtask=1, seed=5)


def rows_of(batch: Batch) -> list[Any]:
    if isinstance(batch, RowBatch):
        return batch.rows
    return [tuple(row.values()) for row in batch.data.to_pylist()]


def times_of(batch: Batch) -> list[int] | None:
    if isinstance(batch, RowBatch) or batch.timestamps is None:
        return None if batch.timestamps is None else list(batch.timestamps)
    return batch.timestamps.to_pylist()  # type: ignore[no-any-return]  # an Arrow array of int64


def routed(made: Router, batches: list[Batch]) -> dict[int, list[Any]]:
    """What each channel gets, in order."""
    result: dict[int, list[Any]] = {}
    for batch in batches:
        seen = set()
        for channel, part in made.route(batch):
            assert channel not in seen
            assert len(part)
            seen.add(channel)
            assert (times_of(part) is None) == (times_of(batch) is None)
            rows, times = rows_of(part), times_of(part)
            result.setdefault(channel, []).extend(rows if times is None else zip(rows, times, strict=True))
    return result


def as_rows(values: list[tuple[Any, ...]], timed: bool) -> RowBatch:
    return RowBatch(values, [n * 10 for n in range(len(values))] if timed else None)


def as_columns(values: list[tuple[Any, ...]], timed: bool, types: list[pa.DataType]) -> ColumnBatch:
    arrays = [pa.array([row[i] for row in values], kind) for i, kind in enumerate(types)]
    data = pa.RecordBatch.from_arrays(arrays, names=[f"f{i}" for i in range(len(types))])
    return ColumnBatch(data, pa.array([n * 10 for n in range(len(values))], pa.int64()) if timed else None)


def as_pairs(values: list[tuple[int, str]], timed: bool, columns: bool) -> Batch:
    return as_columns(values, timed, [pa.int64(), pa.string()]) if columns else as_rows(values, timed)


PARTITIONERS: list[plan.Partitioner] = [
    plan.RebalancePartitioner(),
    plan.RescalePartitioner(),
    plan.ShufflePartitioner(),
    plan.GlobalPartitioner(),
    plan.HashPartitioner(FIRST),
    plan.HashPartitioner(KeySelector((0, 1))),
    plan.HashPartitioner(KeySelector(function=lambda row: row[0] % 7)),
    plan.CustomPartitioner(lambda key, count: key % count, FIRST),
]
sizes = st.lists(st.integers(1, 30), min_size=1, max_size=4)


@pytest.mark.parametrize("partitioner", PARTITIONERS, ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("columns", [False, True])
@settings(max_examples=cases(15))
@given(sizes=sizes, channels=st.integers(1, 5), timed=st.booleans())
def test_nothing_is_lost_and_order_is_kept(
    partitioner: plan.Partitioner, columns: bool, sizes: list[int], channels: int, timed: bool
) -> None:
    batches: list[Batch] = []
    sent: list[Any] = []
    for number, size in enumerate(sizes):
        values = [(number * 100 + n, f"value {n}") for n in range(size)]
        batches.append(as_pairs(values, timed, columns))
        sent += [(value, n * 10) for n, value in enumerate(values)] if timed else values
    got = routed(router(partitioner, channels), batches)
    assert set(got) <= set(range(channels))
    assert Counter(item for part in got.values() for item in part) == Counter(sent)
    position = {item: n for n, item in enumerate(sent)}
    for part in got.values():
        assert [position[item] for item in part] == sorted(position[item] for item in part)


@pytest.mark.parametrize("columns", [False, True])
def test_round_robin_gives_every_channel_its_share(columns: bool) -> None:
    batch = as_pairs([(n, "x") for n in range(10)], False, columns)
    made = router(plan.RebalancePartitioner(), 3)

    def numbers() -> dict[int, list[int]]:
        return {channel: [row[0] for row in part] for channel, part in routed(made, [batch]).items()}

    assert numbers() == {1: [0, 3, 6, 9], 2: [1, 4, 7], 0: [2, 5, 8]}
    assert numbers() == {2: [0, 3, 6, 9], 0: [1, 4, 7], 1: [2, 5, 8]}


def test_round_robin_serves_all_channels_with_batches_of_one() -> None:
    made = router(plan.RebalancePartitioner(), 4)
    got = routed(made, [RowBatch([n]) for n in range(8)])
    assert {channel: len(part) for channel, part in got.items()} == {0: 2, 1: 2, 2: 2, 3: 2}


@pytest.mark.parametrize(
    ("partitioner", "channels", "receivers"),
    [
        (plan.BroadcastPartitioner(), 3, [0, 1, 2]),
        (plan.BroadcastPartitioner(), 1, [0]),
        (plan.GlobalPartitioner(), 3, [0]),
        (plan.ForwardPartitioner(), 1, [0]),
    ],
)
def test_an_undivided_batch_is_sent_as_it_is(
    partitioner: plan.Partitioner, channels: int, receivers: list[int]
) -> None:
    batch = RowBatch([1, 2])
    assert list(router(partitioner, channels).route(batch)) == [(channel, batch) for channel in receivers]


def test_forward_has_exactly_one_consumer() -> None:
    with pytest.raises(ValueError, match="one consumer"):
        router(plan.ForwardPartitioner(), 2)


def test_shuffle_is_random_but_reproducible_by_its_seed() -> None:
    batch = RowBatch(list(range(100)))
    made = [make_router(edge(plan.ShufflePartitioner()), 4, 0, seed) for seed in (1, 1, 2)]
    first, same, other = (routed(m, [batch]) for m in made)
    assert first == same
    assert first != other
    assert all(len(part) > 10 for part in first.values())


KEY_COLUMNS: list[tuple[str, list[pa.DataType], st.SearchStrategy[tuple[Any, ...]]]] = [
    ("ints", [pa.int64()], st.tuples(st.integers(-(2**63), 2**63 - 1))),
    ("nullable ints", [pa.int32()], st.tuples(st.none() | st.integers(-(2**31), 2**31 - 1))),
    ("floats", [pa.float64()], st.tuples(st.none() | st.floats(allow_nan=False) | st.integers(-5, 5).map(float))),
    ("strings", [pa.string()], st.tuples(st.none() | st.text())),
    ("booleans", [pa.bool_()], st.tuples(st.none() | st.booleans())),
    ("pairs", [pa.int64(), pa.string()], st.tuples(st.none() | st.integers(-9, 9), st.none() | st.text(max_size=2))),
    (
        "wide", [pa.int64(), pa.float64(), pa.string()],
        st.tuples(st.integers(0, 3), st.floats(0, 1), st.text(max_size=1)),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("kinds", "keys"), [c[1:] for c in KEY_COLUMNS], ids=[c[0] for c in KEY_COLUMNS])
@pytest.mark.parametrize("by_name", [False, True])
def test_rows_and_columns_are_routed_alike(
    kinds: list[pa.DataType], keys: st.SearchStrategy[tuple[Any, ...]], by_name: bool
) -> None:
    selector = KeySelector(tuple(f"f{i}" if by_name else i for i in range(len(kinds))))

    @settings(max_examples=cases(25))
    @given(st.lists(keys, min_size=1, max_size=20), st.sampled_from([(2, 128), (3, 128), (7, 7), (5, 256), (128, 128)]))
    def check(values: list[tuple[Any, ...]], scale: tuple[int, int]) -> None:
        channels, max_parallelism = scale
        rows = [Row.of_names([f"f{i}" for i in range(len(kinds))], value) for value in values] if by_name else values

        def each(batch: Batch) -> dict[int, list[Any]]:
            return routed(router(plan.HashPartitioner(selector), channels, max_parallelism=max_parallelism), [batch])

        by_row, by_column = each(RowBatch(list(rows))), each(as_columns(values, False, kinds))
        timed = each(RowBatch(list(rows), [0] * len(rows)))
        assert {c: [tuple(row) for row in part] for c, part in by_row.items()} == by_column
        assert {c: [row for row, _ in part] for c, part in timed.items()} == by_row
        for channel, part in by_column.items():
            for value in part:
                key = value[0] if len(kinds) == 1 else value
                assert subtask_of(key_group_of(key, max_parallelism), max_parallelism, channels) == channel

    check()


def test_equal_keys_are_routed_together_whatever_their_class() -> None:
    made = router(plan.HashPartitioner(FIRST), 16)
    for keys in ([(1,), (1.0,), (True,), (np.int64(1),)], [(float(2**53),), (2**53,)]):
        assert len(routed(made, [RowBatch([key]) for key in keys])) == 1


def test_the_cache_of_recent_keys_is_bounded() -> None:
    known = KnownKeys(2, 128, most=100)
    for _ in range(2):
        for n in range(1000):
            assert known[n] == subtask_of(key_group_of(n, 128), 128, 2)
            assert n in known
            assert len(known) <= 100


@pytest.mark.parametrize(
    "keys",
    [
        [0, 1, -1, 2**63 - 1, -(2**63), 131_073],
        ["", "a", "naïve", "\U0001f600", "x" * 70],
        [2**63, 1, -(2**64)],
        ["\ud800", "a"],
        [1, "1", 1.0, True, None, (1, "a")],
        [True, False],
        [1.5, 2.0],
    ],
    ids=["integers", "texts", "large integers", "half a pair", "mixed", "truth values", "floats"],
)
@pytest.mark.parametrize("channels", [2, 9, 300])
def test_keys_are_routed_alike_when_there_are_more_than_are_cached(
    keys: list[Any], channels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KnownKeys, "overflowed", True)
    made = router(plan.HashPartitioner(FIRST), channels, max_parallelism=512)
    expected: dict[int, list[Any]] = {}
    for key in keys:
        expected.setdefault(subtask_of(key_group_of(key, 512), 512, channels), []).append((key,))
    assert routed(made, [RowBatch([(key,) for key in keys])]) == expected


def test_a_cache_of_keys_that_overflows_says_so() -> None:
    known = KnownKeys(2, 128, most=3)
    for key in (1, 2, 3, 1, 2, 3):
        known[key]
    assert not known.overflowed
    known[4]
    assert known.overflowed


def failing(record: Any) -> Any:
    if record[0] == 3:
        raise KeyError("three")
    return record[0]


@pytest.mark.parametrize(
    "partitioner",
    [
        plan.HashPartitioner(KeySelector(function=failing)),
        plan.CustomPartitioner(lambda key, count: 0, KeySelector(function=failing)),
        plan.CustomPartitioner(lambda key, count: failing((key,)) and 0, FIRST),
    ],
    ids=["hash", "custom selector", "custom partitioner"],
)
@pytest.mark.parametrize("form", ["rows", "timed rows", "columns"])
def test_a_failure_carries_exactly_its_record(partitioner: plan.Partitioner, form: str) -> None:
    values = [(n,) for n in range(6)]
    made = router(partitioner, 2, kind=t.TupleType((t.LONG,)))
    batch: Batch = as_columns(values, False, [pa.int64()]) if form == "columns" else as_rows(values, "timed" in form)
    with pytest.raises(PartitioningError) as caught:
        list(made.route(batch))
    assert caught.value.record == (3,)
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("returned", "accepted"),
    [(0, True), (1, True), (np.int64(1), True), (2, False), (-1, False), ("0", False), (0.0, False)],
)
def test_a_partitioner_has_to_return_a_channel(returned: Any, accepted: bool) -> None:
    made = router(plan.CustomPartitioner(lambda key, count: returned, FIRST), 2)
    if accepted:
        assert routed(made, [RowBatch([(1,)])]) == {int(returned): [(1,)]}
    else:
        with pytest.raises(PartitioningError, match=r"not a number from 0 to 1") as caught:
            list(made.route(RowBatch([("the record",)])))
        assert caught.value.record == ("the record",)


class ByParity(functions.Partitioner):
    def partition(self, key: Any, num_partitions: int) -> int:
        return int(key) % 2


class Amount(functions.KeySelector):
    def get_key(self, value: Any) -> Any:
        return value.amount


def test_partitioners_and_selectors_may_be_objects() -> None:
    made = router(plan.CustomPartitioner(ByParity(), KeySelector(function=Amount())), 3)
    orders = [Order("a", 1), Order("b", 2), Order("c", 3)]
    assert routed(made, [RowBatch(orders)]) == {1: [orders[0], orders[2]], 0: [orders[1]]}


@pytest.mark.parametrize(
    ("selector", "record", "key"),
    [
        (KeySelector((1,)), ("a", "b"), "b"),
        (KeySelector((1, 0)), ("a", "b"), ("b", "a")),
        (KeySelector(("user",)), Order("u", 1), "u"),
        (KeySelector(("user", "amount")), Order("u", 1), ("u", 1)),
        (KeySelector(("id",)), Row(id=4), 4),
        (KeySelector((0,)), Row(id=4), 4),
        (KeySelector(("id",)), {"id": 4}, 4),
        (KeySelector(function=lambda record: -record), 4, -4),
        (KeySelector(function=Amount()), Order("u", 7), 7),
    ],
)
def test_keys_are_extracted_by_fields_or_function(selector: KeySelector, record: Any, key: Any) -> None:
    assert key_function(selector)(record) == key


@pytest.mark.parametrize("key", [{1}, {"a": 1}, object()], ids=["set", "dict", "object"])
def test_an_invalid_key_is_refused_with_its_record(key: Any) -> None:
    made = router(plan.HashPartitioner(FIRST), 2)
    with pytest.raises(PartitioningError) as caught:
        list(made.route(RowBatch([(1,), (key,)])))
    assert caught.value.record == (key,)
