"""Operators of two inputs, by themselves and in a worker: which input a batch came from, keys, state, errors, turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace
from worker_rig import WRITTEN, NamedSink, RowsSource, WorkerRig, chain, local_pair

from millstream.core.jobs import plan
from millstream.core.messages.sources import NoMoreSplits
from millstream.core.records import types as t
from millstream.core.records.batches import Batch, ColumnBatch, RowBatch
from millstream.datastream.functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    OutputTag,
    RuntimeContext,
)
from millstream.datastream.state import MapStateDescriptor, ReadOnlyBroadcastState, StateAccessError
from millstream.taskmanager.testing import DEPLOYMENT, OperatorHarness
from millstream.taskmanager.worker.network.inputs import LocalInputChannel
from millstream.taskmanager.worker.operators.base import OperatorError
from millstream.taskmanager.worker.operators.output import LocalOutput
from millstream.taskmanager.worker.runtime_context import TaskRuntimeContext
from millstream.taskmanager.worker.state.heap import HeapKeyedStateBackend, HeapOperatorStateBackend

PAIR = t.TupleType((t.LONG, t.STRING))
TAG = OutputTag("side")
RULES = MapStateDescriptor("rules", t.PICKLED, t.PICKLED)
CONTEXT = TaskRuntimeContext(DEPLOYMENT, "joined", {}, {}, {})
BY_ITSELF = plan.KeySelector(function=lambda value: value)
BY_FIRST = plan.KeySelector(fields=(0,))
KEYS = plan.TwoInputKeys(BY_ITSELF, BY_FIRST)


class Numbers(CoMapFunction):
    def map1(self, value: int) -> int | None:
        return 10 // value if value != 5 else None

    def map2(self, value: tuple[int, str]) -> str:
        return value[1] * value[0]


class Parts(CoFlatMapFunction):
    def flat_map1(self, value: int) -> Iterator[int]:
        yield from range(value)

    def flat_map2(self, value: tuple[int, str]) -> list[str] | None:
        return list(value[1]) if value[0] else None


class Both(CoProcessFunction):
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterator[Any]:
        yield 1, value, ctx.timestamp()
        yield TAG, value

    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> list[Any] | None:
        return None if value == "nothing" else [(2, value, ctx.timestamp())]


class KeyedBoth(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        yield 1, ctx.get_current_key()

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        yield 2, ctx.get_current_key()


class Keys(HeapKeyedStateBackend):
    """Remembers the keys that were entered; None when the key was cleared."""

    def __init__(self) -> None:
        super().__init__("joined", t.PICKLED)
        self.entered: list[Any] = []

    def set_current_key(self, key: Any) -> None:
        self.entered.append(key)
        super().set_current_key(key)

    def clear_current_key(self) -> None:
        self.entered.append(None)
        super().clear_current_key()


class Out:
    """What an operator emitted."""

    def __init__(self) -> None:
        self.batches: list[RowBatch] = []

    def __call__(self, batch: Batch) -> None:
        assert isinstance(batch, RowBatch)
        self.batches.append(batch)

    def take(self) -> tuple[list[Any], list[int | None]]:
        rows = [row for batch in self.batches for row in batch.rows]
        times = [x for batch in self.batches for x in (batch.timestamps or [])]
        self.batches.clear()
        return rows, list(times)


def joined(
    spec: plan.OperatorSpec, *types: t.TypeInformation, out: Out | None = None, keys: Keys | None = None,
    name: str = "joined",
) -> Any:  # fmt: skip
    """The operator of a specification, which emits to `out`."""
    operator = OperatorHarness(spec, *types, name=name, keyed_backend=keys).operator
    operator.output = LocalOutput(out or Out())
    return operator


def test_each_input_has_its_method_and_its_type() -> None:
    out = Out()
    operator = joined(plan.CoMapSpec(Numbers()), t.LONG, PAIR, out=out)
    operator.process(RowBatch([1, 5, 2]))
    assert out.take() == ([10, 5], [])
    operator.process2(ColumnBatch(pa.record_batch({"f0": [2, 1], "f1": ["a", "b"]}), pa.array([7, 8])))
    assert out.take() == (["aa", "b"], [7, 8])
    operator.process(RowBatch([5, 1], [7, 8]))
    assert out.take() == ([10], [8])
    operator.process(RowBatch([5]))
    assert out.batches == []


def test_flat_map_keeps_timestamps_beside_the_results() -> None:
    out = Out()
    operator = joined(plan.CoFlatMapSpec(Parts()), t.LONG, PAIR, out=out)
    operator.process(RowBatch([2, 0, 1], [7, 8, 9]))
    assert out.take() == ([0, 1, 0], [7, 7, 9])
    operator.process2(RowBatch([(1, "ab"), (0, "c")]))
    assert out.take() == (["a", "b"], [])
    operator.process2(RowBatch([(0, "c")]))
    assert out.batches == []


def test_process_has_a_context_and_side_outputs() -> None:
    out, side = Out(), Out()
    operator = joined(plan.CoProcessSpec(Both()), t.PICKLED, t.PICKLED, out=out)
    operator.side_outputs["side"] = LocalOutput(side)
    operator.process(RowBatch(["a", "b"], [7, 8]))
    assert out.take() == ([(1, "a", 7), (1, "b", 8)], [7, 8])
    assert side.take() == (["a", "b"], [7, 8])
    operator.process2(RowBatch(["nothing", "c"]))
    assert out.take() == ([(2, "c", None)], [])
    assert side.batches == []


def test_a_side_output_that_nobody_reads_is_dropped() -> None:
    out = Out()
    operator = joined(plan.CoProcessSpec(Both()), t.PICKLED, t.PICKLED, out=out)
    operator.process(RowBatch(["a"]))
    assert out.take()[0] == [(1, "a", None)]


@pytest.mark.parametrize(
    "make",
    [
        lambda keys: joined(plan.CoMapSpec(Numbers(), KEYS), t.LONG, PAIR, keys=keys),
        lambda keys: joined(plan.CoFlatMapSpec(Parts(), KEYS), t.LONG, PAIR, keys=keys),
        lambda keys: joined(plan.CoProcessSpec(KeyedBoth(), KEYS), t.LONG, PAIR, keys=keys),
    ],
    ids=["map", "flat_map", "process"],
)  # fmt: skip
def test_the_key_is_entered_before_each_record(make: Callable[[Keys], Any]) -> None:
    keys = Keys()
    operator = make(keys)
    operator.process(RowBatch([3, 4]))
    operator.process2(RowBatch([(7, "a"), (8, "b")]))
    assert keys.entered == [3, 4, None, 7, 8, None]


def test_a_keyed_process_function_knows_the_key_of_either_side() -> None:
    out = Out()
    operator = joined(plan.CoProcessSpec(KeyedBoth(), KEYS), t.LONG, PAIR, out=out)
    operator.process(RowBatch([3]))
    operator.process2(RowBatch([(7, "a")]))
    assert out.take()[0] == [(1, 3), (2, 7)]


def test_a_plain_process_function_may_run_on_keyed_streams() -> None:
    out = Out()
    operator = joined(plan.CoProcessSpec(Both(), KEYS), t.LONG, PAIR, out=out)
    operator.process(RowBatch([3]))
    assert out.take()[0] == [(1, 3, None)]


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
@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("method", ["process", "process2"])
@pytest.mark.parametrize("kind", ["map", "flat_map", "process"])
def test_an_error_names_the_operator_and_the_record(
    kind: str, method: str, keyed: bool, times: list[int] | None
) -> None:
    selectors = plan.TwoInputKeys(BY_ITSELF, BY_ITSELF) if keyed else None
    current = Keys() if keyed else None
    operators: dict[str, Any] = {
        "map": joined(plan.CoMapSpec(Fails(), selectors), keys=current),
        "flat_map": joined(plan.CoFlatMapSpec(Fails(), selectors), keys=current),
        "process": joined(plan.CoProcessSpec(Fails(), selectors), keys=current),
    }
    with pytest.raises(OperatorError) as caught:
        getattr(operators[kind], method)(RowBatch([1, 2, 3], times))
    assert (caught.value.operator_name, caught.value.record) == ("joined", 2)
    assert isinstance(caught.value.__cause__, ValueError)


class Apply(BroadcastProcessFunction):
    """Numbers are multiplied by every factor that was broadcast; words call a method of the read-only state."""

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


def broadcasting(function: Any, keys: plan.TwoInputKeys | None = None, current: Keys | None = None) -> tuple[Any, Out]:
    out = Out()
    spec = plan.BroadcastProcessSpec(function, (RULES,), keys)
    operator = joined(spec, out=out, keys=current, name="rules")
    operator.open()
    return operator, out


def test_what_is_broadcast_is_seen_by_the_other_side() -> None:
    operator, out = broadcasting(Apply())
    operator.process(RowBatch([1]))
    assert out.batches == []
    operator.process2(RowBatch([("a", 10), ("b", 100)]))
    operator.process(RowBatch([1, 2]))
    assert out.take()[0] == [10, 100, 20, 200]
    operator.process(RowBatch([("get", "a"), ("get", "c"), ("contains", "a"), ("is_empty",), ("__getitem__", "b")]))
    assert out.take()[0] == [10, None, True, False, 100]
    operator.process(RowBatch([("keys",), ("values",), ("__contains__", "a")]))
    assert [list(x) if x is not True else x for x in out.take()[0]] == [["a", "b"], [10, 100], True]


@pytest.mark.parametrize(
    "write",
    [
        ("put", "a", 1), ("put_all", {}), ("remove", "a"), ("clear",), ("__setitem__", "a", 1), ("__delitem__", "a")
    ],
)  # fmt: skip
def test_the_other_side_cannot_write(write: tuple[Any, ...]) -> None:
    operator, out = broadcasting(Apply())
    operator.process2(RowBatch([("a", 10)]))
    with pytest.raises(OperatorError) as caught:
        operator.process(RowBatch([write]))
    assert (caught.value.operator_name, caught.value.record) == ("rules", write)
    assert isinstance(caught.value.__cause__, StateAccessError)
    assert "'rules' is read-only in process_element; write it in process_broadcast_element" in str(
        caught.value.__cause__
    )
    operator.process(RowBatch([("get", "a")]))
    assert out.take()[0] == [10]


def test_the_read_only_state_is_no_map_state() -> None:
    class Kind(Apply):
        def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
            yield isinstance(ctx.get_broadcast_state(RULES), ReadOnlyBroadcastState)

    operator, out = broadcasting(Kind())
    operator.process(RowBatch([1]))
    assert out.take()[0] == [True]


@pytest.mark.parametrize("method", ["process", "process2"])
@pytest.mark.parametrize(
    ("descriptor", "message"),
    [
        (MapStateDescriptor("rulez"), r"there is no broadcast state 'rulez' here, only 'rules'; pass its descriptor"),
        ("rules", "expected a MapStateDescriptor, not 'rules'"),
    ],
)
def test_a_state_that_was_not_declared_is_refused(method: str, descriptor: Any, message: str) -> None:
    class Asks(Apply):
        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            yield ctx.get_broadcast_state(descriptor)

        def process_broadcast_element(self, value: Any, ctx: Any) -> None:
            ctx.get_broadcast_state(descriptor)

    operator, _ = broadcasting(Asks())
    with pytest.raises(OperatorError) as caught:
        getattr(operator, method)(RowBatch(["x"]))
    with pytest.raises(StateAccessError, match=message):
        raise caught.value.__cause__ or AssertionError


def test_broadcast_records_have_no_key() -> None:
    keys = Keys()
    operator, out = broadcasting(KeyedApply(), plan.TwoInputKeys(BY_ITSELF, None), keys)
    operator.process2(RowBatch(["r1"], [5]))
    operator.process(RowBatch([3, 4], [6, 7]))
    operator.process2(RowBatch(["r2"]))
    assert keys.entered == [None, 3, 4, None, None]
    assert out.take()[0] == [("rule", "r1", 5), (3, ["r1"], 6), (4, ["r1"], 7), ("rule", "r2", None)]


def test_a_state_that_cannot_be_had_fails_the_operator() -> None:
    state = HeapOperatorStateBackend("rules")
    state.get_list_state("rules", int)
    spec = plan.BroadcastProcessSpec(Apply(), (RULES,))
    operator = OperatorHarness(spec, operator_backend=state).operator
    with pytest.raises(OperatorError, match="rules"):
        operator.open()


class Recording(CoMapFunction):
    """Marks each record with the input that it came by."""

    def __init__(self, *failing: Any) -> None:
        self.failing = failing

    def open(self, runtime_context: RuntimeContext) -> None:
        WRITTEN["opened"] = [runtime_context.get_task_name()]

    def map1(self, value: Any) -> Any:
        return self._marked(1, value)

    def map2(self, value: Any) -> Any:
        return self._marked(2, value)

    def _marked(self, number: int, value: Any) -> Any:
        if value in self.failing:
            raise ValueError("not this one")
        return number, value


class Joined:
    """Two sources and a task of two inputs, in one worker; `full`: the sources run first, as far as they can."""

    def __init__(self, rig: WorkerRig, first: RowsSource, second: RowsSource, *failing: Any, full: bool = False):
        self.rig = rig
        outputs, gates = zip(local_pair(rig, 1), local_pair(rig, 2, t.LONG), strict=True)
        self.sources = [
            rig.task(chain(plan.SourceSpec(source), outputs=1), outputs=[output])
            for source, output in zip((first, second), outputs, strict=True)
        ]
        specs = (plan.CoMapSpec(Recording(*failing)), plan.SinkSpec(NamedSink("joined")))
        self.task = rig.task(chain(*specs), inputs=[gates[0], replace(gates[1], input=1)])
        rig.deploy(*self.sources)
        for _ in range(200 if full else 0):
            rig.worker.turn()
        rig.deploy(self.task)

    @property
    def written(self) -> list[Any]:
        return [row for row in WRITTEN["joined"] if isinstance(row, tuple)]


def test_a_worker_delivers_by_input_and_ends_with_the_last_of_both(rig: WorkerRig) -> None:
    joined = Joined(rig, RowsSource([1, 2]), RowsSource([3], waits=True))
    rig.turn_until(lambda: len(joined.written) == 3)
    rig.turn_until(rig.ended(joined.sources[0]))
    for _ in range(50):
        rig.worker.turn()
    assert rig.states(joined.task)[-1] == "RUNNING"
    rig.tell(joined.sources[1], NoMoreSplits())
    rig.turn_until(rig.ended(joined.task))
    assert rig.states(joined.task)[-1] == "FINISHED"
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


def test_a_failure_on_the_second_input_is_told(rig: WorkerRig) -> None:
    joined = Joined(rig, RowsSource([1]), RowsSource([7, 8]), 8)
    rig.turn_until(rig.ended(joined.task))
    failure = rig.updates(joined.task)[-1].failure
    assert failure.operator_name == "op 0 CoMapSpec"
    assert failure.record == "8"
    assert "not this one" in failure.exception
