"""Sinks that commit once for all of their subtasks, exactly once: table formats, or manifests of checkpoints.

Writers, one in each subtask, write records where readers do not see them, and hand a description of it to the one
committer of the job: a *committable*, such as the path of a file. The order of calls:

- in each subtask: `create_writer`; `write`; at a checkpoint's barrier `flush(False)`, then `prepare_commit`; at the
  end of the input `flush(True)`, then `prepare_commit`; `close`, also after a failure;
- in one task: `create_committer`; after a failure `commit` for all that the restored checkpoint holds and that may
  not have been committed; then, for each checkpoint that has completed, `commit` with the committables of all subtasks
  up to their barriers; `close`, also after a failure.

The committables of a checkpoint are part of it. A checkpoint that is aborted commits nothing: its committables come
with those of the next one that completes, in a `GlobalCommit` of their own. So it is for a savepoint that does not
stop the job. Commits come in the order of their checkpoints; without checkpoints, there is one at the end of the input.

What an attempt has written and no checkpoint holds when it fails is never committed, and remains where it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NoReturn, TypeVar

from millstream.core.jobs.ids import new_id
from millstream.core.overriding import override
from millstream.core.records.batches import Batch
from millstream.core.records.type_variables import T_contra
from millstream.datastream.connectors.base import Sink, SinkWriter
from millstream.datastream.connectors.errors import ConnectorError
from millstream.datastream.connectors.two_phase_commit import TwoPhaseCommitSink
from millstream.datastream.functions import RuntimeContext

CommT = TypeVar("CommT")


@dataclass(slots=True)
class GlobalCommit(Generic[CommT]):
    """What all subtasks have written between two barriers."""

    id: str
    """The same whenever this commit is repeated, and unique among all commits of all jobs."""
    checkpoint_id: int | None = None
    """The checkpoint or savepoint at whose barrier it ended; None at the end of the input of a job without any."""
    committables: list[CommT] = field(default_factory=list)
    """What the writers returned, in no particular order; never empty."""


class CommittingWriter(SinkWriter, Generic[CommT]):
    """Writes in one subtask what the committer makes visible."""

    @abstractmethod
    def prepare_commit(self) -> Sequence[CommT]:
        """Returns committables for everything written since the last call: picklable, and few.

        Called at each barrier and at the end of the input, after `flush`. What they describe has to be durable, and
        must not change any more.
        """


class GlobalCommitter(ABC, Generic[CommT]):
    """Commits for all subtasks. `commit` is called on a thread of its own, where it may block."""

    @abstractmethod
    def commit(self, commit: GlobalCommit[CommT], /) -> None:
        """Makes the committables of `commit` visible, all or none of them.

        Must be idempotent: after a crash it is called again for a commit that may have had its effect, which has to be
        recognised by its `id`, or by what it made visible. When it raises, it is repeated; nothing later is committed
        before it.
        """

    def close(self) -> None:  # a hook
        """Called once, also after a failure."""


class GlobalCommitSink(Sink[T_contra], Generic[CommT, T_contra]):
    """Base of sinks with one committer. `CommT` is a committable.

    `GlobalCommitSink[str]` writes records of any type, and `GlobalCommitSink[str, Record]` declares their type.
    """

    def __class_getitem__(cls, arguments: Any) -> Any:
        """`GlobalCommitSink[CommT]` is `GlobalCommitSink[CommT, Any]`, as for type checkers."""
        given = arguments if isinstance(arguments, tuple) else (arguments,)
        if cls is GlobalCommitSink and len(given) == 1:
            given = (*given, Any)
        return super().__class_getitem__(given)  # type: ignore[misc]  # that of Generic, which type checkers leave out

    @abstractmethod
    def create_writer(self, context: RuntimeContext, /) -> CommittingWriter[CommT]:
        """Called in each subtask with its runtime `context`; returns the writer of the subtask."""

    @abstractmethod
    def create_committer(self, context: RuntimeContext, /) -> GlobalCommitter[CommT]:
        """Called in the committing task with its runtime `context`; returns the committer."""


class CommitterOf(TwoPhaseCommitSink[GlobalCommit[CommT], CommT]):
    """The sink behind the writers of a `GlobalCommitSink`: its records are committables, its transactions commits.

    A transaction is in memory until the barrier, and then in the checkpoint: there is nothing to abort.
    """

    reads_timestamps = False

    def __init__(self, sink: GlobalCommitSink[CommT, Any]) -> None:
        self._sink = sink
        self._committer: GlobalCommitter[CommT] | None = None
        self._ended: GlobalCommit[CommT] | None = None

    @override
    def open(self, context: RuntimeContext) -> None:
        self._committer = self._sink.create_committer(context)

    @override
    def begin_transaction(self) -> GlobalCommit[CommT]:
        return GlobalCommit(new_id())

    @override
    def write(self, transaction: GlobalCommit[CommT], batch: Batch) -> None:
        transaction.committables += batch.records()

    @override
    def pre_commit(self, transaction: GlobalCommit[CommT]) -> None:
        self._ended = transaction

    def snapshot_writer_state(self, checkpoint_id: int) -> list[NoReturn]:
        """Nothing, but this is where the checkpoint of the transaction is known."""
        if self._ended is not None:
            self._ended.checkpoint_id = checkpoint_id
            self._ended = None
        return []

    @override
    def commit(self, transaction: GlobalCommit[CommT]) -> None:
        if transaction.committables:
            if self._committer is None:
                raise ConnectorError("a committer is created before it commits")
            self._committer.commit(transaction)

    @override
    def abort(self, transaction: GlobalCommit[CommT]) -> None:
        """Nothing of it is anywhere else."""

    @override
    def close(self) -> None:
        if self._committer is not None:
            self._committer.close()
