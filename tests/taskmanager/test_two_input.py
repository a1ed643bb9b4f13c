"""Operators with two inputs, alone and in a worker: the input of a batch, keys, state, errors, turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace
from worker_rig import WRITTEN, RowsSource, WorkerRig, chain, local_pair, writing, written

from millstream.core.jobs.plan import plan
from millstream.core.messages.sources import NoMoreSplits
from millstream.core.records import types as t
from millstream.core.records.batches import Batch, ColumnBatch, RowBatch
from millstream.datastream.adapters.paired_functions import (
    PairedFlatMapFunction,
    PairedMapFunction,
    PairedProcessFunction,
)
from millstream.datastream.functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    OutputTag,
)
from millstream.datastream.state import MapStateDescriptor, ReadOnlyBroadcastState, StateAccessError
from millstream.taskmanager.testing import OperatorHarness
from millstream.taskmanager.worker.network.inputs import LocalInputChannel
from millstream.taskmanager.worker.operators.base import OperatorError
from millstream.taskmanager.worker.state.heap import HeapKeyedStateBackend, HeapOperatorStateBackend

PAIR = t.TupleType((t.LONG, t.STRING))
TAG = OutputTag("side")
RULES = MapStateDescriptor("rules", t.PICKLED, t.PICKLED)
BY_ITSELF = plan.KeySelector(function=lambda value: value)
BY_FIRST = plan.KeySelector(fields=(0,))
KEYS = plan.TwoInputKeys(BY_ITSELF, BY_FIRST)


NUMBERS = PairedMapFunction(lambda value: 10 // value if value != 5 else None, lambda value: value[1] * value[0])
PARTS = PairedFlatMapFunction(range, lambda value: list(value[1]) if value[0] else None)
BOTH = PairedProcessFunction(
    lambda value, ctx: [(1, value, ctx.timestamp()), (TAG, value)],
    lambda value, ctx: None if value == "nothing" else [(2, value, ctx.timestamp())],
)


class KeyedBoth(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        yield 1, ctx.get_current_key()

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        yield 2, ctx.get_current_key()


class Keys(HeapKeyedStateBackend):
    """Records the keys that were set; None if the key was cleared."""

    def __init__(self) -> None:
        super().__init__("joined", t.PICKLED)
        self.entered: list[Any] = []

    def set_current_key(self, key: Any) -> None:
        self.entered.append(key)
        super().set_current_key(key)

    def clear_current_key(self) -> None:
        self.entered.append(None)
        super().clear_current_key()


def joined(spec: plan.OperatorSpec, *types: t.TypeInformation, **options: Any) -> OperatorHarness:
    return OperatorHarness(spec, *types, name="joined", **options)


def fed(made: OperatorHarness, batch: Batch, side: int = 0) -> tuple[list[Any], list[int]]:
    """The rows emitted for a batch, and their timestamps."""
    before = len(made.out.batches)
    rows = made.process(batch, input_index=side)
    return rows, [time for out in made.out.batches[before:] for time in out.timestamps or []]


def test_each_input_has_its_method_and_its_type() -> None:
    made = joined(plan.CoMapSpec(NUMBERS), t.LONG, PAIR)
    assert fed(made, RowBatch([1, 5, 2])) == ([10, 5], [])
    columns = ColumnBatch(pa.record_batch({"f0": [2, 1], "f1": ["a", "b"]}), pa.array([7, 8]))
    assert fed(made, columns, 1) == (["aa", "b"], [7, 8])
    assert fed(made, RowBatch([5, 1], [7, 8])) == ([10], [8])
    count = len(made.out.batches)
    made.process(RowBatch([5]))
    assert len(made.out.batches) == count, "what is None is dropped"


def test_flat_map_keeps_timestamps_beside_the_results() -> None:
    made = joined(plan.CoFlatMapSpec(PARTS), t.LONG, PAIR)
    assert fed(made, RowBatch([2, 0, 1], [7, 8, 9])) == ([0, 1, 0], [7, 7, 9])
    assert fed(made, RowBatch([(1, "ab"), (0, "c")]), 1) == (["a", "b"], [])
    made.process(RowBatch([(0, "c")]), input_index=1)
    assert len(made.out.batches) == 2


def test_process_has_a_context_and_side_outputs() -> None:
    made = joined(plan.CoProcessSpec(BOTH), t.PICKLED, t.PICKLED, tags=["side"])
    assert fed(made, RowBatch(["a", "b"], [7, 8])) == ([(1, "a", 7), (1, "b", 8)], [7, 8])
    assert fed(made, RowBatch(["nothing", "c"]), 1) == ([(2, "c", None)], [])
    (side,) = made.side["side"].batches
    assert (side.rows, list(side.timestamps)) == (["a", "b"], [7, 8])


def test_a_side_output_without_consumer_is_dropped() -> None:
    made = joined(plan.CoProcessSpec(BOTH), t.PICKLED, t.PICKLED)
    assert made.process(RowBatch(["a"])) == [(1, "a", None)]


@pytest.mark.parametrize(
    "spec",
    [plan.CoMapSpec(NUMBERS, KEYS), plan.CoFlatMapSpec(PARTS, KEYS), plan.CoProcessSpec(KeyedBoth(), KEYS)],
    ids=["map", "flat_map", "process"],
)
def test_the_key_is_set_before_each_record(spec: plan.OperatorSpec) -> None:
    keys = Keys()
    made = joined(spec, t.LONG, PAIR, keyed_backend=keys)
    made.process(RowBatch([3, 4]))
    made.process(RowBatch([(7, "a"), (8, "b")]), input_index=1)
    assert keys.entered == [3, 4, None, 7, 8, None]


def test_a_keyed_process_function_has_the_key_of_either_side() -> None:
    made = joined(plan.CoProcessSpec(KeyedBoth(), KEYS), t.LONG, PAIR)
    assert made.process(RowBatch([3])) == [(1, 3)]
    assert made.process(RowBatch([(7, "a")]), input_index=1) == [(2, 7)]


def test_a_plain_process_function_may_run_on_keyed_streams() -> None:
    made = joined(plan.CoProcessSpec(BOTH, KEYS), t.LONG, PAIR)
    assert made.process(RowBatch([3])) == [(1, 3, None)]


def failing(value: Any) -> Any:
    raise ValueError(f"cannot take {value}")


class Fails(CoMapFunction, CoFlatMapFunction, CoProcessFunction):
    def map1(self, value: Any) -> Any:
        return failing(value) if value == 2 else value

    map2 = map1

    def flat_map1(self, value: Any) -> Iterator[Any]:
        yield self.map1(value)

    flat_map2 = flat_map1

    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield self.map1(value)

    process_element2 = process_element1


@pytest.mark.parametrize("times", [None, [7, 8, 9]])
@pytest.mark.parametrize("keys", [None, plan.TwoInputKeys(BY_ITSELF, BY_ITSELF)], ids=["plain", "keyed"])
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("spec", [plan.CoMapSpec, plan.CoFlatMapSpec, plan.CoProcessSpec])
def test_an_error_names_the_operator_and_the_record(spec: Any, side: int, keys: Any, times: list[int] | None) -> None:
    made = joined(spec(Fails(), keys))
    with pytest.raises(OperatorError) as caught:
        made.process(RowBatch([1, 2, 3], times), input_index=side)
    assert (caught.value.operator_name, caught.value.record) == ("joined", 2)
    assert isinstance(caught.value.__cause__, ValueError)


class Apply(BroadcastProcessFunction):
    """Numbers are multiplied by every broadcast factor; words call a method of the read-only state."""

    def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        state: Any = ctx.get_broadcast_state(RULES)
        if isinstance(value, tuple):
            yield getattr(state, value[0])(*value[1:])
        else:
            yield from (value * factor for _, factor in state.items())

    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(RULES).put(*value)


class KeyedApply(KeyedBroadcastProcessFunction):
    def process_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        yield ctx.get_current_key(), list(ctx.get_broadcast_state(RULES)), ctx.timestamp()

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> Iterator[Any]:
        ctx.get_broadcast_state(RULES)[value] = True
        yield "rule", value, ctx.timestamp()


def broadcasting(function: Any, keys: plan.TwoInputKeys | None = None, **options: Any) -> OperatorHarness:
    return OperatorHarness(plan.BroadcastProcessSpec(function, (RULES,), keys), name="rules", **options).open()


def test_broadcast_records_are_visible_to_the_other_side() -> None:
    made = broadcasting(Apply())
    made.process(RowBatch([1]))
    assert made.out.batches == []
    made.process(RowBatch([("a", 10), ("b", 100)]), input_index=1)
    assert made.process(RowBatch([1, 2])) == [10, 100, 20, 200]
    calls = [("get", "a"), ("get", "c"), ("contains", "a"), ("is_empty",), ("__getitem__", "b"), ("__contains__", "a")]
    assert made.process(RowBatch(calls)) == [10, None, True, False, 100, True]
    assert list(map(list, made.process(RowBatch([("keys",), ("values",)])))) == [["a", "b"], [10, 100]]


@pytest.mark.parametrize(
    "write",
    [
        ("put", "a", 1), ("put_all", {}), ("remove", "a"), ("clear",), ("__setitem__", "a", 1), ("__delitem__", "a")
    ],
)  # fmt: skip
def test_the_other_side_cannot_write(write: tuple[Any, ...]) -> None:
    made = broadcasting(Apply())
    made.process(RowBatch([("a", 10)]), input_index=1)
    with pytest.raises(OperatorError) as caught:
        made.process(RowBatch([write]))
    assert (caught.value.operator_name, caught.value.record) == ("rules", write)
    message = "'rules' is read-only in process_element; write it in process_broadcast_element"
    with pytest.raises(StateAccessError, match=message):
        raise caught.value.__cause__ or AssertionError
    assert made.process(RowBatch([("get", "a")])) == [10]


def test_the_read_only_state_is_not_a_map_state() -> None:
    class Kind(Apply):
        def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
            yield isinstance(ctx.get_broadcast_state(RULES), ReadOnlyBroadcastState)

    assert broadcasting(Kind()).process(RowBatch([1])) == [True]


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(
    ("descriptor", "message"),
    [
        (MapStateDescriptor("rulez"), r"unknown broadcast state 'rulez', only 'rules' exist; pass its descriptor"),
        ("rules", "expected a MapStateDescriptor, not 'rules'"),
    ],
)
def test_an_undeclared_state_is_refused(side: int, descriptor: Any, message: str) -> None:
    class Requests(Apply):
        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            yield ctx.get_broadcast_state(descriptor)

        def process_broadcast_element(self, value: Any, ctx: Any) -> None:
            ctx.get_broadcast_state(descriptor)

    with pytest.raises(OperatorError) as caught:
        broadcasting(Requests()).process(RowBatch(["x"]), input_index=side)
    with pytest.raises(StateAccessError, match=message):
        raise caught.value.__cause__ or AssertionError


def test_broadcast_records_have_no_key() -> None:
    keys = Keys()
    made = broadcasting(KeyedApply(), plan.TwoInputKeys(BY_ITSELF, None), keyed_backend=keys)
    made.process(RowBatch(["r1"], [5]), input_index=1)
    made.process(RowBatch([3, 4], [6, 7]))
    made.process(RowBatch(["r2"]), input_index=1)
    assert keys.entered == [None, 3, 4, None, None]
    assert made.out.rows == [("rule", "r1", 5), (3, ["r1"], 6), (4, ["r1"], 7), ("rule", "r2", None)]


def test_an_unavailable_state_fails_the_operator() -> None:
    state = HeapOperatorStateBackend("rules")
    state.get_list_state("rules", int)
    with pytest.raises(OperatorError, match="rules"):
        broadcasting(Apply(), operator_backend=state)


def marked_unless_eight(value: int) -> tuple[int, int]:
    if value == 8:
        raise ValueError("not this one")
    return 2, value


class Joined:
    """Two sources and a task of two inputs, in one worker; `full`: the sources run first, as far as they can."""

    def __init__(
        self, rig: WorkerRig, first: RowsSource, second: RowsSource, full: bool = False,
        marks_second: Callable[[Any], Any] = lambda value: (2, value),
    ) -> None:  # fmt: skip
        self.rig = rig
        outputs, gates = zip(local_pair(rig, 1), local_pair(rig, 2, t.LONG), strict=True)
        self.sources = [
            rig.task(chain(plan.SourceSpec(source), outputs=1), outputs=[output])
            for source, output in zip((first, second), outputs, strict=True)
        ]
        marks = PairedMapFunction(lambda value: (1, value), marks_second)
        specs = (plan.CoMapSpec(marks), writing("joined"))
        self.task = rig.task(chain(*specs), inputs=[gates[0], replace(gates[1], input=1)])
        rig.deploy(*self.sources)
        rig.turns(200 if full else 0)
        rig.deploy(self.task)

    @property
    def written(self) -> list[Any]:
        return written("joined")


def test_a_worker_delivers_by_input_and_ends_with_the_last_of_both(rig: WorkerRig) -> None:
    joined = Joined(rig, RowsSource([1, 2]), RowsSource([3], waits=True))
    rig.turn_until(lambda: len(joined.written) == 3)
    rig.turn_until(rig.ended(joined.sources[0]))
    rig.turns(50)
    assert rig.state(joined.task) == "RUNNING"
    rig.send_event(joined.sources[1], NoMoreSplits())
    rig.turn_until(rig.ended(joined.task))
    assert rig.state(joined.task) == "FINISHED"
    assert sorted(joined.written) == [(1, 1), (1, 2), (2, 3)]
    assert WRITTEN["joined"][-2:] == ["flushed", "closed"]


def test_inputs_take_turns(rig: WorkerRig) -> None:
    joined = Joined(rig, RowsSource(range(300), batch=1), RowsSource(range(300), batch=1), full=True)
    rig.turn_until(rig.ended(joined.task))
    written = joined.written
    turns = [len(list(rows)) for _, rows in groupby(number for number, _ in written[:100])]
    assert max(turns) <= LocalInputChannel.CAPACITY, "a step takes what waits at one input, the next one of the other"
    for number in (1, 2):
        assert [value for side, value in written if side == number] == list(range(300))


def test_slices_of_a_large_batch_stay_with_their_input(rig: WorkerRig) -> None:
    count = 20_000
    joined = Joined(rig, RowsSource(range(count)), RowsSource(range(count)))
    rig.turn_until(rig.ended(joined.task))
    assert sorted(joined.written) == [(number, value) for number in (1, 2) for value in range(count)]


def test_a_failure_on_the_second_input_is_reported(rig: WorkerRig) -> None:
    joined = Joined(rig, RowsSource([1]), RowsSource([7, 8]), marks_second=marked_unless_eight)
    rig.turn_until(rig.ended(joined.task))
    failure = rig.failure(joined.task)
    assert (failure.operator_name, failure.record) == ("op 0", "8")
    assert "not this one" in failure.exception
