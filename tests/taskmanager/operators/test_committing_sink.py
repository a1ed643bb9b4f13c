"""The order in which the operator of a two-phase-commit sink calls the sink, and the effect of failures."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pytest

from millstream.core.jobs.plan import plan
from millstream.core.jobs.state_kinds import StateKind
from millstream.core.records.batches import Barrier, Batch, RowBatch
from millstream.datastream.connectors.errors import ConnectorError
from millstream.datastream.connectors.two_phase_commit import TwoPhaseCommitSink, TwoPhaseCommitSinkFunction
from millstream.datastream.functions import RuntimeContext
from millstream.taskmanager.testing import DEPLOYMENT, GivenElements, OperatorHarness
from millstream.taskmanager.worker.operators.base import OperatorError
from millstream.taskmanager.worker.operators.sinks.committing_sink import CommittingSinkOperator
from millstream.taskmanager.worker.runtime_context import TaskRuntimeContext


class Recording(TwoPhaseCommitSink[str]):
    """Records every call; fails as `failing` requests."""

    def __init__(self, failing: str = "", check_interval: float | None = None) -> None:
        self.calls: list[str] = []
        self.failing = failing
        self.check_interval = check_interval
        self._begun = 0

    def _note(self, call: str) -> None:
        self.calls.append(call)
        if self.failing and call.startswith(self.failing):
            raise OSError(f"no {call}")

    def open(self, context: RuntimeContext) -> None:
        self._note("open")

    def begin_transaction(self) -> str:
        self._begun += 1
        self._note(f"begin t{self._begun}")
        return f"t{self._begun}"

    def write(self, transaction: str, batch: Batch) -> None:
        self._note(f"write {transaction} {batch.rows}")

    def pre_commit(self, transaction: str) -> None:
        self._note(f"pre-commit {transaction}")

    def pre_commit_for_savepoint(self, transaction: str, checkpoint_id: int) -> None:
        self._note(f"pre-commit {transaction} for savepoint {checkpoint_id}")

    def commit(self, transaction: str) -> None:
        self._note(f"commit {transaction}")

    def abort(self, transaction: str) -> None:
        self._note(f"abort {transaction}")

    def snapshot_writer_state(self, checkpoint_id: int) -> list[Any]:
        self._note(f"state {checkpoint_id}")
        return ["buffered"]

    def restore_writer_state(self, states: Sequence[Any]) -> None:
        self._note(f"restore {list(states)}")

    def abort_leftovers(
        self, known: Sequence[str], known_states: Sequence[Any], failed_savepoints: Collection[int]
    ) -> None:
        savepoints = [f"savepoint {number}" for number in failed_savepoints]
        self._note(" ".join(["leftovers", str(list(known)), str(list(known_states)), *savepoints]))

    def check(self, transaction: str) -> None:
        self._note(f"check {transaction}")

    def finish(self, transaction: str) -> None:
        self._note(f"finish {transaction}")

    def close(self) -> None:
        self._note("close")

    def taken(self) -> list[str]:
        calls, self.calls = self.calls, []
        return calls


def transactions(operator: CommittingSinkOperator) -> list[Any]:
    return operator.elements(0)[StateKind.SINK_TRANSACTIONS]


def operator_of(
    sink: Recording, final_checkpoint: bool = True, failed_savepoints: Collection[int] = ()
) -> CommittingSinkOperator:
    options = {"execution.checkpointing.interval": "1 s"} if final_checkpoint else {}
    made = OperatorHarness(plan.SinkSpec(sink), name="sink", options=options, failed_savepoints=failed_savepoints)
    assert isinstance(made.operator, CommittingSinkOperator)
    return made.operator


def opened(sink: Recording, final_checkpoint: bool = True) -> CommittingSinkOperator:
    operator = operator_of(sink, final_checkpoint)
    operator.open()
    sink.taken()
    return operator


def test_a_life_with_checkpoints() -> None:
    sink = Recording()
    operator = operator_of(sink)
    operator.open()
    assert sink.taken() == ["open", "restore []", "leftovers [] []", "begin t1"]
    operator.process(RowBatch([1]))
    operator.prepare_snapshot(Barrier(1, 0))
    assert sink.taken() == ["write t1 [1]", "pre-commit t1", "state 1", "begin t2"]
    assert transactions(operator) == [("pre-committed", "t1"), ("open", "t2"), ("writer", "buffered")]
    operator.process(RowBatch([2]))
    operator.prepare_snapshot(Barrier(2, 0))
    operator.notify_checkpoint_aborted(1)
    sink.taken()
    assert [kind for kind, _ in transactions(operator)] == ["pre-committed", "pre-committed", "open", "writer"]
    operator.notify_checkpoint_complete(2)
    operator.notify_checkpoint_complete(2)
    assert sink.taken() == ["commit t1", "commit t2"]
    operator.finish()
    assert sink.taken() == ["finish t3"]
    operator.prepare_snapshot(Barrier(3, 0))
    operator.prepare_snapshot(Barrier(4, 0))
    assert sink.taken() == ["pre-commit t3", "state 3", "state 4"]
    operator.notify_checkpoint_complete(4)
    operator.close()
    assert sink.taken() == ["commit t3", "close"]


def test_savepoints_are_named_and_so_are_those_that_failed() -> None:
    sink = Recording()
    operator = operator_of(sink, failed_savepoints=[4, 6])
    operator.open()
    assert sink.taken()[2] == "leftovers [] [] savepoint 4 savepoint 6"
    operator.prepare_snapshot(Barrier(7, 0, is_savepoint=True))
    assert sink.taken() == ["pre-commit t1 for savepoint 7", "state 7", "begin t2"]


def test_the_end_commits_everything_if_no_checkpoint_follows() -> None:
    sink = Recording()
    operator = opened(sink, final_checkpoint=False)
    operator.prepare_snapshot(Barrier(1, 0))  # a savepoint that does not stop the job: the operator is not notified
    sink.taken()
    operator.finish()
    operator.close()
    assert sink.taken() == ["finish t2", "pre-commit t2", "commit t1", "commit t2", "close"]


def test_the_contents_of_a_snapshot_are_recovered_before_anything_is_written() -> None:
    sink = Recording()
    operator = operator_of(sink)
    mine = [("pre-committed", "a"), ("pre-committed", "b"), ("open", "c"), ("writer", "s")]
    operator.restore(GivenElements(StateKind.SINK_TRANSACTIONS, mine, [*mine, ("open", "d"), ("writer", "u")]))
    operator.open()
    assert sink.taken() == [
        "open", "commit a", "commit b", "abort c", "restore ['s']", "leftovers ['a', 'b', 'c', 'd'] ['s', 'u']",
        "begin t1",
    ]  # fmt: skip


def test_closing_aborts_the_open_transaction_but_not_a_pre_committed_one() -> None:
    sink = Recording()
    operator = opened(sink)
    operator.prepare_snapshot(Barrier(1, 0))
    sink.taken()
    operator.close()
    assert sink.taken() == ["abort t2", "close"]


def test_a_failing_abort_does_not_prevent_closing_the_sink() -> None:
    sink = Recording("abort")
    operator = opened(sink)
    with pytest.raises(OperatorError, match="no abort t1"):
        operator.close()
    assert sink.taken() == ["abort t1", "close"]


def test_a_sink_that_was_not_opened_is_not_closed() -> None:
    sink = Recording()
    operator_of(sink).close()
    assert sink.calls == []


def test_a_failed_commit_stays_due_and_blocks_later_ones() -> None:
    sink = Recording("commit t1")
    operator = opened(sink)
    operator.prepare_snapshot(Barrier(1, 0))
    operator.prepare_snapshot(Barrier(2, 0))
    sink.taken()
    for _ in range(2):
        with pytest.raises(OperatorError, match="no commit t1"):
            operator.notify_checkpoint_complete(2)
        assert sink.taken() == ["commit t1"]
    sink.failing = ""
    operator.notify_checkpoint_complete(2)
    assert sink.taken() == ["commit t1", "commit t2"]


@pytest.mark.parametrize("failing", ["pre-commit", "state", "begin t2"])
def test_a_failure_at_a_barrier_declines_the_checkpoint_and_then_fails_the_task(failing: str) -> None:
    sink = Recording(failing)
    operator = opened(sink)
    with pytest.raises(OperatorError, match=f"no {failing}"):
        operator.prepare_snapshot(Barrier(1, 0))
    sink.failing = ""
    for step in (
        lambda: operator.process(RowBatch([1])),
        lambda: operator.on_time(0),
        lambda: operator.prepare_snapshot(Barrier(2, 0)),
        operator.finish,
    ):
        with pytest.raises(OperatorError, match=f"no {failing}"):
            step()
    operator.close()


def test_a_failing_recovery_fails_the_start() -> None:
    operator = operator_of(Recording("commit"))
    operator.restore(GivenElements(StateKind.SINK_TRANSACTIONS, [("pre-committed", "a")]))
    with pytest.raises(OperatorError, match="no commit a"):
        operator.open()


def test_the_sink_is_called_as_time_passes() -> None:
    sink = Recording(check_interval=5)
    operator = opened(sink)
    assert [operator.on_time(now) for now in (10, 11, 14.9)] == [15, 15, 15]
    assert sink.taken() == []
    assert [operator.on_time(now) for now in (16, 17)] == [21, 21]
    assert sink.taken() == ["check t1"]
    operator.finish()
    assert operator.on_time(30) is None
    assert opened(Recording()).on_time(0) is None


def test_a_sink_without_writers_has_a_second_name() -> None:
    assert TwoPhaseCommitSinkFunction is TwoPhaseCommitSink
    with pytest.raises(ConnectorError, match="Recording is a two-phase-commit sink, which has no writers"):
        Recording().create_writer(TaskRuntimeContext(DEPLOYMENT, "sink", {}, {}, {}))
