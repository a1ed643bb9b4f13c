"""Each operator: what it emits, with which timestamps, and exactly whom and what it blames for a failure."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from msgspec.structs import replace

from millstream.core.jobs import plan
from millstream.core.jobs.plan import KeySelector
from millstream.core.records import types as t
from millstream.core.records.batches import Batch, ColumnBatch, RowBatch
from millstream.core.row import Row
from millstream.datastream.connectors.base import Sink, SinkWriter
from millstream.datastream.functions import (
    Counter,
    FilterFunction,
    FlatMapFunction,
    IntCounter,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    ReduceFunction,
    RuntimeContext,
)
from millstream.taskmanager.testing import DEPLOYMENT, KeptOutput, OperatorHarness
from millstream.taskmanager.worker.operators.base import NO_RECORD, OperatorError
from millstream.taskmanager.worker.operators.output import LocalOutput
from millstream.taskmanager.worker.runtime_context import TaskRuntimeContext
from millstream.taskmanager.worker.state.heap import HeapKeyedStateBackend

PAIR = t.TupleType((t.LONG, t.STRING))


def runtime_context(**counters: Counter) -> TaskRuntimeContext:
    deployment = replace(DEPLOYMENT, subtask=1, parallelism=3, attempt=2)
    return TaskRuntimeContext(deployment, "operator", {"my.option": "value"}, counters, {})


class Rig:
    """An operator and everything that it emitted, told apart by output."""

    def __init__(self, make: Any, *arguments: Any, kind: t.TypeInformation = t.PICKLED) -> None:
        spec = make(*arguments) if arguments else make
        self._harness = OperatorHarness(spec, kind, context=runtime_context())
        self.operator = self._harness.operator

    def side(self, tag: str) -> list[Any]:
        output = self.operator.side_outputs[tag] = KeptOutput()
        return output.elements

    def process(self, batch: Batch) -> None:
        self._harness.process(batch)

    @property
    def emitted(self) -> list[Any]:
        return self._harness.out.batches

    @property
    def rows(self) -> list[Any]:
        return [row for batch in self.emitted for row in contents(batch)[0]]


def contents(batch: Batch) -> tuple[list[Any], list[int] | None]:
    if isinstance(batch, RowBatch):
        return batch.rows, None if batch.timestamps is None else list(batch.timestamps)
    times = batch.timestamps
    return [tuple(r.values()) for r in batch.data.to_pylist()], times.to_pylist() if times is not None else None


def pairs(count: int, form: str) -> Batch:
    """(n, "n") for n below count: as rows or columns, timed or not."""
    rows = [(n, str(n)) for n in range(count)]
    times = [n * 10 for n in range(count)] if "timed" in form else None
    if "rows" in form:
        return RowBatch(rows, times)
    arrays = [pa.array([r[0] for r in rows], pa.int64()), pa.array([r[1] for r in rows], pa.string())]
    data = pa.RecordBatch.from_arrays(arrays, names=["f0", "f1"])
    return ColumnBatch(data, pa.array(times, pa.int64()) if times is not None else None)


FORMS = ["rows", "timed rows", "columns", "timed columns"]
forms = pytest.mark.parametrize("form", FORMS)


def times(form: str, *values: int) -> list[int] | None:
    return list(values) if "timed" in form else None


@forms
def test_map(form: str) -> None:
    rig = Rig(plan.MapSpec, lambda pair: pair[0] * 2, kind=PAIR)
    rig.process(pairs(3, form))
    assert [contents(b) for b in rig.emitted] == [([0, 2, 4], times(form, 0, 10, 20))]


@forms
def test_filter_keeps_the_form(form: str) -> None:
    rig = Rig(plan.FilterSpec, lambda pair: pair[0] % 2, kind=PAIR)
    rig.process(pairs(5, form))
    assert [contents(b) for b in rig.emitted] == [([(1, "1"), (3, "3")], times(form, 10, 30))]
    assert isinstance(rig.emitted[0], ColumnBatch if "columns" in form else RowBatch)


@forms
def test_filter_that_keeps_nothing_emits_nothing(form: str) -> None:
    rig = Rig(plan.FilterSpec, lambda pair: False, kind=PAIR)
    rig.process(pairs(5, form))
    assert rig.emitted == []


def test_filter_understands_all_truths() -> None:
    rig = Rig(plan.FilterSpec, lambda value: value)
    rig.process(RowBatch([0, 1, "", "a", None, [0], np.bool_(False), np.bool_(True)], list(range(8))))
    assert [contents(b)[1] for b in rig.emitted] == [[1, 3, 5, 7]]


@forms
def test_flat_map(form: str) -> None:
    rig = Rig(plan.FlatMapSpec, lambda pair: [pair[1]] * pair[0], kind=PAIR)
    rig.process(pairs(4, form))
    assert [contents(b) for b in rig.emitted] == [(["1", "2", "2", "3", "3", "3"], times(form, 10, 20, 20, 30, 30, 30))]


def endless_but_one(value: int) -> Iterator[int]:
    if value:
        yield value
        yield -value


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (endless_but_one, [1, -1, 2, -2]),
        (lambda value: None, []),
        (lambda value: None if value == 1 else (value,), [0, 2]),
        (lambda value: range(value), [0, 0, 1]),
        (lambda value: {value: "ignored"}, [0, 1, 2]),
        (lambda value: np.array([value, value + 10]), [0, 10, 1, 11, 2, 12]),
        (lambda value: pd.Series([value] * 2), [0, 0, 1, 1, 2, 2]),
        (lambda value: str(value) * 2, ["0", "0", "1", "1", "2", "2"]),
    ],
    ids=["generator", "none", "some none", "range", "dict", "numpy", "pandas", "text"],
)
@pytest.mark.parametrize("timed", [False, True])
def test_flat_map_takes_any_iterable(function: Any, expected: list[Any], timed: bool) -> None:
    rig = Rig(plan.FlatMapSpec, function)
    rig.process(RowBatch([0, 1, 2], [5, 6, 7] if timed else None))
    assert rig.rows == expected
    assert len(rig.emitted) == (1 if expected else 0)


@forms
def test_process_sees_timestamps_and_side_outputs(form: str) -> None:
    late = OutputTag("late", t.STRING)
    unread = OutputTag("unread")

    class Splitter(ProcessFunction):
        def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
            number, text = value
            if number == 0:
                return None
            return [(late, text), (unread, number), (number, ctx.timestamp()), (number, text)]

    rig = Rig(plan.ProcessSpec, Splitter(), kind=PAIR)
    side = rig.side("late")
    rig.process(pairs(3, form))
    stamps = [10, 20] if "timed" in form else [None, None]
    assert [contents(b) for b in rig.emitted] == [
        ([(1, stamps[0]), (1, "1"), (2, stamps[1]), (2, "2")], times(form, 10, 10, 20, 20))
    ]
    assert [contents(b) for b in side] == [(["1", "2"], times(form, 10, 20))]


def test_process_passes_on_pairs_that_are_no_side_outputs() -> None:
    class Echo(ProcessFunction):
        def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
            yield value

    rig = Rig(plan.ProcessSpec, Echo())
    rig.process(RowBatch([("late", 1), [OutputTag("late"), 2], (OutputTag("late"), 1, 2)]))
    assert rig.rows == [("late", 1), [OutputTag("late"), 2], (OutputTag("late"), 1, 2)]


@forms
def test_keyed_process_sees_the_key(form: str) -> None:
    class WithKey(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
            yield ctx.get_current_key(), value[0], ctx.timestamp()

    rig = Rig(plan.KeyedProcessSpec(WithKey(), KeySelector((1,))), kind=PAIR)
    rig.process(pairs(2, form))
    stamps = [0, 10] if "timed" in form else [None, None]
    assert rig.rows == [("0", 0, stamps[0]), ("1", 1, stamps[1])]


@forms
def test_reduce_folds_each_key_in_order(form: str) -> None:
    spec = plan.ReduceSpec(lambda a, b: (b[0], f"{a[1]}{b[1]}"), KeySelector(function=lambda pair: pair[0] % 2))
    rig = Rig(spec, kind=PAIR)
    rig.process(pairs(5, form))
    assert [contents(b) for b in rig.emitted] == [
        ([(0, "0"), (1, "1"), (2, "02"), (3, "13"), (4, "024")], times(form, 0, 10, 20, 30, 40))
    ]
    rig.process(pairs(2, form))
    assert contents(rig.emitted[1])[0] == [(0, "0240"), (1, "131")]


def test_reduce_takes_equal_keys_as_one() -> None:
    spec = plan.ReduceSpec(lambda a, b: (a[0], a[1] + b[1]), KeySelector((0,)))
    rig = Rig(spec)
    rig.process(RowBatch([(1, 1), (1.0, 10), (True, 100), (None, 5), (None, 6)]))
    assert rig.rows == [(1, 1), (1, 11), (1, 111), (None, 5), (None, 11)]


@dataclass
class Total:
    key: int
    total: int
    parts: list[int]


def add_in_place(before: Any, record: Any) -> Any:
    match before:
        case Total():
            before.total += record.total
            before.parts += record.parts
        case list():
            before[1] += record[1]
        case tuple():
            before[1].extend(record[1])
        case Row():
            before[1] += record[1]
    return before


def test_a_key_selector_that_raises_stop_iteration_fails_on_its_record() -> None:
    def key_of(record: int) -> int:
        return record if record < 2 else next(iter(()))

    rig = Rig(plan.ReduceSpec(max, KeySelector(function=key_of)))
    with pytest.raises(OperatorError, match="StopIteration") as failure:
        rig.process(RowBatch([0, 1, 2, 3]))
    assert failure.value.record == 2


@pytest.mark.parametrize(
    "make",
    [
        lambda n: Total(0, n, [n]),
        lambda n: [0, n],
        lambda n: (0, [n]),
        lambda n: Row(0, n),
    ],
    ids=["dataclass", "list", "tuple", "row"],
)
def test_a_reduce_that_changes_its_first_argument_does_not_change_what_was_emitted(make: Callable[[int], Any]) -> None:
    spec = plan.ReduceSpec(add_in_place, KeySelector(function=lambda value: 0))
    rig = Rig(spec)
    records = [make(n) for n in (1, 2, 3)]
    rig.process(RowBatch(records))
    rig.process(RowBatch([make(4)]))
    rig.process(RowBatch([]))
    expected: list[Any] = [make(1)]
    for n in (2, 3, 4):
        expected.append(add_in_place(copy.deepcopy(expected[-1]), make(n)))
    assert rig.rows == expected
    assert records == [make(n) for n in (1, 2, 3)]


def test_a_consumer_that_changes_what_a_reduce_emitted_does_not_change_its_state() -> None:
    spec = plan.ReduceSpec(lambda a, b: {"n": a["n"] + b["n"]}, KeySelector(function=lambda value: 0))
    rig = Rig(spec)
    rig.process(RowBatch([{"n": 1}, {"n": 2}]))
    for record in rig.rows:
        record["n"] = 1000
    rig.process(RowBatch([{"n": 3}]))
    assert rig.rows[-1] == {"n": 6}


def test_state_of_one_name_is_the_same_state() -> None:
    backend = HeapKeyedStateBackend()
    table = backend.table("sum", t.LONG)
    assert backend.table("sum", t.LONG) is table
    assert backend.table("other", t.LONG) is not table
    assert table.fold([1, 0, 1], iter([1, 2, 3]), lambda a, b: a + b) == [1, 2, 4]


def double_arrow(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.set_column(0, "f0", pc.multiply(batch.column(0), 2))


def double_pandas(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(f0=frame["f0"] * 2)


@forms
@pytest.mark.parametrize(
    ("function", "batch_format"),
    [
        (double_arrow, "arrow"),
        (lambda batch: pa.Table.from_batches([double_arrow(batch)]), "arrow"),
        (lambda batch: {"f0": pc.multiply(batch.column(0), 2), "f1": batch.column(1)}, "arrow"),
        (lambda batch: {"f0": [2 * n for n in batch.column(0).to_pylist()], "f1": batch.column(1)}, "arrow"),
        (lambda batch: double_pandas(batch.to_pandas()), "arrow"),
        (double_pandas, "pandas"),
        (lambda frame: {"f0": frame["f0"].to_numpy() * 2, "f1": list(frame["f1"])}, "pandas"),
    ],
    ids=["arrow", "table", "dict of arrays", "dict of lists", "arrow to pandas", "pandas", "pandas to dict"],
)
def test_map_batches(form: str, function: Any, batch_format: str) -> None:
    rig = Rig(plan.MapBatchesSpec, function, batch_format, kind=PAIR)
    rig.process(pairs(3, form))
    assert isinstance(rig.emitted[0], ColumnBatch)
    assert [contents(b) for b in rig.emitted] == [([(0, "0"), (2, "1"), (4, "2")], times(form, 0, 10, 20))]


@forms
def test_what_map_batches_emits_can_be_used_by_every_operator(form: str) -> None:
    rig = Rig(plan.MapBatchesSpec, double_arrow, "arrow", kind=PAIR)
    rig.process(pairs(3, form))
    for make, function in (
        (plan.MapSpec, lambda p: p),
        (plan.FilterSpec, lambda p: True),
        (plan.FlatMapSpec, lambda p: [p]),
    ):
        following = Rig(make, function, kind=PAIR)
        following.process(rig.emitted[0])
        assert contents(following.emitted[0]) == ([(0, "0"), (2, "1"), (4, "2")], times(form, 0, 10, 20))


@pytest.mark.parametrize("answer", [lambda batch: None, lambda batch: batch.slice(0, 0)], ids=["none", "empty"])
def test_map_batches_may_answer_nothing(answer: Any) -> None:
    rig = Rig(plan.MapBatchesSpec, answer, "arrow", kind=PAIR)
    rig.process(pairs(3, "rows"))
    assert rig.emitted == []


def test_map_batches_of_another_length_has_no_timestamps() -> None:
    rig = Rig(plan.MapBatchesSpec, lambda batch: batch.slice(1), "arrow", kind=PAIR)
    rig.process(pairs(3, "timed columns"))
    assert [contents(b) for b in rig.emitted] == [([(1, "1"), (2, "2")], None)]


class TestBlame:
    """The failing record is in the middle of the batch: it alone, and its own operator, are named."""

    @staticmethod
    def fails_on_two(value: Any) -> Any:
        if value[0] == 2:
            raise ZeroDivisionError("two")
        return value

    @pytest.mark.parametrize(
        ("make", "arguments"),
        [
            (plan.MapSpec, (lambda v: TestBlame.fails_on_two(v),)),
            (plan.FilterSpec, (lambda v: TestBlame.fails_on_two(v),)),
            (plan.FlatMapSpec, (lambda v: TestBlame.fails_on_two(v),)),
            (plan.FlatMapSpec, (lambda v: (TestBlame.fails_on_two(x) for x in (v, v)),)),
            (plan.ReduceSpec, (lambda a, b: TestBlame.fails_on_two(b), KeySelector(function=lambda v: 0))),
            (plan.ReduceSpec, (lambda a, b: b, KeySelector(function=lambda v: TestBlame.fails_on_two(v)[0]))),
        ],
        ids=["map", "filter", "flat map", "generator", "reduce", "reduce key"],
    )
    @forms
    def test_functions(self, make: Any, arguments: tuple[Any, ...], form: str) -> None:
        rig = Rig(make, *arguments, kind=PAIR)
        with pytest.raises(OperatorError) as caught:
            rig.process(pairs(5, form))
        assert caught.value.operator_name == "the operator"
        assert caught.value.record == (2, "2")
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        assert rig.emitted == []

    @forms
    @pytest.mark.parametrize("keyed", [False, True])
    def test_process(self, form: str, keyed: bool) -> None:
        class Failing(ProcessFunction):
            def process_element(self, value: Any, ctx: Any) -> Any:
                yield value
                TestBlame.fails_on_two(value)

        spec = plan.KeyedProcessSpec(Failing(), KeySelector((0,))) if keyed else plan.ProcessSpec(Failing())
        rig = Rig(spec, kind=PAIR)
        with pytest.raises(OperatorError) as caught:
            rig.process(pairs(5, form))
        assert caught.value.record == (2, "2")

    @pytest.mark.parametrize("answer", [1, object()], ids=["number", "object"])
    def test_flat_map_that_answers_no_iterable(self, answer: Any) -> None:
        rig = Rig(plan.FlatMapSpec, lambda v: answer if v == 3 else [v])
        with pytest.raises(OperatorError) as caught:
            rig.process(RowBatch([1, 2, 3, 4]))
        assert caught.value.record == 3
        assert isinstance(caught.value.__cause__, TypeError)

    def test_stop_iteration_is_a_failure_like_any_other(self) -> None:
        def stop(value: int) -> int:
            raise StopIteration

        rig = Rig(plan.MapSpec, stop)
        with pytest.raises(OperatorError) as caught:
            rig.process(RowBatch([1, 2]))
        assert caught.value.record == 1

    @pytest.mark.parametrize(
        ("make", "arguments"),
        [
            (plan.MapSpec, (lambda v: v,)),
            (plan.FilterSpec, (lambda v: True,)),
            (plan.FlatMapSpec, (lambda v: [v],)),
            (plan.MapBatchesSpec, (lambda batch: batch, "arrow")),
            (plan.ReduceSpec, (lambda a, b: b, KeySelector((0,)))),
        ],
        ids=["map", "filter", "flat map", "map batches", "reduce"],
    )
    @forms
    def test_an_operator_takes_no_blame_for_the_next(self, make: Any, arguments: tuple[Any, ...], form: str) -> None:
        following = Rig(plan.MapSpec, self.fails_on_two, kind=PAIR)
        following.operator.name = "the next"
        rig = Rig(make, *arguments, kind=PAIR)
        rig.operator.output = LocalOutput(following.process)
        with pytest.raises(OperatorError) as caught:
            rig.process(pairs(5, form))
        assert caught.value.operator_name == "the next"
        assert caught.value.record == (2, "2")
        assert isinstance(caught.value.__cause__, ZeroDivisionError)

    def test_a_record_that_is_not_what_was_declared(self) -> None:
        rig = Rig(plan.MapBatchesSpec, lambda batch: batch, "arrow", kind=PAIR)
        with pytest.raises(OperatorError, match=r"column 'f0', row 1: 1.9 is not a Long") as caught:
            rig.process(RowBatch([(1, "a"), (1.9, "b")]))
        assert caught.value.record == (1.9, "b")
        assert caught.value.operator_name == "the operator"

    @pytest.mark.parametrize("answer", [5, "text", [1, 2], {"a": [1], "b": [1, 2]}], ids=repr)
    def test_map_batches_that_answers_no_columns(self, answer: Any) -> None:
        rig = Rig(plan.MapBatchesSpec, lambda batch: answer, "arrow", kind=PAIR)
        with pytest.raises(OperatorError) as caught:
            rig.process(pairs(2, "rows"))
        assert caught.value.record is NO_RECORD
        assert caught.value.operator_name == "the operator"

    def test_rows_that_do_not_fit_their_columns(self) -> None:
        rig = Rig(plan.MapBatchesSpec, lambda batch: batch, "arrow", kind=PAIR)
        with pytest.raises(OperatorError, match="Long"):
            rig.process(RowBatch([(1, "a"), ("b", "c")]))


class Rich:
    """Records the calls of its life."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def open(self, runtime_context: RuntimeContext) -> None:
        self.calls.append(f"open {runtime_context.get_task_name_with_subtasks()}")

    def close(self) -> None:
        self.calls.append("close")


class RichMap(Rich, MapFunction):
    def map(self, value: Any) -> Any:
        return -value


class RichFilter(Rich, FilterFunction):
    def filter(self, value: Any) -> bool:
        return bool(value > 1)


class RichFlatMap(Rich, FlatMapFunction):
    def flat_map(self, value: Any) -> Any:
        return [value, value]


class RichReduce(Rich, ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1 + value2


@pytest.mark.parametrize(
    ("make", "function", "expected"),
    [
        (plan.MapSpec, RichMap(), [-1, -2]),
        (plan.FilterSpec, RichFilter(), [2]),
        (plan.FlatMapSpec, RichFlatMap(), [1, 1, 2, 2]),
        (
            lambda function: plan.ReduceSpec(function, KeySelector(function=str)),
            RichReduce(),
            [1, 2],
        ),
    ],
    ids=["map", "filter", "flat map", "reduce"],
)
def test_rich_functions_are_opened_and_closed(make: Any, function: Any, expected: list[Any]) -> None:
    rig = Rig(make, function)
    rig.operator.open()
    rig.process(RowBatch([1, 2]))
    rig.operator.finish()
    rig.operator.close()
    assert rig.rows == expected
    assert function.calls == ["open operator (2/3)", "close"]


@pytest.mark.parametrize("method", ["open", "close"])
def test_failures_of_open_and_close_have_no_record(method: str) -> None:
    function = RichMap()

    def fail(*_: Any) -> None:
        raise OSError("no such table")

    setattr(function, method, fail)
    rig = Rig(plan.MapSpec, function)
    with pytest.raises(OperatorError, match="no such table") as caught:
        getattr(rig.operator, method)()
    assert caught.value.record is NO_RECORD


@dataclass
class MemorySink(Sink):
    fail_in: str = ""

    def create_writer(self, context: RuntimeContext) -> SinkWriter:
        self.calls: list[Any] = []
        return MemoryWriter(self)


class MemoryWriter(SinkWriter):
    def __init__(self, sink: MemorySink) -> None:
        self._sink = sink

    def _call(self, name: str, value: Any = None) -> None:
        self._sink.calls.append((name, value))
        if self._sink.fail_in == name:
            raise OSError(f"{name}: disk full")

    def write(self, batch: Batch) -> None:
        self._call("write", contents(batch)[0])

    def flush(self, end_of_input: bool) -> None:
        self._call("flush", end_of_input)

    def close(self) -> None:
        self._call("close")


def test_a_sink_is_written_flushed_and_closed() -> None:
    sink = MemorySink()
    rig = Rig(plan.SinkSpec, sink)
    rig.operator.close()  # never opened: nothing to close
    rig.operator.open()
    rig.process(RowBatch([1, 2]))
    rig.process(pairs(1, "columns"))
    rig.operator.finish()
    rig.operator.close()
    assert sink.calls == [("write", [1, 2]), ("write", [(0, "0")]), ("flush", True), ("close", None)]


@pytest.mark.parametrize("step", ["write", "flush", "close"])
def test_a_sinks_failure_names_the_sink(step: str) -> None:
    rig = Rig(plan.SinkSpec, MemorySink(step))
    rig.operator.open()
    steps = {"write": lambda: rig.process(RowBatch([1])), "flush": rig.operator.finish, "close": rig.operator.close}
    with pytest.raises(OperatorError, match=f"the operator.*{step}: disk full") as caught:
        steps[step]()
    assert caught.value.record is NO_RECORD


class TestRuntimeContext:
    def test_what_a_function_can_ask(self) -> None:
        context = runtime_context()
        assert context.get_job_id() == "job"
        assert context.get_task_name() == "operator"
        assert context.get_number_of_parallel_subtasks() == 3
        assert context.get_max_number_of_parallel_subtasks() == 128
        assert context.get_index_of_this_subtask() == 1
        assert context.get_attempt_number() == 2
        assert context.get_job_parameter("my.option") == "value"
        assert context.get_job_parameter("other", "default") == "default"
        assert context.get_job_parameters() == {"my.option": "value"}

    def test_counters_are_named_by_their_groups(self) -> None:
        counters: dict[str, Counter] = {}
        group = TaskRuntimeContext(DEPLOYMENT, "map", {}, counters, {}).get_metrics_group()
        group.counter("seen").inc()
        group.counter("seen").inc(4)
        group.add_group("user").add_group("key", "value").counter("lost").dec()
        assert {name: c.get_count() for name, c in counters.items()} == {"map.seen": 5, "map.user.key.value.lost": -1}

    def test_accumulators_have_one_name_each(self) -> None:
        context = runtime_context()
        counter = IntCounter()
        context.add_accumulator("rows", counter)
        assert context.get_accumulator("rows") is counter
        with pytest.raises(ValueError, match="'rows' already"):
            context.add_accumulator("rows", IntCounter())
        with pytest.raises(ValueError, match=r"the accumulator .* cannot be written"):
            context.add_accumulator("half a pair \udc80", IntCounter())
