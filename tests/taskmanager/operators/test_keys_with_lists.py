"""Keys that are lists, or contain some: keyed state finds them by the tuple of their values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from millstream.common import Row, Types
from millstream.core.jobs.plan import plan
from millstream.core.keys.key_groups import key_group_of, subtask_of
from millstream.core.records.batches import RowBatch
from millstream.core.records.types import PICKLED
from millstream.datastream import KeyedProcessFunction, RuntimeContext
from millstream.datastream.adapters.key_selectors import key_selector_of
from millstream.datastream.functions import KeyedContext
from millstream.datastream.state import ValueStateDescriptor
from millstream.taskmanager.testing import DEPLOYMENT, OperatorHarness
from millstream.taskmanager.worker.failures import describe_failure
from millstream.taskmanager.worker.partitioning import PartitioningError, key_function, make_router

RECORDS = [("a", 1), ("b", 2), ("a", 3)]
SELECTORS = {
    "lists": lambda record: [record[0], [1]],
    "tuples of lists": lambda record: (record[0], [1]),
    "rows of lists": lambda record: Row(name=record[0], rest=[1]),
    "lists and others": lambda record: [record[0]] if record[0] == "a" else record[0],
}
selectors = pytest.mark.parametrize("key_of", SELECTORS.values(), ids=SELECTORS.keys())


class Adding(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedContext) -> Iterable[Any]:
        self.total.update((self.total.value() or 0) + value[1])
        hash(ctx.get_current_key())
        yield value[0], self.total.value()

    def on_timer(self, timestamp: int, ctx: KeyedContext) -> None:
        """Does nothing."""


@selectors
def test_state_belongs_to_the_values_of_a_list(key_of: Any) -> None:
    harness = OperatorHarness(plan.KeyedProcessSpec(Adding(), plan.KeySelector(function=key_of)), PICKLED)
    harness.open()
    harness.process(RowBatch(RECORDS))
    assert harness.out.rows == [("a", 1), ("b", 2), ("a", 4)]
    restored = OperatorHarness(
        plan.KeyedProcessSpec(Adding(), plan.KeySelector(function=key_of)), PICKLED, restored=harness.snapshot(1)
    )
    restored.open()
    restored.process(RowBatch([("a", 1)]))
    assert restored.out.rows == [("a", 5)]


@selectors
@pytest.mark.parametrize("value_type", [PICKLED, Types.TUPLE([Types.STRING(), Types.LONG()])], ids=str)
def test_a_reduce_finds_the_values_of_a_list(key_of: Any, value_type: Any) -> None:
    spec = plan.ReduceSpec(lambda a, b: (a[0], a[1] + b[1]), plan.KeySelector(function=key_of), PICKLED, value_type)
    harness = OperatorHarness(spec, value_type)
    harness.open()
    for _ in range(2):
        harness.process(RowBatch(RECORDS))
        harness.snapshot(1)
    assert harness.out.rows == [("a", 1), ("b", 2), ("a", 4), ("a", 5), ("b", 4), ("a", 8)]


@selectors
@pytest.mark.parametrize("times", [None, [1, 2, 3]], ids=["untimed", "timed"])
def test_a_list_is_routed_like_the_tuple_of_its_values(key_of: Any, times: list[int] | None) -> None:
    edge = plan.EdgeSpec(plan.HashPartitioner(plan.KeySelector(function=key_of)), PICKLED, 128)
    router = make_router(edge, channels=3, subtask=0, seed=0)
    for _ in range(2):
        routed = {index: part.rows for index, part in router.route(RowBatch(RECORDS, times))}
        for index, rows in routed.items():
            assert all(subtask_of(key_group_of(key_of(row), 128), 128, 3) == index for row in rows)
        assert sorted(row for rows in routed.values() for row in rows) == sorted(RECORDS)


def test_a_selector_that_raises_is_still_reported() -> None:
    edge = plan.EdgeSpec(plan.HashPartitioner(plan.KeySelector(function=lambda row: row + 1)), PICKLED, 128)
    with pytest.raises(Exception, match="can only concatenate"):
        make_router(edge, channels=2, subtask=0, seed=0).route(RowBatch([(1,)]))


@pytest.mark.parametrize("times", [None, [1, 2, 3]], ids=["untimed", "timed"])
@pytest.mark.parametrize(
    "keys",
    [[1, [2], 3], [1, TypeError("the user's"), 3], [1, StopIteration(), 3], [1, {2}, 3], [[1], {2: 2}, 3]],
    ids=repr,
)
def test_a_selector_is_called_exactly_once_for_each_record(keys: list[Any], times: list[int] | None) -> None:
    called: list[int] = []

    def key_of(position: int) -> Any:
        called.append(position)
        key = keys[position]
        if isinstance(key, Exception):
            raise key
        return key

    edge = plan.EdgeSpec(plan.HashPartitioner(plan.KeySelector(function=key_of)), PICKLED, 128)
    router = make_router(edge, channels=2, subtask=0, seed=0)
    if keys[1] == [2]:
        routed = [row for _, part in router.route(RowBatch([0, 1, 2], times)) for row in part.rows]
        assert sorted(routed) == [0, 1, 2]
    else:
        with pytest.raises(PartitioningError) as caught:
            router.route(RowBatch([0, 1, 2], times))
        assert describe_failure(caught.value, DEPLOYMENT, 1).record == "1"
    assert called == list(range(len(called)))


class Stopping:
    def __hash__(self) -> int:
        raise StopIteration


def test_a_key_whose_hash_ends_an_iteration_loses_no_record() -> None:
    edge = plan.EdgeSpec(plan.HashPartitioner(plan.KeySelector(function=lambda row: row or Stopping())), PICKLED, 128)
    with pytest.raises(PartitioningError) as caught:
        make_router(edge, channels=2, subtask=0, seed=0).route(RowBatch([1, 0, 2]))
    assert caught.value.record == 0


def test_declared_keys_are_rows_with_their_names() -> None:
    selector, kind = key_selector_of("key_by", lambda record: (record,), PICKLED, Types.ROW([Types.STRING()]))
    assert key_function(selector)("a") == Row(f0="a")
    assert kind == Types.ROW([Types.STRING()])


def test_lists_are_stored_pickled_as_keys() -> None:
    _, kind = key_selector_of("key_by", lambda record: [record], PICKLED, Types.LIST(Types.STRING()))
    assert kind == PICKLED
