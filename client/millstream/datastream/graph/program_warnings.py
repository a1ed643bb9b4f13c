"""What is probably a mistake in a program, although it runs: reported once, when its job is submitted."""

from __future__ import annotations

import sys

from millstream.datastream.graph.held_state import held_state
from millstream.datastream.graph.stream_graph import StreamGraph, StreamNode


def report(graph: StreamGraph, submitted: bool) -> None:
    """Writes the warnings to standard error.

    Missing uids matter for jobs that are `submitted` to a cluster: a program that runs by itself is seldom restored.
    """
    for text in (unused_outputs(graph), missing_uids(graph) if submitted else None):
        if text is not None:
            print(f"warning: {text}", file=sys.stderr, flush=True)


def unused_outputs(graph: StreamGraph) -> str | None:
    """Names the operators whose records no other operator reads; None if there are none."""
    unused = [node for node in graph.nodes if not node.outputs and not node.operator.spec.is_sink]
    if not unused:
        return None
    of = "the operator" if len(unused) == 1 else "the operators"
    return (
        f"no operator reads the records of {of} {_listed(unused)}: they are dropped. Add a sink, such as "
        "sink_to(...), add_sink(...) or print(), or remove the operation"
    )


def missing_uids(graph: StreamGraph) -> str | None:
    """Names the operators that keep state and have no uid; None if there are none, or the job is a batch."""
    if graph.is_batch:
        return None
    missing = [
        node
        for node in graph.nodes
        if node.operator.uid is None
        and node.operator.uid_hash is None
        and not node.operator.spec.is_the_clients
        and held_state(node.operator.spec)
    ]
    if not missing:
        return None
    if len(missing) == 1:
        found = f"the operator {_listed(missing)} keeps state and has no uid: its generated id changes"
    else:
        found = f"the operators {_listed(missing)} keep state and have no uid: their generated ids change"
    return f"{found} with the program, and a changed program cannot restore the state. Set ids with .uid('...')"


def _listed(nodes: list[StreamNode]) -> str:
    return ", ".join(f"'{node.name}'" for node in nodes)
