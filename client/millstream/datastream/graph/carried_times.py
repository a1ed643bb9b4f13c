"""Which operators have to get timestamps: those that may look at them, and those that lead to such.

Timestamps are eight bytes beside a record that a shuffle sends and a filter chooses, and a job may make no use of them
behind its last window, or on a branch that is only printed. It is decided for the whole graph before the job starts; an
operator of which nothing is known gets them.
"""

from __future__ import annotations

from millstream.core.jobs.plan.plan import BatchInput
from millstream.datastream.graph.stream_graph import StreamGraph


def timed_nodes(graph: StreamGraph) -> frozenset[int]:
    """The indexes of the nodes whose records have to come with timestamps, if they have any."""
    timed: set[int] = set()
    for node in reversed(graph.nodes):  # consumers before their inputs
        spec = node.operator.spec
        is_sorted = graph.is_batch and spec.batch_input(timed=True) is BatchInput.KEY_BY_KEY
        leads_on = not spec.makes_event_time and any(edge.target.index in timed for edge in node.outputs)
        if spec.reads_timestamps or is_sorted or leads_on:
            timed.add(node.index)
    return frozenset(timed)
