"""Sinks with one committer: what their writers hand over, and what is committed when."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from manifest_sink import ManifestSink

from millstream.core.jobs.plan import plan
from millstream.core.jobs.state_kinds import StateKind
from millstream.core.records.batches import Barrier, RowBatch
from millstream.datastream import RuntimeContext
from millstream.datastream.connectors.global_commit import (
    CommitterOf,
    CommittingWriter,
    GlobalCommit,
    GlobalCommitSink,
    GlobalCommitter,
)
from millstream.taskmanager.testing import GivenElements, OperatorHarness
from millstream.taskmanager.worker.operators.base import OperatorError

CHECKPOINTED = {"execution.checkpointing.interval": "1 s"}


class Noting(GlobalCommitSink[str], GlobalCommitter[str]):
    """Its own committer, which notes what it is called with."""

    def __init__(self) -> None:
        self.commits: list[GlobalCommit[str]] = []
        self.fails = False
        self.closed = 0

    def create_writer(self, context: RuntimeContext) -> CommittingWriter[str]:
        raise NotImplementedError

    def create_committer(self, context: RuntimeContext) -> GlobalCommitter[str]:
        return self

    def commit(self, commit: GlobalCommit[str]) -> None:
        if self.fails:
            raise OSError("the catalog is away")
        self.commits.append(commit)

    def close(self) -> None:
        self.closed += 1

    def taken(self) -> list[tuple[int | None, list[str]]]:
        commits, self.commits = self.commits, []
        return [(commit.checkpoint_id, commit.committables) for commit in commits]


def committing(sink: Noting, **options: Any) -> OperatorHarness:
    return OperatorHarness(plan.SinkSpec(CommitterOf(sink)), options=CHECKPOINTED, **options)


def elements(made: OperatorHarness) -> list[Any]:
    return pickle.loads(pickle.dumps(made.operator.elements(0)[StateKind.SINK_TRANSACTIONS]))  # type: ignore[no-any-return]


def test_the_committables_of_a_checkpoint_are_committed_together_once_it_has_completed() -> None:
    sink = Noting()
    made = committing(sink).open()
    made.process(RowBatch(["a"]), RowBatch(["b", "c"]))
    made.operator.prepare_snapshot(Barrier(1, 0))
    made.process(RowBatch(["d"]))
    assert sink.taken() == []
    assert made.complete(1)
    assert sink.taken() == [(1, ["a", "b", "c"])]
    made.operator.prepare_snapshot(Barrier(2, 0))  # aborted
    made.operator.prepare_snapshot(Barrier(3, 0))  # nothing was written
    made.process(RowBatch(["e"]))
    made.operator.prepare_snapshot(Barrier(4, 0, is_savepoint=True))
    made.operator.prepare_snapshot(Barrier(5, 0))
    assert made.complete(5)
    assert sink.taken() == [(2, ["d"]), (4, ["e"])]
    made.close()
    assert sink.closed == 1


def test_a_commit_that_is_repeated_has_the_same_id() -> None:
    sink = Noting()
    made = committing(sink).open()
    made.process(RowBatch(["a"]))
    made.operator.prepare_snapshot(Barrier(1, 0))
    held = elements(made)
    assert made.complete(1)
    again = committing(sink)
    again.operator.restore(GivenElements(StateKind.SINK_TRANSACTIONS, held))
    again.open()
    first, second = sink.commits
    assert first == second
    assert first.id


def test_a_commit_that_fails_is_repeated_before_later_ones() -> None:
    sink = Noting()
    made = committing(sink).open()
    for number in (1, 2):
        made.process(RowBatch([str(number)]))
        made.operator.prepare_snapshot(Barrier(number, 0))
    sink.fails = True
    with pytest.raises(OperatorError, match="the catalog is away") as raised:
        made.complete(1)
    assert raised.value.is_outage
    sink.fails = False
    assert made.complete(2)
    assert sink.taken() == [(1, ["1"]), (2, ["2"])]


def test_without_checkpoints_there_is_one_commit_at_the_end() -> None:
    sink = Noting()
    made = OperatorHarness(plan.SinkSpec(CommitterOf(sink))).open()
    made.process(RowBatch(["a"]), RowBatch(["b"]))
    assert made.finish()
    made.deliver()
    assert made.operator.is_drained
    assert sink.taken() == [(None, ["a", "b"])]


def test_writers_hand_over_what_they_have_written_before_each_barrier_and_at_the_end(tmp_path: Path) -> None:
    made = OperatorHarness(plan.CommittingWriterSpec(ManifestSink(str(tmp_path))), options=CHECKPOINTED).open()
    made.process(RowBatch([1, 2]))
    assert made.out.rows == []
    made.operator.prepare_snapshot(Barrier(1, 0))
    (first,) = made.out.rows
    made.operator.prepare_snapshot(Barrier(2, 0))
    assert made.out.rows == [first], "nothing was written"
    made.process(RowBatch([3]))
    made.finish()
    _, second = made.out.rows
    made.operator.prepare_snapshot(Barrier(3, 0))
    assert len(made.out.rows) == 2, "nothing can follow the end"
    written = [(tmp_path / "parts" / part).read_text() for part in (first, second)]
    assert written == ["1\n2\n", "3\n"]
    made.close()


def test_a_writer_that_fails_at_a_barrier_declines_the_checkpoint_and_then_fails(tmp_path: Path) -> None:
    made = OperatorHarness(plan.CommittingWriterSpec(ManifestSink(str(tmp_path)))).open()
    made.process(RowBatch([1]))
    (tmp_path / "parts").rmdir()
    with pytest.raises(OperatorError, match="FileNotFoundError"):
        made.operator.prepare_snapshot(Barrier(1, 0))
    with pytest.raises(OperatorError, match="FileNotFoundError"):
        made.process(RowBatch([2]))
