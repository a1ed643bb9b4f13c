"""What a subtask restores from: its operators by uid or id, and what had finished."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from job_graphs import ANY, edge, job, vertex
from msgspec.structs import replace

from millstream.core.jobs.graph import OperatorInfo
from millstream.core.jobs.ids import AttemptId, JobId, OperatorId, VertexId
from millstream.core.keys.key_groups import key_group_range
from millstream.core.snapshot import (
    FORMAT_VERSION,
    IncompatibleStateError,
    OperatorSnapshot,
    SnapshotKind,
    SnapshotMetadata,
    StateFile,
    StateKind,
    StateSnapshot,
    UnusableFileError,
)
from millstream.core.snapshot.metadata.operator_json import operators_from_json, operators_to_json
from millstream.jobmanager.checkpoints.model import (
    CheckpointContent,
    CheckpointId,
    SnapshotOptions,
    TaskRef,
    TaskSnapshot,
)
from millstream.jobmanager.failover.topology import Subtask
from millstream.jobmanager.restoring.restore_assignment import assign_states
from millstream.jobmanager.snapshot_content import AcknowledgedState, enumerator_states, snapshot_metadata
from millstream.jobmanager.sources.split_assignments import SplitAssignments

MAX = 128
CHECKSUM = f"sha256:{'0' * 64}"
LONG = {"type": "long"}


def file(subtask: int, groups: range | None = None) -> StateFile:
    start, end = (groups.start, groups.stop) if groups is not None else (None, None)
    return StateFile(f"op/state/part-{subtask}-0.arrow", subtask, start, end, 1, 1, CHECKSUM)


def state(kind: StateKind, parallelism: int) -> StateSnapshot:
    files = [file(i, key_group_range(i, MAX, parallelism) if kind.keyed else None) for i in range(parallelism)]
    return StateSnapshot("state", kind, files=tuple(files))


def metadata(*operators: OperatorSnapshot) -> SnapshotMetadata:
    return SnapshotMetadata(FORMAT_VERSION, JobId("job"), "", 3, SnapshotKind.CHECKPOINT, 0, operators)


def test_operators_are_matched_by_uid_else_by_id() -> None:
    mapped = replace(
        vertex("a", 2),
        operators=(OperatorInfo(OperatorId("new"), "mine", "m", ANY), OperatorInfo(OperatorId("x"), "", "", ANY)),
    )
    kept = state(StateKind.OPERATOR_LIST, 2)
    stored = metadata(
        OperatorSnapshot(OperatorId("old"), "mine", "m", 2, MAX, (kept,)),
        OperatorSnapshot(OperatorId("x"), None, "", 2, MAX, ()),
        OperatorSnapshot(OperatorId("new"), "other", "", 2, MAX, (kept,)),
    )
    assigned = assign_states(job([mapped]), stored, {Subtask(VertexId("a"), 1)})
    ((place, (operator,)),) = assigned.items()
    assert place.index == 1
    assert operator.operator_id == "new"
    assert operator.states[0].files == (kept.files[1],)
    assert operators_from_json(operators_to_json([operator]), "test") == (operator,)


def test_state_that_an_operator_cannot_hold_any_more_is_left_behind() -> None:
    plain = replace(vertex("a", 1), operators=(OperatorInfo(OperatorId("a"), "", "", frozenset({StateKind.SPLITS})),))
    kinds = (StateKind.VALUE, StateKind.SPLITS, StateKind.IN_FLIGHT)
    states = tuple(replace(state(kind, 1), name=kind.value) for kind in kinds)
    stored = metadata(OperatorSnapshot(OperatorId("a"), None, "", 1, 2 * MAX, states))
    ((operator,),) = assign_states(job([plain]), stored, {Subtask(VertexId("a"), 0)}).values()
    assert [kept.kind for kept in operator.states] == [StateKind.SPLITS, StateKind.IN_FLIGHT]


def test_another_max_parallelism_is_refused_for_keyed_state() -> None:
    kept = replace(state(StateKind.VALUE, 1), key_type=LONG)
    stored = metadata(OperatorSnapshot(OperatorId("a"), None, "count", 1, 64, (kept,)))
    with pytest.raises(IncompatibleStateError, match="max parallelism 64, and the job has 128"):
        assign_states(job([vertex("a", 1)]), stored, {Subtask(VertexId("a"), 0)})


def ended(name: str, finished: bool = True) -> OperatorSnapshot:
    return OperatorSnapshot(OperatorId(name), None, name, 2, MAX, finished=finished)


def test_a_vertex_that_had_finished_is_handed_over_as_finished() -> None:
    graph = job([vertex("s", 2), vertex("a", 2)], [edge("s", "a", "HASH")])
    stored = metadata(ended("s"), ended("s-tail"), ended("a", False), ended("a-tail", False))
    places = {Subtask(VertexId(name), i) for name in ("s", "a") for i in range(2)}
    assigned = assign_states(graph, stored, places)
    for index in range(2):
        assert [o.finished for o in assigned[Subtask(VertexId("s"), index)]] == [True, True]
        assert assigned[Subtask(VertexId("a"), index)] == ()


def test_what_had_finished_is_refused_where_it_would_have_to_run_again() -> None:
    places = {Subtask(VertexId("a"), 0)}
    mixed = metadata(ended("a"), ended("a-tail", False))
    with pytest.raises(IncompatibleStateError, match="some operators had finished, but not 'tail'"):
        assign_states(job([vertex("a", 1)]), mixed, places)
    behind = metadata(ended("s", False), ended("s-tail", False), ended("a"), ended("a-tail"))
    graph = job([vertex("s", 1), vertex("a", 1)], [edge("s", "a", "HASH")])
    with pytest.raises(IncompatibleStateError, match="'a' had finished, but its input 's' had not"):
        assign_states(graph, behind, places)


def test_acknowledgements_become_one_metadata_and_go_back_to_their_subtasks() -> None:
    graph = job([vertex("s", 2, source=True), vertex("a", 2)])
    kept = state(StateKind.OPERATOR_LIST, 2)
    snapshots = tuple(
        TaskSnapshot(
            TaskRef(Subtask(VertexId("a"), i), AttemptId(f"a{i}")),
            AcknowledgedState(
                (OperatorSnapshot(OperatorId("a"), None, "a", 2, MAX, (replace(kept, files=(kept.files[i],)),)),)
            ),
        )
        for i in range(2)
    )
    finished = tuple(Subtask(VertexId("s"), i) for i in range(2))
    content = CheckpointContent(CheckpointId(5), SnapshotOptions(), 7, snapshots, finished, {"s": b"\x00state"})
    made = snapshot_metadata(graph, content, 9)
    assert (made.checkpoint_id, made.created_ms) == (5, 9)
    by_id = {operator.operator_id: operator for operator in made.operators}
    assert by_id[OperatorId("a")].states == (kept,)
    assert by_id[OperatorId("s")].finished
    assert not by_id[OperatorId("a")].finished
    assert enumerator_states(graph, made) == {"s": b"\x00state"}
    with pytest.raises(UnusableFileError, match="is not base64"):
        enumerator_states(graph, replace(made, properties={"enumerator.s": "?"}))
    places = {Subtask(VertexId("a"), i) for i in range(2)}
    assigned = assign_states(graph, made, places)
    assert {p.index: o[0].states[0].files for p, o in assigned.items()} == {i: (kept.files[i],) for i in range(2)}


def test_records_in_flight_belong_to_their_producer_whichever_side_stored_them() -> None:
    """A consumer acknowledges what it had received of a producer, which is no state of the producer's vertex."""
    received = StateSnapshot("in-flight-0-received", StateKind.IN_FLIGHT, files=(file(0), file(1), file(2)))
    queued = StateSnapshot("in-flight-0-queued", StateKind.IN_FLIGHT, files=(file(0),))
    graph = job([vertex("s", 1), vertex("a", 3)], [edge("s", "a", "HASH")])

    def stored(vertex_id: str, index: int, parallelism: int, *states: StateSnapshot) -> TaskSnapshot:
        operator = OperatorSnapshot(OperatorId("s"), None, "?", parallelism, MAX, states)
        place = TaskRef(Subtask(VertexId(vertex_id), index), AttemptId(f"{vertex_id}{index}"))
        return TaskSnapshot(place, AcknowledgedState((operator,)))

    parts = [stored("a", i, 3, replace(received, files=(received.files[i],))) for i in range(3)]
    snapshots = (*parts, stored("s", 0, 1, queued))
    made = snapshot_metadata(graph, CheckpointContent(CheckpointId(5), SnapshotOptions(), 7, snapshots, (), {}), 9)
    producer, *others = made.operators
    assert (producer.name, producer.parallelism, producer.finished) == ("s", 1, False)
    assert producer.states == (received, queued)
    assert not any(operator.states for operator in others)
    wider = job([vertex("s", 2), vertex("a", 3)], [edge("s", "a", "HASH")])
    for restored in (graph, wider):
        places = {Subtask(v.id, i) for v in restored.vertices for i in range(v.parallelism)}
        assigned = assign_states(restored, made, places)
        assert all(assigned[place] == () for place in places if place.vertex_id == "a")
        for index in range(restored.vertices[0].parallelism):
            states = assigned[Subtask(VertexId("s"), index)][0].states
            assert states == ((received, queued) if index == 0 else (received,)), "who takes the former one's place"


@example(["capture", ("assign", 0), "capture", ("complete", 2), "take"])
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("assign"), st.integers(0, 2)),
            st.tuples(st.just("complete"), st.integers(1, 3)),
            st.sampled_from(["capture", "take"]),
        ),
        max_size=40,
    )
)
def test_splits_since_the_completed_checkpoint_come_back_once(steps: list[object]) -> None:
    assignments = SplitAssignments()
    given_since: list[tuple[int, bytes, int]] = []  # the reader, its splits, the first checkpoint that has them
    checkpoint, number = 1, 0
    for step in steps:
        match step:
            case ("assign", int(reader)):
                number += 1
                assignments.assigned(Subtask(VertexId("s"), reader), b"%d" % number)
                given_since.append((reader, b"%d" % number, checkpoint))
            case "capture":
                assignments.captured(checkpoint)
                checkpoint += 1
            case ("complete", int(back)) if checkpoint > back:  # several may be in progress
                assignments.completed(checkpoint - back)
                given_since = [g for g in given_since if g[2] > checkpoint - back]
            case "take":
                taken = assignments.take_back(Subtask(VertexId("s"), 0))
                assert taken == [splits for reader, splits, _ in given_since if reader == 0]
                given_since = [g for g in given_since if g[0] != 0]
