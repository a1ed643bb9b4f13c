from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pytest
from program_graphs import Route

from millstream.common import InvalidProgramError, Types
from millstream.core.jobs.plan import plan
from millstream.core.records.types import DOUBLE, LONG, PICKLED, STRING, DataclassType, TupleType, from_hint
from millstream.datastream import (
    DataStream,
    KeyedProcessFunction,
    KeyedStream,
    KeySelector,
    MapFunction,
    OutputTag,
    Partitioner,
    StreamExecutionEnvironment,
)
from millstream.datastream.adapters.aggregations import Sum
from millstream.datastream.connectors.base import Sink
from millstream.datastream.functions import as_callable
from millstream.datastream.graph.transformations import OperatorTransformation, PartitionTransformation


@dataclass
class Sale:
    item: str
    amount: int


class ItemOf(KeySelector):
    def get_key(self, value: Sale) -> str:
        return value.item


class ModuloPartitioner(Partitioner):
    def partition(self, key: int, num_partitions: int) -> int:
        return key % num_partitions


class Halve(MapFunction):
    def map(self, value: int) -> float:
        return value / 2


class Count(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[str, int]]:
        yield ctx.get_current_key(), 1


class NullSink(Sink):
    def create_writer(self, context: Any) -> Any:
        raise NotImplementedError


@pytest.fixture
def numbers(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection([1, 2, 3], Types.LONG())


@pytest.fixture
def sales(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection([Sale("a", 1)], Sale)


def operator(stream: Any) -> OperatorTransformation:
    found = stream._transformation
    assert isinstance(found, OperatorTransformation)
    return found


def partitioner(stream: DataStream) -> plan.Partitioner:
    found = stream.transformation
    assert isinstance(found, PartitionTransformation)
    return found.partitioner


def test_operators_have_their_specification_name_and_type(numbers: DataStream) -> None:
    def words(value: int) -> Iterator[str]:
        yield str(value)

    mapped = numbers.map(Halve())
    assert isinstance(operator(mapped).spec, plan.MapSpec)
    assert (mapped.get_name(), mapped.get_type()) == ("Map", DOUBLE)
    assert numbers.map(lambda x: x).get_type() == PICKLED
    assert numbers.map(lambda x: x, output_type=str).get_type() == STRING
    flat = numbers.flat_map(words)
    assert isinstance(operator(flat).spec, plan.FlatMapSpec)
    assert (flat.get_name(), flat.get_type()) == ("Flat Map", STRING)
    kept = numbers.filter(lambda x: x > 1)
    assert isinstance(operator(kept).spec, plan.FilterSpec)
    assert (kept.get_name(), kept.get_type()) == ("Filter", LONG)
    processed = numbers.process(Route())
    assert isinstance(operator(processed).spec, plan.ProcessSpec)
    assert (processed.get_name(), processed.get_type()) == ("Process", LONG)


def test_plain_generators_are_process_functions_too(numbers: DataStream) -> None:
    def twice(value: int, ctx: Any) -> Iterator[int]:
        yield from (value, value)

    for stream in (numbers, numbers.key_by(lambda x: x)):
        processed = stream.process(twice)
        assert processed.get_type() == LONG
        spec = operator(processed).spec
        assert isinstance(spec, plan.ProcessSpec | plan.KeyedProcessSpec)
        assert list(spec.function.process_element(3, None)) == [3, 3]


def test_batch_functions(numbers: DataStream) -> None:
    def frames(frame: pd.DataFrame) -> pd.DataFrame:
        return frame

    assert operator(numbers.map_batches(frames)).spec == plan.MapBatchesSpec(frames, "pandas")
    assert operator(numbers.map_batches(frames, batch_format="arrow")).spec == plan.MapBatchesSpec(frames, "arrow")
    assert numbers.map_batches(frames).get_type() == PICKLED
    assert numbers.map_batches(frames, Types.ROW_NAMED(["a"], [int])).get_type() == Types.ROW_NAMED(["a"], [int])
    with pytest.raises(InvalidProgramError, match="'arrow' or 'pandas', not 'polars'"):
        numbers.map_batches(frames, batch_format="polars")
    with pytest.raises(InvalidProgramError, match=r"map_batches: .*expected a callable"):
        numbers.map_batches("x")


@pytest.mark.parametrize("method", ["map", "flat_map", "filter", "process", "map_batches"])
def test_what_is_no_function_is_refused_with_the_operators_name(numbers: DataStream, method: str) -> None:
    with pytest.raises(InvalidProgramError, match=f"^{method}: expected a callable"):
        getattr(numbers, method)(42)


def test_generators_in_place_of_single_results_are_refused(numbers: DataStream) -> None:
    def generate(value: int) -> Iterator[int]:
        yield value

    for method in ("map", "filter", "map_batches"):
        with pytest.raises(InvalidProgramError, match="generator function"):
            getattr(numbers, method)(generate)


def test_keys_are_taken_in_every_way(sales: DataStream) -> None:
    def selector(stream: KeyedStream) -> plan.KeySelector:
        found = partitioner(stream)
        assert isinstance(found, plan.HashPartitioner)
        return found.key_selector

    assert selector(sales.key_by("item")) == plan.KeySelector(fields=("item",))
    assert sales.key_by("item").get_key_type() == STRING
    assert selector(sales.key_by(1)) == plan.KeySelector(fields=(1,))
    assert selector(sales.key_by(["item", 1])) == plan.KeySelector(fields=("item", 1))
    assert sales.key_by(("item", "amount")).get_key_type() == TupleType((STRING, LONG))
    by_function = sales.key_by(lambda sale: sale.item, key_type=Types.STRING())
    found = selector(by_function).function
    assert found(Sale("x", 1)) == "x"
    assert by_function.get_key_type() == STRING
    by_object = sales.key_by(ItemOf())
    assert selector(by_object).function.get_key(Sale("x", 1)) == "x"
    assert by_object.get_key_type() == STRING
    assert by_object.get_type() == DataclassType(Sale)
    assert selector(by_object.key_by("amount")) == plan.KeySelector(fields=("amount",))


def test_keys_that_cannot_be_are_refused(sales: DataStream) -> None:
    with pytest.raises(InvalidProgramError, match=r"key_by: records of type Sale.* have no field 'nothing'"):
        sales.key_by("nothing")
    with pytest.raises(InvalidProgramError, match="key_by: the list of key fields is empty"):
        sales.key_by([])
    with pytest.raises(InvalidProgramError, match=r"key_by: expected a callable.*float"):
        sales.key_by(1.5)


def test_keyed_operations(sales: DataStream) -> None:
    keyed = sales.key_by("item")
    reduced = keyed.reduce(lambda a, b: Sale(a.item, a.amount + b.amount))
    spec = operator(reduced).spec
    assert isinstance(spec, plan.ReduceSpec)
    assert (spec.key_selector.fields, spec.key_type, spec.value_type) == (("item",), STRING, DataclassType(Sale))
    assert (reduced.get_name(), reduced.get_type()) == ("Keyed Reduce", DataclassType(Sale))
    summed = keyed.sum("amount")
    spec = operator(summed).spec
    assert isinstance(spec, plan.ReduceSpec)
    assert isinstance(spec.function, Sum)
    assert summed.get_type() == DataclassType(Sale)
    for method in ("min", "max", "min_by", "max_by"):
        assert isinstance(operator(getattr(keyed, method)(1)).spec, plan.ReduceSpec)
    with pytest.raises(InvalidProgramError, match="sum: field 0 is of type String"):
        keyed.sum()
    counted = keyed.process(Count())
    assert isinstance(operator(counted).spec, plan.KeyedProcessSpec)
    assert counted.get_type() == TupleType((STRING, LONG))
    assert isinstance(operator(keyed.process(Route())).spec, plan.ProcessSpec)
    assert isinstance(operator(keyed.map(str)).spec, plan.MapSpec)
    with pytest.raises(InvalidProgramError, match="reduce: expected a callable"):
        keyed.reduce(None)
    with pytest.raises(InvalidProgramError, match="needs a keyed stream"):
        sales.process(Count())


def test_partitionings(numbers: DataStream) -> None:
    assert partitioner(numbers.forward()) == plan.ForwardPartitioner()
    assert partitioner(numbers.rebalance()) == plan.RebalancePartitioner()
    assert partitioner(numbers.rescale()) == plan.RescalePartitioner()
    assert partitioner(numbers.shuffle()) == plan.ShufflePartitioner()
    assert partitioner(numbers.broadcast()) == plan.BroadcastPartitioner()
    assert partitioner(numbers.global_()) == plan.GlobalPartitioner()
    for custom in (ModuloPartitioner(), lambda key, n: key % n):
        found = partitioner(numbers.partition_custom(custom, lambda x: x + 1))
        assert isinstance(found, plan.CustomPartitioner)
        assert as_callable(found.partitioner, "partition")(7, 4) == 3
        assert found.key_selector.function(1) == 2
    assert numbers.rebalance().get_type() == LONG
    with pytest.raises(InvalidProgramError, match="partition_custom: expected a callable"):
        numbers.partition_custom(1, lambda x: x)
    for method in ("forward", "rebalance", "rescale", "shuffle", "broadcast", "global_"):
        with pytest.raises(InvalidProgramError, match="partitioned by its key"):
            getattr(numbers.key_by(lambda x: x), method)()


PAIRS = Types.TUPLE([Types.STRING(), Types.LONG()])


@pytest.mark.parametrize(
    ("first", "other", "words"),
    [
        (Types.LONG(), Types.STRING(), ["Long", "String"]),
        (Types.INT(), Types.LONG(), ["Integer", "Long"]),
        (PAIRS, Types.TUPLE([Types.STRING()]), ["TupleTypeInfo(String, Long)", "TupleTypeInfo(String)"]),
        (PAIRS, Types.ROW([Types.STRING(), Types.LONG()]), ["TupleTypeInfo(String, Long)", "RowTypeInfo(String, L"]),
        (Types.LIST(Types.LONG()), Types.LIST(Types.STRING()), ["Long", "String"]),
        (Types.MAP(Types.STRING(), PAIRS), Types.MAP(Types.STRING(), Types.LONG()), ["TupleTypeInfo", "Long"]),
    ],
)
def test_a_union_of_different_types_is_refused(numbers: DataStream, first: Any, other: Any, words: list[str]) -> None:
    streams = [numbers.map(lambda x: x, output_type=kind) for kind in (first, Types.PICKLED_BYTE_ARRAY(), other)]
    with pytest.raises(InvalidProgramError, match="union: the streams have different types") as caught:
        streams[0].union(*streams[1:])
    assert all(word in str(caught.value) for word in words)
    with pytest.raises(InvalidProgramError, match="different types"):
        streams[2].union(streams[0])
    assert streams[0].union(streams[1]).get_type() == PICKLED


def test_streams_without_a_type_and_of_equal_types_may_be_united(numbers: DataStream) -> None:
    texts = numbers.map(lambda x: x, output_type=Types.STRING())
    assert numbers.union(numbers.map(lambda x: x)).union(texts).get_type() == PICKLED
    for first, other in [
        (PAIRS, Types.TUPLE([Types.STRING(), Types.PICKLED_BYTE_ARRAY()])),
        (Types.ROW([Types.LONG()]), Types.ROW_NAMED(["n"], [Types.LONG()])),
        (from_hint(tuple[str, int]), PAIRS),
    ]:
        one, two = (numbers.map(lambda x: x, output_type=kind) for kind in (first, other))
        assert one.union(two).get_type() == (PAIRS if first == other else PICKLED)


def test_unions_keep_a_common_type(env: StreamExecutionEnvironment, numbers: DataStream) -> None:
    assert numbers.union(numbers.filter(bool)).get_type() == LONG
    with pytest.raises(InvalidProgramError, match="union: expected streams"):
        numbers.union(3)  # type: ignore[arg-type]
    other = StreamExecutionEnvironment.get_execution_environment().from_collection([1])
    with pytest.raises(InvalidProgramError, match="different environments"):
        numbers.union(other)


def test_projections(env: StreamExecutionEnvironment) -> None:
    pairs = env.from_collection([("a", 1)], Types.TUPLE([str, int]))
    assert pairs.project(1).get_type() == TupleType((LONG,))
    assert pairs.project(1, 0).get_name() == "Projection"
    with pytest.raises(InvalidProgramError, match="at least one field"):
        pairs.project()
    with pytest.raises(InvalidProgramError, match="no field 2"):
        pairs.project(2)


def test_side_outputs(numbers: DataStream) -> None:
    tag = OutputTag("late", Types.STRING())
    assert numbers.process(Route()).get_side_output(tag).get_type() == STRING
    with pytest.raises(InvalidProgramError, match="'Map' has no side outputs"):
        numbers.map(str).get_side_output(tag)
    with pytest.raises(InvalidProgramError, match="expected an OutputTag"):
        numbers.process(Route()).get_side_output("late")  # type: ignore[arg-type]


def test_settings_are_kept_and_chain(numbers: DataStream) -> None:
    stream = (
        numbers.map(str).name("to text").uid("t").set_parallelism(3).set_max_parallelism(12).slot_sharing_group("g")
        .start_new_chain().set_buffer_timeout(5)
    )  # fmt: skip
    found = operator(stream)
    assert (found.name, found.uid, found.parallelism, found.max_parallelism) == ("to text", "t", 3, 12)
    assert (found.slot_sharing_group, found.chaining.value, found.buffer_timeout) == ("g", "head", 0.005)
    assert operator(stream.disable_chaining()).chaining.value == "never"
    assert operator(stream.set_buffer_timeout(-1)).buffer_timeout == -1.0
    assert operator(stream.set_buffer_timeout(0)).buffer_timeout == 0.0
    assert operator(stream.set_buffer_timeout(datetime.timedelta(seconds=2))).buffer_timeout == 2.0
    sink = numbers.sink_to(NullSink()).name("end").uid("e").set_parallelism(2)
    sink.disable_chaining().slot_sharing_group("s")
    found = operator(sink)
    assert (found.full_name, found.uid, found.parallelism, found.slot_sharing_group) == ("Sink: end", "e", 2, "s")


@pytest.mark.parametrize(
    ("method", "value"),
    [
        ("set_parallelism", 0), ("set_parallelism", True), ("set_parallelism", "2"), ("set_max_parallelism", 40000),
        ("set_buffer_timeout", -2), ("set_buffer_timeout", "soon"), ("uid", ""), ("slot_sharing_group", ""),
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(numbers: DataStream, method: str, value: Any) -> None:
    with pytest.raises(InvalidProgramError, match=method):
        getattr(numbers.map(str), method)(value)


HALF = "a\ud83db"


@pytest.mark.parametrize("method", ["name", "uid", "slot_sharing_group"])
def test_names_that_no_message_can_hold_are_refused(
    env: StreamExecutionEnvironment, numbers: DataStream, method: str
) -> None:
    stream = numbers.map(str).name("mine")
    with pytest.raises(InvalidProgramError, match=r"^the job's name .+ cannot be written"):
        env.generate_job(HALF)
    getattr(stream, method)(HALF)
    operator_name = HALF if method == "name" else "mine"
    with pytest.raises(InvalidProgramError) as raised:
        env.generate_job()
    what = method.replace("_", " ")
    assert str(raised.value).startswith(f"operator {operator_name!a}: its {what} {HALF!a} cannot be written")


def test_virtual_streams_have_no_operator_to_set(numbers: DataStream) -> None:
    for stream in (numbers.rebalance(), numbers.union(numbers), numbers.key_by(lambda x: x)):
        with pytest.raises(InvalidProgramError, match=r"name\(\) applies to an operator"):
            stream.name("x")
        with pytest.raises(InvalidProgramError, match=r"set_parallelism\(\) applies to an operator"):
            stream.set_parallelism(2)


def test_what_cannot_run_in_parallel_stays_at_one(numbers: DataStream) -> None:
    stream = numbers.map(str).force_non_parallel()
    assert operator(stream).parallelism == operator(stream).max_parallelism == 1
    with pytest.raises(InvalidProgramError, match="cannot run in parallel"):
        stream.set_parallelism(2)
    stream.set_parallelism(1)


def test_sinks(numbers: DataStream) -> None:
    sink = NullSink()
    assert operator(numbers.sink_to(sink)).spec == plan.SinkSpec(sink)
    assert operator(numbers.sink_to(sink)).full_name == "Sink: NullSink"
    assert operator(numbers.print()).full_name == "Sink: Print to Std. Out"
    with pytest.raises(InvalidProgramError, match="sink_to: expected a Sink, got int"):
        numbers.sink_to(3)  # type: ignore[arg-type]
