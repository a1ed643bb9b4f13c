"""Decides whether a job can start from a snapshot, and what it restores from it. Pure.

The decision is made by `millstream.core.snapshot.fitting.fit` from what the job manager knows of the job: the kinds of
state that its operators can hold, but not the states that functions declare. A vertex whose max parallelism the program
does not set gets that of its stored keyed state, whose key groups cannot change.
"""

from __future__ import annotations

from msgspec.structs import replace

from millstream.core.jobs.graph import JobGraph, JobVertex
from millstream.core.snapshot import SnapshotError, SnapshotMetadata
from millstream.core.snapshot.fitting.fit import Fit, ProgramOperator, fit


def fit_to_snapshot(graph: JobGraph, metadata: SnapshotMetadata, where: str, ignore_unclaimed: bool) -> JobGraph:
    """Returns the job fitted to the snapshot; raises SnapshotError if it cannot start from it."""
    program = [ProgramOperator.of(vertex, info) for vertex in graph.vertices for info in vertex.operators]
    found = fit(metadata, program, ignore_unclaimed)
    if found.problems:
        hint = (
            "; give operators the uids that they had, or start with --allowNonRestoredState "
            "(execution.state-recovery.ignore-unclaimed-state) to drop the state that the program does not restore"
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
