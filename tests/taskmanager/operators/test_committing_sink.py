"""The order in which the operator of a two-phase-commit sink calls the sink, and the effect of failures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import pytest

from millstream.core.jobs.plan import plan
from millstream.core.jobs.state_kinds import StateKind
from millstream.core.records.batches import Barrier, Batch, RowBatch
from millstream.datastream.connectors.errors import ConnectorError
from millstream.datastream.connectors.two_phase_commit import TwoPhaseCommitSink, TwoPhaseCommitSinkFunction
from millstream.datastream.functions import RuntimeContext
from millstream.taskmanager.testing import DEPLOYMENT, GivenElements, InlineCalls, OperatorHarness
from millstream.taskmanager.worker.operators.base import NO_RECORD, OperatorError
from millstream.taskmanager.worker.operators.serial_thread import SerialCalls
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


def transactions(made: OperatorHarness) -> list[Any]:
    return list(made.operator.elements(0)[StateKind.SINK_TRANSACTIONS])


def operator_of(
    sink: Recording, final_checkpoint: bool = True, failed_savepoints: Collection[int] = (),
    serial_calls: Callable[[str], SerialCalls] = InlineCalls,
) -> OperatorHarness:
    options = {"execution.checkpointing.interval": "1 s"} if final_checkpoint else {}
    made = OperatorHarness(
        plan.SinkSpec(sink), name="sink", options=options, failed_savepoints=failed_savepoints,
        serial_calls=serial_calls,
    )  # fmt: skip
    assert isinstance(made.operator, CommittingSinkOperator)
    return made


def opened(
    sink: Recording, final_checkpoint: bool = True, serial_calls: Callable[[str], SerialCalls] = InlineCalls
) -> OperatorHarness:
    made = operator_of(sink, final_checkpoint, serial_calls=serial_calls).open()
    sink.taken()
    return made


def test_a_life_with_checkpoints() -> None:
    sink = Recording()
    made = operator_of(sink)
    made.operator.open()
    assert sink.taken() == ["open", "restore []", "leftovers [] []", "begin t1"]
    made.operator.process(RowBatch([1]))
    made.operator.prepare_snapshot(Barrier(1, 0))
    assert sink.taken() == ["write t1 [1]", "pre-commit t1", "state 1", "begin t2"]
    assert transactions(made) == [("pre-committed", "t1"), ("open", "t2"), ("writer", "buffered")]
    made.operator.process(RowBatch([2]))
    made.operator.prepare_snapshot(Barrier(2, 0))
    made.operator.notify_checkpoint_aborted(1)
    sink.taken()
    assert [kind for kind, _ in transactions(made)] == ["pre-committed", "pre-committed", "open", "writer"]
    made.complete(2)
    made.complete(2)
    assert sink.taken() == ["commit t1", "commit t2"]
    made.operator.finish()
    assert sink.taken() == ["finish t3"]
    made.operator.prepare_snapshot(Barrier(3, 0))
    made.operator.prepare_snapshot(Barrier(4, 0))
    assert sink.taken() == ["pre-commit t3", "state 3", "state 4"]
    made.complete(4)
    made.operator.close()
    assert sink.taken() == ["commit t3", "close"]


def test_savepoints_are_named_and_so_are_those_that_failed() -> None:
    sink = Recording()
    made = operator_of(sink, failed_savepoints=[4, 6])
    made.operator.open()
    assert sink.taken()[2] == "leftovers [] [] savepoint 4 savepoint 6"
    made.operator.prepare_snapshot(Barrier(7, 0, is_savepoint=True))
    assert sink.taken() == ["pre-commit t1 for savepoint 7", "state 7", "begin t2"]


def test_the_end_commits_everything_if_no_checkpoint_follows() -> None:
    sink = Recording()
    made = opened(sink, final_checkpoint=False)
    made.operator.prepare_snapshot(Barrier(1, 0))  # a savepoint that does not stop the job: no notification
    sink.taken()
    made.operator.finish()
    made.deliver()
    assert made.operator.is_drained
    made.operator.close()
    assert sink.taken() == ["finish t2", "pre-commit t2", "commit t1", "commit t2", "close"]


def test_the_contents_of_a_snapshot_are_recovered_before_anything_is_written() -> None:
    sink = Recording()
    made = operator_of(sink)
    mine = [("pre-committed", "a"), ("pre-committed", "b"), ("open", "c"), ("writer", "s")]
    made.operator.restore(GivenElements(StateKind.SINK_TRANSACTIONS, mine, [*mine, ("open", "d"), ("writer", "u")]))
    made.operator.open()
    assert sink.taken() == [
        "open", "commit a", "commit b", "abort c", "restore ['s']", "leftovers ['a', 'b', 'c', 'd'] ['s', 'u']",
        "begin t1",
    ]  # fmt: skip


def test_closing_aborts_the_open_transaction_but_not_a_pre_committed_one() -> None:
    sink = Recording()
    made = opened(sink)
    made.operator.prepare_snapshot(Barrier(1, 0))
    sink.taken()
    made.operator.close()
    assert sink.taken() == ["abort t2", "close"]


def test_a_failing_abort_does_not_prevent_closing_the_sink() -> None:
    sink = Recording("abort")
    made = opened(sink)
    with pytest.raises(OperatorError, match="no abort t1"):
        made.operator.close()
    assert sink.taken() == ["abort t1", "close"]


def test_a_sink_that_was_not_opened_is_not_closed() -> None:
    sink = Recording()
    operator_of(sink).operator.close()
    assert sink.calls == []


def test_a_failed_commit_stays_due_and_blocks_later_ones() -> None:
    sink = Recording("commit t1")
    made = opened(sink)
    made.operator.prepare_snapshot(Barrier(1, 0))
    made.operator.prepare_snapshot(Barrier(2, 0))
    sink.taken()
    for _ in range(2):
        with pytest.raises(OperatorError, match="no commit t1") as raised:
            made.complete(2)
        assert raised.value.is_outage
        assert raised.value.record is NO_RECORD
        assert sink.taken() == ["commit t1"]
    sink.failing = ""
    made.complete(2)
    assert sink.taken() == ["commit t1", "commit t2"]


@pytest.mark.parametrize("failing", ["pre-commit", "state", "begin t2"])
def test_a_failure_at_a_barrier_declines_the_checkpoint_and_then_fails_the_task(failing: str) -> None:
    sink = Recording(failing)
    made = opened(sink)
    with pytest.raises(OperatorError, match=f"no {failing}"):
        made.operator.prepare_snapshot(Barrier(1, 0))
    sink.failing = ""
    for step in (
        lambda: made.operator.process(RowBatch([1])),
        lambda: made.operator.on_time(0),
        lambda: made.operator.prepare_snapshot(Barrier(2, 0)),
        made.operator.finish,
    ):
        with pytest.raises(OperatorError, match=f"no {failing}"):
            step()
    made.operator.close()


def test_a_failing_recovery_fails_the_start() -> None:
    made = operator_of(Recording("commit"))
    made.operator.restore(GivenElements(StateKind.SINK_TRANSACTIONS, [("pre-committed", "a")]))
    with pytest.raises(OperatorError, match="no commit a"):
        made.operator.open()


def test_the_sink_is_called_as_time_passes() -> None:
    sink = Recording(check_interval=5)
    made = opened(sink)
    assert [made.operator.on_time(now) for now in (10, 11, 14.9)] == [15, 15, 15]
    assert sink.taken() == []
    assert [made.operator.on_time(now) for now in (16, 17)] == [21, 21]
    assert sink.taken() == ["check t1"]
    made.operator.finish()
    assert made.operator.on_time(30) is None
    assert opened(Recording()).operator.on_time(0) is None


def test_a_sink_without_writers_has_a_second_name() -> None:
    assert TwoPhaseCommitSinkFunction is TwoPhaseCommitSink
    with pytest.raises(ConnectorError, match="Recording is a two-phase-commit sink, which has no writers"):
        Recording().create_writer(TaskRuntimeContext(DEPLOYMENT, "sink", {}, {}, {}))


# While commits run


class HeldCalls(InlineCalls):
    """Calls that run when the test has them run."""

    def __init__(self, name: str = "") -> None:
        super().__init__(name)
        self.held: list[Callable[[], None]] = []

    def submit(self, call: Callable[[], None]) -> None:
        self.held.append(call)

    def run(self) -> None:
        self.held.pop(0)()


def held(sink: Recording, final_checkpoint: bool = True) -> tuple[OperatorHarness, HeldCalls]:
    """An opened operator whose commits are held."""
    calls = HeldCalls()
    return opened(sink, final_checkpoint, lambda name: calls), calls


def test_records_and_checkpoints_go_on_while_commits_run() -> None:
    sink = Recording()
    made, calls = held(sink)
    operator = made.operator
    operator.prepare_snapshot(Barrier(1, 0))
    assert not made.complete(1)
    operator.process(RowBatch([1]))
    operator.prepare_snapshot(Barrier(2, 0))
    assert transactions(made)[:3] == [("pre-committed", "t1"), ("pre-committed", "t2"), ("open", "t3")]
    sink.taken()
    assert not made.complete(2)
    assert len(calls.held) == 1, "a round begins when the one before it has ended"
    calls.run()
    assert sink.taken() == ["commit t1"]
    assert not operator.is_committed(1), "the mail has not come yet"
    made.deliver()
    assert (operator.is_committed(1), operator.is_committed(2)) == (True, False)
    calls.run()
    made.deliver()
    assert operator.is_committed(2)
    assert sink.taken() == ["commit t2"]
    assert not calls.held


def test_a_failure_leaves_the_rest_of_a_round_to_the_next_notification() -> None:
    sink = Recording("commit t2")
    made, calls = held(sink)
    for number in (1, 2, 3):
        made.operator.prepare_snapshot(Barrier(number, 0))
    made.complete(3)
    sink.taken()
    calls.run()
    made.deliver()
    assert sink.taken() == ["commit t1", "commit t2"]
    assert made.operator.is_committed(1)
    with pytest.raises(OperatorError, match="no commit t2"):
        made.operator.is_committed(3)
    assert not calls.held
    sink.failing = ""
    assert not made.complete(3)
    calls.run()
    made.deliver()
    assert made.operator.is_committed(3)
    assert sink.taken() == ["commit t2", "commit t3"]


def test_the_task_waits_for_the_commits_of_its_end() -> None:
    sink = Recording()
    made, calls = held(sink, final_checkpoint=False)
    made.operator.finish()
    assert not made.operator.is_drained
    calls.run()
    assert not made.operator.is_drained
    made.deliver()
    assert made.operator.is_drained


def test_a_commit_of_the_end_that_fails_fails_the_task() -> None:
    made, calls = held(Recording("commit t1"), final_checkpoint=False)
    made.operator.finish()
    calls.run()
    with pytest.raises(OperatorError, match="no commit t1"):
        made.deliver()


def test_a_savepoint_behind_the_end_holds_what_is_still_being_committed() -> None:
    made, calls = held(Recording(), final_checkpoint=False)
    made.operator.finish()
    made.operator.prepare_snapshot(Barrier(5, 0, is_savepoint=True))
    assert transactions(made)[0] == ("pre-committed", "t1")
    assert made.complete(5)
    assert len(calls.held) == 1


def test_closing_leaves_out_the_commits_that_have_not_begun() -> None:
    sink = Recording()
    made, calls = held(sink)
    for number in (1, 2):
        made.operator.prepare_snapshot(Barrier(number, 0))
    made.complete(2)
    sink.taken()
    made.operator.close()
    calls.run()
    assert sink.taken() == ["abort t3", "close"]
    assert not made.mails
