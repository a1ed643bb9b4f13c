"""What all operators share.

Call order: `restore` on a restore, `initialize_state` and `open` once, `process` for each batch and `on_signal` for
each signal between them, `finish` once when the input ended, `close` exactly once on every path; between elements
`on_time`, `on_mail`, `prepare_snapshot` for each checkpoint, and what became of it. None of them may block, except a
user's own function: blocking there is backpressure. An operator emits through its outputs; it never keeps or changes a
batch after that. The records of a batch that it gets are its own, to keep and to change: so each that it emits goes
through its `handover` at the moment at which the user's function hands it over.
"""

from __future__ import annotations

import operator
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from millstream.core.jobs.progress import OperatorProgress
from millstream.core.jobs.state_kinds import StateKind
from millstream.core.logs.tracebacks import one_line
from millstream.core.processes.forking import leave_if_forked
from millstream.core.records.batches import TIMESTAMP, Barrier, Batch, RowBatch, StreamSignal
from millstream.core.records.conversion import UNKNOWN, ConversionError, record_batch_to_rows
from millstream.core.records.function_code import is_plain_type
from millstream.core.records.handover import RecordCopyError
from millstream.core.records.types import TypeInformation
from millstream.datastream.connectors.base import PollStatus
from millstream.datastream.functions import Function, RuntimeContext
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
    """A user's function failed: which operator's, on which record, and how (`__cause__`).

    `key_of` is the operator's key selector for the record, if it has one. With `is_outage`, the record has no part in
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
    """The record that a batch could not be converted or written for, where the error says it."""
    return error.record if isinstance(error, ConversionError) and error.record is not UNKNOWN else NO_RECORD


class RestoredElements(Protocol):
    """State of one kind that an operator keeps in no backend, from a snapshot."""

    @property
    def kind(self) -> StateKind:
        """Which."""

    def own(self) -> list[Any]:
        """What this subtask takes over."""

    def everyones(self) -> list[Any]:
        """Also what other subtasks take over, as far as this one may see it."""


class Operator:
    """Base of all operators: passes signals on, and nothing else by itself."""

    keyed_state: KeyedStateBackend | None = None
    """Its state by key, which is part of every checkpoint."""
    operator_state: OperatorStateBackend | None = None
    """Its state without keys, as well."""
    only_reads = False
    """Whether it neither changes records nor holds on to them: then it may get the same ones as others."""
    records_written = 0
    """Of a sink: how many records it has written; counted a batch at a time."""
    polls_columns = False
    """Whether `poll` answers Arrow batches, which are worth making larger than batches of Python objects."""

    def __init__(self, setup: OperatorSetup) -> None:
        self.name = setup.name
        self.state_entries = setup.state_entries
        """How many entries its states have, by name; asked when metrics are due."""
        self.context: RuntimeContext = setup.context
        self.input_types = setup.input_types
        self.output = setup.output
        self.side_outputs = setup.side_outputs
        self.handover = setup.handover

    def initialize_state(self, restored_checkpoint_id: int | None) -> None:
        """Before `open`: on a restore with the id of the snapshot, whose state the backends hold by now."""

    def restore(self, restored: RestoredElements) -> None:
        """Before `initialize_state`, on a restore: state of its own, for each kind that its specification declares."""

    def open(self) -> None:
        """Before the first record."""

    def receivers(self) -> Sequence[Emit]:
        """What takes the batches of its inputs, one for each."""
        return (self.process,)

    def process(self, batch: Batch) -> None:
        """Each batch of the first input."""
        raise NotImplementedError

    def poll(self, rows: int) -> Batch | PollStatus:
        """Of an operator without inputs: its next batch of at most so many rows, for `emit_polled`."""
        raise NotImplementedError

    def emit_polled(self, batch: Batch) -> None:
        """Called with what `poll` returned, before anything else is."""
        self.output.emit(batch)

    def on_signal(self, signal: StreamSignal, input_index: int = 0) -> None:
        """Each signal, in its place among the batches of an input."""
        self.output.signal(signal)
        for output in self.side_outputs.values():
            output.signal(signal)

    def on_time(self, now: float) -> float | None:
        """Time has passed, on the monotonic clock in seconds; answers when to be called again, if at all.

        Called between elements, also when it is not due yet. The first call follows the first step.
        """
        return None

    def on_mail(self, mail: Any) -> Any:
        """Something from outside of the stream: what another service sent, or its own thread (`OperatorSetup.post`).

        Called between elements. The answer goes back to a sender that waits for one; None: it is not for this operator.
        """
        return None

    @property
    def has_room(self) -> bool:
        """Whether it can take more; while it cannot, its task takes no step."""
        return True

    @property
    def is_paused(self) -> bool:
        """Of an operator without inputs: whether it is not to be polled, until a mail changes that."""
        return False

    @property
    def is_drained(self) -> bool:
        """Whether nothing waits in it that has to leave before its task may end."""
        return True

    @property
    def is_settled(self) -> bool:
        """Whether no results of its own threads are to come. Only then is it finished, and what follows it."""
        return True

    @property
    def holds_back(self) -> bool:
        """Whether it has records of its inputs that it has not looked at: once those ended, it is told to `release`."""
        return False

    def release(self, rows: int) -> None:
        """Takes so many of the records that it holds back. Called until there are none, while there is room."""

    @property
    def ends_keys(self) -> bool:
        """Whether it does something at the end of a key, in a batch."""
        return False

    def end_key(self) -> None:
        """In a batch, when all records of a key came: its timers are due, and nothing more will need its state."""

    def progress(self) -> OperatorProgress | None:
        """What people should know who ask why nothing comes out, if it has anything to say.

        Called with every report of metrics, between elements: it has to cost next to nothing.
        """
        return None

    def finish(self) -> None:
        """After the last record of a bounded input: emit what is left."""

    def prepare_snapshot(self, barrier: Barrier) -> None:
        """At a barrier, before the backends are captured: bring state up to date. An error declines the checkpoint."""

    def elements(self, checkpoint_id: int) -> Mapping[StateKind, Sequence[Any]]:
        """After that: state that it keeps in no backend, for each kind that its specification declares."""
        return {}

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """The checkpoint is durable, and with it all before it; may be told again after a restore."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """The checkpoint was given up; a later one holds what it would have held."""

    def close(self) -> None:
        """At the very end, also after a failure."""

    @property
    def input_type(self) -> TypeInformation:
        """Of its first input."""
        return self.input_types[0]

    def rows_of(self, batch: Batch) -> list[Any]:
        """The batch's records as Python objects."""
        if isinstance(batch, RowBatch):
            return batch.rows
        return record_batch_to_rows(batch.data, self.input_types[0])

    def is_plain(self, batch: Batch) -> bool:
        """Whether nobody can change the batch's records, none of which is of a class of the user's."""
        return is_plain_type(self.input_types[0]) or (isinstance(batch, RowBatch) and batch.plain)

    def handed_over(self, batch: RowBatch) -> RowBatch:
        """Records that code of the user's made, as they may be emitted."""
        if not self.handover.copies:
            return batch
        try:
            return batch.with_rows(self.handover.all(batch.rows, batch.rows), self.handover.plain)
        except RecordCopyError as error:
            raise OperatorError(self.name, error.record, error) from error

    def timestamps_of(self, batch: Batch) -> array[int] | None:
        """The batch's timestamps as Python has them."""
        if isinstance(batch, RowBatch) or batch.timestamps is None:
            return batch.timestamps
        return array(TIMESTAMP, batch.timestamps.to_numpy().tobytes())

    def in_place_of(self, batch: Batch, rows: list[Any], plain: bool = False) -> RowBatch:
        """Results that stand for the batch's records, one for each: with the same timestamps."""
        if isinstance(batch, RowBatch):
            return batch.with_rows(rows, plain)
        return RowBatch(rows, self.timestamps_of(batch), plain)

    def failed(
        self, cause: BaseException, rows: list[Any], source: Iterator[Any], key_of: KeyOf | None = None
    ) -> OperatorError:
        """The error for the record that `source`, an iterator over `rows`, handed out last."""
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
        """Hands a checkpointed function its stores."""
        if isinstance(self.function, CheckpointedFunction):
            assert self.operator_state is not None, "the constructor asks for it"
            stores = TaskInitializationContext(self.operator_state.store, self.context, restored_checkpoint_id)
            self._guarded(lambda: self.function.initialize_state(stores))

    def prepare_snapshot(self, barrier: Barrier) -> None:
        """Has a checkpointed function bring its state up to date."""
        if isinstance(self.function, CheckpointedFunction):
            context = TaskSnapshotContext(barrier.checkpoint_id, barrier.timestamp)
            self._guarded(lambda: self.function.snapshot_state(context))

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Tells a function that wants to know."""
        tell(self.name, self.function, "notify_checkpoint_complete", checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Tells a function that wants to know."""
        tell(self.name, self.function, "notify_checkpoint_aborted", checkpoint_id)

    def leave_key(self) -> None:
        """After each batch: there is no key any more, and using keyed state is an error."""
        if self.keyed_state is not None:
            self.keyed_state.clear_current_key()

    def _guarded(self, call: Callable[[], None]) -> None:
        guarded(self.name, call)

    def open(self) -> None:
        """Opens the user's function."""
        if isinstance(self.function, Function):
            self._guarded(lambda: self.function.open(self.context))

    def close(self) -> None:
        """Closes the user's function."""
        if isinstance(self.function, Function):
            self._guarded(self.function.close)


def guarded(operator_name: str, call: Callable[[], None]) -> None:
    """Calls a function of the user's that is about no record; what it raises is an error of the operator's."""
    try:
        call()
    except TaskInterrupted:
        raise
    except BaseException as error:
        raise OperatorError(operator_name, NO_RECORD, error) from error
    leave_if_forked()


def tell(operator_name: str, listener: Any, method: str, checkpoint_id: int) -> None:
    """Calls a method about a checkpoint, on functions and writers that have it."""
    call = getattr(listener, method, None)
    if call is None:
        return
    try:
        call(checkpoint_id)
    except TaskInterrupted:
        raise
    except BaseException as error:
        raise OperatorError(operator_name, NO_RECORD, error) from error
