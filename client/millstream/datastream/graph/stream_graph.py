"""The stream graph: a program's operators with everything that was left open decided, and the edges between them.

Decided here: parallelism, number of key groups, slot sharing group, operator id, and each edge's partitioner. Nodes are
in topological order.
"""

from __future__ import annotations

from msgspec import Struct, field

from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.graph import Exchange
from millstream.core.jobs.ids import OperatorId
from millstream.core.jobs.names import why_unwritable
from millstream.core.jobs.plan.plan import ForwardPartitioner, Partitioner, RebalancePartitioner, SourceSpec
from millstream.core.keys.key_groups import HIGHEST_MAX_PARALLELISM, default_max_parallelism
from millstream.core.records.types import PICKLED, TypeInformation
from millstream.datastream.execution_mode import RuntimeExecutionMode
from millstream.datastream.graph.batch_mode import is_batch
from millstream.datastream.graph.operator_ids import assign_operator_ids
from millstream.datastream.graph.transformations import OperatorTransformation, PhysicalInput, inputs_of, reachable

DEFAULT_SLOT_SHARING_GROUP = "default"
NO_OPERATORS = (
    "No operators defined in streaming topology. Cannot execute. Add a source and a sink first: each execution runs "
    "what was added since the last one"
)


class GraphDefaults(Struct, frozen=True):
    """What holds for operators that set nothing themselves."""

    parallelism: int = 1
    max_parallelism: int | None = None
    chaining: bool = True
    buffer_timeout: float | None = None
    needs_uids: bool = False
    mode: RuntimeExecutionMode = RuntimeExecutionMode.STREAMING


class StreamEdge(Struct, frozen=True, eq=False):
    """Records of one node's main or side output that another node reads."""

    source: StreamNode
    target: StreamNode
    partitioner: Partitioner
    tag: str | None
    type: TypeInformation
    input: int = 0  # which of the target's inputs it leads to, from 0
    exchange: Exchange = Exchange.PIPELINED


class StreamNode(Struct, eq=False):
    """One operator."""

    index: int
    operator: OperatorTransformation
    id: OperatorId
    parallelism: int
    max_parallelism: int
    slot_sharing_group: str
    buffer_timeout: float | None
    max_parallelism_derived: bool = False
    inputs: list[StreamEdge] = field(default_factory=list)
    outputs: list[StreamEdge] = field(default_factory=list)

    @property
    def name(self) -> str:
        """As people see it."""
        return self.operator.full_name


class StreamGraph(Struct, frozen=True):
    """All nodes, inputs before consumers."""

    nodes: tuple[StreamNode, ...]
    chaining: bool
    is_batch: bool = False

    def node_of(self, operator: OperatorTransformation) -> StreamNode:
        """The node that an operator became."""
        return next(node for node in self.nodes if node.operator is operator)


def build_stream_graph(ends: list[OperatorTransformation], defaults: GraphDefaults) -> StreamGraph:
    """The graph of everything that the given operators depend on, and of themselves."""
    if not ends:
        raise InvalidProgramError(NO_OPERATORS)
    operators = reachable(ends)
    inputs = {operator.number: inputs_of(operator) for operator in operators}
    for operator in operators:
        _check_names(operator, inputs[operator.number])
        if defaults.needs_uids and operator.uid is None and not operator.spec.is_the_clients:
            raise InvalidProgramError(
                f"operator '{operator.full_name}' has no uid, and pipeline.auto-generate-uids is false: call .uid(...) "
                "on it"
            )
    ids = assign_operator_ids(operators, inputs)
    nodes: dict[int, StreamNode] = {}
    for index, operator in enumerate(operators):
        producers = [nodes[found.operator.number] for found in inputs[operator.number]]
        node = _make_node(index, operator, ids[operator.number], producers, defaults)
        feeding = inputs[operator.number]
        kinds = [_input_type([f for f in feeding if f.input == i]) for i in range(operator.spec.inputs)]
        for producer, found in zip(producers, feeding, strict=True):
            edge = _make_edge(producer, node, found, kinds[found.input])
            producer.outputs.append(edge)
            node.inputs.append(edge)
        nodes[operator.number] = node
    for node in nodes.values():
        _check_side_outputs(node)
    return StreamGraph(tuple(nodes.values()), defaults.chaining, is_batch(operators, defaults.mode))


def _check_names(operator: OperatorTransformation, inputs: list[PhysicalInput]) -> None:
    names = [
        ("its name", operator.full_name),
        ("its uid", operator.uid),
        ("its slot sharing group", operator.slot_sharing_group),
    ]
    names += [("the side output that it reads", found.tag.tag_id) for found in inputs if found.tag is not None]
    for what, name in names:
        if name is not None and (why := why_unwritable(name)):
            raise InvalidProgramError(f"operator {operator.full_name!a}: {what} {why}")


def _check_side_outputs(node: StreamNode) -> None:
    """Refuses a side output of a source that no operator reads: its records would be lost."""
    if not isinstance(node.operator.spec, SourceSpec):
        return
    read = {edge.tag for edge in node.outputs}
    for tag in node.operator.spec.source.side_outputs():
        if tag.tag_id not in read:
            raise InvalidProgramError(
                f"'{node.name}' sends what it cannot read to the side output '{tag.tag_id}', and nothing reads it: "
                "call get_side_output(...) on its stream and give it a sink, or use on_error='skip'"
            )


def _make_node(
    index: int,
    operator: OperatorTransformation,
    operator_id: OperatorId,
    producers: list[StreamNode],
    defaults: GraphDefaults,
) -> StreamNode:
    parallelism = operator.parallelism or defaults.parallelism
    wanted = operator.max_parallelism or defaults.max_parallelism
    max_parallelism = wanted or default_max_parallelism(parallelism)
    if parallelism > max_parallelism:
        limit = "the highest that there is" if max_parallelism == HIGHEST_MAX_PARALLELISM else "its max parallelism"
        raise InvalidProgramError(
            f"operator '{operator.full_name}': its parallelism {parallelism} is more than {limit}, {max_parallelism}"
        )
    buffer_timeout = defaults.buffer_timeout if operator.buffer_timeout is None else operator.buffer_timeout
    group = _slot_sharing_group(operator, producers)
    return StreamNode(index, operator, operator_id, parallelism, max_parallelism, group, buffer_timeout, not wanted)


def _slot_sharing_group(operator: OperatorTransformation, producers: list[StreamNode]) -> str:
    if operator.slot_sharing_group is not None:
        return operator.slot_sharing_group
    groups = {producer.slot_sharing_group for producer in producers}
    return groups.pop() if len(groups) == 1 else DEFAULT_SLOT_SHARING_GROUP


def _input_type(inputs: list[PhysicalInput]) -> TypeInformation:
    """One type for all of one input of an operator: what the united streams have in common, else anything."""
    types = [found.operator.output_type if found.tag is None else found.tag.type for found in inputs]
    return types[0] if types and all(kind == types[0] for kind in types) else PICKLED


def _make_edge(producer: StreamNode, node: StreamNode, found: PhysicalInput, kind: TypeInformation) -> StreamEdge:
    partitioner = found.partitioner
    if partitioner is None:
        same = producer.parallelism == node.parallelism
        partitioner = ForwardPartitioner() if same else RebalancePartitioner()
    elif isinstance(partitioner, ForwardPartitioner) and producer.parallelism != node.parallelism:
        raise InvalidProgramError(
            f"forward() from '{producer.name}' to '{node.name}': it needs the same parallelism on both sides, but they "
            f"have {producer.parallelism} and {node.parallelism}; use rebalance() or rescale(), or set one parallelism"
        )
    tag = None if found.tag is None else found.tag.tag_id
    return StreamEdge(producer, node, partitioner, tag, kind, found.input, found.exchange)
