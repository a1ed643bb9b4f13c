"""Whatever a function does with the records that it received or returned, no other function is affected."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from test_chain import Build, operator

from millstream.core.jobs.plan import plan
from millstream.core.jobs.plan.plan import ChainedOutput, EdgeSpec, KeySelector
from millstream.core.records import types as t
from millstream.core.records.batches import Batch, ColumnBatch, RowBatch
from millstream.core.records.handover import RecordCopyError
from millstream.core.row import Row
from millstream.datastream.adapters.paired_functions import (
    PairedFlatMapFunction,
    PairedMapFunction,
    PairedProcessFunction,
)
from millstream.datastream.adapters.process_functions import CallableProcessFunction
from millstream.datastream.connectors.print import PrintSink
from millstream.datastream.functions import (
    FilterFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    RuntimeContext,
)
from millstream.datastream.state import ListStateDescriptor, ValueStateDescriptor
from millstream.taskmanager.worker.operators.base import OperatorError
from millstream.taskmanager.worker.operators.two_input import TwoInputOperator
from millstream.taskmanager.worker.partitioning import PartitioningError, make_router


@dataclass
class Reading:
    values: list[int]


MAKERS: list[Callable[[], Any]] = [
    lambda: {"n": [0]}, lambda: [0], lambda: (0, [0]), lambda: Reading([0]), lambda: Row([0]), lambda: {0},
    lambda: bytearray(1),
]  # fmt: skip
makers = pytest.mark.parametrize("make", MAKERS, ids=["dict", "list", "tuple", "dataclass", "row", "set", "bytearray"])
timestamps = pytest.mark.parametrize("times", [None, [1, 2, 3]], ids=["untimed", "timed"])


def change(record: Any) -> Any:
    """The same record, with modified contents."""
    match record:
        case {"n": inner}:
            change(inner)
        case tuple():
            change(record[1])
        case Reading():
            change(record.values)
        case Row():
            record[0] = [*record[0], 1]
        case set():
            record.add(len(record))
        case _:
            record.append(1)
    return record


def changed(make: Callable[[], Any], times: int) -> Any:
    record = make()
    for _ in range(times):
        change(record)
    return record


def out(index: int = 0, tag: str | None = None) -> ChainedOutput:
    return ChainedOutput(output=index, tag=tag)


def to(index: int, tag: str | None = None) -> ChainedOutput:
    return ChainedOutput(operator=index, tag=tag)


def filling(kind: str, make: Callable[[], Any]) -> plan.OperatorSpec:
    """A function with one buffer, which it modifies for each record and returns."""
    buffer = make()

    def fill(value: Any) -> Any:
        return change(buffer)

    def fill_list(value: Any) -> list[Any]:
        return [change(buffer)]

    def process(value: Any, ctx: Any) -> Iterator[Any]:
        yield change(buffer)

    def process_and_change(value: Any, ctx: Any) -> Iterator[Any]:
        yield change(buffer)
        change(buffer)

    specs: dict[str, plan.OperatorSpec] = {
        "map": plan.MapSpec(fill),
        "flat_map": plan.FlatMapSpec(fill_list),
        "process": plan.ProcessSpec(CallableProcessFunction(process_and_change)),
        "co_map": plan.CoMapSpec(PairedMapFunction(fill, fill)),
        "co_flat_map": plan.CoFlatMapSpec(PairedFlatMapFunction(fill_list, fill_list)),
        "co_process": plan.CoProcessSpec(PairedProcessFunction(process, process)),
    }
    return specs[kind]


@makers
@timestamps
@pytest.mark.parametrize("kind", ["map", "flat_map", "process", "co_map", "co_flat_map", "co_process"])
def test_a_function_may_return_the_same_object_repeatedly(
    kind: str, make: Callable[[], Any], times: list[int] | None
) -> None:
    built = Build(operator(filling(kind, make), out()))
    head = built.chain.head
    batch = RowBatch([1, 2, 3], times)
    head.process(batch)
    (head.process2 if isinstance(head, TwoInputOperator) else head.process)(batch)
    every = 2 if kind == "process" else 1
    assert built.rows() == [changed(make, 1 + n * every) for n in range(6)]


@makers
@timestamps
def test_a_filter_may_keep_and_change_what_it_lets_through(make: Callable[[], Any], times: list[int] | None) -> None:
    class Keeps(FilterFunction):
        def __init__(self) -> None:
            self.kept: list[Any] = []

        def filter(self, value: Any) -> bool:
            for kept in self.kept:
                change(kept)
            self.kept.append(value)
            return True

    built = Build(operator(plan.FilterSpec(Keeps()), out()))
    built.chain.head.process(RowBatch([make() for _ in range(3)], times))
    assert built.rows() == [make()] * 3


@makers
def test_consumers_of_one_stream_modify_their_own_records(make: Callable[[], Any]) -> None:
    built = Build(
        operator(plan.MapSpec(lambda n: make()), to(1), to(2), out(0), to(1), out(0)),
        operator(plan.MapSpec(change), out(1)),
        operator(plan.FlatMapSpec(lambda record: [change(change(record))]), out(2)),
        outputs=3,
    )
    built.chain.head.process(RowBatch([1, 2]))
    assert built.rows(0) == [make()] * 4
    assert built.rows(1) == [changed(make, 1)] * 4
    assert built.rows(2) == [changed(make, 2)] * 2
    every = [row for output in range(3) for row in built.rows(output)]
    for row in every[:-1]:
        before = [repr(other) for other in every if other is not row]
        change(row)
        assert [repr(other) for other in every if other is not row] == before


@makers
def test_side_outputs_get_their_own_records(make: Callable[[], Any]) -> None:
    side = OutputTag("side")

    class Both(ProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            record = make()
            yield record
            yield side, record
            yield side, change(record)

    built = Build(operator(plan.ProcessSpec(Both()), out(0), out(1, "side"), out(2, "side")), outputs=3)
    built.chain.head.process(RowBatch([1]))
    change(built.rows(1)[0])
    assert built.rows(0) == [make()]
    assert built.rows(1) == [changed(make, 1)] * 2
    assert built.rows(2) == [make(), changed(make, 1)]


@makers
def test_state_is_not_changed_by_consumers_of_its_values(make: Callable[[], Any]) -> None:
    class Remembers(KeyedProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.value = runtime_context.get_state(ValueStateDescriptor("value", t.PICKLED))
            self.list = runtime_context.get_list_state(ListStateDescriptor("list", t.PICKLED))

        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            if self.value.value() is None:
                self.value.update(value)
            self.list.add(value)
            yield self.value.value()
            yield from self.list.get()
            yield value

    spec = plan.KeyedProcessSpec(Remembers(), KeySelector(function=lambda value: 0))
    built = Build(operator(spec, to(1)), operator(plan.MapSpec(change), out()))
    built.chain.open()
    built.chain.head.process(RowBatch([make()]))
    built.chain.head.process(RowBatch([make()]))
    assert built.rows() == [changed(make, 1)] * 7


@makers
@pytest.mark.parametrize("way", ["in place", "new", "one buffer"])
def test_a_reduce_and_its_consumers_modify_their_own_values(make: Callable[[], Any], way: str) -> None:
    buffer = make()

    def reduce(first: Any, second: Any) -> Any:
        if way == "in place":
            return change(first)
        if way == "new":
            return changed(make, 1 + size(first) - size(make()))
        while size(buffer) <= size(first):
            change(buffer)
        return buffer

    spec = plan.ReduceSpec(reduce, KeySelector(function=lambda record: 0))
    built = Build(operator(spec, out(0), to(1)), operator(plan.MapSpec(change), out(1)), outputs=2)
    for rows in ([make(), make(), make()], [make()]):
        built.chain.head.process(RowBatch(rows))
    assert built.rows(0) == [changed(make, n) for n in range(4)]
    assert built.rows(1) == [changed(make, n + 1) for n in range(4)]


def size(record: Any) -> int:
    match record:
        case {"n": inner} | Reading(inner):
            return len(inner)
        case tuple():
            return len(record[1])
        case Row():
            return len(record[0])
    return len(record)


def test_values_of_a_reduce_with_several_types() -> None:
    def add(first: Any, second: Any) -> Any:
        if isinstance(second, list):
            second.append(len(first) if isinstance(first, list) else 0)
        return second

    spec = plan.ReduceSpec(add, KeySelector(function=lambda record: 0))
    clear = plan.MapSpec(lambda record: record.clear() or record if isinstance(record, list) else record)
    built = Build(operator(spec, to(1)), operator(clear, out()))
    built.chain.head.process(RowBatch([1, [5], [6], 2]))
    built.chain.head.process(RowBatch([[7]]))
    assert built.rows() == [1, [], [], 2, []]
    direct = Build(operator(spec, out()))
    direct.chain.head.process(RowBatch([1, [5], [6], 2]))
    assert direct.rows() == [1, [5, 0], [6, 2], 2]


def test_a_reduce_that_only_calculates_separates_mutable_values() -> None:
    spec = plan.ReduceSpec(lambda first, second: first, KeySelector(function=lambda record: type(record).__name__))
    append = plan.MapSpec(lambda record: change(record) if isinstance(record, list) else record)
    built = Build(operator(spec, to(1)), operator(append, out()))
    for batch in RowBatch([5, 6], plain=True), RowBatch([[0], 7, [8]]), RowBatch([[9]]), RowBatch([10], plain=True):
        built.chain.head.process(batch)
    assert built.rows() == [5, 5, [0, 1], 5, [0, 1], [0, 1], 5]


def test_declared_types_and_object_reuse_pass_the_objects_themselves() -> None:
    made: list[Any] = []

    def make(n: int) -> Any:
        made.append((n, "a") if n else [n])
        return made[-1]

    typed = Build(operator(plan.MapSpec(make), out(0), out(1), kind=t.TupleType((t.LONG, t.STRING))), outputs=2)
    typed.chain.head.process(RowBatch([1, 2]))
    reused = Build(operator(plan.MapSpec(make), out(0), out(1)), outputs=2, object_reuse=True)
    reused.chain.head.process(RowBatch([0]))
    for output in (0, 1):
        assert all(a is b for a, b in zip(typed.rows(output) + reused.rows(output), made, strict=True))


@pytest.mark.parametrize("form", ["frame", "arrays"])
def test_a_vectorised_function_may_return_the_same_frame_repeatedly(form: str) -> None:
    numbers = np.zeros(2)
    frame = pd.DataFrame({"n": numbers}, copy=False)

    def fill(batch: Any) -> Any:
        numbers[:] += 1
        frame["n"] += 1
        return frame if form == "frame" else {"n": numbers}

    built = Build(operator(plan.MapBatchesSpec(fill, "arrow"), out(), kind=t.TupleType((t.DOUBLE,))))
    for _ in range(3):
        built.chain.head.process(ColumnBatch(pa.RecordBatch.from_pydict({"n": [1]})))
    columns = [batch.data["n"].to_pylist() for batch in built.outputs[0] if isinstance(batch, ColumnBatch)]
    assert len({tuple(column) for column in columns}) == 3


class Connection:
    def __init__(self, number: int) -> None:
        self.number = number
        self.lock = threading.Lock()


def test_objects_that_cannot_be_copied_pass_through_a_chain(capsys: pytest.CaptureFixture[str]) -> None:
    built = Build(
        operator(plan.MapSpec(Connection), to(1)),
        operator(plan.FilterSpec(lambda c: c.number), to(2)),
        operator(plan.FlatMapSpec(lambda c: [c]), to(3), to(4)),
        operator(plan.SinkSpec(PrintSink())),
        operator(plan.MapSpec(lambda c: c.number), out()),
    )
    built.chain.open()
    built.chain.head.process(RowBatch([0, 1, 2]))
    assert built.rows() == [1, 2]
    assert capsys.readouterr().out.count("Connection") == 2


def test_objects_that_have_to_be_copied_but_cannot_be_are_reported() -> None:
    kept = Connection(1)
    built = Build(operator(plan.MapSpec(lambda n: kept), out(), name="kept"))
    shared = Build(operator(plan.MapSpec(Connection), out(0), out(1), name="shared"), outputs=2)
    for build, name, what in ((built, "kept", "may still change it"), (shared, "shared", "several consumers")):
        with pytest.raises(OperatorError) as failure:
            build.chain.head.process(RowBatch([1]))
        assert failure.value.operator_name == name
        assert isinstance(failure.value.record, Connection)
        assert isinstance(failure.value.__cause__, RecordCopyError)
        assert what in str(failure.value.__cause__)
        assert "pipeline.object-reuse" in str(failure.value.__cause__)


def test_broadcast_gives_tasks_of_the_same_worker_their_own_records() -> None:
    def routed(kind: t.TypeInformation, local: list[int], rows: list[Any]) -> list[list[Any]]:
        edge = EdgeSpec(plan.BroadcastPartitioner(), kind, 128)
        parts: dict[int, Batch] = dict(make_router(edge, 3, 0, 0, local).route(RowBatch(rows)))
        assert all(isinstance(part, RowBatch) for part in parts.values())
        return [part.rows for _, part in sorted(parts.items()) if isinstance(part, RowBatch)]

    rows = [{"a": [1]}]
    assert routed(t.PICKLED, [0, 1, 2], rows) == [rows] * 3
    for local, distinct in (([], 1), ([1], 2), ([0, 2], 3), ([0, 1, 2], 3)):
        assert len({id(part[0]["a"]) for part in routed(t.PICKLED, local, rows)}) == distinct
    assert len({id(part[0]) for part in routed(t.STRING, [0, 1], ["a"])}) == 1
    with pytest.raises(PartitioningError, match="several consumers"):
        routed(t.PICKLED, [0, 1], [Connection(1)])
