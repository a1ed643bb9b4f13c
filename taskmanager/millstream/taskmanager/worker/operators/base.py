"""What all operators share.

Call order: `restore` on a restore, `initialize_state` and `open` once, `process` for each batch and `on_signal` for
each signal between them, `finish` once when the input has ended, `close` exactly once on every path; between elements
`on_time`, `on_mail`, `prepare_snapshot` for each checkpoint, and the notification of its outcome. None of them may
block, except a user function: blocking there is backpressure. An operator emits through its outputs, and never keeps or
changes a batch after it has emitted it. The records of a batch that it receives are its own, to keep and to change: so
each record that it emits passes through its `handover` when the user function returns it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from millstream.core.jobs.progress import OperatorProgress
from millstream.core.jobs.state_kinds import StateKind
from millstream.core.logs.tracebacks import one_line
from millstream.core.overriding import override
from millstream.core.processes.forking import leave_if_forked
from millstream.core.records.batches import Barrier, Batch, RowBatch, StreamSignal
from millstream.core.records.conversion import UNKNOWN, ConversionError
from millstream.core.records.copying import is_plain_type
from millstream.core.records.handover import RecordCopyError
from millstream.core.records.types import TypeInformation
from millstream.datastream.connectors.base import PollStatus
from millstream.datastream.functions import CheckpointListener, Function, RuntimeContext
from millstream.datastream.functions.checkpointed import CheckpointedFunction
from millstream.taskmanager.worker.interruption import TaskInterrupted
from millstream.taskmanager.worker.operators.output import Emit
from millstream.taskmanager.worker.state.backend import KeyedStateBackend, OperatorStateBackend
from millstream.taskmanager.worker.state.function_state import TaskInitializationContext, TaskSnapshotContext

if TYPE_CHECKING:
    from millstream.taskmanager.worker.operators.setup import OperatorSetup

KeyOf = Callable[[Any], Any]

NO_RECORD = object()


class OperatorError(Exception):
    """A user function failed: the operator, the record, and the error (`__cause__`).

    `key_of` is the operator's key selector for the record, if it has one. With `is_outage`, the record did not cause
    the failure.
    """

    def __init__(
        self,
        operator_name: str,
        record: Any,
        cause: BaseException,
        key_of: KeyOf | None = None,
        is_outage: bool = False,
    ) -> None:
        leave_if_forked(cause)
        super().__init__(f"{operator_name}: {one_line(cause)}")
        self.operator_name = operator_name
        self.record = record
        self.key_of = key_of
        self.is_outage = is_outage
        self.__cause__ = cause


def record_of(error: BaseException) -> Any:
    """The record that a batch could not be converted or written for, if the error carries it."""
    return error.record if isinstance(error, ConversionError) and error.record is not UNKNOWN else NO_RECORD


class RestoredElements(Protocol):
    """State of one kind from a snapshot that an operator keeps outside of the backends."""

    @property
    def kind(self) -> StateKind:
        """The kind of state."""

    def own(self) -> list[Any]:
        """What this subtask takes over."""

    def everyones(self) -> list[Any]:
        """Also what other subtasks take over, if it is visible to this one."""


class Operator:
    """Base of all operators: forwards signals, and does nothing else by itself."""

    keyed_state: KeyedStateBackend | None = None
    """The state by key, which is part of every checkpoint."""
    operator_state: OperatorStateBackend | None = None
    """The state without keys, which is part of every checkpoint too."""
    only_reads = False
    """Whether it neither changes records nor keeps them: then it may share them with other consumers."""
    records_written = 0
    """Of a sink: the number of records written, counted once per batch."""
    polls_columns = False
    """Whether `poll` returns Arrow batches, which are worth making larger than batches of Python objects."""

    def __init__(self, setup: OperatorSetup) -> None:
        self.name = setup.name
        self.state_entries = setup.state_entries
        """The number of entries in each of its states, by name; called when metrics are due."""
        self.context: RuntimeContext = setup.context
        self.input_types = setup.input_types
        self.output = setup.output
        self.side_outputs = setup.side_outputs
        self.handover = setup.handover

    def initialize_state(self, restored_checkpoint_id: int | None) -> None:
        """Called before `open`; on a restore with the id of the snapshot, whose state is in the backends already."""

    def restore(self, restored: RestoredElements) -> None:
        """Called before `initialize_state`, on a restore, for each kind of state that its specification declares."""

    def open(self) -> None:
        """Called before the first record."""

    def receivers(self) -> Sequence[Emit]:
        """The functions that take the batches of its inputs, one per input."""
        return (self.process,)

    def process(self, batch: Batch) -> None:
        """Processes a batch of the first input."""
        raise NotImplementedError

    def poll(self, rows: int) -> Batch | PollStatus:
        """For an operator without inputs: returns its next batch of at most so many rows, for `emit_polled`."""
        raise NotImplementedError

    def emit_polled(self, batch: Batch) -> None:
        """Emits what `poll` returned, before anything else is emitted."""
        self.output.emit(batch)

    def on_signal(self, signal: StreamSignal, input_index: int = 0) -> None:
        """Handles a signal, in its position among the batches of an input."""
        self.output.signal(signal)
        for output in self.side_outputs.values():
            output.signal(signal)

    def on_time(self, now: float) -> float | None:
        """Called as time passes, on the monotonic clock in seconds; returns when to be called again, if at all.

        Called between elements, possibly before it is due. The first call follows the first step.
        """
        return None

    def on_mail(self, mail: Any) -> Any:
        """Handles a message from outside of the stream: from another service, or its own thread (`OperatorSetup.post`).

        Called between elements. The result is returned to a sender that waits for one; None: the mail is not for this
        operator.
        """
        return None

    @property
    def has_room(self) -> bool:
        """Whether it can take more; while it cannot, its task takes no step."""
        return True

    @property
    def is_paused(self) -> bool:
        """For an operator without inputs: whether polling is suspended, until a mail resumes it."""
        return False

    @property
    def is_drained(self) -> bool:
        """Whether it holds nothing that must be delivered before its task may end."""
        return True

    @property
    def is_settled(self) -> bool:
        """Whether no results of its own threads are outstanding. Only then are it and its consumers finished."""
        return True

    @property
    def holds_back(self) -> bool:
        """Whether it holds unprocessed records; after the inputs have ended, `release` is called for them."""
        return False

    def release(self, rows: int) -> None:
        """Processes so many of the records that it holds back. Called until there are none, while there is room."""

    @property
    def ends_keys(self) -> bool:
        """Whether it acts at the end of a key, in batch mode."""
        return False

    def end_key(self) -> None:
        """Called in batch mode after the last record of a key: its timers are due, its state is obsolete."""

    def progress(self) -> OperatorProgress | None:
        """Explains why nothing is emitted, for users; None if there is nothing to explain.

        Called with every report of metrics, between elements: it has to be cheap.
        """
        return None

    def finish(self) -> None:
        """Called after the last record of a bounded input: emits what is left."""

    def prepare_snapshot(self, barrier: Barrier) -> None:
        """Called at a barrier, before the backends are captured: brings state up to date.

        An error declines the checkpoint.
        """

    def elements(self, checkpoint_id: int) -> Mapping[StateKind, Sequence[Any]]:
        """Called after that: returns the state outside of the backends, for each kind that it declares."""
        return {}

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """The checkpoint is durable, and with it all before it; may be called again after a restore."""

    def is_committed(self, checkpoint_id: int) -> bool:
        """Whether it has committed all that the completed checkpoint `checkpoint_id` holds.

        Called after `notify_checkpoint_complete`, and until it returns True after each mail: an operator whose commits
        run on a thread of its own sends itself a mail when they have ended. Raises the error if they have failed; the
        notification is then repeated.
        """
        return True

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """The checkpoint was aborted; a later one will contain its contents."""

    def close(self) -> None:
        """Releases resources; called at the very end, also after a failure."""

    @property
    def input_type(self) -> TypeInformation:
        """The type of its first input."""
        return self.input_types[0]

    def rows_of(self, batch: Batch) -> list[Any]:
        """The batch's records as Python objects, for a function: changes that are not insertions have to be `Row`s."""
        return batch.records(self.input_types[0])

    def with_own_kinds(self, batch: Batch) -> Batch:
        """The batch for a user's class, which looks for kinds of change in `Row`s only, not beside them."""
        return batch if batch.kinds is None else RowBatch(self.rows_of(batch), batch.row_times())

    def is_plain(self, batch: Batch) -> bool:
        """Whether the batch's records are immutable, and none is of a user-defined class."""
        return is_plain_type(self.input_types[0]) or batch.plain

    def handed_over(self, batch: RowBatch) -> RowBatch:
        """Records returned by user code, as they may be emitted."""
        if not self.handover.copies:
            return batch
        try:
            return batch.with_rows(self.handover.all(batch.rows, batch.rows), self.handover.plain)
        except RecordCopyError as error:
            raise OperatorError(self.name, error.record, error) from error

    def failed(
        self, cause: BaseException, rows: list[Any], source: Iterator[Any], key_of: KeyOf | None = None
    ) -> OperatorError:
        """The error for the record that `source`, an iterator over `rows`, returned last."""
        if isinstance(cause, RecordCopyError):
            return OperatorError(self.name, cause.record, cause)
        return OperatorError(self.name, rows[len(rows) - operator.length_hint(source) - 1], cause, key_of)


class FunctionOperator(Operator):
    """Base of operators around one user function: opens and closes it when it is a rich one."""

    def __init__(self, setup: OperatorSetup, function: Any) -> None:
        super().__init__(setup)
        self.function = function
        if isinstance(function, CheckpointedFunction):
            self.operator_state = setup.operator_state()

    def initialize_state(self, restored_checkpoint_id: int | None) -> None:
        """Passes the state stores to a checkpointed function."""
        if isinstance(self.function, CheckpointedFunction):
            assert self.operator_state is not None, "the constructor requests it"
            stores = TaskInitializationContext(self.operator_state.store, self.context, restored_checkpoint_id)
            self._guarded(lambda: self.function.initialize_state(stores))

    def prepare_snapshot(self, barrier: Barrier) -> None:
        """Calls a checkpointed function, which brings its state up to date."""
        if isinstance(self.function, CheckpointedFunction):
            context = TaskSnapshotContext(barrier.checkpoint_id, barrier.timestamp)
            self._guarded(lambda: self.function.snapshot_state(context))

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notifies the function."""
        if isinstance(self.function, CheckpointListener):
            self._guarded(lambda: self.function.notify_checkpoint_complete(checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notifies the function."""
        if isinstance(self.function, CheckpointListener):
            self._guarded(lambda: self.function.notify_checkpoint_aborted(checkpoint_id))

    def leave_key(self) -> None:
        """Called after each batch: there is no current key, and using keyed state is an error."""
        if self.keyed_state is not None:
            self.keyed_state.clear_current_key()

    def _guarded(self, call: Callable[[], None]) -> None:
        guarded(self.name, call)

    @override
    def open(self) -> None:
        if isinstance(self.function, Function):
            self._guarded(lambda: self.function.open(self.context))

    def close(self) -> None:
        """Closes the user's function."""
        if isinstance(self.function, Function):
            self._guarded(self.function.close)


def guarded(operator_name: str, call: Callable[[], None]) -> None:
    """Calls a user function outside of any record; what it raises is an error of the operator."""
    try:
        call()
    except TaskInterrupted:
        raise
    except BaseException as error:
        raise OperatorError(operator_name, NO_RECORD, error) from error
    leave_if_forked()
