"""One attempt of one subtask: its inputs, its chain, its outputs, and one bounded step at a time.

Owned by the worker's loop. A step takes one element (or one poll of a source) through the whole chain. A task whose
outputs have no room takes no step: that is backpressure. What it takes next is for its `TaskInput` to say, how much of
it for its `TaskPacing`, and where it is in its life for its `TaskLife`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_never

from millstream.core.jobs import details
from millstream.core.jobs.states import ExecutionState, check_task_transition
from millstream.core.messages.deployment import TaskDeployment
from millstream.core.pickling import to_bytes
from millstream.core.records.batches import (
    END_OF_INPUT,
    LAST_WATERMARK,
    Barrier,
    Batch,
    ColumnBatch,
    EndOfInput,
    RowBatch,
    Signal,
    StreamSignal,
    Watermark,
    WatermarkStatus,
)
from millstream.datastream.connectors.base import PollStatus
from millstream.datastream.functions import Accumulator, Counter
from millstream.taskmanager.worker.chain import OperatorChain
from millstream.taskmanager.worker.checkpointing.task_checkpoints import TaskCheckpoints
from millstream.taskmanager.worker.checkpointing.writer_thread import CheckpointServices
from millstream.taskmanager.worker.interruption import TaskInterrupted
from millstream.taskmanager.worker.network.inputs import InputGate
from millstream.taskmanager.worker.network.outputs import ResultPartition
from millstream.taskmanager.worker.network.overtaking import Passage
from millstream.taskmanager.worker.operators.base import Operator
from millstream.taskmanager.worker.operators.output import Emit
from millstream.taskmanager.worker.pacing import Outlet
from millstream.taskmanager.worker.state.backend import KeyedStateBackend
from millstream.taskmanager.worker.task_input import TaskInput
from millstream.taskmanager.worker.task_life import Phase, TaskLife
from millstream.taskmanager.worker.task_pacing import StepResult, TaskPacing
from millstream.taskmanager.worker.watermark_valve import WatermarkValve

_LARGEST_COUNT = (1 << 63) - 1


def _reported(count: float) -> int:
    """A counter as messages hold it: a whole number of 64 bits. What a function added to it may be anything."""
    if count != count:  # not a number
        return 0
    return int(max(-_LARGEST_COUNT, min(count, _LARGEST_COUNT)))


@dataclass(frozen=True, slots=True)
class OperatorMail:
    """For one operator of a task, from outside of the stream. Without an operator: for the head of the chain."""

    attempt_id: str
    operator_id: str | None
    content: Any


class Task:
    """A running attempt."""

    def __init__(
        self, deployment: TaskDeployment, max_rows: int, max_column_rows: int,
        checkpoint_services: CheckpointServices,
    ) -> None:  # fmt: skip
        self.deployment = deployment
        self.attempt_id = deployment.attempt_id
        self.state = ExecutionState.DEPLOYING
        self.gates: list[InputGate] = []
        self.partitions: list[ResultPartition] = []
        self.pacing = TaskPacing(self.partitions, max_rows, max_column_rows)
        self.input = TaskInput(self.gates, self.pacing)
        self.life = TaskLife(checkpoint_services.takes_final)
        self.checkpoints = TaskCheckpoints(self, checkpoint_services)
        self.keyed_backends: list[KeyedStateBackend] = []
        """Those that were made for its operators, which may be before there is a chain; closed with the task."""
        self.restored_in_flight: list[tuple[Emit, list[Batch]]] = []
        self.counters: dict[str, Counter] = {}
        self.accumulators: dict[str, Accumulator[Any]] = {}
        self.records_in = 0
        self.last_result = StepResult.IDLE
        self.next_flush: float | None = None
        self._records_polled = 0
        self._chain: OperatorChain | None = None
        self._source: Operator | None = None
        self._receivers: dict[InputGate, Emit] = {}
        self._bounded: list[Operator] = []
        self._draining: list[Operator] = []
        self._timed: list[Operator] = []
        self._ready = True
        self._has_more = False
        self._event_time = WatermarkValve()

    def attach(self, chain: OperatorChain, outlet: Outlet) -> None:
        """Gives the task its operators, before it is opened."""
        self._chain = chain
        self._source = chain.head if chain.specs[0].spec.inputs == 0 else None
        self.pacing.attach(outlet, chain.head.polls_columns)
        self._bounded = chain.overriding(Operator.has_room)
        self._draining = chain.overriding(Operator.is_drained)
        self._timed = chain.overriding(Operator.on_time)
        receivers = chain.head.receivers()
        self._receivers = {gate: receivers[gate.input_index] for gate in self.gates}
        self._event_time = WatermarkValve(c.channel_id for gate in self.gates for c in gate.channels)

    def attach_finished(self) -> None:
        """In place of operators, when the snapshot holds the task as finished: it only passes the end on."""
        self._chain = OperatorChain([], ())
        self.input.is_over = not self.gates

    @property
    def chain(self) -> OperatorChain:
        """The operators."""
        assert self._chain is not None, "the chain is attached before the task is used"
        return self._chain

    @property
    def had_finished(self) -> bool:
        """Whether the task is restored from a snapshot that holds it as finished: it takes part in no other."""
        return not self.chain.operators

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

    def move_to(self, state: ExecutionState) -> None:
        """What is reported of the task's life; a checked step."""
        check_task_transition(self.state, state)
        self.state = state

    def open(self) -> None:
        """Opens the operators, emits what was on its way when the task was stored, and grants the first credit."""
        self.life.move_to(Phase.RUNNING)
        self.chain.open()
        for emit, batches in self.restored_in_flight:
            for batch in batches:
                emit(batch)
        self.restored_in_flight.clear()
        for gate in self.gates:
            gate.start()

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
        self.pacing.begin()
        if self.life.phase is Phase.ENDED:
            self.last_result = self._drain()
        elif self._is_over:
            self._end()
            self.last_result = StepResult.WORKED
        elif not self._has_room():
            self.last_result = self._take_input(pressed=True)
        elif self._source is not None:
            self.last_result = self._poll(self._source)
        else:
            self.last_result = self._take_input()

    def flush_due(self, now: float) -> None:
        """Flushes what waited for the buffer timeout, and sees to what else waits for its time.

        That is barriers behind records, and operators that look at the time. `next_flush` says when again, if at all.
        """
        dues = [self.checkpoints.barriers_due(now), *[partition.flush_due(now) for partition in self.partitions]]
        if self.life.phase is Phase.RUNNING:  # nothing may follow the end, nor a savepoint that stops the job
            dues += [operator.on_time(now) for operator in self._timed]
        self.next_flush = min([due for due in dues if due is not None], default=None)

    def finish_operators(self) -> None:
        """Has the operators emit what is left, once: at the end of the input, or when a savepoint drains the job."""
        if not self.life.has_finished_operators:
            self.life.has_finished_operators = True
            self.chain.finish()

    def emit_barrier(self, barrier: Barrier) -> list[tuple[tuple[str, str], Passage]]:
        """Sends a barrier on, behind what was emitted; nothing follows the end. Answers its passages by edge."""
        if self.life.phase is Phase.ENDED:
            return []
        return [(partition.edge, passage) for partition in self.partitions for passage in partition.barrier(barrier)]

    def close(self) -> list[BaseException]:
        """Closes the operators, once, when they were opened, and then their state; answers what went wrong."""
        self.checkpoints.release()
        errors: list[BaseException] = []
        is_open = self.life.is_open
        if self.life.phase is not Phase.CLOSED:
            self.life.move_to(Phase.CLOSED)
        try:
            if is_open:
                errors += self.chain.close()
        finally:  # also when a function that does not end its close is interrupted
            while self.keyed_backends:
                try:
                    self.keyed_backends.pop().close()
                except TaskInterrupted:
                    raise
                except BaseException as error:
                    errors.append(error)
        return errors

    def metrics(self) -> details.TaskMetrics:
        """The task's counts so far."""
        pacing = self.pacing
        return details.TaskMetrics(
            records_in=self.records_in,
            records_out=pacing.records_out,
            bytes_in=sum(g.bytes_in for g in self.gates),
            bytes_out=sum(p.bytes_out for p in self.partitions),
            busy_ms=round(pacing.busy * 1000),
            idle_ms=round(pacing.idle * 1000),
            backpressured_ms=round(pacing.backpressured * 1000),
            counters={name: _reported(counter.get_count()) for name, counter in self.counters.items()},
        )

    def accumulated(self) -> list[details.Accumulator]:
        """The accumulators, for the job's result."""
        return [
            details.Accumulator(name, type(a).__name__, to_bytes(a))
            for name, a in self.accumulators.items()
        ]

    @property
    def _is_over(self) -> bool:
        """Whether nothing more will come, or is wanted."""
        phase = self.life.phase
        if self._source is not None:
            return phase is Phase.STOPPED
        return self.input.is_over and phase is not Phase.SUSPENDED

    def _has_room(self) -> bool:
        for partition in self.partitions:
            if not partition.has_room():
                return False
        return not self._bounded or all(operator.has_room for operator in self._bounded)

    def _poll(self, source: Operator) -> StepResult:
        if not self._ready or self.life.phase is Phase.SUSPENDED:
            return StepResult.IDLE
        wanted, most = self.pacing.rows_to_poll()
        self._has_more = False
        result = source.poll(min(wanted, most))
        if result is PollStatus.END_OF_INPUT:
            self._end()
            return StepResult.WORKED
        if result is PollStatus.NOTHING_AVAILABLE:
            self._ready = False
            return StepResult.IDLE
        assert not isinstance(result, PollStatus)
        if len(result):
            self.pacing.polled(result)
            self._records_polled += len(result)
            self._has_more = most < wanted and len(result) >= most
            source.output.emit(result)
        return StepResult.WORKED

    def _take_input(self, pressed: bool = False) -> StepResult:
        element = self.input.next(pressed)
        if element is None:
            return StepResult.BACKPRESSURED if pressed else StepResult.IDLE
        gate = self.input.gate
        assert gate is not None, "an element came from one"
        if isinstance(element, RowBatch | ColumnBatch):
            self.records_in += len(element)
            self.pacing.processing(element, gate)
            self._receivers[gate](element)
        else:
            self._take_signal(gate, element)
        return StepResult.WORKED

    def _take_signal(self, gate: InputGate, signal: Signal) -> None:
        channel = self.input.channel
        assert channel is not None, "an element came from one"
        match signal:
            case EndOfInput():
                self.input.end_channel()
                if self._is_over:
                    self._end()  # first, so that a snapshot that waits for this channel holds the task's end
                self.checkpoints.channel_ended(channel.channel_id)
            case Barrier():
                channel.passed(signal)
                self.checkpoints.arrived(channel.channel_id, signal)
            case Watermark(timestamp):
                self._send_on(self._event_time.watermark(channel.channel_id, timestamp))
            case WatermarkStatus(is_idle):
                self._send_on(self._event_time.status(channel.channel_id, is_idle))
            case StreamSignal():
                self.chain.signal(signal, gate.input_index)
            case _:
                assert_never(signal)

    def _send_on(self, signals: list[StreamSignal]) -> None:
        """What all channels together say of event time."""
        for signal in signals:
            self.chain.signal(signal, 0)

    def _end(self) -> None:
        """Sends the end on. A task that a savepoint stopped goes on elsewhere, so its operators are not finished."""
        is_stopped = self.life.phase is Phase.STOPPED
        if self.had_finished:
            for partition in self.partitions:
                partition.signal(LAST_WATERMARK)
        elif not is_stopped:
            self.finish_operators()
        for partition in self.partitions:
            partition.signal(END_OF_INPUT)
        self.life.ended()
        if not is_stopped:
            self.checkpoints.input_ended()

    def _drain(self) -> StepResult:
        drained = all(p.is_drained() for p in self.partitions) and all(o.is_drained for o in self._draining)
        if not drained or self.checkpoints.is_writing:
            return StepResult.BACKPRESSURED
        return StepResult.ENDED if self.had_finished or self.life.may_finish else StepResult.IDLE
