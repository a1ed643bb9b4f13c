from __future__ import annotations

import pickle
from typing import Any

import pytest

from millstream.common import Configuration, InvalidProgramError, WatermarkStrategy
from millstream.core.jobs.plan.plan import BatchInput, Chain, ReduceSpec, SourceSpec
from millstream.core.jobs.plan_json import plan_json
from millstream.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from millstream.datastream.connectors.datagen import DataGeneratorSource

BATCH, AUTOMATIC = RuntimeExecutionMode.BATCH, RuntimeExecutionMode.AUTOMATIC


def chains(env: StreamExecutionEnvironment) -> list[Any]:
    """The operators of all tasks."""
    found: list[Chain] = [pickle.loads(vertex.chain) for vertex in env.generate_job().graph.vertices]
    return [operator for chain in found for operator in chain.operators]


def sums(env: StreamExecutionEnvironment, bounded: bool = True) -> None:
    source = DataGeneratorSource(lambda n: n, 10) if bounded else DataGeneratorSource(lambda n: n)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, _: n)
    env.from_source(source, strategy, "numbers").key_by(lambda n: n % 2).reduce(max).print()


@pytest.mark.parametrize("mode", [BATCH, AUTOMATIC])
def test_bounded_sources_make_a_batch(env: StreamExecutionEnvironment, mode: RuntimeExecutionMode) -> None:
    env.set_runtime_mode(mode).enable_checkpointing(100)
    sums(env)
    graph = env.generate_job().graph
    assert graph.configuration["execution.checkpointing.interval"] == "0"
    assert (graph.configuration["execution.runtime-mode"], plan_json(graph)["type"]) == ("BATCH", "BATCH")
    source, reduce, _ = chains(env)
    assert isinstance(source.spec, SourceSpec)
    assert source.spec.strategy.timestamp_assigner(3, 0) == 3
    assert source.spec.strategy.generator is WatermarkStrategy.no_watermarks().generator
    assert isinstance(reduce.spec, ReduceSpec)
    assert reduce.spec.only_last


def test_a_source_without_an_end_makes_a_stream(env: StreamExecutionEnvironment) -> None:
    env.set_runtime_mode(AUTOMATIC).enable_checkpointing(100)
    sums(env, bounded=False)
    graph = env.generate_job().graph
    assert graph.configuration["execution.checkpointing.interval"] == "100 ms"
    assert (graph.configuration["execution.runtime-mode"], plan_json(graph)["type"]) == ("STREAMING", "STREAMING")
    assert not chains(env)[1].spec.only_last


@pytest.mark.parametrize("endless", ["a source", "a source function"])
def test_a_batch_without_an_end_is_refused(env: StreamExecutionEnvironment, endless: str) -> None:
    env.configure(Configuration({"execution.runtime-mode": "batch"}))
    if endless == "a source":
        sums(env, bounded=False)
    else:
        env.add_source(lambda ctx: ctx.collect(1), "numbers").print()
    with pytest.raises(InvalidProgramError, match="BATCH, and 'Source: numbers' is not bounded: use a bounded source"):
        env.generate_job()


def test_operators_with_keys_get_their_records_key_by_key_only_in_a_batch(env: StreamExecutionEnvironment) -> None:
    env.from_sequence(1, 2).key_by(abs).process(lambda n, ctx: [n]).print()
    assert {operator.batch_input for operator in chains(env)} == {BatchInput.AS_IT_COMES}
    env.set_runtime_mode(BATCH)
    orders = [operator.batch_input for operator in chains(env)]
    assert orders == [BatchInput.AS_IT_COMES, BatchInput.KEY_BY_KEY, BatchInput.AS_IT_COMES]
