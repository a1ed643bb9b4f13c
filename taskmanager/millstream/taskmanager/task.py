"""One attempt of one subtask: its inputs, its chain, its outputs, and one bounded step at a time.

Owned by the worker's loop. A step takes one element (or one poll of a source) through the whole chain. A task whose
outputs have no room takes no step: that is backpressure. Only what is ahead of a barrier that presses is taken then:
see `InputGate.is_pressed`. Batches are cut so that one step stays short and its output near the configured batch size,
also when a function is slow or a flat map multiplies its input; and so that consumers get no more at a time than they
ask for. Small batches that wait are taken together, as far as the task's pace allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, assert_never

from millstream.core.batches import (
    END_OF_INPUT,
    Barrier,
    Batch,
    ColumnBatch,
    EndOfInput,
    RowBatch,
    Signal,
    StreamSignal,
    joined,
    may_join,
)
from millstream.core.pickling import to_bytes
from millstream.core.states import ExecutionState, check_task_transition
from millstream.datastream.connectors.base import PollStatus
from millstream.datastream.functions import Accumulator, Counter
from millstream.proto import status_pb2, taskmanager_pb2
from millstream.taskmanager.chain import OperatorChain
from millstream.taskmanager.checkpointing.task_checkpoints import TaskCheckpoints
from millstream.taskmanager.checkpointing.writer_thread import CheckpointServices
from millstream.taskmanager.interruption import TaskInterrupted
from millstream.taskmanager.network.inputs import InputChannel, InputGate
from millstream.taskmanager.network.outputs import ResultPartition
from millstream.taskmanager.network.overtaking import Passage
from millstream.taskmanager.operators.base import Operator
from millstream.taskmanager.operators.output import Emit
from millstream.taskmanager.pacing import Outlet, Pace
from millstream.taskmanager.state.backend import KeyedStateBackend

_LARGEST_COUNT = (1 << 63) - 1


def _reported(count: float) -> int:
    """A counter as messages hold it: a whole number of 64 bits. What a function added to it may be anything."""
    if count != count:  # not a number
        return 0
    return int(max(-_LARGEST_COUNT, min(count, _LARGEST_COUNT)))


class StepResult(Enum):
    """What came of a step."""

    WORKED = "worked"
    IDLE = "idle"  # no input
    BACKPRESSURED = "backpressured"  # no room for output
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class OperatorMail:
    """For one operator of a task, from outside of the stream. Without an operator: for the head of the chain."""

    attempt_id: str
    operator_id: str | None
    content: Any


class Task:
    """A running attempt."""

    def __init__(
        self, deployment: taskmanager_pb2.TaskDeployment, max_rows: int, max_column_rows: int,
        checkpoint_services: CheckpointServices,
    ) -> None:  # fmt: skip
        self.deployment = deployment
        self.attempt_id = deployment.attempt_id
        self.checkpoints = TaskCheckpoints(self, checkpoint_services)
        self.gates: list[InputGate] = []
        self.partitions: list[ResultPartition] = []
        self.keyed_backends: list[KeyedStateBackend] = []
        """Those that were made for its operators, which may be before there is a chain; closed with the task."""
        self.restored_in_flight: list[tuple[Emit, list[Batch]]] = []
        self.state = ExecutionState.DEPLOYING
        self.counters: dict[str, Counter] = {}
        self.accumulators: dict[str, Accumulator[Any]] = {}
        self.records_in = 0
        self._records_polled = 0
        self.busy = self.idle = self.backpressured = 0.0
        self.last_result = StepResult.IDLE
        self._chain: OperatorChain | None = None
        self._source: Operator | None = None
        self._bounded: list[Operator] = []
        self._draining: list[Operator] = []
        self._timed: list[Operator] = []
        self._pace = Pace(max_rows)
        self._column_pace = Pace(max_column_rows, batch=max_rows)
        self._max_rows = max_rows
        self._max_column_rows = max_column_rows
        self._outlet = Outlet(max_column_rows, None)
        self._step_pace = self._pace
        self._step_gate: InputGate | None = None
        self._step_rows = 0
        self._stalled = 0.0
        self._has_more = False
        self._records_before = 0
        self._seen_at: float | None = None
        self.next_flush: float | None = None
        self._batch: Batch | None = None
        self._batch_from: InputChannel | None = None
        self._taken = 0
        self._turn = 0
        self._inputs: list[Emit] = []
        self._position = 0
        self._finished = False
        self._had_finished = False
        self._inputs_over = False
        self._ending = False
        self._ready = True
        self._opened = False

    def attach(self, chain: OperatorChain, outlet: Outlet) -> None:
        """Gives the task its operators, before it is opened."""
        self._chain = chain
        self._source = None if self.gates else chain.head
        if chain.head.polls_columns:
            self._pace = Pace(self._max_column_rows, columns=True, batch=self._max_rows)
        self._outlet = outlet
        self._bounded = chain.overriding(Operator.has_room)
        self._draining = chain.overriding(Operator.is_drained)
        self._timed = chain.overriding(Operator.on_time)
        receivers = chain.head.receivers()
        self._inputs = [receivers[gate.input_index] for gate in self.gates]

    def attach_finished(self) -> None:
        """In place of operators, when the snapshot holds the task as finished: it only passes the end on."""
        self._chain = OperatorChain([], ())
        self._had_finished = True
        self._inputs_over = not self.gates

    @property
    def had_finished(self) -> bool:
        """Whether the task is restored from a snapshot that holds it as finished: it takes part in no other."""
        return self._had_finished

    @property
    def chain(self) -> OperatorChain:
        """The operators."""
        assert self._chain is not None, "the chain is attached before the task is used"
        return self._chain

    @property
    def records_taken(self) -> int:
        """From the inputs, or of a source from its reader; with those of the batch that is being processed."""
        return self.records_in + self._records_polled

    @property
    def may_go_on(self) -> bool:
        """Whether the step that worked may be followed by another before the producers take their turn.

        So it is when there are producers, and for a source that would have had more but for the sake of its consumers.
        """
        return self.last_result is StepResult.WORKED and (self._has_more or bool(self.gates))

    @property
    def is_ending(self) -> bool:
        """Whether all input was processed and the end has been sent on."""
        return self._ending

    @property
    def has_finished_operators(self) -> bool:
        """Whether the operators have emitted what was left: nothing changes their state any more."""
        return self._finished

    def finish_operators(self) -> None:
        """Has the operators emit what is left, once: at the end of the input, or when a savepoint drains the job."""
        if not self._finished:
            self._finished = True
            self.chain.finish()

    def emit_barrier(self, barrier: Barrier) -> list[tuple[tuple[str, str], Passage]]:
        """Sends a barrier on, behind what was emitted; nothing follows the end. Answers its passages by edge."""
        if self._ending:
            return []
        return [(partition.edge, passage) for partition in self.partitions for passage in partition.barrier(barrier)]

    def move_to(self, state: ExecutionState) -> None:
        """A checked step of the task's life."""
        check_task_transition(self.state, state)
        self.state = state

    def open(self) -> None:
        """Opens the operators, emits what was on its way when the task was stored, and grants the first credit."""
        self._opened = True
        self.chain.open()
        for emit, batches in self.restored_in_flight:
            for batch in batches:
                emit(batch)
        self.restored_in_flight.clear()
        for gate in self.gates:
            gate.start()

    def begun(self) -> tuple[InputChannel, Batch] | None:
        """The part of a batch that was taken and is still to be processed, and the channel that it came from."""
        if self._batch is None or self._batch_from is None:
            return None
        return self._batch_from, self._batch.slice(self._taken, len(self._batch))

    def wake_up(self) -> None:
        """The source has something to poll for."""
        self._ready = True

    def deliver(self, mail: OperatorMail) -> Any:
        """Hands a mail to its operator; answers what that answers, or None when there is none."""
        for identity, operator in zip(self.chain.ids, self.chain.operators, strict=True):
            if mail.operator_id in (identity, None):
                answer = operator.on_mail(mail.content)
                self._ready = self._ready or operator is self._source
                return answer
        return None

    def step(self) -> None:
        """One bounded step; `last_result` says what came of it."""
        self._step_rows, self._step_pace, self._step_gate = 0, self._pace, None
        self._records_before = self._records_out()
        if self._ending:
            self.last_result = self._drain()
        elif self._is_over:
            self.last_result = self._end()
        elif not self._has_room():
            self.last_result = self._take_input(pressed=True)
        elif self._source is not None:
            self.last_result = self._poll_source(self._source)
        else:
            self.last_result = self._take_input()

    def waited_until(self, now: float) -> None:
        """Counts the time since the last step: waiting for input, for room, or for the thread."""
        if self._seen_at is not None:
            gap = now - self._seen_at
            if self.last_result is not StepResult.IDLE:
                self._stalled += gap
            if self.last_result is StepResult.BACKPRESSURED:
                self.backpressured += gap
            elif self.last_result is StepResult.IDLE:
                self.idle += gap
            else:
                self.busy += gap
        self._seen_at = now

    def worked_until(self, now: float) -> None:
        """Counts the time of the step, and keeps the next one short: mails wait meanwhile."""
        assert self._seen_at is not None, "a step begins with waited_until"
        took = now - self._seen_at
        self._seen_at = now
        self.busy += took
        self._step_pace.stepped(self._step_rows, took, self._records_out() - self._records_before)
        if self._step_rows:
            crowding = max((p.take_crowding() for p in self.partitions), default=0.0)
            self._outlet.stepped(self._step_rows, took, crowding)
            if self._step_gate is not None:
                self._step_gate.stepped(self._step_rows, self._stalled + took, self._step_pace.rows)
            self._stalled = 0.0

    def flush_due(self, now: float) -> None:
        """Flushes what waited for the buffer timeout, and sees to what else waits for its time.

        That is barriers behind records, and sinks that look at the time. `next_flush` says when again, if at all.
        """
        dues = [self.checkpoints.barriers_due(now), *(partition.flush_due(now) for partition in self.partitions)]
        dues += [operator.on_time(now) for operator in self._timed]
        self.next_flush = min((due for due in dues if due is not None), default=None)

    def close(self) -> list[BaseException]:
        """Closes the operators, once, when they were opened, and then their state; answers what went wrong."""
        self.checkpoints.release()
        errors: list[BaseException] = []
        try:
            if self._opened and self._chain is not None:
                self._opened = False
                errors += self._chain.close()
        finally:  # also when a function that does not end its close is interrupted
            while self.keyed_backends:
                try:
                    self.keyed_backends.pop().close()
                except TaskInterrupted:
                    raise
                except BaseException as error:
                    errors.append(error)
        return errors

    def metrics(self) -> status_pb2.TaskMetrics:
        """The task's counts so far."""
        return status_pb2.TaskMetrics(
            records_in=self.records_in,
            records_out=self._records_out(),
            bytes_in=sum(g.bytes_in for g in self.gates),
            bytes_out=sum(p.bytes_out for p in self.partitions),
            busy_ms=round(self.busy * 1000),
            idle_ms=round(self.idle * 1000),
            backpressured_ms=round(self.backpressured * 1000),
            counters={name: _reported(counter.get_count()) for name, counter in self.counters.items()},
        )

    def accumulated(self) -> list[status_pb2.Accumulator]:
        """The accumulators, for the job's result."""
        return [
            status_pb2.Accumulator(name=name, kind=type(a).__name__, value=to_bytes(a))
            for name, a in self.accumulators.items()
        ]

    def _has_room(self) -> bool:
        for partition in self.partitions:
            if not partition.has_room():
                return False
        return not self._bounded or all(operator.has_room for operator in self._bounded)

    def _poll_source(self, source: Operator) -> StepResult:
        if not self._ready or self.checkpoints.end.is_suspended:
            return StepResult.IDLE
        wanted, most = self._pace.rows, self._outlet.rows
        self._has_more = False
        result = source.poll(min(wanted, most))
        if result is PollStatus.END_OF_INPUT:
            return self._end()
        if result is PollStatus.NOTHING_AVAILABLE:
            self._ready = False
            return StepResult.IDLE
        assert not isinstance(result, PollStatus)
        if len(result):
            self._step_rows = len(result)
            self._records_polled += len(result)
            self._has_more = most < wanted and len(result) >= most
            source.output.emit(result)
        return StepResult.WORKED

    def _take_input(self, pressed: bool = False) -> StepResult:
        """Without room for output, only what is ahead of a barrier that presses."""
        if pressed and not any(gate.is_pressed for gate in self.gates):
            return StepResult.BACKPRESSURED
        if self._batch is not None:
            self._process_slice(self._batch)
            return StepResult.WORKED
        for _ in self.gates:
            position = self._turn
            gate = self.gates[position]
            self._turn = (position + 1) % len(self.gates)
            taken = gate.poll(pressed=True) if pressed else gate.poll()
            if taken is None:
                continue
            channel, element = taken
            if not isinstance(element, RowBatch | ColumnBatch):
                self._take_signal(gate, channel, element)
                return StepResult.WORKED
            self._position = position
            if len(element) > self._rows_at_once(element):
                self._batch, self._taken, self._batch_from = element, 0, channel
                self._process_slice(element)
            else:
                self._process(element if pressed else self._with_more(element))
            return StepResult.WORKED
        return StepResult.BACKPRESSURED if pressed else StepResult.IDLE

    def _take_signal(self, gate: InputGate, channel: InputChannel, signal: Signal) -> None:
        match signal:
            case EndOfInput():
                self._end_channel(gate, channel)
            case Barrier():
                channel.passed(signal)
                self.checkpoints.arrived(channel.channel_id, signal)
            case StreamSignal():
                self.chain.signal(signal, gate.input_index)
            case _:
                assert_never(signal)

    def _rows_at_once(self, batch: Batch) -> int:
        """Columns are cut only for the sake of their consumers: small batches are what makes kernels slow."""
        return min(self._pace.rows, self._outlet.rows) if isinstance(batch, RowBatch) else self._outlet.rows

    def _with_more(self, batch: Batch) -> Batch:
        """Adds what waits behind a small batch: a function may have a cost for each of its calls.

        A batch that does not fit any more is the next to be processed. Large batches stay as they are: joining columns
        copies them.
        """
        if len(batch) >= self._max_rows:
            return batch
        pace = self._pace if isinstance(batch, RowBatch) else self._column_pace
        most, rows = min(pace.rows, self._outlet.rows), len(batch)
        batches = [batch]
        while rows < most and (taken := self.gates[self._position].poll(like=batch)) is not None:
            channel, more = taken
            assert not isinstance(more, Signal), "batches were asked for"
            if rows + len(more) > most or not may_join(batch, more):
                self._batch, self._taken, self._batch_from = more, 0, channel
                break
            batches.append(more)
            rows += len(more)
        return joined(batches)

    def _process_slice(self, batch: Batch) -> None:
        start, end = self._taken, self._taken + self._rows_at_once(batch)
        self._taken = end
        if end >= len(batch):
            self._batch = None
        self._process(batch.slice(start, end))

    def _process(self, batch: Batch) -> None:
        self.records_in += len(batch)
        self._step_rows = len(batch)
        self._step_gate = self.gates[self._position]
        if isinstance(batch, ColumnBatch):
            self._step_pace = self._column_pace
        self._inputs[self._position](batch)

    def _records_out(self) -> int:
        return sum(p.records_out for p in self.partitions)

    @property
    def _is_over(self) -> bool:
        """Whether nothing more will come, or is wanted."""
        end = self.checkpoints.end
        if self._source is not None:
            return end.is_stopped
        return self._inputs_over and (end.is_stopped or not end.is_suspended)

    def _end_channel(self, gate: InputGate, channel: InputChannel) -> None:
        gate.end(channel)
        self._inputs_over = all(g.all_ended for g in self.gates)
        if self._is_over:
            self._end()  # first, so that a snapshot that waits for this channel holds the task's end
        self.checkpoints.channel_ended(channel.channel_id)

    def _end(self) -> StepResult:
        """Sends the end on. A task that a savepoint stopped goes on elsewhere, so its operators are not finished."""
        if not self.checkpoints.end.is_stopped:
            self.finish_operators()
        for partition in self.partitions:
            partition.signal(END_OF_INPUT)
        self._ending = True
        self.checkpoints.input_ended()
        return StepResult.WORKED

    def _drain(self) -> StepResult:
        drained = all(p.is_drained() for p in self.partitions) and all(o.is_drained for o in self._draining)
        if not drained or self.checkpoints.is_writing:
            return StepResult.BACKPRESSURED
        return StepResult.ENDED if self._had_finished or self.checkpoints.end.may_finish else StepResult.IDLE
