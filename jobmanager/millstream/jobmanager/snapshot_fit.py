"""Whether a job can start from a snapshot, and what it takes over from it. Pure.

The decision is that of `millstream.core.snapshot.fit`, as far as the job manager knows the job: not what functions
declare, and of the kinds of state that operators can hold only that splits belong to sources. A vertex whose max
parallelism the program did not set takes over that of its stored keyed state, whose key groups cannot change.
"""

from __future__ import annotations

from dataclasses import replace

from millstream.core.graph import JobGraph, JobVertex, OperatorInfo
from millstream.core.snapshot import SnapshotError, SnapshotMetadata, StateKind
from millstream.core.snapshot.fit import Fit, ProgramOperator, described, fit

_ANY = frozenset(StateKind)
_ANY_BUT_SPLITS = _ANY - {StateKind.SPLITS}


def fit_to_snapshot(graph: JobGraph, metadata: SnapshotMetadata, where: str, ignore_unclaimed: bool) -> JobGraph:
    """The job as it starts from the snapshot; an error says why it cannot."""
    program = [_known(vertex, info) for vertex in graph.vertices for info in vertex.operators]
    found = fit(metadata, program, ignore_unclaimed)
    if found.problems:
        hint = (
            "; give operators the uids that they had, or start with --allowNonRestoredState "
            "(execution.state-recovery.ignore-unclaimed-state) to leave behind what the program does not take over"
        )
        leaves = found.leaves_state and not ignore_unclaimed
        raise SnapshotError(where, f"does not fit the job: {'; '.join(found.problems)}{hint if leaves else ''}")
    return replace(graph, vertices=tuple(_fitted(vertex, found) for vertex in graph.vertices))


def _known(vertex: JobVertex, info: OperatorInfo) -> ProgramOperator:
    is_source = bool(vertex.source) and info is vertex.operators[0]
    holds = _ANY if is_source else _ANY_BUT_SPLITS
    return ProgramOperator(described(vertex, info), holds, None, vertex.max_parallelism_derived, vertex.id)


def _fitted(vertex: JobVertex, found: Fit) -> JobVertex:
    ids = {info.id for info in vertex.operators}
    for operator in found.operators:
        stored, declared = operator.stored, operator.declared
        if stored is None or declared is None or declared.operator_id not in ids or not stored.holds_keyed_state:
            continue
        if stored.max_parallelism != vertex.max_parallelism:
            return replace(vertex, max_parallelism=stored.max_parallelism, max_parallelism_derived=False)
    return vertex
