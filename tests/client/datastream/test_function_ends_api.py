"""`add_source` and `add_sink`: what they take, and what becomes of it in the program."""

from __future__ import annotations

from typing import Any

import pytest

from millstream.common import InvalidProgramError, Types
from millstream.core.jobs.plan.function_ends_plan import SinkFunctionSpec, SourceFunctionSpec
from millstream.core.jobs.plan.plan import SinkSpec
from millstream.datastream import (
    ParallelSourceFunction,
    SinkFunction,
    SourceFunction,
    StreamExecutionEnvironment,
)
from millstream.datastream.connectors.number_sequence import NumberSequenceSource
from millstream.datastream.connectors.print import PrintSink
from millstream.datastream.functions import SinkContext, SourceContext
from millstream.datastream.graph.transformations import OperatorTransformation


class One(SourceFunction[int]):
    def run(self, ctx: SourceContext[int]) -> None:
        ctx.collect(1)


class Many(ParallelSourceFunction[int]):
    def run(self, ctx: SourceContext[int]) -> None:
        ctx.collect(1)


class Nothing(SinkFunction[int]):
    def invoke(self, value: int, context: SinkContext) -> None:
        pass


def _operator(stream: Any) -> OperatorTransformation:
    operator = stream._transformation
    assert isinstance(operator, OperatorTransformation)
    return operator


def test_a_source_function_runs_in_one_subtask_unless_it_is_parallel(env: StreamExecutionEnvironment) -> None:
    one, many = env.add_source(One(), "mine", Types.LONG()), env.add_source(Many())
    assert (one.get_name(), one.get_type()) == ("mine", Types.LONG())
    assert many.get_name() == "Custom Source"
    assert isinstance(_operator(one).spec, SourceFunctionSpec)
    assert _operator(many.set_parallelism(3)).parallelism == 3
    with pytest.raises(InvalidProgramError, match="cannot run in parallel"):
        one.set_parallelism(2)


def test_callables_are_source_and_sink_functions(env: StreamExecutionEnvironment) -> None:
    stream = env.add_source(lambda ctx: ctx.collect(1))
    sink = stream.add_sink(print)
    assert isinstance(_operator(stream).spec, SourceFunctionSpec)
    assert isinstance(_operator(sink).spec, SinkFunctionSpec)


def test_a_sink_is_taken_as_a_sink(env: StreamExecutionEnvironment) -> None:
    assert isinstance(_operator(env.add_source(One()).add_sink(PrintSink(None))).spec, SinkSpec)


def test_behind_key_by_a_sink_function_has_the_keys(env: StreamExecutionEnvironment) -> None:
    spec = _operator(env.add_source(One()).key_by(lambda value: value).add_sink(Nothing())).spec
    assert isinstance(spec, SinkFunctionSpec)
    assert len(spec.keyed_by()) == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (NumberSequenceSource(1, 2), "use from_source"),
        (42, "callable"),
        (lambda: None, "cannot be called with one argument"),
    ],
)
def test_what_is_no_source_function_is_refused(env: StreamExecutionEnvironment, given: Any, message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        env.add_source(given)


def test_a_generator_is_no_source_function(env: StreamExecutionEnvironment) -> None:
    def generator(ctx: Any) -> Any:
        yield 1

    with pytest.raises(InvalidProgramError, match=r"ctx\.collect"):
        env.add_source(generator)


def test_what_is_no_sink_function_is_refused(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(InvalidProgramError, match="callable"):
        env.add_source(One()).add_sink(3)
