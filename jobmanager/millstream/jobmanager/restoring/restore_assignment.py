"""Assigns a snapshot's state to the subtasks of a job: for each operator, its states with the files they need. Pure.

A vertex all of whose subtasks had finished is restored as finished, and does not run again; its producers have to be
finished as well, since their output would be lost.

Operators are matched by their uid, or by their id when the program sets none. The assigned states carry the operator's
id in the running job. State that an operator can no longer hold is dropped, as `fit` allowed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from millstream.core.jobs.graph import JobGraph, JobVertex, OperatorInfo
from millstream.core.jobs.ids import VertexId
from millstream.core.snapshot import IncompatibleStateError, OperatorSnapshot, SnapshotMetadata
from millstream.core.snapshot.fitting.fit import described, match_operators
from millstream.core.snapshot.metadata.operator_json import operators_to_json
from millstream.core.snapshot.tables.redistribution import files_for
from millstream.jobmanager.failover.topology import Subtask
from millstream.jobmanager.job_master.execution_graph import TaskRestore


def task_restores(
    graph: JobGraph, metadata: SnapshotMetadata, location: str, subtasks: Collection[Subtask]
) -> dict[Subtask, TaskRestore]:
    """Returns what each of the subtasks restores from the snapshot at the location."""
    return {
        place: TaskRestore(operators_to_json(states), location, metadata.checkpoint_id)
        for place, states in assign_states(graph, metadata, subtasks).items()
    }


def assign_states(
    graph: JobGraph, metadata: SnapshotMetadata, subtasks: Collection[Subtask]
) -> dict[Subtask, tuple[OperatorSnapshot, ...]]:
    """Assigns to each subtask its operators that have state or are finished, with only the files it needs."""
    result: dict[Subtask, tuple[OperatorSnapshot, ...]] = {}
    finished: set[VertexId] = set()
    for vertex in graph.vertices:
        matched = match_operators(metadata, [described(vertex, info) for info in vertex.operators])
        stored = [(info, found) for info, found in zip(vertex.operators, matched, strict=True) if found is not None]
        if _is_finished(vertex, stored, metadata):
            finished.add(vertex.id)
        for index in range(vertex.parallelism):
            if (place := Subtask(vertex.id, index)) in subtasks:
                restored = (_operator(vertex, index, info, found, metadata) for info, found in stored)
                result[place] = tuple(operator for operator in restored if operator.states or operator.finished)
    for edge in graph.edges:
        if edge.target in finished and edge.source not in finished:
            names = {vertex.id: vertex.name for vertex in graph.vertices}
            raise IncompatibleStateError(
                _where(metadata),
                f"'{names[edge.target]}' had finished, but its input '{names[edge.source]}' had not: its output would "
                "be lost; give operators that are not those of the snapshot another uid",
            )
    return result


def _is_finished(
    vertex: JobVertex, stored: Sequence[tuple[OperatorInfo, OperatorSnapshot]], metadata: SnapshotMetadata
) -> bool:
    finished = {info.id for info, found in stored if found.finished}
    others = [info.name for info in vertex.operators if info.id not in finished]
    if finished and others:
        raise IncompatibleStateError(
            _where(metadata),
            f"of the chain '{vertex.name}' some operators had finished, but not '{others[0]}': they cannot run as one "
            "task; start a new chain between them",
        )
    return bool(finished)


def _where(metadata: SnapshotMetadata) -> str:
    return f"snapshot {metadata.checkpoint_id} of job {metadata.job_id}"


def _operator(
    vertex: JobVertex, subtask: int, info: OperatorInfo, stored: OperatorSnapshot, metadata: SnapshotMetadata
) -> OperatorSnapshot:
    stored = replace(stored, states=tuple(state for state in stored.states if info.takes(state.kind)))
    if stored.max_parallelism != vertex.max_parallelism and stored.holds_keyed_state:
        raise IncompatibleStateError(
            _where(metadata),
            f"operator '{info.name}' was stored with max parallelism {stored.max_parallelism}, and the job has "
            f"{vertex.max_parallelism}: keyed state cannot change it; set pipeline.max-parallelism back",
        )
    states = (
        replace(state, files=files_for(state, stored.parallelism, vertex.parallelism, vertex.max_parallelism, subtask))
        for state in stored.states
    )
    return replace(stored, operator_id=info.id, states=tuple(state for state in states if state.files))
