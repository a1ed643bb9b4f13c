"""The operator of a two-phase-commit sink: calls the sink as `SinkTransactions` and the checkpoints require.

Commits run on a thread of their own, one after another, so that a slow one holds up neither records nor other tasks.
The bookkeeping stays with the task's thread, to which the result of each round of commits comes as a mail. A snapshot
that is taken meanwhile holds the transactions of the round as pre-committed, and a restore commits them again. A
transaction is committed only when it is part of a completed checkpoint, so it does not matter if the task has failed or
was cancelled by then: every checkpoint that it can be restored from has the commit before it, or holds the transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from millstream.core.jobs.progress import OperatorProgress, PendingCommits
from millstream.core.jobs.state_kinds import StateKind
from millstream.core.overriding import override
from millstream.core.processes.forking import leave_if_forked
from millstream.core.records.batches import Barrier, Batch
from millstream.datastream.connectors.two_phase_commit import TwoPhaseCommitSink
from millstream.taskmanager.worker.interruption import TaskInterrupted
from millstream.taskmanager.worker.operators.base import NO_RECORD, Operator, OperatorError, RestoredElements, record_of
from millstream.taskmanager.worker.operators.setup import OperatorSetup
from millstream.taskmanager.worker.operators.sinks.transactions import (
    Element,
    ElementKind,
    Recovery,
    SinkTransactions,
    recovery,
)

_END = (1 << 63) - 1  # the id for transactions committed at the end of the input, without a checkpoint


class _Committed(Struct, frozen=True):
    """A mail: a round of commits has ended, after so many transactions and perhaps with an error."""

    checkpoint_id: int
    transactions: Sequence[Any]
    error: BaseException | None


class CommittingSinkOperator(Operator):
    """Writes into transactions.

    If a checkpoint follows the end of the input, it commits the last transaction; otherwise the end does. An error at a
    barrier declines the checkpoint and leaves the transaction in an unknown state, so the task fails in its next step.
    """

    def __init__(self, setup: OperatorSetup, sink: TwoPhaseCommitSink[Any]) -> None:
        super().__init__(setup)
        self._sink = sink
        self._final_checkpoint = setup.context.has_final_checkpoint
        self._transactions: SinkTransactions[Any] = SinkTransactions()
        self._writer_states: list[Any] = []
        self._opened = False
        self._ended = False
        self._broken: OperatorError | None = None
        self._check_at: float | None = None
        self._recovery: Recovery[Any] = Recovery()
        self._failed_savepoints = setup.services.failed_savepoints
        self._clock = setup.services.clock
        self._written_at = 0  # when the first record was written to the open transaction
        self._waiting: list[tuple[int, int]] = []  # the same for pre-committed ones, by checkpoint
        self._commits = setup.services.serial_calls(f"commits of {setup.name}")
        self._post = setup.post
        self._completed = 0  # the newest checkpoint that has completed
        self._is_committing = False
        self._failure: OperatorError | None = None  # of the last round of commits

    def restore(self, restored: RestoredElements) -> None:
        """Takes over the state of this subtask, and the visible state of others."""
        self._recovery = recovery(restored.own(), restored.everyones())

    def open(self) -> None:
        """Recovers, aborts leftovers, and begins a transaction."""
        sink, restored = self._sink, self._recovery
        self._opened = True
        self._call(sink.open, self.context)
        for transaction in restored.commit:
            self._call(sink.recover_and_commit, transaction)
        for transaction in restored.abort:
            self._call(sink.recover_and_abort, transaction)
        self._call(sink.restore_writer_state, restored.states)
        self._call(sink.abort_leftovers, restored.known, restored.known_states, self._failed_savepoints)
        self._recovery = Recovery()
        self._begin()

    @override
    def process(self, batch: Batch) -> None:
        self._refuse_broken()
        if not self._written_at:
            self._written_at = self._clock.now_ms()
        for transaction in self._transactions.open:
            self._call(self._sink.write, transaction, self.with_own_kinds(batch))
        self.records_written += len(batch)

    def on_time(self, now: float) -> float | None:
        """Calls the sink's time-based actions."""
        self._refuse_broken()
        interval = self._sink.check_interval
        if interval is None or self._ended:
            return None
        if self._check_at is not None and now >= self._check_at:
            for transaction in self._transactions.open:
                self._call(self._sink.check, transaction)
            self._check_at = None
        if self._check_at is None:
            self._check_at = now + interval
        return self._check_at

    def prepare_snapshot(self, barrier: Barrier) -> None:
        """Pre-commits what was written before the barrier, and begins a new transaction."""
        self._refuse_broken()
        try:
            self._pre_commit(barrier.checkpoint_id, barrier.is_savepoint)
            self._writer_states = self._call(self._sink.snapshot_writer_state, barrier.checkpoint_id)
            if not self._ended:
                self._begin()
        except OperatorError as error:
            self._broken = error
            raise

    def elements(self, checkpoint_id: int) -> dict[StateKind, list[Element]]:
        """The pending transactions, and the states of the sink's writer."""
        states = [(ElementKind.WRITER.value, state) for state in self._writer_states]
        return {StateKind.SINK_TRANSACTIONS: self._transactions.elements() + states}

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Starts to commit, when the commits before have ended.

        A transaction that fails stays due for the next notification, with all behind it.
        """
        self._completed = max(self._completed, checkpoint_id)
        if not self._is_committing:
            self._start_commits()

    def is_committed(self, checkpoint_id: int) -> bool:
        """Whether nothing is due any more; raises the error of a round of commits that failed."""
        if not self._transactions.due(checkpoint_id):
            return True
        if self._failure is not None:
            raise self._failure
        return False

    @property
    def is_drained(self) -> bool:
        """Whether no commit is running."""
        return not self._is_committing

    def on_mail(self, mail: Any) -> Any:
        """Takes the result of a round of commits, and starts the next one if more has become due meanwhile."""
        if not isinstance(mail, _Committed):
            return None
        self._is_committing = False
        for transaction in mail.transactions:
            self._transactions.committed(transaction)
        if mail.error is None:
            self._waiting = [waits for waits in self._waiting if waits[0] > mail.checkpoint_id]
            self._start_commits()
            return True
        self._failure = OperatorError(self.name, NO_RECORD, mail.error, is_outage=True)
        if self._ended and not self._final_checkpoint:
            raise self._failure
        return True

    def progress(self) -> OperatorProgress | None:
        """What is written and not committed yet."""
        since = self._waiting[0][1] if self._waiting else self._written_at
        return OperatorProgress(self.name, PendingCommits(len(self._waiting), since))

    def finish(self) -> None:
        """Completes the last transaction."""
        self._refuse_broken()
        for transaction in self._transactions.open:
            self._call(self._sink.finish, transaction)
        self._ended = True
        if not self._final_checkpoint:
            self._pre_commit(_END, for_savepoint=False)
            self.notify_checkpoint_complete(_END)  # the task ends when it is drained

    def close(self) -> None:
        """Waits for a running commit, aborts the open transaction, and closes the sink even if that fails."""
        if not self._opened:
            return
        try:
            self._commits.stop()
        finally:
            try:
                for transaction in self._transactions.open:
                    self._call(self._sink.abort, transaction)
                self._transactions.aborted()
            finally:
                self._call(self._sink.close)

    def _start_commits(self) -> None:
        self._failure = None
        due = self._transactions.due(self._completed)
        if due:
            self._is_committing = True
            self._commits.submit(partial(self._commit, self._completed, due))

    def _commit(self, checkpoint_id: int, due: Sequence[Any]) -> None:
        """Commits in order, up to the first failure. Called by `self._commits`."""
        committed: list[Any] = []
        error: BaseException | None = None
        for transaction in due:
            if self._commits.is_stopped:
                return
            try:
                self._sink.commit(transaction)
            except TaskInterrupted:
                raise
            except BaseException as raised:  # whatever it is, it has to be reported to the task
                error = raised
            leave_if_forked(error)
            if error is not None:
                break
            committed.append(transaction)
        self._post(_Committed(checkpoint_id, committed, error))

    def _begin(self) -> None:
        self._transactions.begun(self._call(self._sink.begin_transaction))

    def _pre_commit(self, checkpoint_id: int, for_savepoint: bool) -> None:
        for transaction in self._transactions.open:
            if for_savepoint:
                self._call(self._sink.pre_commit_for_savepoint, transaction, checkpoint_id)
            else:
                self._call(self._sink.pre_commit, transaction)
        self._transactions.pre_committed(checkpoint_id)
        if self._written_at:
            self._waiting.append((checkpoint_id, self._written_at))
            self._written_at = 0

    def _refuse_broken(self) -> None:
        if self._broken is not None:
            raise self._broken

    def _call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return method(*arguments)
        except TaskInterrupted:
            raise
        except BaseException as error:
            raise OperatorError(self.name, record_of(error), error) from error
