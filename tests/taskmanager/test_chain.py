"""Chains: built from their specs, opened from the last to the first, finished from the first to the last."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from millstream.core.jobs.plan import plan
from millstream.core.jobs.plan.plan import ChainedOperator, ChainedOutput
from millstream.core.records import types as t
from millstream.core.records.batches import Batch, ColumnBatch, RowBatch
from millstream.core.records.conversion import arrow_schema
from millstream.core.row import Row
from millstream.core.snapshot import StateKind
from millstream.datastream.adapters.process_functions import CallableProcessFunction
from millstream.datastream.connectors.base import Sink
from millstream.datastream.connectors.two_phase_commit import TwoPhaseCommitSink
from millstream.datastream.functions import KeySelector, MapFunction, OutputTag, ProcessFunction, RuntimeContext
from millstream.datastream.functions.checkpointed import CheckpointedFunction
from millstream.datastream.graph.held_state import held_state
from millstream.datastream.state import MapStateDescriptor
from millstream.taskmanager.testing import DEPLOYMENT
from millstream.taskmanager.worker.operators.base import OperatorError
from millstream.taskmanager.worker.operators.output import LocalOutput
from millstream.taskmanager.worker.operators.setup import TaskServices
from millstream.taskmanager.worker.operators.sinks.committing_sink import CommittingSinkOperator
from millstream.taskmanager.worker.runtime_context import TaskRuntimeContext
from millstream.taskmanager.worker.state.heap import HeapKeyedStateBackend
from millstream.taskmanager.worker.tasks.chain import ChainBuilder, OperatorChain

MAX_ROWS = 10


class Build:
    """A chain, and what reached each of the task's outputs."""

    def __init__(
        self, *operators: ChainedOperator, outputs: int = 1, kind: t.TypeInformation = t.PICKLED,
        object_reuse: bool = False, options: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.outputs: list[list[Batch]] = [[] for _ in range(outputs)]

        def no_source(context: RuntimeContext) -> Any:
            raise AssertionError("there is no source in these chains")

        services = TaskServices(
            lambda name: TaskRuntimeContext(DEPLOYMENT, name, {}, {}, {}),
            no_source,
            HeapKeyedStateBackend,
            max_rows=MAX_ROWS,
            max_column_rows=MAX_ROWS,
            options=options or {},
        )
        outputs = [LocalOutput(batches.append) for batches in self.outputs]
        builder = ChainBuilder(services, outputs, {0: kind}, object_reuse=object_reuse)
        self.chain: OperatorChain = builder.build(plan.Chain(operators))

    def rows(self, output: int = 0) -> list[Any]:
        return [row for batch in self.outputs[output] if isinstance(batch, RowBatch) for row in batch.rows]


def operator(
    spec: plan.OperatorSpec, *outputs: ChainedOutput, name: str = "op", kind: Any = t.PICKLED
) -> ChainedOperator:
    return ChainedOperator(f"id of {name}", name, spec, kind, outputs)


def test_operators_emit_into_each_other_and_out() -> None:
    built = Build(
        operator(plan.MapSpec(lambda n: n + 1), ChainedOutput(operator=1)),
        operator(plan.FilterSpec(lambda n: n % 2), ChainedOutput(operator=2), ChainedOutput(output=1)),
        operator(plan.FlatMapSpec(lambda n: [n, -n]), ChainedOutput(output=0)),
        outputs=2,
    )
    built.chain.head.process(RowBatch([0, 1, 2]))
    assert built.rows(0) == [1, -1, 3, -3]
    assert built.rows(1) == [1, 3]
    assert built.chain.ids == ["id of op"] * 3


def test_records_are_emitted_without_timestamps_where_they_are_not_used() -> None:
    built = Build(
        operator(plan.MapSpec(str), ChainedOutput(operator=1), ChainedOutput(output=1, timed=False)),
        operator(plan.FilterSpec(lambda n: n != "2"), ChainedOutput(output=0)),
        outputs=2,
    )
    built.chain.head.process(RowBatch([1, 2, 3], [10, 20, 30]))
    (filtered,), (mapped,) = built.outputs
    assert (built.rows(0), list(filtered.timestamps or [])) == (["1", "3"], [10, 30])
    assert (built.rows(1), mapped.timestamps) == (["1", "2", "3"], None)
    built.chain.head.process(ColumnBatch(pa.RecordBatch.from_pydict({"f0": [1]}), pa.array([10])))
    assert [batch.is_timed for batch in built.outputs[1]] == [False, False]


def test_columns_are_emitted_without_timestamps_where_they_are_not_used() -> None:
    built = Build(
        operator(plan.MapBatchesSpec(lambda batch: batch, "arrow"), ChainedOutput(output=0, timed=False)),
        kind=t.TupleType((t.LONG,)),
    )
    built.chain.head.process(ColumnBatch(pa.RecordBatch.from_pydict({"f0": [1]}), pa.array([10])))
    assert [(len(batch), batch.timestamps) for batch in built.outputs[0]] == [(1, None)]


def test_records_that_an_unaligned_checkpoint_may_hold_keep_their_timestamps() -> None:
    built = Build(
        operator(plan.MapSpec(str), ChainedOutput(output=0, timed=False)),
        options={"execution.checkpointing.unaligned.enabled": "true"},
    )
    built.chain.head.process(RowBatch([1], [10]))
    assert [list(batch.timestamps or []) for batch in built.outputs[0]] == [[10]]


def test_an_operator_without_outputs_drops_what_it_emits() -> None:
    built = Build(operator(plan.MapSpec(lambda n: n)))
    built.chain.head.process(RowBatch([1]))
    assert built.rows() == []


def test_columns_become_records_of_the_type_that_flows() -> None:
    pair = t.TupleType((t.LONG, t.STRING))
    seen: list[Any] = []
    built = Build(
        operator(plan.MapBatchesSpec(lambda batch: batch, "arrow"), ChainedOutput(operator=1), kind=pair),
        operator(plan.MapSpec(seen.append), ChainedOutput(output=0)),
        kind=pair,
    )
    built.chain.head.process(ColumnBatch(pa.RecordBatch.from_pydict({"f0": [1, 2], "f1": ["a", "b"]})))
    assert seen == [(1, "a"), (2, "b")]


def test_records_are_converted_to_their_declared_type() -> None:
    named = t.RowType((t.LONG, t.FLOAT), ("a", "b"))
    seen: list[Any] = []
    built = Build(
        operator(plan.MapSpec(lambda n: Row(n, 0.1)), ChainedOutput(operator=1), ChainedOutput(output=0), kind=named),
        operator(plan.MapSpec(seen.append), ChainedOutput(output=1)),
        outputs=2,
    )
    built.chain.head.process(RowBatch([1]))
    assert seen == built.rows(0) == [Row(a=1, b=0.10000000149011612)]
    too_large = Build(
        operator(plan.MapSpec(lambda n: n), ChainedOutput(output=0), name="narrow", kind=t.ListType(t.FLOAT))
    )
    with pytest.raises(OperatorError, match="too large for single precision") as caught:
        too_large.chain.head.process(RowBatch([[1.0], [2.0, 1e39], [3.0]]))
    assert (caught.value.operator_name, caught.value.record) == ("narrow", [2.0, 1e39])
    columns = Build(
        operator(plan.MapBatchesSpec(lambda batch: batch, "arrow"), ChainedOutput(operator=1), kind=t.FLOAT),
        operator(plan.MapSpec(lambda n: n), ChainedOutput(output=0)),
    )
    columns.chain.head.process(ColumnBatch(pa.RecordBatch.from_pydict({"value": [0.1]})))
    assert columns.rows() == [0.10000000149011612]


def test_side_outputs_do_not_have_the_main_outputs_type() -> None:
    class Split(ProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            yield OutputTag("words"), {"word": str(value)}
            yield value

    seen: list[Any] = []

    def watch(batch: pa.RecordBatch) -> None:
        seen.extend(batch.to_pylist())

    built = Build(
        operator(
            plan.ProcessSpec(Split()), ChainedOutput(output=0), ChainedOutput(operator=1, tag="words"), kind=t.LONG
        ),
        operator(plan.MapBatchesSpec(watch, "arrow")),
    )
    built.chain.head.process(RowBatch([1, 2]))
    assert built.rows() == [1, 2]
    assert seen == [{"word": "1"}, {"word": "2"}]


def test_a_side_output_inside_of_a_chain_has_its_declared_type() -> None:
    declared = t.RowType((t.LONG, t.STRING), ("number", "word"))
    seen: list[Any] = []
    built = Build(
        operator(
            plan.ProcessSpec(CallableProcessFunction(lambda value, ctx: [(OutputTag("rows"), Row(value, None))])),
            ChainedOutput(operator=1, tag="rows", tag_type=declared),
        ),
        operator(plan.MapBatchesSpec(lambda batch: seen.append(batch.schema), "arrow")),
    )
    built.chain.head.process(RowBatch([1, 2]))
    assert seen == [arrow_schema(declared)]


def test_the_edges_inside_of_a_chain_start_with_its_last_one() -> None:
    built = Build(
        operator(plan.MapSpec(lambda n: n + 1), ChainedOutput(operator=1, edge="first"), kind=t.LONG),
        operator(plan.MapSpec(lambda n: n * 10), ChainedOutput(operator=2, edge="second"), kind=t.STRING),
        operator(plan.MapSpec(lambda n: -n), ChainedOutput(output=0)),
    )
    ways = built.chain.ways()
    assert [(edge, kind) for edge, (_, kind) in ways.items()] == [("second", t.STRING), ("first", t.LONG)]
    for emit, _ in ways.values():
        emit(RowBatch([7]))
    assert built.rows() == [-7, -70]


@pytest.mark.parametrize("timed", [False, True])
def test_large_batches_of_rows_are_split(timed: bool) -> None:
    built = Build(operator(plan.FlatMapSpec(lambda n: range(95)), ChainedOutput(output=0)))
    built.chain.head.process(RowBatch([1], [7] if timed else None))
    assert [len(batch) for batch in built.outputs[0]] == [10] * 9 + [5]
    assert built.rows() == list(range(95))
    for batch in built.outputs[0]:
        assert (batch.timestamps and list(batch.timestamps)) == ([7] * len(batch) if timed else None)


def test_batches_of_up_to_four_times_the_size_stay_whole() -> None:
    built = Build(operator(plan.FlatMapSpec(lambda n: range(40)), ChainedOutput(output=0)))
    built.chain.head.process(RowBatch([1]))
    assert [len(batch) for batch in built.outputs[0]] == [40]


class Noted(MapFunction):
    """Records its lifecycle in a list that all share."""

    def __init__(self, name: str, notes: list[str], fail_in: str = "") -> None:
        self._name, self._notes, self._fail_in = name, notes, fail_in

    def _note(self, what: str) -> None:
        self._notes.append(f"{what} {self._name}")
        if self._fail_in == what:
            raise ValueError(self._name)

    def open(self, runtime_context: RuntimeContext) -> None:
        self._note("open")

    def close(self) -> None:
        self._note("close")

    def map(self, value: Any) -> Any:
        return value


def noted(*fail_in: str) -> tuple[OperatorChain, list[str]]:
    notes: list[str] = []
    names = ["a", "b", "c"]
    operators = [
        operator(plan.MapSpec(Noted(n, notes, fail)), *([ChainedOutput(operator=i + 1)] if i < 2 else []), name=n)
        for i, (n, fail) in enumerate(zip(names, fail_in or ("", "", ""), strict=True))
    ]
    return Build(*operators).chain, notes


def test_consumers_are_opened_before_producers() -> None:
    chain, notes = noted()
    chain.open()
    assert notes == ["open c", "open b", "open a"]
    notes.clear()
    assert chain.close() == []
    assert notes == ["close c", "close b", "close a"]


def test_every_operator_is_closed_even_if_others_fail() -> None:
    chain, notes = noted("close", "", "close")
    chain.open()
    notes.clear()
    errors = chain.close()
    assert notes == ["close c", "close b", "close a"]
    assert all(isinstance(error, OperatorError) for error in errors)
    assert [error.operator_name for error in errors if isinstance(error, OperatorError)] == ["c", "a"]


def test_a_failing_open_names_its_operator() -> None:
    chain, notes = noted("", "open", "")
    with pytest.raises(OperatorError) as caught:
        chain.open()
    assert caught.value.operator_name == "b"
    assert notes == ["open c", "open b"]


class Anything:
    """A user function, which is not called."""

    def __call__(self, *values: Any) -> Any:
        raise AssertionError("nothing is processed")

    map1 = map2 = flat_map1 = flat_map2 = process_element = process_element1 = process_element2 = __call__


class Checkpointed(Anything, CheckpointedFunction):
    def initialize_state(self, context: Any) -> None:
        raise AssertionError("it is not opened")

    snapshot_state = initialize_state


class PlainSink(Sink):
    def create_writer(self, context: RuntimeContext) -> Any:
        raise AssertionError("it is not opened")


class ExactSink(TwoPhaseCommitSink):
    """A sink whose behaviour does not matter."""

    begin_transaction = write = pre_commit = commit = abort = PlainSink.create_writer  # type: ignore[assignment]  # none is called


KEY = plan.KeySelector(fields=(0,))
KEYS = plan.TwoInputKeys(KEY, KEY)


@pytest.mark.parametrize("function", [Anything(), Checkpointed()])
@pytest.mark.parametrize(
    "spec_of",
    [
        plan.MapSpec,
        plan.FlatMapSpec,
        plan.FilterSpec,
        plan.ProcessSpec,
        lambda f: plan.KeyedProcessSpec(f, KEY),
        lambda f: plan.ReduceSpec(f, KEY),
        plan.CoMapSpec,
        lambda f: plan.CoMapSpec(f, KEYS),
        plan.CoFlatMapSpec,
        lambda f: plan.CoFlatMapSpec(f, KEYS),
        plan.CoProcessSpec,
        lambda f: plan.CoProcessSpec(f, KEYS),
        lambda f: plan.BroadcastProcessSpec(f, (MapStateDescriptor("rules", str, str),)),
        lambda f: plan.BroadcastProcessSpec(f, (MapStateDescriptor("rules", str, str),), plan.TwoInputKeys(KEY, None)),
        lambda f: plan.MapBatchesSpec(f, "arrow"),
        lambda f: plan.SinkSpec(PlainSink()),
        lambda f: plan.SinkSpec(ExactSink()),
        lambda f: plan.CollectSpec(),
    ],
)
def test_an_operator_has_state_only_as_the_graph_declares(spec_of: Any, function: Any) -> None:
    spec = spec_of(function)
    built, holds = Build(operator(spec)).chain.head, held_state(spec)
    assert (StateKind.VALUE in holds, StateKind.TIMERS in holds) == (built.keyed_state is not None,) * 2
    assert (StateKind.OPERATOR_UNION in holds, StateKind.BROADCAST in holds) == (built.operator_state is not None,) * 2
    assert (StateKind.SINK_TRANSACTIONS in holds) == isinstance(built, CommittingSinkOperator)
    assert StateKind.SPLITS not in holds


class Opened(KeySelector):
    def __init__(self) -> None:
        self.lives: list[str] = []

    def open(self, runtime_context: RuntimeContext) -> None:
        self.lives.append(runtime_context.get_task_name())

    def close(self) -> None:
        self.lives.append("closed")

    def get_key(self, value: Any) -> Any:
        return value


def test_a_selector_shared_by_several_operators_is_opened_and_closed_once() -> None:
    shared = Opened()
    reducing = plan.ReduceSpec(lambda a, b: a, plan.KeySelector(function=shared))
    built = Build(
        operator(reducing, ChainedOutput(operator=1), name="first"),
        operator(reducing, ChainedOutput(output=0), name="second"),
    )
    built.chain.open()
    built.chain.head.process(RowBatch([1, 2]))
    assert built.chain.close() == []
    assert shared.lives == ["first", "closed"]
    assert built.rows() == [1, 2]
