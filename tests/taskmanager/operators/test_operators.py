"""Each operator: what it emits, with which timestamps, and which operator and record a failure names."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from msgspec.structs import replace

from millstream.core.jobs.plan import plan
from millstream.core.jobs.plan.plan import KeySelector
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
from millstream.taskmanager.testing import DEPLOYMENT, OperatorHarness
from millstream.taskmanager.worker.operators.base import NO_RECORD, OperatorError
from millstream.taskmanager.worker.operators.output import LocalOutput
from millstream.taskmanager.worker.runtime_context import TaskRuntimeContext

PAIR = t.TupleType((t.LONG, t.STRING))


def runtime_context(**counters: Counter) -> TaskRuntimeContext:
    deployment = replace(DEPLOYMENT, subtask=1, parallelism=3, attempt=2)
    return TaskRuntimeContext(deployment, "operator", {"my.option": "value"}, counters, {})


def operator(spec: plan.OperatorSpec, kind: t.TypeInformation = t.PICKLED, tags: Iterable[str] = ()) -> OperatorHarness:
    return OperatorHarness(spec, kind, tags=tags, context=runtime_context())


def emitted(spec: plan.OperatorSpec, *batches: Batch, kind: t.TypeInformation = PAIR) -> list[Any]:
    """The rows and the timestamps of each batch that results from these."""
    made = operator(spec, kind)
    made.process(*batches)
    return [contents(batch) for batch in made.out.batches]


def rows(spec: plan.OperatorSpec, *batches: Batch) -> list[Any]:
    return [row for part, _ in emitted(spec, *batches, kind=t.PICKLED) for row in part]


def blamed(
    spec: plan.OperatorSpec, batch: Batch, kind: t.TypeInformation = PAIR, message: str = "the operator"
) -> OperatorError:
    """The error of an operator that emits nothing."""
    made = operator(spec, kind)
    with pytest.raises(OperatorError, match=message) as caught:
        made.process(batch)
    assert caught.value.operator_name == "the operator"
    assert made.out.batches == []
    return caught.value


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
    mapped = emitted(plan.MapSpec(lambda pair: pair[0] * 2), pairs(3, form))
    assert mapped == [([0, 2, 4], times(form, 0, 10, 20))]


@forms
def test_filter_keeps_the_form(form: str) -> None:
    made = operator(plan.FilterSpec(lambda pair: pair[0] % 2), PAIR)
    made.process(pairs(5, form))
    (batch,) = made.out.batches
    assert contents(batch) == ([(1, "1"), (3, "3")], times(form, 10, 30))
    assert isinstance(batch, ColumnBatch if "columns" in form else RowBatch)


@forms
def test_filter_that_keeps_nothing_emits_nothing(form: str) -> None:
    assert emitted(plan.FilterSpec(lambda pair: False), pairs(5, form)) == []


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("stamps", [None, [10, 20, 30]])
def test_filter_keeps_the_kinds_beside_records(plain: bool, stamps: list[int] | None) -> None:
    made = operator(plan.FilterSpec(lambda number: number % 2), t.LONG)
    made.process(RowBatch([1, 2, 3], stamps, plain, bytes(3)))
    (batch,) = made.out.batches
    assert isinstance(batch, RowBatch)
    assert (batch.rows, batch.kinds) == ([1, 3], bytes(2))


def test_filter_accepts_all_truth_values() -> None:
    values = [0, 1, "", "a", None, [0], np.bool_(False), np.bool_(True)]
    ((_, kept),) = emitted(plan.FilterSpec(lambda value: value), RowBatch(values, list(range(8))), kind=t.PICKLED)
    assert kept == [1, 3, 5, 7]


@forms
def test_flat_map(form: str) -> None:
    flat = emitted(plan.FlatMapSpec(lambda pair: [pair[1]] * pair[0]), pairs(4, form))
    assert flat == [(["1", "2", "2", "3", "3", "3"], times(form, 10, 20, 20, 30, 30, 30))]


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
    batches = emitted(plan.FlatMapSpec(function), RowBatch([0, 1, 2], [5, 6, 7] if timed else None), kind=t.PICKLED)
    assert [part for part, _ in batches] == ([expected] if expected else [])


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

    made = operator(plan.ProcessSpec(Splitter()), PAIR, ["late"])
    made.process(pairs(3, form))
    stamps = [10, 20] if "timed" in form else [None, None]
    assert [contents(b) for b in made.out.batches] == [
        ([(1, stamps[0]), (1, "1"), (2, stamps[1]), (2, "2")], times(form, 10, 10, 20, 20))
    ]
    assert [contents(b) for b in made.side["late"].batches] == [(["1", "2"], times(form, 10, 20))]


def test_process_forwards_pairs_that_are_not_side_outputs() -> None:
    class Echo(ProcessFunction):
        def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
            yield value

    records = [("late", 1), [OutputTag("late"), 2], (OutputTag("late"), 1, 2)]
    assert rows(plan.ProcessSpec(Echo()), RowBatch(list(records))) == records


@forms
def test_keyed_process_sees_the_key(form: str) -> None:
    class WithKey(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
            yield ctx.get_current_key(), value[0], ctx.timestamp()

    ((keyed, _),) = emitted(plan.KeyedProcessSpec(WithKey(), KeySelector((1,))), pairs(2, form))
    stamps = [0, 10] if "timed" in form else [None, None]
    assert keyed == [("0", 0, stamps[0]), ("1", 1, stamps[1])]


@forms
def test_reduce_folds_each_key_in_order(form: str) -> None:
    spec = plan.ReduceSpec(lambda a, b: (b[0], f"{a[1]}{b[1]}"), KeySelector(function=lambda pair: pair[0] % 2))
    first, second = emitted(spec, pairs(5, form), pairs(2, form))
    assert first == ([(0, "0"), (1, "1"), (2, "02"), (3, "13"), (4, "024")], times(form, 0, 10, 20, 30, 40))
    assert second[0] == [(0, "0240"), (1, "131")]


def test_reduce_treats_equal_keys_as_one() -> None:
    spec = plan.ReduceSpec(lambda a, b: (a[0], a[1] + b[1]), KeySelector((0,)))
    reduced = rows(spec, RowBatch([(1, 1), (1.0, 10), (True, 100), (None, 5), (None, 6)]))
    assert reduced == [(1, 1), (1, 11), (1, 111), (None, 5), (None, 11)]


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

    spec = plan.ReduceSpec(max, KeySelector(function=key_of))
    assert blamed(spec, RowBatch([0, 1, 2, 3]), t.PICKLED, "StopIteration").record == 2


@pytest.mark.parametrize(
    "make",
    [lambda n: Total(0, n, [n]), lambda n: [0, n], lambda n: (0, [n]), lambda n: Row(0, n)],
    ids=["dataclass", "list", "tuple", "row"],
)
def test_a_reduce_that_changes_its_first_argument_does_not_change_what_was_emitted(make: Callable[[int], Any]) -> None:
    records = [make(n) for n in (1, 2, 3)]
    spec = plan.ReduceSpec(add_in_place, KeySelector(function=lambda value: 0))
    reduced = rows(spec, RowBatch(records), RowBatch([make(4)]), RowBatch([]))
    expected: list[Any] = [make(1)]
    for n in (2, 3, 4):
        expected.append(add_in_place(copy.deepcopy(expected[-1]), make(n)))
    assert reduced == expected
    assert records == [make(n) for n in (1, 2, 3)]


def test_a_consumer_that_changes_what_a_reduce_emitted_does_not_change_its_state() -> None:
    made = operator(plan.ReduceSpec(lambda a, b: {"n": a["n"] + b["n"]}, KeySelector(function=lambda value: 0)))
    for record in made.process(RowBatch([{"n": 1}, {"n": 2}])):
        record["n"] = 1000
    assert made.process(RowBatch([{"n": 3}])) == [{"n": 6}]


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
    made = operator(plan.MapBatchesSpec(function, batch_format), PAIR)
    made.process(pairs(3, form))
    (batch,) = made.out.batches
    assert isinstance(batch, ColumnBatch)
    assert contents(batch) == ([(0, "0"), (2, "1"), (4, "2")], times(form, 0, 10, 20))


@forms
@pytest.mark.parametrize(
    "spec", [plan.MapSpec(lambda p: p), plan.FilterSpec(lambda p: True), plan.FlatMapSpec(lambda p: [p])]
)
def test_results_of_map_batches_can_be_used_by_every_operator(form: str, spec: plan.OperatorSpec) -> None:
    made = operator(plan.MapBatchesSpec(double_arrow, "arrow"), PAIR)
    made.process(pairs(3, form))
    assert emitted(spec, *made.out.batches) == [([(0, "0"), (2, "1"), (4, "2")], times(form, 0, 10, 20))]


@pytest.mark.parametrize("result", [lambda batch: None, lambda batch: batch.slice(0, 0)], ids=["none", "empty"])
def test_map_batches_may_return_nothing(result: Any) -> None:
    assert emitted(plan.MapBatchesSpec(result, "arrow"), pairs(3, "rows")) == []


def test_map_batches_with_another_length_has_no_timestamps() -> None:
    shorter = emitted(plan.MapBatchesSpec(lambda batch: batch.slice(1), "arrow"), pairs(3, "timed columns"))
    assert shorter == [([(1, "1"), (2, "2")], None)]


def fails_on_two(value: Any) -> Any:
    if value[0] == 2:
        raise ZeroDivisionError("two")
    return value


class FailsOnTwo(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value
        fails_on_two(value)


class TestBlame:
    """The failing record is in the middle of the batch: only it, and its own operator, are named."""

    @pytest.mark.parametrize(
        "spec",
        [
            plan.MapSpec(fails_on_two),
            plan.FilterSpec(fails_on_two),
            plan.FlatMapSpec(fails_on_two),
            plan.FlatMapSpec(lambda v: (fails_on_two(x) for x in (v, v))),
            plan.ReduceSpec(lambda a, b: fails_on_two(b), KeySelector(function=lambda v: 0)),
            plan.ReduceSpec(lambda a, b: b, KeySelector(function=lambda v: fails_on_two(v)[0])),
            plan.ProcessSpec(FailsOnTwo()),
            plan.KeyedProcessSpec(FailsOnTwo(), KeySelector((0,))),
        ],
        ids=["map", "filter", "flat map", "generator", "reduce", "reduce key", "process", "keyed process"],
    )
    @forms
    def test_functions(self, spec: plan.OperatorSpec, form: str) -> None:
        error = blamed(spec, pairs(5, form))
        assert error.record == (2, "2")
        assert isinstance(error.__cause__, ZeroDivisionError)

    @pytest.mark.parametrize("result", [1, object()], ids=["number", "object"])
    def test_flat_map_that_returns_no_iterable(self, result: Any) -> None:
        spec = plan.FlatMapSpec(lambda v: result if v == 3 else [v])
        error = blamed(spec, RowBatch([1, 2, 3, 4]), t.PICKLED)
        assert error.record == 3
        assert isinstance(error.__cause__, TypeError)

    @pytest.mark.parametrize(
        "spec",
        [
            plan.MapSpec(lambda v: v),
            plan.FilterSpec(lambda v: True),
            plan.FlatMapSpec(lambda v: [v]),
            plan.MapBatchesSpec(lambda batch: batch, "arrow"),
            plan.ReduceSpec(lambda a, b: b, KeySelector((0,))),
        ],
        ids=["map", "filter", "flat map", "map batches", "reduce"],
    )
    @forms
    def test_an_operator_is_not_blamed_for_the_next(self, spec: plan.OperatorSpec, form: str) -> None:
        following = OperatorHarness(plan.MapSpec(fails_on_two), PAIR, name="the next")
        made = operator(spec, PAIR)
        made.operator.output = LocalOutput(following.operator.process)
        with pytest.raises(OperatorError) as caught:
            made.process(pairs(5, form))
        assert (caught.value.operator_name, caught.value.record) == ("the next", (2, "2"))
        assert isinstance(caught.value.__cause__, ZeroDivisionError)

    @pytest.mark.parametrize(
        ("rows", "message"),
        [
            ([(1, "a"), (1.9, "b")], r"column 'f0', row 1: 1.9 is not a Long"),
            ([(1, "a"), ("b", "c")], "Long"),
        ],
    )
    def test_a_record_that_does_not_match_the_declared_type(self, rows: list[Any], message: str) -> None:
        spec = plan.MapBatchesSpec(lambda batch: batch, "arrow")
        assert blamed(spec, RowBatch(rows), message=message).record == rows[1]

    @pytest.mark.parametrize("result", [5, "text", [1, 2], {"a": [1], "b": [1, 2]}], ids=repr)
    def test_map_batches_that_returns_no_columns(self, result: Any) -> None:
        error = blamed(plan.MapBatchesSpec(lambda batch: result, "arrow"), pairs(2, "rows"))
        assert repr(error.record) == "one of 2, the first of which is (0, '0')"


class Rich:
    """Records the calls of its lifecycle."""

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
        (lambda function: plan.ReduceSpec(function, KeySelector(function=str)), RichReduce(), [1, 2]),
    ],
    ids=["map", "filter", "flat map", "reduce"],
)
def test_rich_functions_are_opened_and_closed(make: Any, function: Any, expected: list[Any]) -> None:
    made = operator(make(function)).open()
    assert made.process(RowBatch([1, 2])) == expected
    made.finish()
    assert made.close() == []
    assert function.calls == ["open operator (2/3)", "close"]


@pytest.mark.parametrize("method", ["open", "close"])
def test_failures_of_open_and_close_have_no_record(method: str) -> None:
    function = RichMap()

    def fail(*_: Any) -> None:
        raise OSError("no such table")

    setattr(function, method, fail)
    with pytest.raises(OperatorError, match="no such table") as caught:
        getattr(operator(plan.MapSpec(function)).operator, method)()
    assert caught.value.record is NO_RECORD


class MemorySink(Sink, SinkWriter):
    """Records its calls, and fails where requested."""

    def __init__(self, fail_in: str = "") -> None:
        self.fail_in = fail_in
        self.calls: list[Any] = []

    def create_writer(self, context: RuntimeContext) -> SinkWriter:
        return self

    def _call(self, name: str, value: Any = None) -> None:
        self.calls.append((name, value))
        if self.fail_in == name:
            raise OSError(f"{name}: disk full")

    def write(self, batch: Batch) -> None:
        self._call("write", contents(batch)[0])

    def flush(self, end_of_input: bool) -> None:
        self._call("flush", end_of_input)

    def close(self) -> None:
        self._call("close")


def test_a_sink_is_written_flushed_and_closed() -> None:
    sink = MemorySink()
    made = operator(plan.SinkSpec(sink))
    made.close()  # never opened: nothing to close
    made.open().process(RowBatch([1, 2]), pairs(1, "columns"))
    made.finish()
    made.close()
    assert sink.calls == [("write", [1, 2]), ("write", [(0, "0")]), ("flush", True), ("close", None)]


@pytest.mark.parametrize("step", ["write", "flush", "close"])
def test_a_sinks_failure_names_the_sink(step: str) -> None:
    made = operator(plan.SinkSpec(MemorySink(step))).open()
    steps = {"write": lambda: made.process(RowBatch([1])), "flush": made.finish, "close": made.operator.close}
    with pytest.raises(OperatorError, match=f"the operator.*{step}: disk full") as caught:
        steps[step]()
    assert caught.value.record is NO_RECORD


class TestRuntimeContext:
    def test_the_runtime_context_of_a_function(self) -> None:
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
        with pytest.raises(ValueError, match="'rows' is already registered"):
            context.add_accumulator("rows", IntCounter())
        with pytest.raises(ValueError, match=r"the accumulator .* cannot be written"):
            context.add_accumulator("half a pair \udc80", IntCounter())
