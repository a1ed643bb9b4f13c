"""Which operators share a task: Flink's rules, and the chains that follow from them.

An edge is chained when it is a pipelined forward edge between operators of the same parallelism and slot sharing
group, its target has no other input, and neither end forbids it. Chains are trees: the chained edges of the graph, cut
at every other edge.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from millstream.core.jobs.graph import Exchange
from millstream.core.jobs.plan.plan import ForwardPartitioner
from millstream.datastream.graph.stream_graph import StreamEdge, StreamGraph, StreamNode
from millstream.datastream.graph.transformations import ChainingStrategy


class NodeChain(Struct, frozen=True):
    """The nodes of one task, producers before consumers; the first is the head, which takes the task's input."""

    nodes: tuple[StreamNode, ...]
    positions: dict[int, int]  # node index -> position in `nodes`

    @property
    def head(self) -> StreamNode:
        """The node that takes the task's input."""
        return self.nodes[0]

    def contains_edge(self, edge: StreamEdge) -> bool:
        """Whether the edge runs inside this chain."""
        return edge.target.index in self.positions and edge.target is not self.head

    def outgoing(self) -> list[StreamEdge]:
        """The edges that leave the task, in the order of its outputs."""
        return [edge for node in self.nodes for edge in node.outputs if not self.contains_edge(edge)]

    def name(self) -> str:
        """The operators' names as a tree: `a -> b -> (c, d)`."""
        return self._tree(lambda node: node.name)

    def description(self) -> str:
        """The operators' descriptions as a tree."""
        return self._tree(lambda node: node.operator.full_description)

    def _tree(self, label: Callable[[StreamNode], str]) -> str:
        names: dict[int, str] = {}
        for node in reversed(self.nodes):
            children = [names[edge.target.index] for edge in node.outputs if self.contains_edge(edge)]
            match children:
                case []:
                    names[node.index] = label(node)
                case [child]:
                    names[node.index] = f"{label(node)} -> {child}"
                case _:
                    names[node.index] = f"{label(node)} -> ({', '.join(children)})"
        return names[self.head.index]


def is_chainable(edge: StreamEdge, enabled: bool) -> bool:
    """Whether both ends of an edge may run in one task."""
    source, target = edge.source, edge.target
    return (
        enabled
        and len(target.inputs) == 1  # so an operator of several inputs always is the head of its task
        and isinstance(edge.partitioner, ForwardPartitioner)
        and edge.exchange is Exchange.PIPELINED
        and source.parallelism == target.parallelism
        and source.slot_sharing_group == target.slot_sharing_group
        and source.operator.chaining is not ChainingStrategy.NEVER
        and target.operator.chaining is ChainingStrategy.ALWAYS
    )


def build_chains(graph: StreamGraph) -> list[NodeChain]:
    """The chains of a graph, producers before consumers; every node is in exactly one."""
    chains = []
    for node in graph.nodes:
        if any(is_chainable(edge, graph.chaining) for edge in node.inputs):
            continue
        members: list[StreamNode] = []
        pending = [node]
        while pending:
            member = pending.pop()
            members.append(member)
            chained = [edge.target for edge in member.outputs if is_chainable(edge, graph.chaining)]
            pending.extend(reversed(chained))
        chains.append(NodeChain(tuple(members), {member.index: i for i, member in enumerate(members)}))
    return chains
