"""From the stream graph to the job graph: chains become vertices, the edges between them job edges, code bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.graph import Artifact, JobEdge, JobGraph, JobVertex, OperatorInfo, SlotResources
from millstream.core.jobs.ids import JobId, VertexId, new_id, stable_id
from millstream.core.jobs.plan.plan import (
    STRATEGY_NAMES,
    Chain,
    ChainedOperator,
    ChainedOutput,
    EdgeSpec,
    SourceSpec,
    partitioner_code,
)
from millstream.core.records.types import PICKLED
from millstream.datastream.graph.batch_mode import has_event_time
from millstream.datastream.graph.carried_times import timed_nodes
from millstream.datastream.graph.chaining import NodeChain, build_chains
from millstream.datastream.graph.held_state import held_state
from millstream.datastream.graph.pickling import pickled
from millstream.datastream.graph.stream_graph import StreamEdge, StreamGraph, StreamNode


def build_job_graph(
    graph: StreamGraph,
    name: str,
    configuration: dict[str, str] | None = None,
    artifacts: tuple[Artifact, ...] = (),
    slot_resources: tuple[SlotResources, ...] = (),
    shipped: Callable[[Any], Any] = lambda source: source,
) -> JobGraph:
    """The job, under a new job id. Everything else in it is the same for the same program.

    `shipped` returns a source as it is in the graph.
    """
    chains, timed = build_chains(graph), timed_nodes(graph)
    specs = {
        chain.head.index: replace(chain.head.operator.spec, source=shipped(chain.head.operator.spec.source))
        for chain in chains
        if isinstance(chain.head.operator.spec, SourceSpec)
    }
    chain_by_head = {chain.head.index: chain for chain in chains}
    edges = [
        _make_edge(chain, edge, output, chain_by_head)
        for chain in chains
        for output, edge in enumerate(chain.outgoing())
    ]
    return JobGraph(
        job_id=JobId(new_id()),
        name=name,
        vertices=tuple(_make_vertex(chain, specs.get(chain.head.index), timed, graph.is_batch) for chain in chains),
        edges=tuple(edges),
        configuration=dict(configuration or {}),
        artifacts=artifacts,
        slot_resources=slot_resources,
    )


def vertex_id(chain: NodeChain) -> VertexId:
    """A vertex has the id of its head operator."""
    return VertexId(chain.head.id)


def _make_vertex(chain: NodeChain, spec: SourceSpec | None, timed: frozenset[int], is_batch: bool) -> JobVertex:
    head, name, description = chain.head, chain.name(), chain.description()
    source = pickled(spec.source, head.name, spec.source) if spec is not None else b""
    return JobVertex(
        id=vertex_id(chain),
        name=name,
        parallelism=head.parallelism,
        max_parallelism=head.max_parallelism,
        slot_sharing_group=head.slot_sharing_group,
        operators=tuple(
            OperatorInfo(node.id, node.operator.uid or "", node.name, held_state(node.operator.spec))
            for node in chain.nodes
        ),
        chain=_pickle_chain(chain, spec, timed, is_batch),
        source=source,
        max_parallelism_derived=head.max_parallelism_derived,
        description="" if description == name else description,
        parallelism_fixed=any(node.operator.parallelism is not None for node in chain.nodes),
        non_parallel=any(node.operator.non_parallel for node in chain.nodes),
    )


def _pickle_chain(chain: NodeChain, source: SourceSpec | None, timed: frozenset[int], is_batch: bool) -> bytes:
    operators = _chained_operators(chain, source, timed)
    if is_batch:
        operators = tuple(_in_batch(o, node) for o, node in zip(operators, chain.nodes, strict=True))
    try:
        return pickled(Chain(operators), chain.name(), None)
    except InvalidProgramError as error:
        failed = error
    for operator in operators:
        pickled(operator, operator.name, _user_part(operator.spec.user_code()))
    raise failed


def _in_batch(operator: ChainedOperator, node: StreamNode) -> ChainedOperator:
    spec = operator.spec
    return replace(operator, spec=spec.in_batch(), batch_input=spec.batch_input(has_event_time(node)))


def _chained_operators(
    chain: NodeChain, source: SourceSpec | None, timed: frozenset[int]
) -> tuple[ChainedOperator, ...]:
    numbers = {id(edge): output for output, edge in enumerate(chain.outgoing())}

    def output_of(edge: StreamEdge) -> ChainedOutput:
        kind = PICKLED if edge.tag is None else edge.type
        is_timed = edge.target.index in timed
        if chain.contains_edge(edge):
            return ChainedOutput(chain.positions[edge.target.index], None, edge.tag, kind, _edge_name(edge), is_timed)
        return ChainedOutput(output=numbers[id(edge)], tag=edge.tag, tag_type=kind, timed=is_timed)

    def operator_of(node: StreamNode) -> ChainedOperator:
        outputs = tuple(output_of(edge) for edge in node.outputs)
        operator = node.operator
        spec = source if source is not None and node is chain.head else operator.spec
        return ChainedOperator(node.id, node.name, spec, operator.output_type, outputs, operator.uid or "")

    return tuple(operator_of(node) for node in chain.nodes)


def _make_edge(chain: NodeChain, edge: StreamEdge, output: int, chain_by_head: dict[int, NodeChain]) -> JobEdge:
    target = chain_by_head[edge.target.index]
    spec = EdgeSpec(
        edge.partitioner, edge.type, target.head.max_parallelism, edge.source.buffer_timeout, edge.source.id,
        _edge_name(edge),
    )  # fmt: skip
    return JobEdge(
        source=vertex_id(chain),
        target=vertex_id(target),
        output=output,
        input=edge.input,
        strategy=STRATEGY_NAMES[type(edge.partitioner)],
        spec=pickled(spec, edge.target.name, _user_part(partitioner_code(edge.partitioner))),
        exchange=edge.exchange,
    )


def _edge_name(edge: StreamEdge) -> str:
    """Returns a name that is unique between two operators and independent of how operators are chained.

    In-flight records are restored by this name, and chaining depends on the parallelism of the operators.
    """
    equal = [e for e in edge.target.inputs if (e.source, e.tag, e.input) == (edge.source, edge.tag, edge.input)]
    number = next(number for number, other in enumerate(equal) if other is edge)
    return stable_id(edge.source.id, edge.target.id, edge.tag or "", str(edge.input), str(number))


def _user_part(code: tuple[Any, ...]) -> Any:
    return code[0] if len(code) == 1 else code
