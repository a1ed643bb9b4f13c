"""Builds the metadata of a snapshot from the tasks' acknowledgements, and reads enumerators' states from it. Pure.

Each task writes the states of its operators; the metadata lists an operator once, with the files of all subtasks. The
states of split enumerators are opaque bytes of the user's program. They are kept in the properties, by the source's
operator: its uid, or its id when it has none.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from millstream.core.jobs.graph import JobGraph, JobVertex, OperatorInfo
from millstream.core.jobs.ids import OperatorId, VertexId
from millstream.core.snapshot import (
    FORMAT_VERSION,
    OperatorSnapshot,
    SnapshotKind,
    SnapshotMetadata,
    StateSnapshot,
    UnusableFileError,
    enumerator_property,
)
from millstream.jobmanager.checkpoints.model import CheckpointContent
from millstream.jobmanager.failover.topology import Subtask


class AcknowledgedState(Struct, frozen=True):
    """The handles that one task acknowledged: opaque to the coordinator."""

    operators: tuple[OperatorSnapshot, ...]


def snapshot_metadata(graph: JobGraph, content: CheckpointContent, created_ms: int) -> SnapshotMetadata:
    """Returns the metadata of a checkpoint that all tasks have acknowledged."""
    by_operator: dict[OperatorId, list[OperatorSnapshot]] = {}
    for snapshot in content.snapshots:
        if isinstance(snapshot.state, AcknowledgedState):
            for operator in snapshot.state.operators:
                by_operator.setdefault(operator.operator_id, []).append(operator)
    finished = frozenset(content.finished)
    kind = SnapshotKind.SAVEPOINT if content.options.is_savepoint else SnapshotKind.CHECKPOINT
    states = content.enumerator_states
    return SnapshotMetadata(
        FORMAT_VERSION,
        graph.job_id,
        graph.name,
        content.checkpoint_id,
        kind,
        created_ms,
        tuple(
            _merged(vertex, operator, by_operator.get(operator.id, []), finished)
            for vertex in graph.vertices
            for operator in vertex.operators
        ),
        _properties(graph, states if isinstance(states, Mapping) else {}),
    )


def _merged(
    vertex: JobVertex, operator: OperatorInfo, parts: Iterable[OperatorSnapshot], finished: frozenset[Subtask]
) -> OperatorSnapshot:
    states: dict[str, StateSnapshot] = {}
    for part in parts:
        for state in part.states:
            known = states.get(state.name)
            states[state.name] = replace(known, files=known.files + state.files) if known is not None else state
    return OperatorSnapshot(
        operator.id,
        operator.uid or None,
        operator.name,
        vertex.parallelism,
        vertex.max_parallelism,
        tuple(states.values()),
        finished.issuperset(Subtask(vertex.id, index) for index in range(vertex.parallelism)),
    )


def _properties(graph: JobGraph, enumerators: Mapping[str, bytes]) -> dict[str, str]:
    return {
        _property(vertex): base64.b64encode(enumerators[vertex.id]).decode()
        for vertex in graph.vertices
        if vertex.id in enumerators
    }


def _property(vertex: JobVertex) -> str:
    source = vertex.operators[0]
    return enumerator_property(source.uid, source.id)


def enumerator_states(graph: JobGraph, metadata: SnapshotMetadata) -> dict[VertexId, bytes]:
    """Returns the states of the enumerators of a job's sources, as far as the snapshot contains them."""
    states: dict[VertexId, bytes] = {}
    for vertex in graph.vertices:
        text = metadata.properties.get(_property(vertex)) if vertex.source else None
        if text is not None:
            try:
                states[vertex.id] = base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError) as error:
                where = f"snapshot {metadata.checkpoint_id} of job {metadata.job_id}"
                raise UnusableFileError(where, f"its property '{_property(vertex)}' is not base64: {error}") from error
    return states
