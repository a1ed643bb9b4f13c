"""Whether a job can start from a snapshot, and what it takes over from it. Pure.

The decision is that of `millstream.core.snapshot.fitting.fit`, as far as the job manager knows the job: which kinds of
state its operators can hold, but not what functions declare. A vertex whose max parallelism the program did not set
takes over that of its stored keyed state, whose key groups cannot change.
"""

from __future__ import annotations

from msgspec.structs import replace

from millstream.core.jobs.graph import JobGraph, JobVertex
from millstream.core.snapshot import SnapshotError, SnapshotMetadata
from millstream.core.snapshot.fitting.fit import Fit, ProgramOperator, fit


def fit_to_snapshot(graph: JobGraph, metadata: SnapshotMetadata, where: str, ignore_unclaimed: bool) -> JobGraph:
    """The job as it starts from the snapshot; an error says why it cannot."""
    program = [ProgramOperator.of(vertex, info) for vertex in graph.vertices for info in vertex.operators]
    found = fit(metadata, program, ignore_unclaimed)
    if found.problems:
        hint = (
            "; give operators the uids that they had, or start with --allowNonRestoredState "
            "(execution.state-recovery.ignore-unclaimed-state) to leave behind what the program does not take over"
        )
        leaves = found.leaves_state and not ignore_unclaimed
        raise SnapshotError(where, f"does not fit the job: {'; '.join(found.problems)}{hint if leaves else ''}")
    return replace(graph, vertices=tuple(_fitted(vertex, found) for vertex in graph.vertices))


def _fitted(vertex: JobVertex, found: Fit) -> JobVertex:
    keyed = {info.id for info in vertex.operators if any(kind.keyed for kind in info.holds)}
    for operator in found.operators:
        stored, declared = operator.stored, operator.declared
        if stored is None or declared is None or declared.operator_id not in keyed or not stored.holds_keyed_state:
            continue
        if stored.max_parallelism != vertex.max_parallelism:
            return replace(vertex, max_parallelism=stored.max_parallelism, max_parallelism_derived=False)
    return vertex
