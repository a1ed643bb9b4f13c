"""Queries of the job graphs that programs make."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cloudpickle

from millstream.core.jobs.graph import JobGraph, JobVertex
from millstream.core.jobs.plan.plan import Chain, EdgeSpec
from millstream.datastream import ProcessFunction, StreamExecutionEnvironment


class Route(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[int]:
        yield value


def same(value: Any) -> Any:
    return value


def graph_of(env: StreamExecutionEnvironment) -> JobGraph:
    return env.generate_job().graph


def names(graph: JobGraph) -> list[str]:
    return [vertex.name for vertex in graph.vertices]


def chain_of(vertex: JobVertex) -> Chain:
    chain = cloudpickle.loads(vertex.chain)
    assert isinstance(chain, Chain)
    return chain


def spec_of(graph: JobGraph, index: int = 0) -> EdgeSpec:
    """Of an edge."""
    spec = cloudpickle.loads(graph.edges[index].spec)
    assert isinstance(spec, EdgeSpec)
    return spec
