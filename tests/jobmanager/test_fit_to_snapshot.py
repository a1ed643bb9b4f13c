"""Which jobs can start from which snapshots, and what they take over."""

from __future__ import annotations

import pytest
from job_graphs import pipeline
from msgspec.structs import replace

from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import JobId, OperatorId
from millstream.core.snapshot import (
    OperatorSnapshot,
    SnapshotError,
    SnapshotKind,
    SnapshotMetadata,
    StateFile,
    StateKind,
    StateSnapshot,
)
from millstream.jobmanager.restoring.snapshot_fit import fit_to_snapshot

WHERE = "file:///savepoint"


def operator(
    name: str, kind: StateKind = StateKind.VALUE, max_parallelism: int = 128, files: int = 1
) -> OperatorSnapshot:
    groups = (0, max_parallelism) if kind.keyed else (None, None)
    held = tuple(StateFile(f"{name}/s/part-{i}-0.parquet", i, *groups, 1, 1, "sha256:0") for i in range(files))
    return OperatorSnapshot(OperatorId(name), None, name, 2, max_parallelism, (StateSnapshot("s", kind, files=held),))


def snapshot(*operators: OperatorSnapshot, **properties: str) -> SnapshotMetadata:
    return SnapshotMetadata(1, JobId("old"), "old", 5, SnapshotKind.SAVEPOINT, 0, operators, properties)


def derived(graph: JobGraph) -> JobGraph:
    return replace(graph, vertices=tuple(replace(v, max_parallelism_derived=True) for v in graph.vertices))


def test_a_job_with_all_the_operators_starts_as_it_is() -> None:
    graph = pipeline(2, 2)
    assert fit_to_snapshot(graph, snapshot(operator("v0"), operator("v1-tail")), WHERE, False) == graph


@pytest.mark.parametrize(
    ("metadata", "named"),
    [
        (snapshot(operator("v0"), operator("gone"), operator("lost")), ["'gone' (gone)", "'lost' (lost)"]),
        (snapshot(replace(operator("old"), uid="mine")), ["'mine'"]),
        (snapshot(operator("src", files=0), **{"enumerator.src": "AA=="}), ["'src' (src)"]),
    ],
)
def test_state_that_no_operator_claims_is_named(metadata: SnapshotMetadata, named: list[str]) -> None:
    graph = pipeline(2)
    with pytest.raises(SnapshotError, match="--allowNonRestoredState") as refused:
        fit_to_snapshot(graph, metadata, WHERE, False)
    told = [f"operator {one} has state in the snapshot, and the program has no such operator" for one in named]
    assert str(refused.value).startswith(f"{WHERE}: does not fit the job: {told[0]}")
    assert all(one in str(refused.value) for one in told)
    assert fit_to_snapshot(graph, metadata, WHERE, True) == graph


def test_an_operator_without_state_may_go() -> None:
    empty = operator("gone")
    (state,) = empty.states
    rowless = replace(empty, states=(replace(state, files=tuple(replace(f, rows=0) for f in state.files)),))
    assert fit_to_snapshot(pipeline(2), snapshot(rowless), WHERE, False) == pipeline(2)
    assert fit_to_snapshot(pipeline(2), snapshot(operator("gone", files=0)), WHERE, False) == pipeline(2)


def test_a_max_parallelism_that_was_not_set_becomes_that_of_the_keyed_state() -> None:
    graph = derived(pipeline(2, 2))
    fitted = fit_to_snapshot(graph, snapshot(operator("v1", max_parallelism=64)), WHERE, False)
    assert [v.max_parallelism for v in fitted.vertices] == [128, 64]
    assert fit_to_snapshot(graph, snapshot(operator("v1", StateKind.OPERATOR_LIST, 64)), WHERE, False) == graph


def test_a_max_parallelism_that_was_set_stands_in_the_way() -> None:
    with pytest.raises(SnapshotError, match="was stored with max parallelism 64, and the program sets 128"):
        fit_to_snapshot(pipeline(2, 2), snapshot(operator("v1", max_parallelism=64)), WHERE, False)


def test_states_of_one_vertex_that_disagree_are_refused() -> None:
    metadata = snapshot(operator("v0", max_parallelism=64), operator("v0-tail", max_parallelism=32))
    with pytest.raises(SnapshotError, match=r"'tail' \(v0-tail\) was stored with max parallelism 32, and 'v0'"):
        fit_to_snapshot(derived(pipeline(2)), metadata, WHERE, False)


def test_a_parallelism_above_the_stored_max_parallelism_is_refused() -> None:
    with pytest.raises(SnapshotError, match="was stored with max parallelism 4, and the program runs it 5 times"):
        fit_to_snapshot(derived(pipeline(5)), snapshot(operator("v0", max_parallelism=4)), WHERE, False)


def test_splits_of_an_operator_that_is_no_source_any_more_are_unclaimed() -> None:
    source = pipeline(2, source=True)
    assert fit_to_snapshot(source, snapshot(operator("v0", StateKind.SPLITS)), WHERE, False) == source
    for graph, name in ((source, "v0-tail"), (pipeline(2), "v0")):
        lost = snapshot(operator(name, StateKind.SPLITS))
        with pytest.raises(SnapshotError, match=r"holds no splits state any more.*--allowNonRestoredState"):
            fit_to_snapshot(graph, lost, WHERE, False)
        assert fit_to_snapshot(graph, lost, WHERE, True) == graph


def test_keyed_state_of_an_operator_that_is_not_keyed_any_more_is_unclaimed() -> None:
    (head,) = derived(pipeline(2)).vertices
    plain = replace(head, operators=tuple(replace(info, holds=frozenset()) for info in head.operators))
    graph, lost = replace(pipeline(2), vertices=(plain,)), snapshot(operator("v0", max_parallelism=64))
    with pytest.raises(SnapshotError, match=r"holds no value state any more.*--allowNonRestoredState"):
        fit_to_snapshot(graph, lost, WHERE, False)
    assert fit_to_snapshot(graph, lost, WHERE, True) == graph  # nor does its max parallelism matter any more


def test_an_enumerators_state_at_an_operator_that_is_no_source_any_more_is_unclaimed() -> None:
    lost = snapshot(operator("v0", files=0), **{"enumerator.v0": "AA=="})
    with pytest.raises(SnapshotError, match=r"'v0' \(v0\) is no source any more.*--allowNonRestoredState"):
        fit_to_snapshot(pipeline(2), lost, WHERE, False)
    assert fit_to_snapshot(pipeline(2), lost, WHERE, True) == pipeline(2)
    assert fit_to_snapshot(pipeline(2, source=True), lost, WHERE, False) == pipeline(2, source=True)
