"""Sinks that are exactly-once: what they write becomes visible with the checkpoint that holds it, once.

A copy of the sink works in each subtask, in this order:

- start: `open`; after a failure `recover_and_commit` for every transaction that the restored checkpoint holds as
  pre-committed, `recover_and_abort` for the one that it holds as open, `restore_writer_state`; then, on every start,
  `abort_leftovers` and the first `begin_transaction`;
- records: `write` into the open transaction, and now and then `check`;
- at a checkpoint's barrier: `pre_commit` (or `pre_commit_for_savepoint`), `snapshot_writer_state`, `begin_transaction`;
- when the checkpoint is complete: `commit` of everything pre-committed up to it, in order, on a thread of its own;
- end of input: `finish`, then a last checkpoint. A job without checkpoints pre-commits and commits at once;
- end of the task: `abort` of a transaction that is still open, and `close`, also after a failure.

All methods but `commit` are called on the task's thread. While a commit runs, which may take its time, the task writes
the next transactions and takes checkpoints; commits that become due meanwhile wait for it. A task that fails or is
cancelled waits for it a few seconds; after that it may have its effect beside the next attempt, which commits the same
transaction again.

A checkpoint that is given up aborts nothing: its transactions are committed with the next one that completes. A plain
savepoint pre-commits and commits nothing, because a failure later would restore an older checkpoint.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from typing import Any, Generic, NoReturn

from millstream.core.overriding import override
from millstream.core.records.batches import Batch
from millstream.core.records.type_variables import T, T_contra
from millstream.datastream.connectors.base import Sink
from millstream.datastream.connectors.errors import ConnectorError
from millstream.datastream.functions import RuntimeContext


class TwoPhaseCommitSink(Sink[T_contra], Generic[T, T_contra]):
    """Base of exactly-once sinks. `T` is a transaction: a picklable handle that finds it again in another process.

    `TwoPhaseCommitSink[Transaction]` writes records of any type, and `TwoPhaseCommitSink[Transaction, Record]` declares
    their type.

    A transaction is pickled when a checkpoint is captured: what `pre_commit` left in the handle is what a later attempt
    gets. Between those calls the same object is handed in each time.
    """

    def __class_getitem__(cls, arguments: Any) -> Any:
        """`TwoPhaseCommitSink[T]` is `TwoPhaseCommitSink[T, Any]`, as for type checkers."""
        given = arguments if isinstance(arguments, tuple) else (arguments,)
        if cls is TwoPhaseCommitSink and len(given) == 1:
            given = (*given, Any)
        return super().__class_getitem__(given)  # type: ignore[misc]  # that of Generic, which type checkers leave out

    is_transactional = True
    check_interval: float | None = None
    """Seconds between two calls of `check`; None for none."""

    def open(self, context: RuntimeContext, /) -> None:  # a hook
        """Called once in each subtask with its runtime `context`, before anything else."""

    @abstractmethod
    def begin_transaction(self) -> T:
        """Called at the start, and at each barrier. Two transactions of one sink must not get in each other's way."""

    @abstractmethod
    def write(self, transaction: T, batch: Batch, /) -> None:
        """Called with each `batch`; writes it to the `transaction`. Blocking here is backpressure."""

    @abstractmethod
    def pre_commit(self, transaction: T, /) -> None:
        """Makes everything written durable, so that `commit` can only fail for reasons that pass.

        Called at a barrier; nothing is written to the transaction afterwards. What is not durable when this returns is
        lost by a crash before the commit. When it raises, the checkpoint is declined and the task fails.
        """

    def pre_commit_for_savepoint(self, transaction: T, checkpoint_id: int, /) -> None:
        """Called instead of `pre_commit` at the barrier of the savepoint `checkpoint_id`.

        The job continues, and may fail before a checkpoint holds the `transaction` too. Its next attempt then does not
        know it, so a sink whose `abort_leftovers` removes what it does not know has to protect this one, until the
        savepoint of this id is among the failed ones there.
        """
        self.pre_commit(transaction)

    @abstractmethod
    def commit(self, transaction: T, /) -> None:
        """Makes a pre-committed transaction visible.

        Called when a checkpoint that holds it is complete, on a thread that is the same for all commits of a subtask,
        while other methods work on later transactions: what they share with it has to be safe for that. It must not
        change `transaction`, which checkpoints hold until it is committed.

        Must be idempotent: after a crash it is called again for transactions that may have been committed already, even
        while an earlier attempt still does so, and must neither fail nor write twice. When it raises, it is called
        again with the next notice, or by the next attempt; nothing later is committed before it. After five failures in
        a row the task fails.
        """

    @abstractmethod
    def abort(self, transaction: T, /) -> None:
        """Throws an open transaction away: nothing of it may become visible."""

    def recover_and_commit(self, transaction: T, /) -> None:
        """Called instead of `commit` for a `transaction` of a restored checkpoint, on the task's thread.

        An exception fails the start of the task.
        """
        self.commit(transaction)

    def recover_and_abort(self, transaction: T, /) -> None:
        """Called instead of `abort` for the transaction that was open at the barrier of a restored checkpoint.

        Must be idempotent, and bear that the dead attempt had written to it, aborted it, or even pre-committed it. A
        job that continued behind a savepoint may also have committed it, and then it has to stay.
        """
        self.abort(transaction)

    def snapshot_writer_state(self, checkpoint_id: int, /) -> list[Any]:
        """Returns what continues after the barrier of `checkpoint_id`: picklable elements.

        Each is restored by one subtask, not always the same. This is for what is written but not part of the
        pre-committed transaction, such as a file that remains open. It has to be durable when this returns.
        """
        return []

    def restore_writer_state(self, states: Sequence[Any], /) -> None:  # a hook
        """Called after recovery with `states`, results of `snapshot_writer_state`.

        Earlier attempts may still be writing.
        """

    def abort_leftovers(  # a hook
        self, known: Sequence[T], known_states: Sequence[Any], failed_savepoints: Collection[int], /
    ) -> None:
        """Called on every start: throws away what dead attempts left and no snapshot holds.

        `known` and `known_states` are all transactions and writer states of the restored snapshot that this subtask was
        shown: its own, and after a change of the parallelism those of all subtasks. Whatever they name must stay, and
        so must whatever may belong to a subtask or job other than this one. What was pre-committed for a savepoint goes
        only when its id is one of the `failed_savepoints`: no savepoint holds it.
        """

    def check(self, transaction: T, /) -> None:  # a hook
        """Called every `check_interval` seconds with the open `transaction`, whether or not there are records."""

    def finish(self, transaction: T, /) -> None:  # a hook
        """Called after the last record: the last moment to write to the transaction."""

    def close(self) -> None:  # a hook
        """Called once, also after a failure. Pre-committed transactions must survive it."""

    @override
    def create_writer(self, context: RuntimeContext, /) -> NoReturn:
        raise ConnectorError(f"{type(self).__name__} is a two-phase-commit sink, which has no writers")


TwoPhaseCommitSinkFunction = TwoPhaseCommitSink
"""Flink's name."""
