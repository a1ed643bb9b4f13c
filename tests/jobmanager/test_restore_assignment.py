"""Which files a subtask restores from: nothing is lost, nothing goes to two, under every change of parallelism."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_graphs import job, vertex

from millstream.core.graph import OperatorInfo
from millstream.core.ids import AttemptId, JobId, OperatorId, VertexId
from millstream.core.key_groups import key_group_range
from millstream.core.snapshot import (
    FORMAT_VERSION,
    OperatorSnapshot,
    SnapshotError,
    SnapshotKind,
    SnapshotMetadata,
    StateFile,
    StateKind,
    StateSnapshot,
)
from millstream.core.snapshot.operator_json import operators_from_json, operators_to_json
from millstream.jobmanager.checkpoints.model import (
    CheckpointContent,
    CheckpointId,
    SnapshotOptions,
    TaskRef,
    TaskSnapshot,
)
from millstream.jobmanager.failover.topology import Subtask
from millstream.jobmanager.restore_assignment import assign_states, files_for
from millstream.jobmanager.snapshot_content import AcknowledgedState, enumerator_states, snapshot_metadata
from millstream.jobmanager.split_assignments import SplitAssignments

MAX = 128
CHECKSUM = f"sha256:{'0' * 64}"
LONG = {"type": "long"}


def file(subtask: int, groups: range | None = None) -> StateFile:
    start, end = (groups.start, groups.stop) if groups is not None else (None, None)
    return StateFile(f"op/state/part-{subtask}-0.arrow", subtask, start, end, 1, 1, CHECKSUM)


def state(kind: StateKind, parallelism: int) -> StateSnapshot:
    files = [file(i, key_group_range(i, MAX, parallelism) if kind.keyed else None) for i in range(parallelism)]
    return StateSnapshot("state", kind, files=tuple(files))


parallelisms = st.integers(1, 12)


@given(before=parallelisms, after=parallelisms)
def test_keyed_state_reaches_the_owners_of_its_key_groups(before: int, after: int) -> None:
    kept = state(StateKind.MAP, before)
    for subtask in range(after):
        owned = key_group_range(subtask, MAX, after)
        chosen = files_for(kept, before, after, MAX, subtask)
        ranges = [f.key_groups or range(0) for f in chosen]
        assert set(owned) <= {group for groups in ranges for group in groups}
        assert all(set(groups) & set(owned) for groups in ranges)


@pytest.mark.parametrize("kind", [StateKind.OPERATOR_LIST, StateKind.SPLITS, StateKind.SINK_TRANSACTIONS])
@given(before=parallelisms, after=parallelisms)
def test_lists_are_kept_or_dealt_out(kind: StateKind, before: int, after: int) -> None:
    kept = state(kind, before)
    chosen = [files_for(kept, before, after, MAX, subtask) for subtask in range(after)]
    if before == after:
        assert chosen == [(f,) for f in kept.files]
    else:
        assert chosen == [kept.files] * after


@given(before=parallelisms, after=parallelisms)
def test_union_lists_go_to_all_and_broadcast_state_as_one_copy(before: int, after: int) -> None:
    union, broadcast = state(StateKind.OPERATOR_UNION, before), state(StateKind.BROADCAST, before)
    for subtask in range(after):
        assert files_for(union, before, after, MAX, subtask) == union.files
        assert len(files_for(broadcast, before, after, MAX, subtask)) == 1
    assert files_for(replace(broadcast, files=()), before, after, MAX, 0) == ()


def metadata(*operators: OperatorSnapshot) -> SnapshotMetadata:
    return SnapshotMetadata(FORMAT_VERSION, JobId("job"), "", 3, SnapshotKind.CHECKPOINT, 0, operators)


def test_operators_are_matched_by_uid_else_by_id() -> None:
    mapped = replace(
        vertex("a", 2), operators=(OperatorInfo(OperatorId("new"), "mine", "m"), OperatorInfo(OperatorId("x"), "", ""))
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


def test_another_max_parallelism_is_refused_for_keyed_state() -> None:
    kept = replace(state(StateKind.VALUE, 1), key_type=LONG)
    stored = metadata(OperatorSnapshot(OperatorId("a"), None, "count", 1, 64, (kept,)))
    with pytest.raises(SnapshotError, match="max parallelism 64, and the job has 128"):
        assign_states(job([vertex("a", 1)]), stored, {Subtask(VertexId("a"), 0)})


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
    with pytest.raises(SnapshotError, match="is not base64"):
        enumerator_states(graph, replace(made, properties={"enumerator.s": "?"}))
    places = {Subtask(VertexId("a"), i) for i in range(2)}
    assigned = assign_states(graph, made, places)
    assert {p.index: o[0].states[0].files for p, o in assigned.items()} == {i: (kept.files[i],) for i in range(2)}


@given(
    st.lists(
        st.one_of(st.tuples(st.just("assign"), st.integers(0, 2)), st.sampled_from(["capture", "complete", "take"])),
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
            case "complete" if checkpoint > 1:
                assignments.completed(checkpoint - 1)
                given_since = [g for g in given_since if g[2] >= checkpoint]
            case "take":
                taken = assignments.take_back(Subtask(VertexId("s"), 0))
                assert taken == [splits for reader, splits, _ in given_since if reader == 0]
                given_since = [g for g in given_since if g[0] != 0]
