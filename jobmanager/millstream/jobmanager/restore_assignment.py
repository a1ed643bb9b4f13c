"""Which files of a snapshot each subtask restores from, under the same or another parallelism. Pure.

- keyed state: the files that hold key groups of the subtask's range; it reads only those groups from them;
- lists and splits: under the same parallelism its own files; under another one all files, of which the subtask takes
  its share of the elements (those are dealt out in turn, and a file cannot be divided without reading it);
- union lists and sink transactions under another parallelism: all files;
- broadcast state: one of the copies, which are equal; the reading is spread over them.

Operators are matched by their uid, or by their id when the program gave none. What is handed over bears the operator's
id of the running job.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from millstream.core.graph import JobGraph, JobVertex, OperatorInfo
from millstream.core.key_groups import key_group_range
from millstream.core.snapshot import (
    OperatorSnapshot,
    SnapshotError,
    SnapshotMetadata,
    StateFile,
    StateKind,
    StateSnapshot,
)
from millstream.jobmanager.failover.topology import Subtask

_OWN_WHEN_UNCHANGED = frozenset({StateKind.OPERATOR_LIST, StateKind.SPLITS, StateKind.SINK_TRANSACTIONS})


def assign_states(
    graph: JobGraph, metadata: SnapshotMetadata, subtasks: Collection[Subtask]
) -> dict[Subtask, tuple[OperatorSnapshot, ...]]:
    """What each of the subtasks restores from: its operators that have state, with its files only."""
    by_uid = {operator.uid: operator for operator in metadata.operators if operator.uid is not None}
    by_id = {operator.operator_id: operator for operator in metadata.operators}
    result: dict[Subtask, tuple[OperatorSnapshot, ...]] = {}
    for vertex in graph.vertices:
        stored = [(info, by_uid.get(info.uid) if info.uid else by_id.get(info.id)) for info in vertex.operators]
        for index in range(vertex.parallelism):
            if (place := Subtask(vertex.id, index)) in subtasks:
                operators = (_operator(vertex, index, info, found, metadata) for info, found in stored if found)
                result[place] = tuple(operator for operator in operators if operator.states)
    return result


def _operator(
    vertex: JobVertex, subtask: int, info: OperatorInfo, stored: OperatorSnapshot, metadata: SnapshotMetadata
) -> OperatorSnapshot:
    if stored.max_parallelism != vertex.max_parallelism and any(s.kind.keyed and s.files for s in stored.states):
        raise SnapshotError(
            f"snapshot {metadata.checkpoint_id} of job {metadata.job_id}",
            f"operator '{info.name}' was stored with max parallelism {stored.max_parallelism}, and the job has "
            f"{vertex.max_parallelism}: keyed state cannot change it; set pipeline.max-parallelism back",
        )
    states = (
        replace(state, files=files_for(state, stored.parallelism, vertex.parallelism, vertex.max_parallelism, subtask))
        for state in stored.states
    )
    return replace(stored, operator_id=info.id, states=tuple(state for state in states if state.files))


def files_for(
    state: StateSnapshot, stored_parallelism: int, parallelism: int, max_parallelism: int, subtask: int
) -> tuple[StateFile, ...]:
    """The files of one state that a subtask needs."""
    files = tuple(sorted(state.files, key=lambda file: file.subtask))
    if state.kind.keyed:
        owned = key_group_range(subtask, max_parallelism, parallelism)
        return tuple(f for f in files if (g := f.key_groups) is None or (g.start < owned.stop and owned.start < g.stop))
    if state.kind is StateKind.BROADCAST:
        copies = sorted({file.subtask for file in files})
        return tuple(f for f in files if f.subtask == copies[subtask % len(copies)])
    if state.kind in _OWN_WHEN_UNCHANGED and stored_parallelism == parallelism:
        return tuple(file for file in files if file.subtask == subtask)
    return files
